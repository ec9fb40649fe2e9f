//! The node: rounds of work, each a batch of commands, the deliveries that follow, and one journal position that
//! both wait for.
//!
//! Invariant: no effect leaves before all awaited records that were appended before it are durable; unawaited ones
//! (completions without an answer) are on their way to the disk within twice [`NodeLimits::flush_after`].
//! Invariant: the same inputs in the same order give the same outputs; the journal's completions are inputs too. What a
//! round brings is bounded, with one command more, which the core bounds: the rest of a batch waits for another round.

use std::{collections::VecDeque, time::Duration};

use broker_core::{Batch, ClientId, Command, Core, Outcome, ReplayError, Timestamp};
use broker_log::{CompactionStep, IoDone, IoRequest, Journal, PoisonReason, Position, ReadError};

use crate::{
    Released,
    core_output::{CoreOutput, RoundLimit},
    deferred_batches::DeferredBatches,
    durability_queue::DurabilityQueue,
    outbox::Outbox,
};

/// Bounds on one round of background work, so that commands never wait long behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NodeLimits {
    /// Bytes of the oldest segment looked at in one step of cleaning.
    pub clean_bytes: usize,
    /// Bytes handed to the disk and not yet written at which no more commands should be handled.
    pub unwritten_bytes_max: u64,
    /// Bytes of records and of large answers after which one round handles no more commands. A message to a topic may
    /// become ten thousand records.
    pub round_bytes_max: u64,
    /// Longest wait of a record for others when no effect waits for it. Rarely, when a sync for others has just missed
    /// it, twice as long.
    pub flush_after: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            clean_bytes: 256 << 10,
            unwritten_bytes_max: 64 << 20,
            round_bytes_max: 4 << 20,
            flush_after: Duration::from_millis(10),
        }
    }
}

/// Fatal error of a node: the process has to stop and recover from disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeFault {
    /// A write or sync failed.
    #[error("{0}")]
    Journal(PoisonReason),
    /// A record that was to be moved makes no sense.
    #[error(transparent)]
    Record(#[from] ReplayError),
}

/// Core, journal and held-back effects of one shard.
#[derive(Debug)]
pub struct Node {
    core: Core,
    journal: Journal,
    outbox: Outbox,
    durability_queue: DurabilityQueue,
    released: VecDeque<Released>,
    /// Commands that no round had room for.
    deferred: DeferredBatches,
    /// Behind the last record that effects wait for. Never goes back.
    awaited: Position,
    /// Everything before it is durable or on its way to the disk.
    sync_requested: Position,
    /// End of the journal when this round began; `None` between rounds.
    round_start: Option<Position>,
    limits: NodeLimits,
    fault: Option<NodeFault>,
    /// Records up to this position must be on their way to the disk by this time, whether an effect waits for them or
    /// not.
    flush: Option<(Position, Timestamp)>,
    closing: bool,
}

impl Node {
    /// A node on what was replayed: tells the journal what lives, and lets the core settle in.
    pub(crate) fn start(mut core: Core, mut journal: Journal) -> Self {
        journal.set_live(core.live_records().map(|(at, length)| (Position(at.0), length)));
        let mut outbox = Outbox::default();
        // Recovered records are durable.
        let sync_requested = journal.durable();
        let mut awaited = sync_requested;
        core.recovered(&mut CoreOutput {
            journal: &mut journal,
            outbox: &mut outbox,
            awaited: &mut awaited,
            round: RoundLimit::default(),
        });
        journal.commit();
        Self {
            core,
            journal,
            outbox,
            durability_queue: DurabilityQueue::default(),
            released: VecDeque::new(),
            deferred: DeferredBatches::default(),
            awaited,
            sync_requested,
            round_start: None,
            limits: NodeLimits::default(),
            fault: None,
            flush: None,
            closing: false,
        }
    }

    /// The same node under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: NodeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Handles one client's commands, in one atomic unit of the journal or in several. Deliveries follow in
    /// [`Self::work`], and so do commands for which this round, or the memory for what the disk has to write, has no
    /// room. After [`Self::close`] nothing is handled any more.
    pub fn handle_batch(&mut self, now: Timestamp, batch: Batch) {
        if self.closing {
            return;
        }
        self.begin_round();
        if !self.deferred.is_empty() {
            self.handle_waiting(now);
        }
        if self.is_full() || self.deferred.has(batch.client) {
            return self.deferred.push(batch);
        }
        self.handle_units(now, batch);
    }

    /// Handles what waits, as far as there is room.
    fn handle_waiting(&mut self, now: Timestamp) {
        while !self.is_full()
            && let Some(batch) = self.deferred.pop()
        {
            self.handle_units(now, batch);
        }
    }

    /// Handles a batch unit by unit; what there is no room for waits.
    fn handle_units(&mut self, now: Timestamp, batch: Batch) {
        self.journal.set_time(now.as_millis());
        let Batch { client, mut commands } = batch;
        loop {
            let rest = split_off_unit(&mut commands);
            let left = self.handle_unit(now, Batch { client, commands });
            commands = match (left, rest) {
                (None, None) => return,
                (None, Some(rest)) => rest,
                (Some(left), rest) => left.commands.into_iter().chain(rest.into_iter().flatten()).collect(),
            };
            if self.is_full() {
                return self.deferred.put_back(Batch { client, commands });
            }
        }
    }

    /// Handles one unit; gives back what there was no room for.
    fn handle_unit(&mut self, now: Timestamp, unit: Batch) -> Option<Batch> {
        let round = self.round();
        let mut out = CoreOutput {
            journal: &mut self.journal,
            outbox: &mut self.outbox,
            awaited: &mut self.awaited,
            round,
        };
        let rest = self.core.handle_batch(now, unit, &mut out);
        // Once committed, what was written can be read: the core reads nothing that it wrote in the same call.
        self.journal.commit();
        rest
    }

    /// Whether no more commands should be handled in this round.
    fn is_full(&self) -> bool {
        self.round().is_full(&self.journal, &self.outbox)
    }

    fn begin_round(&mut self) {
        self.round_start.get_or_insert(self.journal.end());
    }

    fn round(&self) -> RoundLimit {
        let start = self.round_start.unwrap_or(self.journal.end());
        let of_round = start.0.saturating_add(self.limits.round_bytes_max.max(1));
        // One more byte, and the node is behind.
        let of_disk =
            self.journal.durable().0.saturating_add(self.limits.unwritten_bytes_max).saturating_add(1);
        RoundLimit { full_at: of_round.min(of_disk) }
    }

    /// Runs deferred batches, deadlines, deliveries and one step of compaction; the effects then wait for the journal.
    /// True when there is more to do at once. While the node is behind, deadlines wait like the commands of clients: it
    /// may copy every message of a queue.
    pub fn work(&mut self, now: Timestamp) -> bool {
        self.journal.set_time(now.as_millis());
        if self.closing {
            return false;
        }
        self.begin_round();
        if !self.deferred.is_empty() {
            self.handle_waiting(now);
        }
        let (round, has_time) = (self.round(), !self.is_behind());
        let mut out = CoreOutput {
            journal: &mut self.journal,
            outbox: &mut self.outbox,
            awaited: &mut self.awaited,
            round,
        };
        let mut more = has_time && self.core.handle_deadline(now, &mut out);
        // The deadline's records (dead-lettered copies) must be readable for the deliveries that follow.
        out.journal.commit();
        more |= self.core.deliver(now, &mut out);
        more |= has_time && self.compact();
        self.close_round(now);
        more || (self.has_deferred() && !self.is_full())
    }

    /// Ties the round's effects to the position they depend on.
    fn close_round(&mut self, now: Timestamp) {
        let until = self.journal.commit();
        self.round_start = None;
        if self.has_deferred() || self.is_behind() {
            self.request_sync(until);
        }
        if !self.outbox.is_empty() {
            let effects = self.outbox.take();
            if self.durability_queue.is_empty() && self.journal.durable() >= self.awaited {
                self.released.extend(effects);
            } else {
                self.durability_queue.push(self.awaited, effects);
                self.request_sync(self.awaited);
            }
        }
        self.flush_in_time(now, until);
    }

    fn request_sync(&mut self, until: Position) {
        self.journal.request_sync(until);
        self.sync_requested = self.sync_requested.max(until);
    }

    /// Records that no effect waits for (settled dispositions, sends without an answer) wait for a group commit, for a
    /// limited time. A sync for other records includes them, and the time begins anew for later ones.
    fn flush_in_time(&mut self, now: Timestamp, until: Position) {
        let on_its_way = self.journal.durable().max(self.sync_requested);
        if on_its_way >= until {
            self.flush = None;
            return;
        }
        let pending = self.flush.filter(|(first, _)| *first > on_its_way);
        let (first, at) = pending.unwrap_or_else(|| (until, now.after(self.limits.flush_after)));
        self.flush = Some((first, at)).filter(|_| at > now);
        if at <= now {
            self.request_sync(until);
        }
    }

    /// One bounded step of cleaning the oldest segment: what lives in it is appended anew. It waits for what deleted
    /// entities held, which is neither dead nor moved.
    fn compact(&mut self) -> bool {
        if self.core.has_unreleased_records() {
            return true;
        }
        let Some(step) = self.journal.poll_compaction(self.limits.clean_bytes) else { return false };
        let round = self.round();
        let mut out = CoreOutput {
            journal: &mut self.journal,
            outbox: &mut self.outbox,
            awaited: &mut self.awaited,
            round,
        };
        match step {
            CompactionStep::Records(records) => {
                for (at, record) in records {
                    if let Err(error) = self.core.relocate(broker_core::Position(at.0), &record, &mut out) {
                        self.fault = Some(NodeFault::Record(error));
                        return false;
                    }
                    out.journal.commit();
                }
            }
            CompactionStep::SegmentDone { up_to } => {
                self.core.segment_done(broker_core::Position(up_to.0), &mut out);
                out.journal.commit();
                out.journal.segment_compacted();
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
            let round = self.durability_queue.pop(self.journal.durable())?;
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

    /// Reason why space is not reclaimed any more, if so: a record that compaction has to move cannot be read.
    pub fn compaction_stopped(&self) -> Option<&ReadError> {
        self.journal.compaction_stopped()
    }

    /// True while so much waits for the disk that no more commands should be handled.
    pub fn is_behind(&self) -> bool {
        self.journal.unwritten_bytes() > self.limits.unwritten_bytes_max
    }

    /// Whether commands wait for another round. While the node is behind, only the disk brings that.
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Whether commands of this client do.
    pub fn has_deferred_of(&self, client: ClientId) -> bool {
        self.deferred.has(client)
    }

    /// Time at which [`Self::work`] has timed work to do; none while the node is behind: due work then waits for the
    /// disk.
    pub fn deadline(&self) -> Option<Timestamp> {
        let due = self.core.deadline().filter(|_| !self.is_behind());
        match (due, self.flush.map(|(_, at)| at)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Reason why nothing is acknowledged any more, if so.
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

/// Splits a batch where one unit ends. A transaction commits in a unit of its own: all of it, and nothing else that
/// could make the unit too large for a journal batch.
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
