//! Outcomes that go out later than they are known, for clients that overwrite an early one.

use std::time::{Duration, Instant};

use amqp_codec::performative::{Close, DeliveryState, Detach, End, Performative};
use amqp_codec::types::Role;
use amqp_engine::{DeliveryId, LinkKey, config::MAX_DELAYED_OUTCOMES};

use crate::pair::*;

const DELAY: Duration = Duration::from_millis(1);

/// A pair with a link we receive on, and unsettled deliveries with ids from 0 on it.
fn received(count: u32) -> (Pair, LinkKey) {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("in", 0, Role::Sender);
    receive(&mut pair, 0..count);
    (pair, link)
}

fn receive(pair: &mut Pair, ids: std::ops::Range<u32>) {
    for id in ids {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    pair.events.clear();
    pair.read();
}

fn refuse(pair: &mut Pair, link: LinkKey, id: u32) {
    let due = pair.now + DELAY;
    refuse_at(pair, link, id, due);
}

fn refuse_at(pair: &mut Pair, link: LinkKey, id: u32, due: Instant) {
    let state = DeliveryState::Rejected(None);
    pair.engine.settle_incoming_at(due, link.session(), DeliveryId(id), state);
}

fn accept(pair: &mut Pair, link: LinkKey, id: u32) {
    pair.engine.settle_incoming(link.session(), DeliveryId(id), DeliveryState::Accepted);
}

/// The deliveries that the dispositions settle that go out now.
fn told(pair: &mut Pair) -> Vec<(u32, u32)> {
    let told = pair.dispositions().into_iter().map(|told| {
        assert!(told.settled, "{told:?}");
        (told.first, told.last.unwrap())
    });
    told.collect()
}

#[test]
fn a_delayed_outcome_goes_out_at_its_time_and_not_before() {
    let (mut pair, link) = received(1);
    let due = pair.now + DELAY;
    refuse(&mut pair, link, 0);
    assert_eq!(pair.engine.deadline(), Some(due));
    assert_eq!((pair.engine.has_output(), told(&mut pair)), (false, vec![]));
    pair.pass(DELAY.saturating_sub(Duration::from_nanos(1)));
    pair.engine.handle_deadline(pair.now);
    assert_eq!(told(&mut pair), []);
    pair.pass(Duration::from_nanos(1));
    let told = pair.dispositions();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].state, Some(DeliveryState::Rejected(None)));
    assert!(pair.engine.deadline().is_none_or(|next| next > due + DELAY), "nothing more is delayed");
}

#[test]
fn delayed_outcomes_keep_their_order_and_acceptances_overtake_them() {
    let (mut pair, link) = received(6);
    let start = pair.now;
    refuse_at(&mut pair, link, 3, start + DELAY);
    refuse_at(&mut pair, link, 1, start + DELAY);
    accept(&mut pair, link, 2);
    // Even one that is due earlier waits for those before it.
    refuse_at(&mut pair, link, 5, start);
    accept(&mut pair, link, 4);
    assert_eq!(told(&mut pair), [(2, 2), (4, 4)]);
    pair.pass(DELAY);
    assert_eq!(told(&mut pair), [(3, 3), (1, 1), (5, 5)]);
}

#[test]
fn beyond_the_most_that_may_wait_the_oldest_goes_out_at_once() {
    let most = u32::try_from(MAX_DELAYED_OUTCOMES).unwrap();
    let (mut pair, link) = received(1);
    for id in 1..most + 2 {
        receive(&mut pair, id..id + 1);
    }
    for id in 0..most {
        refuse(&mut pair, link, id);
    }
    assert_eq!(told(&mut pair), [], "as many as may wait");
    refuse(&mut pair, link, most);
    refuse(&mut pair, link, most + 1);
    assert_eq!(told(&mut pair), [(0, 1)]);
    pair.pass(DELAY);
    assert_eq!(told(&mut pair), [(2, most + 1)]);
}

#[test]
fn a_peer_that_leaves_is_told_before_it_is_answered() {
    let (mut pair, link) = received(2);
    let other = pair.attach("other", 1, Role::Sender);
    pair.feed(&amqp_with(0, transfer(1, 2), b"x"));
    pair.read();
    refuse(&mut pair, link, 1);
    refuse(&mut pair, other, 2);
    pair.feed(&amqp(0, Detach { handle: 0, closed: true, error: None }));
    let frames = pair.frames();
    let [Performative::Disposition(told), Performative::Detach(_)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((told.first, told.last), (1, Some(1)), "the outcomes of other links still wait");
    pair.feed(&amqp(0, End::default()));
    let frames = pair.frames();
    let [Performative::Disposition(told), Performative::End(_)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((told.first, told.last), (2, Some(2)));
    pair.pass(DELAY);
    assert_eq!(pair.frames(), []);

    let (mut pair, link) = received(1);
    refuse(&mut pair, link, 0);
    pair.feed(&amqp(0, Close::default()));
    let frames = pair.frames();
    assert!(matches!(&frames[..], [Performative::Disposition(_), Performative::Close(_)]), "{frames:?}");
}

#[test]
fn the_end_of_a_link_of_ours_stands_for_its_delayed_outcomes() {
    // An outcome before its time may be lost on the peer; one that is missing is not.
    for how in 0..3 {
        let (mut pair, link) = received(1);
        refuse(&mut pair, link, 0);
        match how {
            0 => pair.engine.detach(link, None),
            1 => pair.engine.end_session(link.session(), None),
            _ => pair.engine.close(None),
        }
        let frames = pair.frames();
        let [Performative::Detach(_) | Performative::End(_) | Performative::Close(_)] = &frames[..] else {
            panic!("{frames:?}")
        };
        pair.pass(DELAY);
        assert_eq!(pair.frames(), []);
    }
}

#[test]
fn a_delivery_settled_meanwhile_is_not_told_again() {
    let (mut pair, link) = received(2);
    refuse(&mut pair, link, 0);
    refuse(&mut pair, link, 1);
    pair.feed(&amqp(0, disposition(Role::Sender, 0, 0, true)));
    accept(&mut pair, link, 1);
    assert_eq!(told(&mut pair), [(1, 1)]);
    pair.pass(DELAY);
    assert_eq!(told(&mut pair), []);
    pair.engine.handle_eof();
    assert_eq!(pair.engine.deadline(), None);
}
