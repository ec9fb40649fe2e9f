//! Messages to a topic whose subscriptions want one value each.
//!
//! Invariant: every message is copied once.

use std::fmt::Write as _;

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;
use amqp_codec::raw::AnnotationValue;

use super::client::{BATCH, Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

pub(super) fn correlation(subscriptions: u64) -> String {
    configuration(subscriptions, |number| {
        format!("correlation = {{ properties = {{ region = \"r{number}\" }} }}")
    })
}

pub(super) fn sql(subscriptions: u64) -> String {
    configuration(subscriptions, |number| format!("sql = \"region = 'r{number}' AND amount > 10\""))
}

fn configuration(subscriptions: u64, filter: impl Fn(u64) -> String) -> String {
    let mut text = "[limits]\nmax_entities = 20000\n[[topic]]\nname = \"t\"\n".to_owned();
    for number in 0..subscriptions {
        let filter = filter(number);
        write!(text, "[[topic.subscription]]\nname = \"s{number}\"\n[[topic.subscription.rule]]\nname = \"r\"\n{filter}\n")
            .unwrap_or_default();
    }
    text
}

pub(super) fn measure(running: &Running, _: u64) -> Fallible<Cost> {
    let message = MessageBuilder::new()
        .message_id("id")
        .application_property("region", AnnotationValue::Str("r0"))
        .application_property("amount", AnnotationValue::Int(500))
        .data(&[7; 1_024])
        .build();
    let template = Template::new(0, &message, b"", None);
    let mut client = Client::connect(running.port())?;
    client.sender(0, Target::new("t"))?;
    client.send(&template, vec![[]; BATCH as usize])?;
    let meter = Meter::start(running)?;
    let mut messages = 0;
    while meter.elapsed() < MEASURED {
        client.send(&template, vec![[]; BATCH as usize])?;
        messages += u64::from(BATCH);
    }
    meter.cost(messages)
}
