//! The audit log: who changed what, from where, and whether it was done. Lines of the target `ferrybus::audit`, each with
//! the same fields: `docs/features/audit.md`.
//!
//! Invariant: no secret and no payload is part of a line; names that a client chose are quoted, and a line is short
//! whatever they are.

use std::net::SocketAddr;

use amqp_gateway::Note;
use tracing::info;

/// The target of all lines.
pub(crate) const TARGET: &str = "ferrybus::audit";

/// One line of the audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Name of the key, user or subject; `None`: nobody that is known.
    pub(crate) who: Option<&'a str>,
    /// Where the request came from.
    pub(crate) from: SocketAddr,
    /// What was asked for.
    pub(crate) action: &'a str,
    /// The entity, or what else it is about.
    pub(crate) entity: &'a str,
    /// What it is about besides.
    pub(crate) subject: &'a str,
    /// Why it was refused; `None`: it is done.
    pub(crate) refused: Option<&'a str>,
}

impl Entry<'_> {
    /// Writes the line.
    pub(crate) fn write(self) {
        let Self { who, from, action, entity, subject, refused } = self;
        let who = who.unwrap_or("");
        let result = if refused.is_some() { "refused" } else { "done" };
        let reason = refused.unwrap_or("");
        let (entity, subject) = (short(entity), short(subject));
        info!(target: TARGET, who, from = %from, action, entity, subject, result, reason, "administration");
    }
}

/// The beginning of a text that a client chose, who may not even be known.
fn short(text: &str) -> &str {
    text.char_indices().nth(NAME_CHARS_MAX).map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// Characters of a name that are told. Those of a rule with its subscription and topic have less.
const NAME_CHARS_MAX: usize = 512;

/// Writes what a connection of AMQP has changed.
pub(crate) fn write_notes(from: SocketAddr, notes: &[Note]) {
    for note in notes {
        let subject = note.subject.as_deref().unwrap_or("");
        Entry {
            who: Some(&note.who),
            from,
            action: note.action,
            entity: &note.entity,
            subject,
            refused: note.refused,
        }
        .write();
    }
}

#[cfg(test)]
mod tests;
