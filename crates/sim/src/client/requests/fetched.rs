//! What comes of asking for a deferred message by its number.
//!
//! Invariant: the answer has the message that was asked for, and the model sees it.

use amqp_codec::raw::RawMap;

use super::{Scene, words};
use crate::{
    model::{Age, Id, Place, Seen},
    reader,
};

/// A message under a lock that no link has.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) copy: (Id, Place),
    pub(super) token: [u8; 16],
}

/// Tells the model what came; the answer is what is locked now.
pub(super) fn read(
    body: Option<&RawMap>,
    (id, place): (Id, Place),
    (delete, first): (bool, Age),
    holder: u64,
    scene: &mut Scene<'_>,
) -> Result<Option<Fetched>, String> {
    let messages = words::messages(body).ok_or("an answer without messages")?;
    let [(payload, token)] = messages.as_slice() else { return Err("one number, one message".into()) };
    let read = reader::read(payload)?;
    // Numbers begin anew in an entity that is made again.
    if read.id != id && !scene.places.is_fleeting(place) {
        return Err(format!("message {} came under the number of {id}", read.id));
    }
    let locked_until = read.locked_until.filter(|_| !delete);
    let span = scene.model.found_at(place, first);
    let seen = Seen { by_number: true, locked_until, span, ..read.seen(place, holder, scene)? };
    scene.places.check_properties(seen.place, &read)?;
    scene.model.count("messages received by number");
    let live = scene.model.delivered(seen).map_err(|broken| broken.to_string())?;
    Ok((live && !delete).then_some(Fetched { copy: (seen.id, seen.place), token: *token }))
}
