//! Messages that are sent and received, with others queued between.
//!
//! Invariant: as many messages at once however many are queued.

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;

use super::client::{BATCH, Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

pub(super) fn configuration(_: u64) -> String {
    "[[queue]]\nname = \"q\"\n".to_owned()
}

pub(super) fn measure(running: &Running, queued: u64) -> Fallible<Cost> {
    let message = MessageBuilder::new().message_id("id").data(&[7; 100]).build();
    let template = Template::new(0, &message, b"", None);
    let mut sender = Client::connect(running.port())?;
    sender.sender(0, Target::new("q"))?;
    let mut sent = 0;
    while sent < queued {
        sender.send(&template, vec![[]; BATCH as usize])?;
        sent += u64::from(BATCH);
    }
    let mut getter = Client::connect(running.port())?;
    getter.idle_receiver(0, "q", None, true)?;
    let mut received = 0;
    let meter = Meter::start(running)?;
    while meter.elapsed() < MEASURED {
        sender.send(&template, vec![[]; BATCH as usize])?;
        received += u64::from(BATCH);
        getter.grant(0, u32::try_from(received - u64::from(BATCH))?, BATCH)?;
        getter.receive(received)?;
    }
    meter.cost(received)
}
