//! Receiving a deferred message by its sequence number.
//!
//! Invariant: the answer has the message that was asked for, and the model sees it.

use amqp_codec::raw::RawMap;

use super::bodies;
use crate::{
    client::ClientContext,
    model::{EntityIndex, Id, Incarnation, ObservedDelivery},
    reader,
};

/// A message under a lock that no link has.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) copy: (Id, EntityIndex),
    pub(super) token: [u8; 16],
}

/// Tells the model what came; the answer is what is locked now.
pub(super) fn read(
    body: Option<&RawMap>,
    (id, entity): (Id, EntityIndex),
    (delete, first): (bool, Incarnation),
    holder: u64,
    cx: &mut ClientContext<'_>,
) -> Result<Option<Fetched>, String> {
    let messages = bodies::messages(body).ok_or("an answer without messages")?;
    let [(payload, token)] = messages.as_slice() else { return Err("one number, one message".into()) };
    let read = reader::read(payload)?;
    // Numbers begin anew in an entity that is made again.
    if read.id != id && !cx.topology.is_recreated(entity) {
        return Err(format!("message {} came under the number of {id}", read.id));
    }
    let locked_until = read.locked_until.filter(|_| !delete);
    let incarnations = cx.model.lifetimes.incarnations_since(entity, first);
    let observed = ObservedDelivery {
        by_number: true,
        locked_until,
        incarnations,
        ..read.observed(entity, holder, (&*cx.model, cx.topology), cx.now)?
    };
    read.check_properties(observed.entity, cx.topology)?;
    cx.model.count("messages received by number");
    let live = cx.model.delivered(observed).map_err(|broken| broken.to_string())?;
    Ok((live && !delete).then_some(Fetched { copy: (observed.id, observed.entity), token: *token }))
}
