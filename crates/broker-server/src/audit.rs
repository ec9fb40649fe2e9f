//! The audit log: who changed what, from where, and whether it was done. Lines of the target `ferrybus::audit`, each
//! with the same fields: `docs/features/audit.md`.
//!
//! Invariant: no secret and no payload is part of a line; names that a client chose are quoted, and a line is short
//! with names of any length. Every change that was done is logged; refused ones are limited per minute.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use amqp_gateway::{Admission, AuditEvent, LoginRecord, RateLimit};
use tracing::info;

use crate::{clock, metrics::Metrics};

mod login;
mod text;

pub(crate) use login::LoginEntry;
pub(crate) use text::short;

use text::TARGET;

/// One line of the audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Name of the key, user or subject; `None` for a client that is not known.
    pub(crate) who: Option<&'a str>,
    /// Address of the client.
    pub(crate) from: SocketAddr,
    /// Requested action.
    pub(crate) action: &'a str,
    /// The namespace; empty for what is about the whole broker.
    pub(crate) namespace: &'a str,
    /// The entity, or what else it is about.
    pub(crate) entity: &'a str,
    /// Object of the action besides its entity.
    pub(crate) subject: &'a str,
    /// Reason of a refusal; `None`: it is done.
    pub(crate) refused: Option<&'a str>,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Audit {
    /// One limit for known clients and one for unknown ones, so that a client without a key cannot hide the attempts of
    /// one with a key.
    limits: Mutex<[RateLimit; 2]>,
    per_minute: u32,
    metrics: Arc<Metrics>,
}

impl Audit {
    /// Logs so many refused attempts per minute of known clients, and as many of all others.
    pub(crate) fn new(per_minute: u32, metrics: Arc<Metrics>) -> Self {
        let limits = Mutex::new([RateLimit::new(per_minute), RateLimit::new(per_minute)]);
        Self { limits, per_minute, metrics }
    }

    /// Writes a line, unless too many like it were refused.
    pub(crate) fn write(&self, entry: Entry<'_>) {
        if entry.refused.is_none() {
            return entry.write(0);
        }
        let who = entry.who.filter(|who| !who.is_empty());
        self.rate_limited(who, entry.from, |others| entry.write(others));
    }

    /// Has the line of a refused attempt written, or says once that such lines are left out.
    fn rate_limited(&self, who: Option<&str>, from: SocketAddr, write: impl FnOnce(u64)) {
        match self.attempt(who.is_some()) {
            Admission::Logged { others } => write(others),
            Admission::FirstLeftOut => {
                self.metrics.attempts_left_out.inc();
                let reason = format!("more than {} in a minute", self.per_minute);
                let (action, refused) = ("attempts-left-out", Some(&*reason));
                Entry { who, from, action, namespace: "", entity: "", subject: "", refused }.write(0);
            }
            Admission::LeftOut => drop(self.metrics.attempts_left_out.inc()),
        }
    }

    fn attempt(&self, is_known: bool) -> Admission {
        let now = clock::instant();
        let [known, others] = &mut *self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known { known.attempt(now) } else { others.attempt(now) }
    }

    /// Counts a refused log-in, and writes its line unless there are too many.
    pub(crate) fn refuse_login(&self, entry: LoginEntry<'_>) {
        self.metrics.refuse_login(entry.mechanism, entry.refused.reason.name());
        let who = entry.who.filter(|who| !who.is_empty());
        self.rate_limited(who, entry.from, |others| entry.write(others));
    }

    /// The same for the log-ins that a connection of AMQP was refused.
    pub(crate) fn refuse_logins(&self, from: SocketAddr, logins: &[LoginRecord]) {
        for LoginRecord { namespace, mechanism, refused, entity } in logins {
            let (who, subject) = (None, "");
            self.refuse_login(LoginEntry { who, from, namespace, mechanism, refused, entity, subject });
        }
    }

    /// Writes what a connection of AMQP has changed.
    pub(crate) fn write_notes(&self, from: SocketAddr, notes: &[AuditEvent]) {
        for note in notes {
            let subject = note.subject.as_deref().unwrap_or("");
            self.write(Entry {
                who: Some(&note.who),
                from,
                action: note.action,
                namespace: &note.namespace,
                entity: &note.entity,
                subject,
                refused: note.refused,
            });
        }
    }
}

impl Entry<'_> {
    /// Writes the line; so many like it were refused before and not told.
    fn write(self, others: u64) {
        let Self { who, from, action, namespace, entity, subject, refused } = self;
        let who = who.unwrap_or("");
        let result = if refused.is_some() { "refused" } else { "done" };
        let reason = refused.unwrap_or("");
        let (entity, subject) = (short(entity), short(subject));
        info!(target: TARGET, who, from = %from, action, namespace, entity, subject, result, reason, others, "administration");
    }
}

#[cfg(test)]
mod tests;
