//! Message pumps of frameworks: how each receives, fails, and moves messages with the .NET SDK below it.
//!
//! Their steps are read from the sources: `NServiceBus.Transport.AzureServiceBus` (`MessagePump`,
//! `AtomicProcessMessage`), `MassTransit.Azure.ServiceBus.Core` (`Receiver`, `ServiceBusMessageErrorTransport`) and
//! `Rebus.AzureServiceBus` (`AzureServiceBusTransport`, `MessageLockRenewer`).

use std::time::{SystemTime, UNIX_EPOCH};

use super::driver::{Driver, Link, message};
use crate::replayed::broker_with;

const ACCEPTED: &str = "accepted()";
const DONE: &str = r#"{"statusCode": 200i32}"#;
const MINUTE_MS: u64 = 60_000;

/// In this many milliseconds, in milliseconds since 1970.
fn due_in(millis: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap() + millis
}

/// The same message, to be enqueued at a time.
fn delayed(text: &str, due: u64) -> String {
    format!("message-annotations {{'x-opt-scheduled-enqueue-time': {due}ms}} {}", message(text))
}

/// Messages that somebody sends to a queue.
fn given(driver: &mut Driver<'_>, queue: &str, texts: &[&str]) {
    let channel = driver.session();
    let sender = driver.sender(channel, queue);
    for text in texts {
        driver.send(&sender, None, &message(text), ACCEPTED);
    }
}

/// A receiver of a queue on an AMQP session of its own.
fn reader(driver: &mut Driver<'_>, queue: &str) -> Link {
    let channel = driver.session();
    driver.receiver(channel, queue)
}

/// Takes these messages, and nothing is left.
fn takes(driver: &mut Driver<'_>, link: &mut Link, texts: &[&str]) {
    for text in texts {
        let delivery = driver.receive(link, 0, text);
        driver.settle(&delivery, ACCEPTED);
    }
    driver.drain(link, 1);
}

/// `SendsAtomicWithReceive`: what a handler sends and the completion of its message are one transaction, over several queues.
#[test]
fn scripted_nservicebus_pump_sends_with_the_receive_rolls_back_and_gives_up_to_the_error_queue() {
    let broker = broker_with(&["orders", "audit", "error"]);
    let mut driver = Driver::connect(&broker, 1);
    given(&mut driver, "orders", &["good", "bad"]);
    let channel = driver.session();
    let control = driver.controller(channel);
    let mut pump = driver.receiver(channel, "orders");
    let (to_orders, audit) = (driver.sender(channel, "orders"), driver.sender(channel, "audit"));
    driver.flow(&pump, 10, false);
    let good = driver.delivery(&mut pump, 0, "good");
    let bad = driver.delivery(&mut pump, 0, "bad");
    let txn = driver.declare(&control);
    driver.send(&audit, Some(txn), &message("good"), ACCEPTED);
    driver.complete_in(&good, txn);
    driver.discharge(&control, txn, false);
    driver.is_settled(&good);

    // The handler fails after it has sent: an immediate retry, counted by the broker.
    let txn = driver.declare(&control);
    driver.send(&audit, Some(txn), &message("never"), ACCEPTED);
    driver.discharge(&control, txn, true);
    driver.settle(&bad, "modified(delivery-failed: true)");
    let bad = driver.delivery(&mut pump, 1, "bad");

    // A delayed retry: a copy for later in place of the message.
    let txn = driver.declare(&control);
    let later = delayed("bad again", due_in(MINUTE_MS));
    driver.send(&to_orders, Some(txn), &later, ACCEPTED);
    driver.complete_in(&bad, txn);
    driver.discharge(&control, txn, false);
    driver.is_settled(&bad);
    driver.drain(&mut pump, 7);
    driver.play(&format!("! advance {MINUTE_MS}\n"));
    let bad = driver.receive(&mut pump, 0, "bad again");

    // No retry is left.
    let error = driver.sender(channel, "error");
    let txn = driver.declare(&control);
    driver.send(&error, Some(txn), &message("bad again"), ACCEPTED);
    driver.complete_in(&bad, txn);
    driver.discharge(&control, txn, false);
    driver.is_settled(&bad);
    driver.drain(&mut pump, 1);
    for (queue, texts) in [("audit", ["good"]), ("error", ["bad again"])] {
        let mut link = reader(&mut driver, queue);
        takes(&mut driver, &mut link, &texts);
    }
    driver.close();
}

/// A processor with prefetch; events come through a topic, a fault moves its message and is no transaction.
#[test]
fn scripted_masstransit_pump_consumes_published_events_moves_faults_and_cancels_what_it_scheduled() {
    let broker = broker_with(&["orders", "orders_error", "orders_skipped", "t", "t/Subscriptions/orders"]);
    let mut driver = Driver::connect(&broker, 1);
    let publishing = driver.session();
    let topic = driver.sender(publishing, "t");
    for text in ["taken", "faulty", "unknown"] {
        driver.send(&topic, None, &message(text), ACCEPTED);
    }
    let mut pump = reader(&mut driver, "t/Subscriptions/orders");
    driver.flow(&pump, 32, false);
    let [taken, faulty, unknown] =
        ["taken", "faulty", "unknown"].map(|text| driver.delivery(&mut pump, 0, text));
    driver.settle(&taken, ACCEPTED);
    for (delivery, queue, text) in
        [(&faulty, "orders_error", "faulty"), (&unknown, "orders_skipped", "unknown")]
    {
        let sending = driver.session();
        let to = driver.sender(sending, queue);
        driver.send(&to, None, &message(text), ACCEPTED);
        driver.settle(delivery, ACCEPTED);
        let mut link = reader(&mut driver, queue);
        takes(&mut driver, &mut link, &[text]);
    }

    let node = driver.management("orders");
    let due = due_in(MINUTE_MS);
    for (name, text) in [("kept", "reminder"), ("cancelled", "withdrawn")] {
        let body = format!(
            r#"{{"messages": [{{"message-id": "{text}", "message": encoded({})}}]}}"#,
            delayed(text, due)
        );
        let answer = format!(r#"{DONE} value {{"sequence-numbers": array[${name}]}}"#);
        driver.request(&node, "schedule-message", None, &body, &answer);
    }
    let cancel = r#"{"sequence-numbers": array[$cancelled]}"#;
    driver.request(&node, "cancel-scheduled-message", None, cancel, DONE);
    let mut link = reader(&mut driver, "orders");
    driver.drain(&mut link, 1);
    driver.play(&format!("! advance {MINUTE_MS}\n"));
    takes(&mut driver, &mut link, &["reminder"]);
    driver.drain(&mut pump, 29);
    driver.close();
}

/// A receiver with prefetch, whose locks the framework renews by itself; a failure gives the message back.
#[test]
fn scripted_rebus_pump_renews_locks_defers_messages_and_gives_up_to_the_error_queue() {
    let broker = broker_with(&["orders", "error"]);
    let mut driver = Driver::connect(&broker, 1);
    given(&mut driver, "orders", &["slow", "bad", "deferred"]);
    let mut pump = reader(&mut driver, "orders");
    let node = driver.management("orders");
    driver.flow(&pump, 3, false);
    let [slow, bad, deferred] = ["slow", "bad", "deferred"].map(|text| driver.delivery(&mut pump, 0, text));
    // The default lock of a minute, renewed twice in the middle, lasts for the handler's 90 s.
    for _ in 0..2 {
        driver.play("! advance 45000\n");
        for delivery in [&slow, &bad, &deferred] {
            let body = format!(r#"{{"lock-tokens": array[uuid({})]}}"#, delivery.tag());
            let answer = format!(r#"{DONE} value {{"expirations": array[?timestamp]}}"#);
            driver.request(&node, "renew-lock", None, &body, &answer);
        }
    }
    driver.settle(&slow, ACCEPTED);

    let sending = driver.session();
    let (own, error) = (driver.sender(sending, "orders"), driver.sender(sending, "error"));
    // The broker's clock is ahead by what the renewals took.
    let later = delayed("deferred for later", due_in(90_000 + MINUTE_MS));
    driver.send(&own, None, &later, ACCEPTED);
    driver.settle(&deferred, ACCEPTED);

    driver.settle(&bad, "modified(delivery-failed: true)");
    let bad = driver.receive(&mut pump, 1, "bad");
    driver.send(&error, None, &message("bad"), ACCEPTED);
    driver.settle(&bad, ACCEPTED);
    driver.drain(&mut pump, 1);
    driver.play(&format!("! advance {MINUTE_MS}\n"));
    takes(&mut driver, &mut pump, &["deferred for later"]);
    let mut link = reader(&mut driver, "error");
    takes(&mut driver, &mut link, &["bad"]);
    driver.close();
}
