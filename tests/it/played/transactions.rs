//! Transactions, over several entities and with management.

use super::driver::{Driver, message, message_of};
use crate::replayed::broker_with;

const ACCEPTED: &str = "accepted()";
const DONE: &str = r#"{"statusCode": 200i32}"#;

#[test]
fn scripted_dotnet_cancels_a_schedule_in_a_transaction_that_is_rolled_back() {
    let broker = broker_with(&["q"]);
    let mut driver = Driver::connect(&broker, 1);
    let channel = driver.session();
    let control = driver.controller(channel);
    let node = driver.management("q");
    let schedule = r#"{"messages": [{"message-id": "m", "message": encoded(
        message-annotations {'x-opt-scheduled-enqueue-time': 2208988800000ms} properties(message-id: "m") data b"m")}]}"#;
    let number = r#"{"statusCode": 200i32} value {"sequence-numbers": array[$number]}"#;
    driver.request(&node, "schedule-message", None, schedule, number);
    let cancel = r#"{"sequence-numbers": array[$number]}"#;
    for _ in 0..2 {
        let txn = driver.declare(&control);
        driver.request(&node, "cancel-scheduled-message", Some(txn), cancel, DONE);
        driver.discharge(&control, txn, true);
    }
    let peek = r#"{"from-sequence-number": 0i64, "message-count": 5i32}"#;
    let there = r#"{"statusCode": 200i32} value {"messages": [{"message": encoded(data b"m")}]}"#;
    driver.request(&node, "peek-message", None, peek, there);
    let txn = driver.declare(&control);
    driver.request(&node, "cancel-scheduled-message", Some(txn), cancel, DONE);
    driver.discharge(&control, txn, false);
    let gone = r#"{"statusCode": 404i32, "errorCondition": 'com.microsoft:message-not-found'}"#;
    driver.request(&node, "cancel-scheduled-message", None, cancel, gone);
    driver.close();
}

#[test]
fn scripted_dotnet_receives_first_and_rolls_back_abandons_receives_and_commits_on_one_link() {
    let broker = broker_with(&["q", "p"]);
    let mut driver = Driver::connect(&broker, 1);
    let channel = driver.session();
    let control = driver.controller(channel);
    let mut link = driver.receiver(channel, "q");
    let (to_q, to_p) = (driver.sender(channel, "q"), driver.sender(channel, "p"));
    driver.send(&to_q, None, &message("in"), ACCEPTED);
    let first = driver.receive(&mut link, 0, "in");
    let txn = driver.declare(&control);
    driver.complete_in(&first, txn);
    driver.send(&to_p, Some(txn), &message("never"), ACCEPTED);
    driver.discharge(&control, txn, true);
    driver.settle(&first, "modified()");
    let second = driver.receive(&mut link, 1, "in");
    let txn = driver.declare(&control);
    driver.complete_in(&second, txn);
    driver.send(&to_p, Some(txn), &message("out"), ACCEPTED);
    driver.discharge(&control, txn, false);
    driver.is_settled(&second);
    driver.drain(&mut link, 1);
    let other = driver.session();
    let mut reader = driver.receiver(other, "p");
    let out = driver.receive(&mut reader, 0, "out");
    driver.settle(&out, ACCEPTED);
    driver.drain(&mut reader, 1);
    driver.close();
}

impl Driver<'_> {
    /// The attach of a receiver is refused as not allowed.
    fn receiver_in_vain(&mut self, channel: u16, entity: &str) {
        self.authorize(entity);
        let (handle, name) = self.attach(channel, entity, "", "");
        self.play(&format!(
            r#"< {channel} attach(name: "{name}", role: false, source: null, target: null)
< {channel} detach(handle: {handle}, closed: true, error: error(condition: 'amqp:not-allowed'))
> {channel} detach(handle: {handle}, closed: true)
"#
        ));
    }
}

#[test]
fn scripted_dotnet_sends_first_and_receives_from_another_entity_on_a_new_session_alone() {
    let broker = broker_with(&["q", "p"]);
    let mut driver = Driver::connect(&broker, 1);
    let channel = driver.session();
    let control = driver.controller(channel);
    let to_p = driver.sender(channel, "p");
    let txn = driver.declare(&control);
    driver.send(&to_p, Some(txn), &message("first"), ACCEPTED);
    driver.discharge(&control, txn, false);
    driver.receiver_in_vain(channel, "q");
    // The session and its transactions go on.
    let to_q = driver.sender(channel, "q");
    let txn = driver.declare(&control);
    driver.send(&to_p, Some(txn), &message("second"), ACCEPTED);
    driver.send(&to_q, Some(txn), &message("in"), ACCEPTED);
    driver.discharge(&control, txn, false);
    let mut of_p = driver.receiver(channel, "p");
    for text in ["first", "second"] {
        let delivery = driver.receive(&mut of_p, 0, text);
        driver.settle(&delivery, ACCEPTED);
    }

    let channel = driver.session();
    let control = driver.controller(channel);
    let mut of_q = driver.receiver(channel, "q");
    let to_p = driver.sender(channel, "p");
    let delivery = driver.receive(&mut of_q, 0, "in");
    let txn = driver.declare(&control);
    driver.complete_in(&delivery, txn);
    driver.send(&to_p, Some(txn), &message("out"), ACCEPTED);
    driver.discharge(&control, txn, false);
    driver.is_settled(&delivery);
    let out = driver.receive(&mut of_p, 0, "out");
    driver.settle(&out, ACCEPTED);
    driver.close();
}

#[test]
fn scripted_dotnet_completes_rolls_back_and_completes_again_on_one_session_link() {
    let broker = broker_with(&["s/sessions"]);
    let mut driver = Driver::connect(&broker, 1);
    let (controls, sending) = (driver.session(), driver.session());
    let control = driver.controller(controls);
    let sender = driver.sender(sending, "s");
    driver.send(&sender, None, &message_of("alpha", "in"), ACCEPTED);
    let mut link = driver.accept("s", Some("alpha"), "alpha");
    let delivery = driver.receive(&mut link, 0, "in");
    for fail in [true, true, false] {
        let txn = driver.declare(&control);
        driver.complete_in(&delivery, txn);
        driver.discharge(&control, txn, fail);
    }
    driver.is_settled(&delivery);
    driver.drain(&mut link, 1);
    driver.close();
}

#[test]
fn scripted_dotnet_uses_one_sender_inside_and_outside_of_a_transaction_at_once() {
    let broker = broker_with(&["q"]);
    let mut driver = Driver::connect(&broker, 1);
    let channel = driver.session();
    let control = driver.controller(channel);
    let sender = driver.sender(channel, "q");
    let txn = driver.declare(&control);
    driver.send(&sender, Some(txn), &message("inside"), ACCEPTED);
    driver.send(&sender, None, &message("outside"), ACCEPTED);
    driver.send(&sender, Some(txn), &message("inside too"), ACCEPTED);
    let receiving = driver.session();
    let mut link = driver.receiver(receiving, "q");
    let outside = driver.receive(&mut link, 0, "outside");
    driver.settle(&outside, ACCEPTED);
    driver.drain(&mut link, 1);
    driver.discharge(&control, txn, false);
    for text in ["inside", "inside too"] {
        let inside = driver.receive(&mut link, 0, text);
        driver.settle(&inside, ACCEPTED);
    }
    driver.close();
}

#[test]
fn scripted_dotnet_is_refused_the_transaction_of_another_client_whose_commit_is_still_good() {
    let broker = broker_with(&["q"]);
    let (mut first, mut second) = (Driver::connect(&broker, 1), Driver::connect(&broker, 2));
    let channel = first.session();
    let control = first.controller(channel);
    let sender = first.sender(channel, "q");
    let txn = first.declare(&control);
    first.send(&sender, Some(txn), &message("mine"), ACCEPTED);

    let foreign = second.session();
    second.controller(foreign);
    let intruder = second.sender(foreign, "q");
    second.learn("txn9", &first, &format!("txn{txn}"));
    second.play(&format!(
        r#"> {foreign} transfer(handle: {handle}, delivery-id: 0, delivery-tag: b"\x01\x00\x00\x00", message-format: 0,
    more: false, state: transactional-state(txn-id: $txn9), batchable: false)
    properties(message-id: "foreign") data b"foreign"
< {foreign} disposition(role: true, first: 0, last: 0, settled: true,
    state: rejected(error: error(condition: 'amqp:transaction:unknown-id')))
"#,
        handle = intruder.handle
    ));
    second.close();

    first.discharge(&control, txn, false);
    let receiving = first.session();
    let mut link = first.receiver(receiving, "q");
    let mine = first.receive(&mut link, 0, "mine");
    first.settle(&mine, ACCEPTED);
    first.drain(&mut link, 1);
    first.close();
}
