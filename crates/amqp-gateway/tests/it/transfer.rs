//! Flow, order, bounds, and links that go at the wrong moment.

use amqp_codec::{
    message::{AnnotationValue, BATCH_FORMAT, MessageBuilder},
    performative::{Attach, DeliveryState, Flow, Performative, Source, Target, Transfer},
    raw::{RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use bytes::Bytes;
use testkit::Script;

use crate::harness::{World, status, texts};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).data(text.as_bytes()).build()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:04}")).collect()
}

#[test]
fn messages_come_in_the_order_they_were_sent_and_ranges_settle_them() {
    let mut world = World::new();
    let client = world.plain();
    let sent = numbered(1000);
    world.send(client, "q", &sent.iter().map(String::as_str).collect::<Vec<_>>());
    let received = world.receive(client, "q", 1000);
    assert_eq!(texts(&received), sent);
    let (first, last) = (received[0].0.delivery_id.unwrap(), received[999].0.delivery_id.unwrap());
    world.script(client).disposition(0, first, last, false, Some(DeliveryState::Accepted));
    world.run();
    let answers = world.dispositions(client);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].role, answers[0].first, answers[0].last), (Role::Sender, first, Some(last)));
}

#[test]
fn ten_sends_and_ten_settlements_take_a_round_trip_each() {
    for is_plain in [false, true] {
        let mut world = World::new();
        let client = if is_plain { world.plain() } else { world.service_bus() };
        world.script(client).attach_sender(0, 1, "s", Some("q"));
        world.run();
        // What an obedient sender may send before it hears anything more.
        let granted = world.flows(client).pop().unwrap();
        assert!(granted.link_credit >= Some(10) && granted.incoming_window >= 10, "{granted:?}");
        let body = MessageBuilder::new().message_id("m").data(b"m").build();
        for _ in 0..10 {
            world.transfer(client, 1, false, &body);
        }
        // All of it reaches the broker at once, and what comes back is the answer to all of it.
        world.run();
        let settled = |world: &mut World| -> u32 {
            let answers = world.dispositions(client);
            assert!(answers.iter().all(|it| it.settled && it.state == Some(DeliveryState::Accepted)));
            answers.iter().map(|it| it.last.unwrap_or(it.first) - it.first + 1).sum()
        };
        assert_eq!(settled(&mut world), 10, "plain={is_plain}");
        let received = world.receive(client, "q", 10);
        assert_eq!(received.len(), 10, "plain={is_plain}");
        for (transfer, _) in &received {
            let id = transfer.delivery_id.unwrap();
            world.script(client).disposition(0, id, id, false, Some(DeliveryState::Accepted));
        }
        world.run();
        assert_eq!(settled(&mut world), 10, "plain={is_plain}");
    }
}

#[test]
fn transfers_right_behind_the_attach_are_taken() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    for text in ["a", "b"] {
        world.transfer(client, 1, false, &message(text));
    }
    world.run();
    let answer = world.dispositions(client).remove(0);
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
    assert_eq!(texts(&world.receive(client, "q", 5)), ["a", "b"]);
}

#[test]
fn a_batch_is_one_delivery_and_many_messages() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    let packed = MessageBuilder::new().data(&message("a")).data(&message("b")).build();
    let frame = Transfer { message_format: Some(BATCH_FORMAT), ..Script::transfer_frame(1, 1, false) };
    world.script(client).transfer_with(0, frame.clone(), &packed);
    world.run();
    let answer = world.dispositions(client).remove(0);
    assert_eq!((answer.first, answer.last, answer.state), (1, Some(1), Some(DeliveryState::Accepted)));
    assert_eq!(texts(&world.receive(client, "q", 5)), ["a", "b"]);

    // What is no batch in spite of its format ends the link.
    let frame = Transfer { delivery_id: Some(2), ..frame };
    world.script(client).transfer_with(0, frame, &MessageBuilder::new().body_null().build());
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:decode-error");
}

/// How many of 1,000 messages with this body are left for others while a reader with credit for all of them does not read; in the
/// end each has come to one of the two.
fn left_by_a_reader_that_does_not_read(body: &str) -> usize {
    let config = GatewayConfig { deliver_window_bytes: 100_000, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let sender = world.plain();
    world.send(sender, "q", &vec![body; 1000]);
    let reader = world.plain();
    world.script(reader).attach_receiver(0, 2, "r", "q", None);
    world.run();
    world.clients[reader].reads = false;
    world.credit(reader, 0, 2, 0, 1000, false);
    world.run();
    let other = world.plain();
    let left = world.receive(other, "q", 1000).len();
    world.clients[reader].reads = true;
    world.run();
    assert_eq!(world.transfers(reader).len() + left, 1000);
    left
}

#[test]
fn a_reader_that_stops_reading_stops_being_served() {
    let left = left_by_a_reader_that_does_not_read(&"x".repeat(1000));
    assert!((880..1000).contains(&left), "{left}");
}

#[test]
fn a_reader_that_stops_reading_is_served_as_few_of_the_shortest_messages_as_of_longer_ones() {
    let left = left_by_a_reader_that_does_not_read("");
    // Each counts as 256 bytes.
    assert!((600..620).contains(&left), "{left}");
}

#[test]
fn credit_may_be_taken_back_and_unsettled_deliveries_are_bounded() {
    let config = GatewayConfig { max_unsettled: 10, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.plain();
    let sent = numbered(30);
    world.send(client, "q", &sent.iter().map(String::as_str).collect::<Vec<_>>());
    let mut received = world.receive(client, "q", 100);
    assert_eq!(received.len(), 10);
    // Settling makes room, down to the last message.
    while received.len() < 30 {
        let id = received.last().unwrap().0.delivery_id.unwrap();
        let first = received[0].0.delivery_id.unwrap();
        world.script(client).disposition(0, first, id, true, Some(DeliveryState::Accepted));
        world.run();
        let more = world.transfers(client);
        assert!(!more.is_empty() && more.len() <= 10);
        received.extend(more);
    }
    assert_eq!(texts(&received), sent);
}

#[test]
fn what_goes_out_settled_is_not_bounded_by_what_is_unsettled() {
    // Received and gone in both modes that can say so, and shown to who only looks.
    let modes = [
        (SenderSettleMode::Settled, false),
        (SenderSettleMode::Settled, true),
        (SenderSettleMode::Mixed, true),
    ];
    for (mode, browses) in modes {
        for drain in [false, mode == SenderSettleMode::Settled] {
            let config = GatewayConfig { max_unsettled: 10, ..GatewayConfig::default() };
            let mut world = World::with(config, Anonymous::Deny);
            let client = world.plain();
            let sent = numbered(95);
            world.send(client, "q", &sent.iter().map(String::as_str).collect::<Vec<_>>());
            let mut attach = Attach::new("r", 2, Role::Receiver);
            attach.snd_settle_mode = Some(mode);
            let mut source = Source::new("q");
            source.distribution_mode = browses.then(|| "copy".into());
            (attach.source, attach.target) = (Some(source), Some(Target::new("here")));
            world.script(client).attach(0, attach);
            // Credit once, and for more than there may be unsettled.
            world.credit(client, 0, 2, 0, 1000, drain);
            world.run();
            assert_eq!(texts(&world.transfers(client)), sent, "{mode:?}, browses: {browses}, drain: {drain}");
        }
    }
}

#[test]
fn a_drain_above_the_bound_of_unsettled_ones_is_answered_too() {
    let config = GatewayConfig { max_unsettled: 2, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    let client = world.plain();
    world.send(client, "q", &["a", "b", "c"]);
    world.script(client).attach_receiver(0, 2, "r", "q", SECOND);
    world.credit(client, 0, 2, 0, 10, true);
    world.run();
    let frames = world.frames(client);
    let flow = frames.iter().rev().find_map(|frame| match &frame.performative {
        Performative::Flow(flow) => Some(flow.clone()),
        _ => None,
    });
    let flow = flow.unwrap();
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(10), Some(0), true));
    // After settling, fresh credit brings the rest.
    let first = frames.iter().find_map(|frame| match &frame.performative {
        Performative::Transfer(transfer) => transfer.delivery_id,
        _ => None,
    });
    let first = first.unwrap();
    world.script(client).disposition(0, first, first + 1, true, Some(DeliveryState::Accepted));
    world.credit(client, 0, 2, 10, 5, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["c"]);
}

#[test]
fn deleting_the_queue_detaches_its_links() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.run();
    world.received(client);
    world.delete("q");
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 2);
    for detach in detaches {
        assert_eq!(detach.error.unwrap().condition, "amqp:resource-deleted");
    }
}

#[test]
fn shutting_down_closes_with_forced() {
    let mut world = World::new();
    let client = world.plain();
    let now = world.now;
    world.clients[client].gateway.close(now, amqp_gateway::CloseReason::Shutdown);
    world.run();
    let Performative::Close(close) = world.frames(client).remove(0).performative else { panic!() };
    assert_eq!(close.error.unwrap().condition, "amqp:connection:forced");
    world.script(client).close(None);
    world.run();
    assert!(world.clients[client].gateway.is_closed());
}

#[test]
fn a_stranger_costs_the_core_nothing() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).raw(b"GET / HTTP/1.1\r\n\r\n");
    world.run();
    assert!(world.clients[client].gateway.disconnected().is_empty());
}

#[test]
fn drains_that_come_together_are_answered_together_and_the_next_one_by_itself() {
    let mut world = World::new();
    let client = world.plain();
    world.script(client).attach_receiver(0, 2, "r", "q", None);
    world.run();
    world.received(client);
    // Two flows in one read: the second asks for more.
    world.script(client).credit(0, 2, 0, 3, true);
    world.script(client).credit(0, 2, 0, 8, true);
    world.run();
    let answer = |world: &mut World| {
        let flow = world.flows(client).pop().unwrap();
        (flow.delivery_count, flow.link_credit)
    };
    assert_eq!(answer(&mut world), (Some(8), Some(0)));
    world.credit(client, 0, 2, 8, 4, true);
    world.run();
    assert_eq!(answer(&mut world), (Some(12), Some(0)));
    // And credit still counts.
    let sender = world.plain();
    world.send(sender, "q", &["a", "b"]);
    world.credit(client, 0, 2, 12, 1, false);
    world.run();
    assert_eq!(world.transfers(client).len(), 1);
}

/// A client that has asked 200 times for 50 KB of messages of 1 KB and read nothing, and the request.
fn greedy(world: &mut World) -> (usize, RawMap) {
    let client = world.service_bus();
    let sender = world.plain();
    let big = "x".repeat(1000);
    world.send(sender, "q", &vec![big.as_str(); 100]);
    world.management(client, "q");
    world.credit(client, 0, 4, 0, 1000, false);
    world.run();
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(100)),
    ]);
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
        .body_raw(RawValue::first(ask.bytes()).unwrap())
        .build();
    world.clients[client].reads = false;
    for _ in 0..200 {
        world.transfer(client, 3, false, &request);
        world.run();
    }
    (client, ask)
}

/// How many of the answers that wait for a client that reads again have each status.
fn read_again(world: &mut World, client: usize) -> [usize; 3] {
    world.clients[client].reads = true;
    world.run();
    let answers = world.transfers(client);
    let count = |wanted| answers.iter().filter(|(_, answer)| status(answer, "statusCode") == wanted).count();
    let counts = [200, 204, 403].map(count);
    assert_eq!(counts.iter().sum::<usize>(), answers.len());
    counts
}

/// Windows of 50 KB, so that two answers are more than one.
fn narrow_windows() -> World {
    let config =
        GatewayConfig { deliver_window_bytes: 50_000, max_peek_bytes: 50_000, ..GatewayConfig::default() };
    World::with(config, Anonymous::Deny)
}

#[test]
fn a_client_that_does_not_read_the_answers_to_its_peeks_has_so_many_wait_and_gets_them_when_it_reads() {
    let mut world = narrow_windows();
    let (client, ask) = greedy(&mut world);
    let [shown, none, refused] = read_again(&mut world, client);
    assert!((64..=67).contains(&shown) && none == 0, "{shown} shown, {none} empty");
    assert_eq!(shown + refused, 200);
    // Once it reads, it is answered again.
    assert_eq!(status(&world.request(client, "com.microsoft:peek-message", &ask), "statusCode"), 200);
}

#[test]
fn messages_are_looked_up_only_when_their_answer_has_room() {
    let mut world = narrow_windows();
    let (client, _) = greedy(&mut world);
    // What is gone by the time at which it is looked up is not shown.
    let other = world.service_bus();
    world.script(other).attach_receiver(0, 7, "r", "q", None);
    world.credit(other, 0, 7, 0, 100, false);
    world.run();
    assert_eq!(world.transfers(other).len(), 100);
    let [shown, none, refused] = read_again(&mut world, client);
    assert!((1..=3).contains(&shown), "{shown} were looked up before they had room");
    assert_eq!(shown + none + refused, 200);
    assert!(none >= 60, "{none}");
}

#[test]
fn answers_on_a_link_without_credit_hold_up_no_others() {
    let mut world = narrow_windows();
    let (client, ask) = greedy(&mut world);
    let other = world.service_bus();
    world.management(other, "q");
    world.credit(other, 0, 4, 0, 10, false);
    assert_eq!(status(&world.request(other, "com.microsoft:peek-message", &ask), "statusCode"), 200);
    assert!(read_again(&mut world, client)[0] > 0);
    // On the same connection: two links without credit have what they may, and the third is answered.
    for (handle, name) in [(20, "first"), (21, "second"), (22, "third")] {
        world.script(client).attach_receiver(
            0,
            handle,
            name,
            "q/$management",
            Some(ReceiverSettleMode::First),
        );
        let request = MessageBuilder::new()
            .message_id("request")
            .reply_to(name)
            .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
            .body_raw(RawValue::first(ask.bytes()).unwrap())
            .build();
        let count = if name == "third" { 1 } else { 5 };
        for _ in 0..count {
            world.transfer(client, 3, true, &request);
        }
        world.run();
    }
    world.credit(client, 0, 22, 0, 1, false);
    world.run();
    assert_eq!(world.transfers(client).len(), 1);
}

/// Grants credit on a link while the session has room for so many transfers in all, counted from its start.
fn narrow(world: &mut World, client: usize, sent: u32, credit: u32, room: u32) {
    let flow = Flow {
        incoming_window: room,
        next_outgoing_id: sent,
        outgoing_window: 65_536,
        handle: Some(7),
        delivery_count: Some(0),
        link_credit: Some(credit),
        ..Flow::default()
    };
    world.script(client).flow(0, flow);
    world.run();
}

#[test]
fn closing_receivers_with_unsent_prefetch_costs_a_session_nothing_lasting() {
    for service_bus in [false, true] {
        let mut world = World::new();
        let client = if service_bus { world.service_bus() } else { world.plain() };
        // The answer of `$cbs` and its request.
        let extra = u32::from(service_bus);
        let first = extra;
        world.send(client, "q", &["a", "b", "c"]);
        // Each receiver is sent one message and closed while the next one waits for the session's window.
        let rounds = 1_500;
        for round in 0..rounds {
            world.script(client).attach_receiver(0, 7, &format!("r{round}"), "q", SECOND);
            narrow(&mut world, client, 3 + extra, 2, extra + round + 1);
            let sent = world.transfers(client);
            assert_eq!(sent.len(), 1, "round {round}");
            assert_eq!(sent[0].0.delivery_id, Some(first + round), "ids on the wire have no gaps");
            let id = first + round;
            world.script(client).disposition(0, id, id, false, Some(DeliveryState::Released));
            world.run();
            world.script(client).detach(0, 7, true);
            world.run();
        }
        world.received(client);
        // Names still mean the same on both sides.
        world.script(client).attach_receiver(0, 7, "last", "q", SECOND);
        narrow(&mut world, client, 3 + extra, 3, extra + rounds + 3);
        let ids: Vec<u32> = world.transfers(client).iter().filter_map(|(sent, _)| sent.delivery_id).collect();
        assert_eq!(ids, [first + rounds, first + rounds + 1, first + rounds + 2]);
        world.script(client).disposition(0, ids[1], ids[1], false, Some(DeliveryState::Accepted));
        world.run();
        let answers = world.dispositions(client);
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].first, &answers[0].state), (ids[1], &Some(DeliveryState::Accepted)));
    }
}

/// So many are looked at ahead.
#[test]
fn each_of_many_receivers_gets_its_message_and_settles_it() {
    const RECEIVERS: u32 = 100;
    let mut world = World::new();
    let client = world.plain();
    for handle in 0..RECEIVERS {
        world.script(client).attach_receiver(0, handle, &format!("r{handle}"), "q", SECOND);
        world.credit(client, 0, handle, 0, 1, false);
    }
    world.run();
    world.received(client);
    let expected: Vec<String> = (0..RECEIVERS).map(|number| number.to_string()).collect();
    let other = world.plain();
    world.send(other, "q", &expected.iter().map(String::as_str).collect::<Vec<_>>());
    let sent = world.transfers(client);
    assert_eq!(texts(&sent), expected);
    let handles: Vec<u32> = sent.iter().map(|(transfer, _)| transfer.handle).collect();
    assert_eq!(handles, (0..RECEIVERS).collect::<Vec<_>>(), "each has waited for one");
    assert!(world.bytes_of("q") > 0);
    let ids = (sent[0].0.delivery_id.unwrap(), sent[99].0.delivery_id.unwrap());
    world.script(client).disposition(0, ids.0, ids.1, true, Some(DeliveryState::Accepted));
    world.run();
    assert_eq!(world.bytes_of("q"), 0);
}

#[test]
fn credit_that_is_taken_back_loses_nothing_that_is_received_and_deleted() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["a", "b", "c", "d", "e"]);
    let mut attach = Attach::new("r", 2, Role::Receiver);
    attach.snd_settle_mode = Some(SenderSettleMode::Settled);
    attach.source = Some(Source::new("q"));
    attach.target = Some(Target::new("here"));
    all_come_although_credit_is_lowered(&mut world, client, attach);
}

/// Attaches to a queue of five, `a` to `e`: four were handed out, and wait for a peer that does not read and thinks better
/// of it.
fn all_come_although_credit_is_lowered(world: &mut World, client: usize, attach: Attach) {
    world.script(client).attach(0, attach);
    world.run();
    world.received(client);
    world.clients[client].reads = false;
    world.credit(client, 0, 2, 0, 4, false);
    world.run();
    world.credit(client, 0, 2, 0, 1, false);
    world.run();
    world.clients[client].reads = true;
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["a", "b", "c", "d"]);
    world.credit(client, 0, 2, 4, 9, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["e"]);
}

#[test]
fn credit_that_is_taken_back_loses_no_answer_and_nothing_that_is_browsed() {
    let mut world = World::new();
    let client = world.plain();
    world.send(client, "q", &["a", "b", "c", "d", "e"]);
    let mut browser = Attach::new("r", 2, Role::Receiver);
    browser.snd_settle_mode = Some(SenderSettleMode::Unsettled);
    browser.source = Some(Source { distribution_mode: Some("copy".into()), ..Source::new("q") });
    browser.target = Some(Target::new("here"));
    all_come_although_credit_is_lowered(&mut world, client, browser);

    // Answers that go out unsettled.
    let client = world.plain();
    world.script(client).attach_sender(0, 3, "m-out", Some("q/$management"));
    world.script(client).attach_receiver(0, 4, "m-in", "q/$management", SECOND);
    world.run();
    world.received(client);
    let ask = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str("com.microsoft:peek-message"))
        .body_raw(RawValue::first(ask.bytes()).unwrap())
        .build();
    world.clients[client].reads = false;
    world.credit(client, 0, 4, 0, 4, false);
    for _ in 0..4 {
        world.transfer(client, 3, true, &request);
    }
    world.run();
    world.credit(client, 0, 4, 0, 1, false);
    world.run();
    world.clients[client].reads = true;
    world.run();
    let answers = world.transfers(client);
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|(transfer, _)| transfer.settled != Some(true)));
    world.credit(client, 0, 4, 4, 1, false);
    assert_eq!(status(&world.request(client, "com.microsoft:peek-message", &ask), "statusCode"), 200);
}
