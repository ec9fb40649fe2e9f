//! Deletion of what a namespace holds, in bounded steps.
//!
//! Invariant: the namespace is recorded as deleted when all records of its entities are given back; until then its slot
//! and its name are taken. A restart goes on where it was.

use broker_core::{ClientId, Command, EntityKind, Ticket, Timestamp};

use super::core::NamespaceCore;
use crate::core_output::{NodeOutput, RoundLimit};

/// Entities of one namespace that are deleted in one round.
const ENTITIES_MAX: usize = 64;
/// The client in whose name they are. It is no connection, and its answers are for nobody.
const DELETER: ClientId = ClientId(u64::MAX - 1);

/// Deletes entities of a namespace that is being deleted. True while there is something left of them.
pub(crate) fn delete_entities(
    core: &mut NamespaceCore,
    now: Timestamp,
    out: &mut NodeOutput,
    round: RoundLimit,
) -> bool {
    // Subscriptions go with their topics.
    let owners = core.core().entities().filter(|entity| entity.kind != EntityKind::Subscription);
    let names: Vec<Box<str>> = owners.take(ENTITIES_MAX).map(|entity| entity.name.into()).collect();
    let is_left = !names.is_empty() || core.core().has_unreleased_records();
    for name in names {
        if core.is_full(out, round) {
            break;
        }
        let command = Command::DeleteEntity { name, expected: None, ticket: Ticket(0) };
        core.handle_own(now, (DELETER, command), out, round);
    }
    is_left
}
