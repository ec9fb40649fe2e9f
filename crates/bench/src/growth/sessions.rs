//! Messages of sessions that all have a holder.
//!
//! Invariant: as many connections and messages at once however many sessions there are.

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;
use amqp_codec::raw::{AnnotationValue, RawMap};
use amqp_codec::sections::PropertyField;

use super::client::{BATCH, Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

/// Connections that hold the sessions.
const HOLDERS: u64 = 10;

pub(super) fn configuration(_: u64) -> String {
    "[[queue]]\nname = \"q\"\nrequires_session = true\nlock_duration = \"5m\"\n".to_owned()
}

/// Ids of one length, so that they fit one template.
fn id(session: u64) -> String {
    format!("session-{session:08}")
}

pub(super) fn measure(running: &Running, sessions: u64) -> Fallible<Cost> {
    let mut holders = Vec::new();
    for holder in 0..HOLDERS {
        let mut client = Client::connect(running.port())?;
        for (handle, session) in (0..).zip((holder..sessions).step_by(10)) {
            let id = id(session);
            let filter =
                RawMap::with_symbol_keys(&[("com.microsoft:session-filter", AnnotationValue::Str(&id))]);
            client.receiver(handle, "q", Some(filter), false)?;
        }
        holders.push((client, 0));
    }
    let message = MessageBuilder::new()
        .property(PropertyField::GroupId, AnnotationValue::Str(&id(0)))
        .data(b"sixteen bytes ..")
        .build();
    let template = Template::new(0, &message, id(0).as_bytes(), None);
    let mut sender = Client::connect(running.port())?;
    sender.sender(0, Target::new("q"))?;
    let (mut messages, mut next) = (0, 0);
    let mut meter = Meter::start(running)?;
    let mut warm = false;
    while meter.elapsed() < MEASURED || !warm {
        if !warm && meter.elapsed() > MEASURED / 2 {
            (meter, messages, warm) = (Meter::start(running)?, 0, true);
        }
        let batch = (next..next + u64::from(BATCH)).map(|session| session % sessions);
        for session in batch.clone() {
            let holder = usize::try_from(session % HOLDERS)?;
            if let Some((_, expected)) = holders.get_mut(holder) {
                *expected += 1;
            }
        }
        sender.send(&template, batch.map(id))?;
        for (client, expected) in &mut holders {
            client.receive(*expected)?;
        }
        next = (next + u64::from(BATCH)) % sessions;
        messages += u64::from(BATCH);
    }
    meter.cost(messages)
}
