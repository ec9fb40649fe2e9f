//! Open transactions in the models.
//!
//! Invariant: after a refusal, or past its time, a transaction takes nothing more and nothing of it is kept.

use std::{collections::BTreeMap, time::Duration};

use crate::{CoreConfig, LockToken};

/// Longest duration of a transaction in the models, from its first operation, in milliseconds.
pub(super) const TIME_OUT: u64 = 500;

pub(super) fn config() -> CoreConfig {
    CoreConfig {
        token_key: [7; 16],
        transaction_time_out: Duration::from_millis(TIME_OUT),
        ..CoreConfig::default()
    }
}

/// A transaction with what was sent (`S`), and what is done (`D`) to which message (`M`).
#[derive(Clone, Debug)]
pub(super) struct Open<S, M, D> {
    pub(super) sent: Vec<S>,
    pub(super) settled: Vec<(M, LockToken, D)>,
    began: Option<u64>,
    /// It can only be rolled back.
    pub(super) over: bool,
}

impl<S, M, D> Default for Open<S, M, D> {
    fn default() -> Self {
        Self { sent: Vec::new(), settled: Vec::new(), began: None, over: false }
    }
}

/// All of them, by name.
#[derive(Clone, Debug)]
pub(super) struct AllOpen<S, M, D>(BTreeMap<u64, Open<S, M, D>>);

impl<S, M, D> Default for AllOpen<S, M, D> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S, M, D> AllOpen<S, M, D> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open<S, M, D>> {
        self.0.values()
    }

    /// Whether the name was free.
    pub(super) fn declare(&mut self, name: u64) -> bool {
        let is_new = !self.0.contains_key(&name);
        self.0.entry(name).or_default();
        is_new
    }

    /// Whether the transaction still takes something.
    pub(super) fn takes(&self, name: u64) -> bool {
        self.0.get(&name).is_some_and(|open| !open.over)
    }

    /// The transaction, if it still takes something; its time runs from now on if it did not run before.
    pub(super) fn joined(&mut self, name: u64, now: u64) -> Option<&mut Open<S, M, D>> {
        let open = self.0.get_mut(&name).filter(|open| !open.over)?;
        open.began.get_or_insert(now);
        Some(open)
    }

    /// Whether a message waits for a commit under this lock.
    pub(super) fn waits(&self, token: LockToken) -> bool {
        self.iter().any(|open| open.settled.iter().any(|(_, waiting, _)| *waiting == token))
    }

    /// Settlement in the transaction under this lock.
    pub(super) fn settlement(&mut self, name: u64, token: LockToken) -> Option<&mut (M, LockToken, D)> {
        self.0.get_mut(&name)?.settled.iter_mut().find(|(_, waiting, _)| *waiting == token)
    }

    /// Says what it would have settled.
    pub(super) fn spoil(&mut self, name: u64) -> Vec<(M, LockToken, D)> {
        let open = self.0.get_mut(&name);
        open.map(|open| std::mem::replace(open, Open { over: true, ..Open::default() }).settled)
            .unwrap_or_default()
    }

    /// Times transactions out, and returns the settlements of those whose time is over.
    pub(super) fn time_out(&mut self, now: u64) -> Vec<(M, LockToken, D)> {
        let late = |open: &Open<S, M, D>| open.began.is_some_and(|began| began + TIME_OUT <= now);
        let late: Vec<u64> = self.0.iter().filter(|(_, open)| late(open)).map(|(name, _)| *name).collect();
        late.into_iter().flat_map(|name| self.spoil(name)).collect()
    }

    pub(super) fn remove(&mut self, name: u64) -> Option<Open<S, M, D>> {
        self.0.remove(&name)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
