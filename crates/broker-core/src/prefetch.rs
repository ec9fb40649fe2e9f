//! Prefetch of the memory that the next steps will read, where many sessions make cache misses likely.
//!
//! A step alone waits for three or four cache misses, one after the other. The misses of several steps overlap and take
//! hardly longer than those of one.
//!
//! Invariant: changes nothing, and no answer depends on it.

use std::hint::black_box;

use crate::{
    Command,
    entity::table::EntityTable,
    id_map::IdMap,
    link::client::Consumer,
    store::{
        Store,
        sessions::Sessions,
        slot::{ConsumerNumber, Slot},
    },
};

/// Steps that are prefetched together.
pub(crate) const AHEAD: usize = 16;
/// With fewer sessions than this everything is near already.
const FAR_SESSIONS: usize = 512;

/// Sessions of a store, if there are so many that they are far.
fn far(store: &Store) -> Option<&Sessions> {
    store.sessions.as_deref().filter(|sessions| sessions.len() >= FAR_SESSIONS)
}

/// Looks at the sessions that the next commands are about.
pub(crate) fn prefetch_commands(entities: &EntityTable, next: &[Command]) {
    let queue = match next {
        [Command::Publish { queue, message, .. }, _, ..] if message.session_id.is_some() => queue,
        [Command::Settle { queue, .. }, _, ..] => queue,
        _ => return,
    };
    let Some((store, sessions)) = entities.stores.get(queue).and_then(|store| Some((store, far(store)?)))
    else {
        return;
    };
    let mut numbers = [None; AHEAD];
    for (number, command) in numbers.iter_mut().zip(next) {
        *number = match command {
            Command::Publish { message, .. } => message.session_id.as_ref().and_then(|id| sessions.find(id)),
            Command::Settle { sequence, .. } => store.slots.get(sequence.0).map(Slot::session),
            _ => None,
        };
    }
    black_box(numbers.iter().flatten().map(|number| sessions.prefetch(*number)).fold(0, u64::wrapping_add));
}

/// Looks at the holders of the sessions that are next in turn.
pub(crate) fn prefetch_holders(store: &Store, consumers: &IdMap<ConsumerNumber, Consumer>) {
    let Some(sessions) = far(store) else { return };
    let holders = sessions.consumers_in_turn().take(AHEAD);
    let glances = holders.filter_map(|number| consumers.get(&number)).map(Consumer::prefetch);
    black_box(glances.fold(0, u64::wrapping_add));
}
