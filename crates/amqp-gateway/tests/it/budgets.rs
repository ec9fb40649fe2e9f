//! Turns that end by work: what a client sends is handled in steps, and nothing else about it changes.

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{DeliveryState, Source, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, write_map, write_str},
};
use broker_core::{EntityKind, EntitySettings, Work, WorkBudget};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use testkit::{Script, data};

use crate::{
    harness::{TOKEN, World, status},
    subscribers::{self, NAMED, selecting},
    token_logins::{self, JWT},
};

/// One thing that a client sends as one frame, with a number to do it with.
type Step = (u8, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u8..9, any::<u32>()), 1..40)
}

/// Budgets of the turns, one after another.
fn budgets() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![1u64..5, 1u64..200, Just(u64::MAX)], 1..20)
}

/// A client of Service Bus with a sender to `q` on handle 1, a receiver on 2 that holds five messages, and a management
/// node of `t/Subscriptions/s`.
fn world() -> (World, usize) {
    let mut world = World::new();
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    world.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    let client = world.service_bus();
    world.send(client, "q", &["a", "b", "c", "d", "e"]);
    world.receive(client, "q", 5);
    world.management(client, "t/Subscriptions/s");
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    (world, client)
}

fn request(operation: &str, body: &RawMap) -> Bytes {
    MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str(operation))
        .body_raw(RawValue::first(body.bytes()).unwrap())
        .build()
}

fn rule(number: u32) -> RawMap {
    let mut out = BytesMut::new();
    write_map(&mut out, 4, |out| {
        write_str(out, "rule-name");
        write_str(out, &format!("rule{}", number % 4));
        write_str(out, "rule-description");
        write_map(out, 2, |out| {
            write_str(out, "sql-filter");
            write_map(out, 2, |out| {
                write_str(out, "expression");
                write_str(
                    out,
                    if number.is_multiple_of(5) { "color = " } else { "color = 'red' AND size > 3" },
                );
            });
        });
    });
    RawMap::new(out.freeze()).unwrap()
}

/// Adds what a step sends to the client's output: one frame, of which the engine tells one event.
fn act(world: &mut World, client: usize, (kind, number): Step) {
    match kind {
        0 | 1 => _ = world.transfer(client, 1, number % 2 == 0, &data(&number.to_be_bytes())),
        2 => {
            let id = world.next_delivery(client);
            let batch = Transfer {
                message_format: Some(BATCH_FORMAT),
                ..Script::transfer_frame(1, id, number % 2 == 0)
            };
            let messages = MessageBuilder::new().data(&data(b"one")).data(&data(b"two")).build();
            world.script(client).transfer_with(0, batch, &messages);
        }
        3 => {
            let outcome = [DeliveryState::Accepted, DeliveryState::Released, DeliveryState::Rejected(None)];
            // The first numbers are those of answers to tokens.
            let (first, outcome) = (2 + number % 4, outcome[number as usize % 3].clone());
            world.script(client).disposition(0, first, first + number % 3, number % 2 == 0, Some(outcome));
        }
        4 | 5 => {
            let token = if number % 3 == 0 { "SharedAccessSignature of nothing" } else { TOKEN };
            let put = MessageBuilder::new()
                .message_id("token")
                .application_property("operation", AnnotationValue::Str("put-token"))
                .application_property("name", AnnotationValue::Str("amqp://localhost"))
                .body_value(&amqp_codec::value::Value::String(token.into()))
                .build();
            world.transfer(client, 100, false, &put);
        }
        6 => _ = world.transfer(client, 3, false, &request("com.microsoft:add-rule", &rule(number))),
        7 => {
            let peek = [("from-sequence-number", AnnotationValue::Long(0))];
            let peek = RawMap::with_string_keys(&peek);
            world.transfer(client, 3, false, &request("com.microsoft:peek-message", &peek));
        }
        _ => {
            let (handle, name) = (200 + number % 1_000, number.to_string());
            world.script(client).attach_receiver(0, handle, &name, "q", Some(ReceiverSettleMode::First));
        }
    }
}

/// Whole frames of a client's output.
fn frames(mut output: Bytes) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some(size) = output.first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        frames.push(output.split_to(size));
    }
    frames
}

/// Commands and output of a client's gateway after it was given all of `input` at once, in turns with these budgets.
fn outcome_of(world: &mut World, client: usize, input: &Bytes, budgets: &[u64]) -> (String, BytesMut) {
    let mut budgets = budgets.iter().cycle().map(|units| WorkBudget::new(Work(*units)));
    let (now, gateway) = (world.now, &mut world.clients[client].gateway);
    gateway.give_work(budgets.next().unwrap());
    gateway.handle_input(now, &input[..]);
    while gateway.has_more_input() {
        assert!(!gateway.wants_input(), "the socket is not read meanwhile");
        gateway.give_work(budgets.next().unwrap());
        gateway.handle_more_input(now);
    }
    let mut out = BytesMut::new();
    let commands = format!("{:#?}", gateway.take_commands());
    gateway.poll_output(now, &mut out, usize::MAX);
    (commands, out)
}

/// Everything that a client was ever sent, after its steps were handled by turns with these budgets, and the core has
/// answered between the turns.
fn answers(steps: &[Step], budgets: Vec<u64>) -> BytesMut {
    let (mut world, client) = world();
    for step in steps {
        act(&mut world, client, *step);
    }
    let mut budgets = budgets.into_iter().cycle();
    world.budgets = Some(Box::new(move || WorkBudget::new(Work(budgets.next().unwrap()))));
    world.run();
    world.clients[client].raw.clone()
}

proptest! {
    #[test]
    fn the_same_bytes_make_the_same_commands_and_output_with_any_budgets(
        steps in steps(),
        budgets in budgets(),
    ) {
        let (mut bounded, client) = world();
        let (mut unbounded, _) = world();
        for step in steps {
            act(&mut bounded, client, step);
        }
        let input = bounded.script(client).take_output();
        let expected = outcome_of(&mut unbounded, client, &input, &[u64::MAX]);
        prop_assert_eq!(outcome_of(&mut bounded, client, &input, &budgets), expected);
    }

    #[test]
    fn turns_between_which_the_core_answers_are_as_if_the_network_had_cut_the_input_there(steps in steps()) {
        let by_turns = answers(&steps, vec![1]);
        let (mut world, client) = world();
        for step in steps {
            act(&mut world, client, step);
        }
        for frame in frames(world.script(client).take_output()) {
            world.script(client).raw(&frame);
            world.step();
        }
        world.run();
        prop_assert_eq!(&by_turns[..], &world.clients[client].raw[..]);
    }

    #[test]
    fn recorded_budgets_replay_exactly(steps in steps(), budgets in budgets()) {
        prop_assert_eq!(answers(&steps, budgets.clone()), answers(&steps, budgets));
    }
}

#[test]
fn a_turn_of_tokens_ends_after_as_many_as_its_budget_is_worth() {
    let (mut world, client) = world();
    for _ in 0..100 {
        act(&mut world, client, (4, 1));
    }
    let input = world.script(client).take_output();
    let (now, gateway) = (world.now, &mut world.clients[client].gateway);
    let mut turns = 0;
    gateway.give_work(WorkBudget::new(Work(500)));
    gateway.handle_input(now, &input[..]);
    loop {
        turns += 1;
        let mut out = BytesMut::new();
        gateway.poll_output(now, &mut out, usize::MAX);
        gateway.output_written(out.len());
        assert!(!out.is_empty(), "each turn answers something");
        if !gateway.has_more_input() {
            break;
        }
        let before = gateway.work_done();
        gateway.give_work(WorkBudget::new(Work(500)));
        gateway.handle_more_input(now);
        let done = gateway.work_done().0 - before.0;
        assert!(done <= 500 + 100, "a turn goes beyond its budget by one request at most: {done}");
    }
    assert!((5..20).contains(&turns), "a token costs its check and more: {turns}");
}

#[test]
fn costs_follow_from_what_is_asked_for() {
    let cost = |steps: &[Step]| {
        let (mut world, client) = world();
        for step in steps {
            act(&mut world, client, *step);
        }
        let input = world.script(client).take_output();
        let before = world.clients[client].gateway.work_done();
        outcome_of(&mut world, client, &input, &[u64::MAX]);
        world.clients[client].gateway.work_done().0 - before.0
    };
    let (message, batch, token, bad_token, add_rule) =
        (cost(&[(0, 1)]), cost(&[(2, 1)]), cost(&[(4, 1)]), cost(&[(4, 0)]), cost(&[(6, 1)]));
    assert_eq!(message, Work::COMMAND.0);
    assert_eq!(batch, 2 * message, "two messages");
    assert!(token >= bad_token + Work::HMAC_CHECK.0, "{token}: no signature of {bad_token} was checked");
    assert!(add_rule > bad_token + Work::of_sql(0).0, "{add_rule}: it was compiled");
    let settled = [0, 4, 8].map(|number| cost(&[(3, number)]));
    assert_eq!(settled, [1, 2, 3].map(|deliveries| message * deliveries), "deliveries of one disposition");
}

#[test]
fn a_token_of_an_identity_provider_costs_the_check_of_its_signature_if_one_is_made() {
    let cost = |token: &str| {
        let mut world = token_logins::world();
        let client = world.service_bus();
        let before = world.clients[client].gateway.work_done();
        world.put_token(client, "sb://localhost/q", token);
        let reply = world.transfers(client).pop().unwrap();
        (world.clients[client].gateway.work_done().0 - before.0, status(&reply.1, "status-code"))
    };
    let (signed, signature) = JWT.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", signature.replacen('n', "m", 1));
    let (unchecked, _) = cost("no token");
    for (token, expected) in [(JWT, 202), (&*forged, 401)] {
        let (work, status) = cost(token);
        assert_eq!(status, expected);
        assert!(work >= unchecked + Work::SIGNATURE_CHECK.0, "{work}, without a check {unchecked}");
    }
    // Nothing is checked that no provider has signed.
    let (unknown, status) = cost("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2Vsc2V3aGVyZSJ9.AAAA");
    assert_eq!(status, 401);
    assert!(unknown < Work::SIGNATURE_CHECK.0, "{unknown}");
}

#[test]
fn a_selector_costs_its_compilation() {
    let cost = |selector: &str| {
        let (mut world, client) = subscribers::world();
        let source = selecting(Source::new("q"), "jms-selector", NAMED, selector);
        let before = world.clients[client].gateway.work_done();
        subscribers::attach(&mut world, client, 5, "r", Some(source)).unwrap();
        world.clients[client].gateway.work_done().0 - before.0
    };
    let (short, long) = ("a = 1", "a = 1 OR a = 2 OR a = 3 OR a = 4");
    assert_eq!(cost(long) - cost(short), (long.len() - short.len()) as u64);
}

#[test]
fn the_end_of_the_stream_comes_after_the_rest_of_the_input() {
    let (mut world, client) = world();
    for number in 0..10 {
        act(&mut world, client, (0, 2 * number));
    }
    world.script(client).close(None);
    world.budgets = Some(Box::new(|| WorkBudget::new(Work(1))));
    world.run();
    assert_eq!(world.active("q"), 5 + 10, "all were sent before the close, which gives back those it held");
    assert!(world.clients[client].gateway.is_closed());
    assert!(!world.clients[client].gateway.has_more_input());
}

#[test]
fn a_client_is_served_although_each_turn_handles_one_frame() {
    let mut world = World::new();
    world.budgets = Some(Box::new(|| WorkBudget::new(Work(1))));
    let client = world.service_bus();
    world.put_token(client, "amqp://localhost", TOKEN);
    let reply = world.transfers(client).pop().unwrap();
    assert_eq!(status(&reply.1, "status-code"), 202);
    world.send(client, "q", &["a"]);
    assert_eq!(world.receive(client, "q", 1).len(), 1);
}
