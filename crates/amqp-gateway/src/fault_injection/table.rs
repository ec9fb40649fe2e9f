//! Fault table: faults that a tester injects.
//!
//! Invariant: a fault strikes at most as often as was ordered, and never after its time; the table is bounded.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use broker_auth::Scope;
use broker_core::Timestamp;

/// Faults that may be ordered at the same time.
pub const FAULTS_MAX: usize = 100;

/// Kind of an injected fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// A settlement finds its lock lost; the message goes back and counts a delivery, as after a real loss.
    LoseLock,
    /// Sends and attaches are refused as `server-busy`.
    ServerBusy,
    /// Links are detached, open ones and new ones.
    DropLink,
    /// Connections end without a word, open ones with a link to the entity and those that attach one.
    DropConnection,
    /// A settlement is answered with an internal error, and its message stays locked.
    RejectSettlement,
    /// Settlements are held up for this long.
    DelaySettlement(Duration),
}

/// A fault, where, and how often or how long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Kind of an injected fault.
    pub kind: FaultKind,
    /// Scope of the fault, with everything below; the root is the whole namespace.
    pub scope: Scope,
    /// Remaining strikes; `None`: unlimited.
    pub left: Option<u64>,
    /// Until when; `None`: until it has struck as often as it may.
    pub until: Option<Timestamp>,
}

/// There are [`FAULTS_MAX`] faults already.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there are {FAULTS_MAX} faults already, clear some")]
pub struct TooManyFaults;

/// The faults of one broker, shared by its connections.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    faults: Vec<(u64, Fault)>,
    last: u64,
}

impl Faults {
    /// Orders a fault, and says its number.
    pub fn order(&self, fault: Fault, now: Timestamp) -> Result<u64, TooManyFaults> {
        let mut table = self.table(now);
        if table.faults.len() >= FAULTS_MAX {
            return Err(TooManyFaults);
        }
        table.last += 1;
        let number = table.last;
        table.faults.push((number, fault));
        Ok(number)
    }

    /// Those that can still strike, in the order in which they were ordered.
    pub fn list(&self, now: Timestamp) -> Vec<(u64, Fault)> {
        self.table(now).faults.clone()
    }

    /// Takes back one fault, or all; says how many.
    pub fn clear(&self, number: Option<u64>, now: Timestamp) -> usize {
        let mut table = self.table(now);
        let before = table.faults.len();
        table.faults.retain(|(known, _)| number.is_some_and(|number| number != *known));
        before - table.faults.len()
    }

    /// Has the oldest fault strike that is `wanted` and reaches `place`.
    pub(crate) fn strike(
        &self,
        now: Timestamp,
        place: &str,
        wanted: impl Fn(FaultKind) -> bool,
    ) -> Option<FaultKind> {
        let mut table = self.table(now);
        if table.faults.is_empty() {
            return None;
        }
        let place = Scope::of_name(place);
        let mut all = table.faults.iter_mut();
        let (_, fault) = all.find(|(_, fault)| wanted(fault.kind) && fault.scope.covers(&place))?;
        if let Some(left) = &mut fault.left {
            *left = left.saturating_sub(1);
        }
        Some(fault.kind)
    }

    /// The table without what is over.
    fn table(&self, now: Timestamp) -> MutexGuard<'_, Table> {
        // Nothing that is done under this lock panics.
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table
            .faults
            .retain(|(_, fault)| fault.left != Some(0) && fault.until.is_none_or(|until| now < until));
        table
    }
}

#[cfg(test)]
mod tests;
