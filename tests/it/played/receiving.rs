//! Receivers: waits that are given up, drains at the end, and completions in great number.

use super::driver::{Driver, message};
use crate::replayed::broker_with;

const ACCEPTED: &str = "accepted()";

#[test]
fn scripted_dotnet_loses_nothing_with_receives_that_are_cancelled() {
    let broker = broker_with(&["q"]);
    let mut driver = Driver::connect(&broker, 1);
    let (sending, receiving) = (driver.session(), driver.session());
    let sender = driver.sender(sending, "q");
    let mut link = driver.receiver(receiving, "q");
    // Before anything is there.
    driver.flow(&link, 10, false);
    driver.drain(&mut link, 10);
    for text in ["one", "two", "three"] {
        driver.send(&sender, None, &message(text), ACCEPTED);
    }
    // While messages are on their way: the client gives back what has come, settled.
    driver.flow(&link, 10, false);
    let came = ["one", "two", "three"].map(|text| driver.delivery(&mut link, 0, text));
    driver.drain(&mut link, 7);
    for delivery in &came {
        driver.release(delivery);
    }
    for text in ["one", "two", "three"] {
        let again = driver.receive(&mut link, 0, text);
        driver.settle(&again, ACCEPTED);
    }
    driver.drain(&mut link, 1);
    driver.close();
}

#[test]
fn scripted_dotnet_drains_a_hundred_receivers_as_they_close_and_counts_nothing() {
    let broker = broker_with(&["q"]);
    let mut driver = Driver::connect(&broker, 1);
    let sending = driver.session();
    let sender = driver.sender(sending, "q");
    driver.send(&sender, None, &message("m"), ACCEPTED);
    for _ in 0..100 {
        let channel = driver.session();
        let mut link = driver.receiver(channel, "q");
        driver.flow(&link, 10, false);
        let delivery = driver.delivery(&mut link, 0, "m");
        driver.drain(&mut link, 9);
        driver.release(&delivery);
        driver.detach(&link);
        driver.play(&format!("> {channel} end()\n< {channel} end()\n"));
    }
    // The SDK's `DeliveryCount` is one more than what the header says.
    let channel = driver.session();
    let mut link = driver.receiver(channel, "q");
    let delivery = driver.receive(&mut link, 0, "m");
    driver.settle(&delivery, ACCEPTED);
    driver.drain(&mut link, 1);
    driver.close();
}

#[test]
fn scripted_dotnet_completes_a_thousand_messages_at_once() {
    let broker = broker_with(&["q"]);
    let mut driver = Driver::connect(&broker, 1);
    let (sending, receiving) = (driver.session(), driver.session());
    let sender = driver.sender(sending, "q");
    for _ in 0..10 {
        let batch: String = (0..100).map(|_| "data encoded(data b\"m\")\n    ").collect();
        driver.send_batch(&sender, &batch);
    }
    let mut link = driver.receiver(receiving, "q");
    driver.flow(&link, 1000, false);
    let came: Vec<_> = (0..1000).map(|_| driver.delivery_of_anything(&mut link, 0)).collect();
    // From many threads: ranges and single ones, the last first.
    let mut steps = String::new();
    for (first, last) in [(990, 999), (500, 989), (100, 499)] {
        steps.push_str(&Driver::completion(&came[first], &came[last]));
    }
    for delivery in came[..100].iter().rev() {
        steps.push_str(&Driver::completion(delivery, delivery));
    }
    steps.push_str(&Driver::completed(&came[0], &came[999]));
    driver.play(&steps);
    driver.drain(&mut link, 1);
    driver.close();
}
