//! One namespace of a node: its core, its commands that wait, and its account.
//!
//! Invariant: a client's commands are handled in the order in which they came.

use broker_core::{
    Batch, BatchRest, ClientId, Command, Core, NamespaceDefinition, NamespaceLimit, Position, ReadId,
    ReplayError, Timestamp,
};
use bytes::Bytes;

use super::{
    NamespaceId,
    busy_turns::BusyTurns,
    deferred_batches::{CommandWait, DeferredBatches},
    units::split_off_unit,
    usage::NamespaceUsage,
};
use crate::core_output::{NodeOutput, RoundLimit};

/// One namespace at work.
#[derive(Debug)]
pub(crate) struct NamespaceCore {
    id: NamespaceId,
    core: Core,
    /// Commands that no round had room for, or that need reads.
    deferred: DeferredBatches,
    busy_turns: BusyTurns,
    pub(crate) usage: NamespaceUsage,
}

impl NamespaceCore {
    /// The namespace `id` on the core that was replayed for it.
    pub(crate) fn new(id: NamespaceId, core: Core, usage: NamespaceUsage) -> Self {
        Self { id, core, deferred: DeferredBatches::default(), busy_turns: BusyTurns::default(), usage }
    }

    /// The same core, now that its definition is known.
    pub(crate) fn renamed(self, id: NamespaceId) -> Self {
        Self { id, ..self }
    }

    /// Takes in one record of the journal.
    pub(crate) fn replay(&mut self, at: Position, index: &[u8], length: u32) -> Result<(), ReplayError> {
        self.core.replay(at, index, length)
    }

    /// Counts what is alive after the last record; `more` bytes are the definition's.
    pub(crate) fn count_live(&mut self, more: u64) {
        let live = self.core.live_records().map(|(_, length)| u64::from(length)).sum::<u64>();
        self.usage = NamespaceUsage::new(self.usage.limits, live + more);
    }

    pub(crate) fn id(&self) -> NamespaceId {
        self.id
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Whether commands wait for another round.
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferred.has_turns()
    }

    /// Whether commands wait for reads of the disk.
    pub(crate) fn has_commands_reading(&self) -> bool {
        self.deferred.is_reading()
    }

    /// The reason for which commands of this client wait, if some do.
    pub(crate) fn command_wait(&self, client: ClientId) -> Option<CommandWait> {
        self.deferred.wait(client)
    }

    /// Lets the core settle in after its last record.
    pub(crate) fn recovered(&mut self, out: &mut NodeOutput) {
        let mut out = out.of(self.id, &mut self.usage, RoundLimit::default());
        self.core.recovered(&mut out);
        out.commit();
    }

    /// The definition has other limits. `broker` has those that hold without any.
    pub(crate) fn set_limits(&mut self, definition: &NamespaceDefinition, broker: &broker_core::CoreConfig) {
        let limits = definition.settings.limits;
        let number = |limit, of_broker| limits.get(limit).unwrap_or(of_broker);
        self.core.set_limits(
            number(NamespaceLimit::Entities, broker.max_entities),
            number(NamespaceLimit::RememberedIds, broker.max_history_ids),
        );
        self.usage.limits = limits;
    }

    /// Handles one client's commands, as far as there is room in this round.
    pub(crate) fn handle_batch(
        &mut self,
        now: Timestamp,
        batch: Batch,
        out: &mut NodeOutput,
        round: RoundLimit,
    ) {
        self.handle_waiting(now, out, round);
        if self.is_full(out, round) || self.deferred.has(batch.client) {
            return self.deferred.push(batch);
        }
        self.handle_units(now, batch, out, round);
    }

    /// Handles what waits, as far as there is room.
    pub(crate) fn handle_waiting(&mut self, now: Timestamp, out: &mut NodeOutput, round: RoundLimit) {
        while !self.is_full(out, round)
            && let Some(batch) = self.deferred.pop()
        {
            let client = batch.client;
            self.handle_units(now, batch, out, round);
            if !self.deferred.has(client) {
                out.caught_up.push((self.id, client));
            }
        }
    }

    /// Handles a batch unit by unit; what there is no room for waits.
    fn handle_units(&mut self, now: Timestamp, batch: Batch, out: &mut NodeOutput, round: RoundLimit) {
        let Batch { client, mut commands } = batch;
        loop {
            let rest = split_off_unit(&mut commands);
            let left = self.handle_unit(now, Batch { client, commands }, out, round);
            let reads;
            (commands, reads) = match (left, rest) {
                (None, None) => return,
                (None, Some(rest)) => (rest, Vec::new()),
                (Some(BatchRest { batch, reads }), rest) => {
                    (batch.commands.into_iter().chain(rest.into_iter().flatten()).collect(), reads)
                }
            };
            if !reads.is_empty() {
                return self.deferred.put_back_to_read(Batch { client, commands }, reads);
            }
            if self.is_full(out, round) {
                return self.deferred.put_back(Batch { client, commands });
            }
        }
    }

    /// Handles one unit; gives back what there was no room for.
    fn handle_unit(
        &mut self,
        now: Timestamp,
        unit: Batch,
        out: &mut NodeOutput,
        round: RoundLimit,
    ) -> Option<BatchRest> {
        let mut out = out.of(self.id, &mut self.usage, round);
        let rest = self.core.handle_batch(now, unit, &mut out);
        // Once committed, what was written can be read: the core reads nothing that it wrote in the same call.
        out.commit();
        rest
    }

    /// Does one command of the node itself.
    pub(crate) fn handle_own(
        &mut self,
        now: Timestamp,
        (client, command): (ClientId, Command),
        out: &mut NodeOutput,
        round: RoundLimit,
    ) {
        let mut out = out.of(self.id, &mut self.usage, round);
        self.core.handle(now, client, command, &mut out);
        out.commit();
    }

    /// Whether no more commands should be handled in this round.
    pub(crate) fn is_full(&self, out: &NodeOutput, round: RoundLimit) -> bool {
        round.is_full(&self.usage, &out.journal)
    }

    /// Runs what is due, unless the disk is behind, and then deliveries. True when there is more to do at once.
    pub(crate) fn work(
        &mut self,
        now: Timestamp,
        has_time: bool,
        out: &mut NodeOutput,
        round: RoundLimit,
    ) -> bool {
        let before = self.usage.work_of_round();
        let mut out = out.of(self.id, &mut self.usage, round);
        out.allow_work(2);
        let more = has_time && self.core.handle_deadline(now, &mut out);
        out.note_background(before);
        // The deadline's records (dead-lettered copies) must be readable for the deliveries that follow.
        out.commit();
        out.allow_work(1);
        let has_more = self.core.deliver(now, &mut out);
        // The windows of due work, and of commands that have no room yet, are kept as well.
        if self.busy_turns.end_turn(more || has_more || self.deferred.has_turns()) {
            out.release_windows();
        }
        more || has_more
    }

    /// A read for which the core or a command waited is done.
    pub(crate) fn handle_read_done(&mut self, read: ReadId) {
        self.core.handle_read_done(read);
        self.deferred.on_read(read);
    }

    /// Drops the commands that wait: their clients are gone.
    pub(crate) fn drop_deferred(&mut self, out: &mut NodeOutput) {
        out.caught_up.extend(self.deferred.clients().map(|client| (self.id, client)));
        self.deferred = DeferredBatches::default();
    }

    /// The journal cleans up and meets this record.
    pub(crate) fn relocate(
        &mut self,
        at: broker_log::Position,
        record: &Bytes,
        out: &mut NodeOutput,
        round: RoundLimit,
    ) -> Result<(), ReplayError> {
        let before = self.usage.work_of_round();
        let mut out = out.of(self.id, &mut self.usage, round);
        let moved = self.core.relocate(Position(at.0), record, &mut out);
        out.commit();
        out.note_background(before);
        moved
    }
}
