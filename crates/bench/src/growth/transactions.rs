//! Messages sent in transactions, and without.
//!
//! Invariant: one waits for each ten messages, whether or not a transaction is around them.

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::{Declare, DeliveryState, Discharge, Target};
use amqp_codec::raw::RawValue;
use amqp_codec::types::Symbol;
use bytes::BytesMut;

use super::client::{Client, Meter, Template};
use super::{Cost, MEASURED, Running};
use crate::Fallible;

const TOGETHER: usize = 10;
const SENDER: u32 = 0;
const CONTROL: u32 = 1;

pub(super) fn configuration(_: u64) -> String {
    "[[queue]]\nname = \"q\"\n".to_owned()
}

pub(super) fn measure(running: &Running, together: u64) -> Fallible<Cost> {
    let message = MessageBuilder::new().message_id("id").data(&[7; 100]).build();
    let mut client = Client::connect(running.port())?;
    client.sender(SENDER, Target::new("q"))?;
    if together > 1 {
        let capabilities = vec![Symbol::from("amqp:local-transactions")];
        client.sender(CONTROL, Target::Coordinator { capabilities })?;
    }
    let plain = Template::new(SENDER, &message, b"", None);
    let meter = Meter::start(running)?;
    let mut messages = 0;
    while meter.elapsed() < MEASURED {
        if together > 1 {
            transaction(&mut client, &message)?;
        } else {
            client.send(&plain, [[]; TOGETHER])?;
        }
        messages += TOGETHER as u64;
    }
    meter.cost(messages)
}

/// Declares, sends, commits.
fn transaction(client: &mut Client, message: &[u8]) -> Fallible<()> {
    let control = |encode: &dyn Fn(&mut BytesMut)| {
        let mut body = BytesMut::new();
        encode(&mut body);
        let value = RawValue::first(&body).map_err(|error| format!("{error:?}"))?;
        let message = MessageBuilder::new().body_raw(value).build();
        Fallible::Ok(Template::new(CONTROL, &message, b"", None))
    };
    let declared = client.send(&control(&|body| Declare::default().encode(body))?, [[]])?;
    let DeliveryState::Declared { txn_id } = declared else { return Err("nothing was declared".into()) };
    let state = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: None };
    client.send(&Template::new(SENDER, message, b"", Some(state)), [[]; TOGETHER])?;
    let discharge = Discharge { txn_id, fail: false };
    client.send(&control(&|body| discharge.encode(body))?, [[]])?;
    Ok(())
}
