use amqp_codec::performative::{Attach, Flow, Open, Performative};
use amqp_codec::types::Role;
use amqp_engine::{AttachReply, Config, Event, LinkKey, OutgoingDelivery};

use crate::pair::*;

#[test]
fn credit_that_is_granted_goes_out_with_the_attach() {
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    pair.feed(&amqp(0, attach("in", 0, Role::Sender)));
    let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
    pair.engine.grant_credit(link, 10);
    assert_eq!(pair.read(), [], "not before the attach");
    pair.engine.accept_link(link, AttachReply::default());
    pair.engine.grant_credit(link, 50);
    let frames = pair.frames();
    let [Performative::Attach(_), Performative::Flow(flow)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((flow.handle, flow.delivery_count, flow.link_credit), (Some(0), Some(0), Some(50)));
}

#[test]
fn credit_falls_with_each_delivery_and_is_told_with_the_senders_count() {
    let mut pair = Pair::begun(plain());
    let link =
        pair.attach_as(Attach { initial_delivery_count: Some(u32::MAX), ..attach("in", 0, Role::Sender) });
    pair.engine.grant_credit(link, 3);
    assert_eq!(pair.flows()[0].delivery_count, Some(u32::MAX));
    for id in 0..2 {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    assert_eq!(pair.engine.link(link).credit_left(), 1);
    pair.engine.grant_credit(link, 10);
    let flows = pair.flows();
    assert_eq!((flows[0].delivery_count, flows[0].link_credit), (Some(1), Some(10)));
    // The sender gives up four of them.
    pair.feed(&amqp(0, Flow { next_outgoing_id: 2, ..credit(0, 5, 0) }));
    assert_eq!(pair.engine.link(link).credit_left(), 6);
}

#[test]
fn transfers_without_credit_are_taken_unless_that_is_forbidden() {
    // Python's senders give themselves credit (rule 15).
    for strict_credit in [false, true] {
        let mut pair = Pair::begun(Config { strict_credit, ..plain() });
        let link = pair.attach("in", 0, Role::Sender);
        pair.engine.grant_credit(link, 1);
        pair.read();
        pair.feed_all(&[amqp_with(0, transfer(0, 0), b"x"), amqp_with(0, transfer(0, 1), b"x")]);
        let condition = detached_with(&pair.frames());
        assert_eq!(condition.as_deref(), strict_credit.then_some("amqp:link:transfer-limit-exceeded"));
        assert_eq!(pair.take_events().len(), 2, "two transfers, or one and a detach");
    }
}

#[test]
fn credit_of_the_peer_is_told_as_an_absolute_limit() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 0, Role::Receiver);
    let steps = [
        // sent before, receiver's count, credit, limit, still to be handed over
        (0, None, 3, 3, 3),
        (2, Some(0), 3, 3, 1),
        (0, Some(2), 3, 5, 3),
        (3, Some(5), 0, 5, 0),
        (0, Some(5), u32::MAX, 5 + u64::from(u32::MAX), u32::MAX),
    ];
    for step @ (sent, count, link_credit, limit, left) in steps {
        for tag in 0..sent {
            pair.engine.send(link, message(tag, 1)).unwrap();
        }
        pair.read();
        pair.feed(&amqp(
            0,
            Flow {
                handle: Some(0),
                delivery_count: count,
                link_credit: Some(link_credit),
                available: Some(10),
                ..flow()
            },
        ));
        let Event::LinkFlow { limit: got, credit, drain: false, echo: false, available: Some(10), .. } =
            pair.take_event()
        else {
            panic!("{step:?}")
        };
        assert_eq!((got, credit), (limit, left), "{step:?}");
    }
    assert_eq!(pair.engine.link(link).handed_over(), 5);
}

#[test]
fn echo_on_a_link_is_answered_with_its_state() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 4, Role::Receiver);
    pair.feed(&amqp(0, credit(4, 0, 10)));
    pair.engine.send(link, message(1, 1)).unwrap();
    pair.read();
    pair.feed(&amqp(0, Flow { echo: true, ..credit(4, 0, 10) }));
    let flows = pair.flows();
    assert_eq!(flows.len(), 1);
    let got = &flows[0];
    assert_eq!((got.handle, got.delivery_count, got.link_credit), (Some(0), Some(1), Some(9)));
    assert!(!got.echo && !got.drain);

    let input = pair.attach("in", 5, Role::Sender);
    pair.engine.grant_credit(input, 7);
    pair.read();
    pair.feed(&amqp(0, Flow { echo: true, ..credit(5, 0, 0) }));
    assert_eq!(pair.flows()[0].link_credit, Some(7));
}

#[test]
fn a_drain_is_answered_with_the_credit_used_up() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 0, Role::Receiver);
    for round in 1..=3u32 {
        pair.feed(&amqp(0, Flow { drain: true, ..credit(0, (round - 1) * 10, 10) }));
        let Event::LinkFlow { limit, drain: true, credit: 10, .. } = pair.take_event() else { panic!() };
        pair.engine.drained(link, limit);
        let flows = pair.flows();
        assert_eq!(flows.len(), 1);
        let got = &flows[0];
        assert_eq!((got.delivery_count, got.link_credit), (Some(round * 10), Some(0)));
        assert_eq!((got.available, got.drain), (Some(0), true));
    }
    // A drain without credit wants an answer too.
    pair.feed(&amqp(0, Flow { drain: true, ..credit(0, 30, 0) }));
    let Event::LinkFlow { limit: 30, .. } = pair.take_event() else { panic!() };
    pair.engine.drained(link, 30);
    assert_eq!(pair.flows().len(), 1);
}

#[test]
fn the_answer_to_a_drain_comes_behind_the_deliveries_sent_before() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 2, ..begin() }));
    pair.events.clear();
    let link = pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, Flow { drain: true, incoming_window: 2, ..credit(0, 0, 10) }));
    for tag in 0..3 {
        pair.engine.send(link, message(tag, 1)).unwrap();
    }
    pair.engine.drained(link, 10);
    assert!(pair.frames().iter().all(|frame| matches!(frame, Performative::Transfer(_))));
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(3), ..flow() }));
    let frames = pair.frames();
    let [Performative::Transfer(_), Performative::Flow(flow)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(10), Some(0), true));
}

#[test]
fn credit_that_is_taken_back_takes_back_waiting_deliveries() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 1, ..begin() }));
    pair.events.clear();
    let one = pair.attach("one", 0, Role::Receiver);
    let two = pair.attach("two", 1, Role::Receiver);
    pair.feed_all(&[
        amqp(0, Flow { incoming_window: 1, ..credit(0, 0, 10) }),
        amqp(0, Flow { incoming_window: 1, ..credit(1, 0, 10) }),
    ]);
    pair.events.clear();
    for tag in 0..3 {
        pair.engine.send(one, message(tag, 1)).unwrap();
        pair.engine.send(two, message(tag, 1)).unwrap();
    }
    // One goes out; the link it was on then stops.
    assert_eq!(pair.transfers().len(), 1);
    pair.feed(&amqp(0, Flow { incoming_window: 0, ..credit(0, 0, 0) }));
    let events = pair.take_events();
    assert_eq!(events[0], Event::Unsent { link: one, deliveries: ids([3, 5]) });
    assert!(matches!(events[1], Event::LinkFlow { credit: 0, limit: 0, .. }));
    // Ids on the wire run on without a gap, and dispositions find what was handed over.
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(2), ..flow() }));
    let sent: Vec<_> = pair.transfers().iter().map(|(t, _)| t.delivery_id.unwrap()).collect();
    assert_eq!(sent, [2, 3, 4]);
    pair.feed(&amqp(0, disposition(Role::Receiver, 3, 4, false)));
    let Event::Disposition { first, last, .. } = pair.take_event() else { panic!() };
    assert_eq!([first, last], ids([4, 6])[..]);
    pair.engine.settle_outgoing(one.session(), last, None);
    assert_eq!(pair.dispositions()[0].first, 4);
    // Deliveries that were taken back have used no credit.
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(5), echo: true, ..credit(0, 1, 5) }));
    assert!(matches!(pair.take_event(), Event::LinkFlow { limit: 6, credit: 5, .. }));
    let flow = pair.flows().remove(0);
    assert_eq!((flow.delivery_count, flow.link_credit, flow.available), (Some(1), Some(5), Some(0)));
    // Deliveries that were taken back cannot be settled on the wire.
    pair.engine.settle_outgoing(one.session(), ids([5])[0], None);
    assert_eq!(pair.read(), []);
}

#[test]
fn link_state_properties_are_passed_on() {
    use amqp_codec::raw::{AnnotationValue, RawMap};
    let mut pair = Pair::begun(plain());
    pair.attach("out", 0, Role::Receiver);
    let map = RawMap::with_symbol_keys(&[("txn-id", AnnotationValue::Binary(b"t"))]);
    pair.feed(&amqp(0, Flow { properties: Some(map.clone()), ..credit(0, 0, 1) }));
    assert!(matches!(pair.take_event(), Event::LinkFlow { properties: Some(got), .. } if got == map));
}

#[test]
fn a_flow_without_link_credit_changes_none() {
    let mut pair = Pair::begun(plain());
    pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, credit(0, 0, 10)));
    pair.events.clear();
    pair.feed(&amqp(0, Flow { link_credit: None, delivery_count: None, ..credit(0, 0, 0) }));
    assert!(matches!(pair.take_event(), Event::LinkFlow { limit: 10, credit: 10, .. }));
}

/// A session that may bring nothing, whatever its flow says.
fn no_window(frame: Flow) -> Flow {
    Flow { incoming_window: 0, ..frame }
}

/// A peer that gives a link so much credit, and lets its session bring nothing.
fn with_credit_and_no_window(count: u32) -> (Pair, LinkKey) {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 0, ..begin() }));
    pair.events.clear();
    let link = pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, no_window(credit(0, 0, count))));
    pair.events.clear();
    (pair, link)
}

#[test]
fn credit_that_is_lowered_takes_back_only_the_deliveries_beyond_it() {
    let (mut pair, link) = with_credit_and_no_window(10);
    for tag in 0..5 {
        pair.engine.send(link, message(tag, 1)).unwrap();
    }
    pair.feed(&amqp(0, no_window(credit(0, 0, 3))));
    let events = pair.take_events();
    assert_eq!(events[0], Event::Unsent { link, deliveries: ids([4, 5]) });
    assert!(matches!(events[1], Event::LinkFlow { limit: 3, credit: 0, .. }));
    pair.feed(&amqp(0, flow()));
    assert_eq!(pair.transfers().len(), 3);
}

#[test]
fn credit_that_is_lowered_leaves_settled_and_given_deliveries_on_their_way() {
    let (mut pair, link) = with_credit_and_no_window(10);
    for tag in 0..6 {
        let (settled, given) = (tag % 4 == 0, tag % 4 == 2);
        pair.engine.send(link, OutgoingDelivery { settled, given, ..message(tag, 1) }).unwrap();
    }
    pair.feed(&amqp(0, no_window(credit(0, 0, 1))));
    let events = pair.take_events();
    // One may go, and those go besides that nobody can take back.
    assert_eq!(events[0], Event::Unsent { link, deliveries: ids([2, 4, 6]) });
    assert!(matches!(events[1], Event::LinkFlow { limit: 1, credit: 0, .. }));
    pair.feed(&amqp(0, flow()));
    let sent: Vec<_> = pair.transfers().iter().map(|(transfer, _)| transfer.settled).collect();
    assert_eq!(sent, [Some(true), Some(false), Some(true)]);
    // The peer has counted them, and its next credit begins behind them.
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(4), echo: true, ..credit(0, 3, 2) }));
    assert!(matches!(pair.take_event(), Event::LinkFlow { limit: 5, credit: 2, .. }));
    let told = pair.flows().remove(0);
    assert_eq!((told.delivery_count, told.link_credit), (Some(3), Some(2)));
}

#[test]
fn a_delivery_half_sent_counts_as_sent_and_is_finished() {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size: 512, ..Open::new("client") });
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 1, ..begin() }));
    pair.events.clear();
    let link = pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, Flow { incoming_window: 1, ..credit(0, 0, 10) }));
    pair.engine.send(link, message(1, 700)).unwrap();
    pair.engine.send(link, message(2, 10)).unwrap();
    assert_eq!(pair.transfers().len(), 1);
    pair.events.clear();
    // The link stops while the first is under way: only the second is taken back.
    let stop = Flow { next_incoming_id: Some(2), incoming_window: 0, echo: true, ..credit(0, 0, 0) };
    pair.feed(&amqp(0, stop));
    assert_eq!(pair.take_events()[0], Event::Unsent { link, deliveries: ids([2]) });
    let told = pair.flows().remove(0);
    assert_eq!((told.delivery_count, told.link_credit), (Some(1), Some(0)));
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(2), ..flow() }));
    let transfers = pair.transfers();
    assert_eq!((transfers.len(), transfers[0].0.more), (1, false));
}

#[test]
fn a_drain_is_answered_once() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 0, ..begin() }));
    pair.events.clear();
    let link = pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, Flow { drain: true, incoming_window: 0, ..credit(0, 0, 10) }));
    pair.engine.send(link, message(1, 1)).unwrap();
    pair.engine.drained(link, 10);
    pair.feed(&amqp(0, flow()));
    assert_eq!(pair.frames().len(), 2, "the transfer and the answer");
    pair.feed(&amqp(0, credit(0, 10, 10)));
    pair.engine.send(link, message(2, 1)).unwrap();
    assert_eq!(pair.frames().len(), 1, "the transfer alone");
}

#[test]
fn an_echo_before_the_attach_is_answered_behind_it() {
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    pair.feed(&amqp(0, attach("out", 0, Role::Receiver)));
    let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
    pair.feed(&amqp(0, Flow { echo: true, ..credit(0, 0, 10) }));
    assert_eq!(pair.read(), []);
    pair.engine.accept_link(link, AttachReply::default());
    let frames = pair.frames();
    assert!(matches!(&frames[..], [Performative::Attach(_), Performative::Flow(_)]), "{frames:?}");
}
