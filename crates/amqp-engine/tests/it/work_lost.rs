//! Work that a peer sends in a transaction and no link takes: the layer above hears of it (transactions 4.4.1).

use amqp_codec::performative::{DeliveryState, Detach, Disposition, End, Error, Transfer};
use amqp_codec::types::{ReceiverSettleMode, Role, SenderSettleMode};
use amqp_engine::{AttachReply, Config, Event, LinkKey};

use crate::pair::*;

const NAME: &[u8] = b"t";

fn within() -> DeliveryState {
    DeliveryState::Transactional { txn_id: NAME.into(), outcome: None }
}

fn of(mut transfer: Transfer) -> Transfer {
    transfer.state = Some(within());
    transfer
}

fn more(handle: u32, id: u32) -> Transfer {
    Transfer { more: true, ..transfer(handle, id) }
}

/// A pair with a link we receive on (their handle 0).
fn receiving() -> (Pair, LinkKey) {
    let mut pair = Pair::begun(Config { max_message_size: 100, max_partial_bytes: 150, ..plain() });
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.grant_credit(link, 1_000);
    pair.read();
    (pair, link)
}

/// Number of times that it was told.
fn lost(pair: &mut Pair) -> usize {
    let told = pair.take_events().into_iter().filter(|event| match event {
        Event::WorkLost { txn_id } => {
            assert_eq!(&txn_id[..], NAME);
            true
        }
        _ => false,
    });
    told.count()
}

#[test]
fn work_for_a_link_that_we_have_detached_is_told() {
    let (mut pair, link) = receiving();
    pair.engine.detach(link, Some(Error::new("a:b", "gone")));
    pair.feed(&amqp_with(0, transfer(0, 1), b"in no transaction"));
    assert_eq!(lost(&mut pair), 0);
    pair.feed(&amqp_with(0, of(transfer(0, 2)), b"m"));
    pair.feed(&amqp_with(0, Transfer { settled: Some(true), ..of(transfer(0, 3)) }, b"m"));
    assert_eq!(lost(&mut pair), 2);
    // The link was refused while its messages were on their way.
    pair.answer = false;
    pair.feed(&amqp(0, attach("refused", 1, Role::Sender)));
    let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
    pair.engine.refuse_link(link, Error::new("a:b", "no"));
    pair.feed(&amqp_with(0, of(transfer(1, 4)), b"m"));
    assert_eq!(lost(&mut pair), 1);
    // The peer's own detach is not ours.
    pair.feed(&amqp(0, attach("own", 2, Role::Sender)));
    let Event::LinkAttached { link, attach } = pair.take_event() else { panic!() };
    pair.engine.accept_link(link, AttachReply::echo(&attach));
    pair.feed(&amqp_with(0, of(more(2, 5)), b"half"));
    pair.feed(&amqp(0, Detach { handle: 2, closed: true, error: None }));
    assert_eq!(lost(&mut pair), 0);
}

#[test]
fn the_front_of_a_message_that_we_drop_is_told_once() {
    for ends_session in [false, true] {
        for on_first in [true, false] {
            let (mut pair, link) = receiving();
            // Any of its frames may name the transaction.
            let first = if on_first { of(more(0, 1)) } else { more(0, 1) };
            pair.feed(&amqp_with(0, first, b"a"));
            pair.feed(&amqp_with(0, if on_first { more(0, 1) } else { of(more(0, 1)) }, b"b"));
            assert_eq!(lost(&mut pair), 0);
            if ends_session {
                pair.engine.end_session(link.session(), None);
            } else {
                pair.engine.detach(link, None);
            }
            pair.poll();
            assert_eq!(lost(&mut pair), 1, "{ends_session} {on_first}");
            pair.feed(&amqp_with(0, transfer(0, 1), b"the rest"));
            assert_eq!(lost(&mut pair), 0);
        }
    }
}

#[test]
fn work_behind_our_end_of_a_session_is_told() {
    let (mut pair, link) = receiving();
    pair.engine.end_session(link.session(), None);
    let said = |role| Disposition { state: Some(within()), ..disposition(role, 0, 0, false) };
    pair.feed_all(&[
        amqp_with(0, of(transfer(0, 1)), b"m"),
        amqp(0, said(Role::Receiver)),
        // A state that a sender gives its own messages is no work.
        amqp(0, said(Role::Sender)),
        amqp(0, disposition(Role::Receiver, 0, 0, false)),
        amqp_with(0, transfer(0, 2), b"m"),
    ]);
    assert_eq!(lost(&mut pair), 2);
    // Nor behind the peer's own end, for then it wants no more of it.
    pair.feed(&amqp(0, End::default()));
    assert_eq!(lost(&mut pair), 0);
}

#[test]
fn a_transfer_that_costs_its_link_or_session_is_told_and_so_is_the_delivery_that_it_continues() {
    let settled = |transfer: Transfer| Transfer { settled: Some(true), ..transfer };
    let second =
        |transfer: Transfer| Transfer { rcv_settle_mode: Some(ReceiverSettleMode::Second), ..transfer };
    let cases: [(&str, Vec<(Transfer, usize)>); 9] = [
        ("no tag", vec![(Transfer { delivery_tag: None, ..of(transfer(0, 1)) }, 1)]),
        ("no id", vec![(Transfer { delivery_id: None, ..of(transfer(0, 1)) }, 1)]),
        ("no such handle", vec![(of(transfer(9, 1)), 1)]),
        ("too large and settled", vec![(settled(of(transfer(0, 1))), 101)]),
        ("too large in the end", vec![(settled(of(more(0, 1))), 60), (settled(transfer(0, 1)), 60)]),
        ("another delivery in between", vec![(of(more(0, 1)), 1), (transfer(0, 2), 1)]),
        ("named by the frame that breaks it", vec![(more(0, 1), 1), (of(transfer(0, 2)), 1)]),
        ("a mode that the link has not", vec![(second(of(transfer(0, 1))), 1)]),
        ("unsettled on a settled link", vec![(of(transfer(5, 1)), 1)]),
    ];
    for (case, frames) in cases {
        let (mut pair, _) = receiving();
        let mut all_settled = attach("settled", 5, Role::Sender);
        all_settled.snd_settle_mode = Some(SenderSettleMode::Settled);
        pair.attach_as(all_settled);
        pair.take_events();
        for (frame, bytes) in frames {
            pair.feed(&amqp_with(0, frame, &vec![0; bytes]));
        }
        assert_eq!(lost(&mut pair), 1, "{case}");
    }
}

#[test]
fn an_unfinished_message_that_there_is_no_room_for_is_told() {
    for begins in [true, false] {
        let (mut pair, _) = receiving();
        pair.attach("other", 1, Role::Sender);
        pair.take_events();
        pair.feed(&amqp_with(0, more(1, 1), &[0; 90]));
        // 150 bytes are all that the connection may gather.
        let (first, next) = if begins { (70, 0) } else { (10, 60) };
        pair.feed(&amqp_with(0, of(more(0, 2)), &vec![0; first]));
        if !begins {
            assert_eq!(lost(&mut pair), 0);
            pair.feed(&amqp_with(0, more(0, 2), &vec![0; next]));
        }
        assert_eq!(lost(&mut pair), 1, "begins: {begins}");
    }
}
