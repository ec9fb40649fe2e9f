//! Messages to a topic that has many subscriptions.
//!
//! Invariant: every message is copied once, or once for every subscription where all match.

use std::fmt::Write as _;

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;
use amqp_codec::raw::AnnotationValue;

use super::client::{BATCH, Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

/// Copies that one run makes at most, for nobody takes them: some 300 MB.
const COPIES_MAX: u64 = 2_000_000;
/// Copies or tried filters of the messages that are sent before they are acknowledged.
const TOGETHER: u64 = 100_000;
const TOGETHER_MIN: u64 = 10;

pub(super) fn correlation(subscriptions: u64) -> String {
    configuration(subscriptions, |number| {
        rule(&format!("correlation = {{ properties = {{ region = \"r{number}\" }} }}"))
    })
}

pub(super) fn sql(subscriptions: u64) -> String {
    configuration(subscriptions, |number| rule(&format!("sql = \"region = 'r{number}' AND amount > 10\"")))
}

/// Filters that no index can serve: each has to be tried.
pub(super) fn tried(subscriptions: u64) -> String {
    configuration(subscriptions, |number| match number % 2 {
        0 => rule(&format!("sql = \"region LIKE '%r{number}'\"")),
        _ => rule(&format!("sql = \"amount * 2 - {number} = 1000\"")),
    })
}

/// Subscriptions without a rule of their own take everything.
pub(super) fn all(subscriptions: u64) -> String {
    configuration(subscriptions, |_| String::new())
}

fn configuration(subscriptions: u64, rule: impl Fn(u64) -> String) -> String {
    let mut text = "[limits]\nmax_entities = 20000\n[[topic]]\nname = \"t\"\n".to_owned();
    for number in 0..subscriptions {
        let rule = rule(number);
        write!(text, "[[topic.subscription]]\nname = \"s{number}\"\n{rule}").unwrap_or_default();
    }
    text
}

fn rule(filter: &str) -> String {
    format!("[[topic.subscription.rule]]\nname = \"r\"\n{filter}\n")
}

/// Cost of a message.
pub(super) fn measure(running: &Running, _: u64) -> Fallible<Cost> {
    send(running, BATCH, u64::MAX)
}

/// Cost of a filter that is evaluated, or of a copy that is made.
pub(super) fn measure_each(running: &Running, subscriptions: u64) -> Fallible<Cost> {
    let together = (TOGETHER / subscriptions).clamp(TOGETHER_MIN, u64::from(BATCH));
    let Cost { messages, cpu } = send(running, u32::try_from(together)?, COPIES_MAX / subscriptions)?;
    Ok(Cost { messages: messages * subscriptions, cpu })
}

fn send(running: &Running, together: u32, most: u64) -> Fallible<Cost> {
    let message = MessageBuilder::new()
        .message_id("id")
        .application_property("region", AnnotationValue::Str("r0"))
        .application_property("amount", AnnotationValue::Int(500))
        .data(&[7; 1_024])
        .build();
    let template = Template::new(0, &message, b"", None);
    let mut client = Client::connect(running.port())?;
    client.sender(0, Target::new("t"))?;
    client.send(&template, vec![[]; together as usize])?;
    let meter = Meter::start(running)?;
    let mut messages = 0;
    while meter.elapsed() < MEASURED && messages < most {
        client.send(&template, vec![[]; together as usize])?;
        messages += u64::from(together);
    }
    meter.cost(messages)
}
