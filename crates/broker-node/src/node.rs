//! The node: rounds of work, each a batch of commands, the deliveries that follow, and one journal position that
//! both wait for.
//!
//! Invariant: the same inputs in the same order give the same outputs; the journal's completions are inputs too.

use std::{collections::VecDeque, time::Duration};

use broker_core::{Batch, Command, Core, Outcome, ReplayError, Timestamp};
use broker_log::{CleanStep, IoDone, IoRequest, Journal, PoisonReason, Position, ReadError};

use crate::{Released, held::Held, outbox::Outbox, surroundings::Surroundings};

/// Bounds on one round of background work, so that commands never wait long behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NodeLimits {
    /// Bytes of the oldest segment looked at in one step of cleaning.
    pub clean_bytes: usize,
    /// Bytes handed to the disk and not yet written at which no more commands should be handled.
    pub unwritten_bytes_max: u64,
    /// How long a record may wait for others when no effect waits for it.
    pub flush_after: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self { clean_bytes: 256 << 10, unwritten_bytes_max: 64 << 20, flush_after: Duration::from_millis(10) }
    }
}

/// What ends a node: the process has to stop, and recover from what is on disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeFault {
    /// A write or sync failed.
    #[error("{0}")]
    Journal(PoisonReason),
    /// A record that was to be moved makes no sense.
    #[error(transparent)]
    Record(#[from] ReplayError),
}

/// Core, journal and held-back effects of one partition.
#[derive(Debug)]
pub struct Node {
    core: Core,
    journal: Journal,
    outbox: Outbox,
    held: Held,
    released: VecDeque<Released>,
    limits: NodeLimits,
    fault: Option<NodeFault>,
    /// What is appended up to there must be on its way to the disk by then, whether an effect waits for it or not.
    flush: Option<(Position, Timestamp)>,
    closing: bool,
}

impl Node {
    /// A node on what was replayed: tells the journal what lives, and lets the core settle in.
    pub(crate) fn start(mut core: Core, mut journal: Journal) -> Self {
        journal.set_live(core.live_records().map(|(at, length)| (Position(at.0), length)));
        let mut outbox = Outbox::default();
        core.recovered(&mut Surroundings { journal: &mut journal, outbox: &mut outbox });
        journal.commit();
        Self {
            core,
            journal,
            outbox,
            held: Held::default(),
            released: VecDeque::new(),
            limits: NodeLimits::default(),
            fault: None,
            flush: None,
            closing: false,
        }
    }

    /// Handles one client's commands, in one atomic unit of the journal or in several. Deliveries follow in [`Self::work`].
    /// After [`Self::close`] nothing is handled any more.
    pub fn handle_batch(&mut self, now: Timestamp, batch: Batch) {
        if self.closing {
            return;
        }
        let Batch { client, mut commands } = batch;
        while let Some(rest) = split_off_unit(&mut commands) {
            self.handle_unit(now, Batch { client, commands });
            commands = rest;
        }
        self.handle_unit(now, Batch { client, commands });
    }

    fn handle_unit(&mut self, now: Timestamp, unit: Batch) {
        let mut out = Surroundings { journal: &mut self.journal, outbox: &mut self.outbox };
        self.core.handle_batch(now, unit, &mut out);
        // Once committed, what was written can be read: the core reads nothing that it wrote in the same call.
        self.journal.commit();
    }

    /// Deadlines, deliveries and a step of cleaning; then everything of this round waits for its position.
    /// True when there is more to do at once.
    pub fn work(&mut self, now: Timestamp) -> bool {
        if self.closing {
            return false;
        }
        let mut out = Surroundings { journal: &mut self.journal, outbox: &mut self.outbox };
        let mut more = self.core.handle_deadline(now, &mut out);
        // The deadline's records (dead-lettered copies) must be readable for the deliveries that follow.
        out.journal.commit();
        more |= self.core.pump(now, &mut out);
        more |= self.clean();
        self.close_round(now);
        more
    }

    /// Ties the round's effects to the position they depend on.
    fn close_round(&mut self, now: Timestamp) {
        let until = self.journal.commit();
        if self.outbox.is_empty() {
            return self.flush_in_time(now, until);
        }
        let effects = self.outbox.take();
        if self.held.is_empty() && self.journal.durable() >= until {
            self.released.extend(effects);
        } else {
            self.held.push(until, effects);
            self.journal.request_sync(until);
        }
    }

    /// What no effect waits for (settled dispositions) waits for company, but not for ever. A sync that others wait for
    /// takes it along, and then the time begins anew for what came later.
    fn flush_in_time(&mut self, now: Timestamp, until: Position) {
        let durable = self.journal.durable();
        if durable >= until {
            self.flush = None;
            return;
        }
        let waiting = self.flush.filter(|(first, _)| *first > durable);
        let (first, at) = waiting.unwrap_or_else(|| (until, now.after(self.limits.flush_after)));
        self.flush = Some((first, at)).filter(|_| at > now);
        if at <= now {
            self.journal.request_sync(until);
        }
    }

    /// One bounded step of cleaning the oldest segment: what lives in it is appended anew.
    fn clean(&mut self) -> bool {
        let Some(step) = self.journal.poll_clean(self.limits.clean_bytes) else { return false };
        let mut out = Surroundings { journal: &mut self.journal, outbox: &mut self.outbox };
        match step {
            CleanStep::Records(records) => {
                for (at, record) in records {
                    if let Err(error) = self.core.relocate(broker_core::Position(at.0), &record, &mut out) {
                        self.fault = Some(NodeFault::Record(error));
                        return false;
                    }
                    out.journal.commit();
                }
            }
            CleanStep::SegmentDone { up_to } => {
                self.core.segment_done(broker_core::Position(up_to.0), &mut out);
                out.journal.commit();
                out.journal.segment_cleaned();
            }
        }
        true
    }

    /// Effects that may be shown now. Call until it returns `None`.
    pub fn poll_effects(&mut self) -> Option<Released> {
        loop {
            if let Some(released) = self.released.pop_front() {
                return Some(released);
            }
            if self.failed() {
                return None;
            }
            let round = self.held.pop(self.journal.durable())?;
            self.released.extend(round);
        }
    }

    /// The next work for the disk, if any.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.journal.poll_io()
    }

    /// A piece of disk work is done, or has failed.
    pub fn handle_io(&mut self, done: IoDone) {
        self.journal.handle_io(done);
    }

    /// Begins a clean end: everything appended is made durable, and the journal says that nothing follows. Perform
    /// the disk work until [`Self::is_closed`].
    pub fn close(&mut self) {
        self.closing = true;
        self.journal.commit();
        self.journal.request_close();
    }

    /// True when the end that was begun is complete, or the journal has failed.
    pub fn is_closed(&self) -> bool {
        self.journal.is_closed()
    }

    /// Nothing has happened for a while: the journal may prepare for what comes.
    pub fn notice_idle(&mut self) {
        self.journal.notice_idle();
    }

    /// Why space is not reclaimed any more, if so: a record that cleaning has to move cannot be read.
    pub fn cleaning_stopped(&self) -> Option<&ReadError> {
        self.journal.cleaning_stopped()
    }

    /// True while so much waits for the disk that no more commands should be handled.
    pub fn is_behind(&self) -> bool {
        self.journal.unwritten_bytes() > self.limits.unwritten_bytes_max
    }

    /// When [`Self::work`] has something to do by itself.
    pub fn deadline(&self) -> Option<Timestamp> {
        match (self.core.deadline(), self.flush.map(|(_, at)| at)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Why nothing is acknowledged any more, if so.
    pub fn fault(&self) -> Option<NodeFault> {
        self.fault.clone().or_else(|| self.journal.poisoned().cloned().map(NodeFault::Journal))
    }

    fn failed(&self) -> bool {
        self.fault.is_some() || self.journal.poisoned().is_some()
    }

    /// The core, to look at.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The journal, to look at.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}

/// Splits a batch where one unit ends. A transaction commits in a unit of its own: all of it, and nothing else that could
/// make the unit too large for a journal batch.
fn split_off_unit(commands: &mut Vec<Command>) -> Option<Vec<Command>> {
    let commits = |command: &Command| matches!(command, Command::Discharge { .. });
    match commands.iter().position(commits) {
        Some(0) if commands.len() > 1 => Some(commands.split_off(1)),
        None | Some(0) => split_off_copies(commands),
        Some(place) => {
            let rest = commands.split_off(place);
            match split_off_copies(commands) {
                None => Some(rest),
                Some(mut more) => {
                    more.extend(rest);
                    Some(more)
                }
            }
        }
    }
}

/// Splits a batch behind the command with which the messages copied in one unit could become too many: one wide
/// disposition may dead-letter thousands of large messages, and a unit has to fit into one journal batch.
fn split_off_copies(commands: &mut Vec<Command>) -> Option<Vec<Command>> {
    let copies = |command: &Command| match command {
        Command::Settle { outcome, .. } => !matches!(outcome, Outcome::Complete),
        _ => false,
    };
    let mut places =
        commands.iter().enumerate().filter(|(_, command)| copies(command)).map(|(place, _)| place);
    let place = places.nth(COPIES_MAX)?;
    Some(commands.split_off(place))
}

/// Messages that one unit may copy; of the largest allowed (100 MB) so many are still less than 4 GiB.
const COPIES_MAX: usize = 32;

#[cfg(test)]
mod tests;
