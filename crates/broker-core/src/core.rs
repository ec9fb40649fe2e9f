//! The core itself: takes commands and time, gives records and effects.
//!
//! Invariant: the state after replaying the records equals the state that wrote them, but for locks, links, credit
//! and what only one process knows (`acquired_before`, unreadable messages).

use bytes::Bytes;

use crate::{
    AuthorizationRule, Batch, BatchRest, ClientId, Command, CoreConfig, EntityView, Output, Position,
    QueueId, ReadId, ReplayError, Timestamp, Work,
    admin::{dynamic::DynamicNodeAdmin, removal::EntityRemoval, snapshot::AdminSnapshot},
    call::{Cx, NO_CLIENT, messages_within},
    command_reads::CommandReads,
    command_router::CommandRouter,
    deliver::{budget::DeliveryBudget, dispatcher::Dispatcher, peek::ReadRequests},
    due_work::DueWork,
    namespace::Namespace,
    output_coalescer::OutputCoalescer,
    prefetch::{AHEAD, prefetch_commands},
    publish::forward::Forwarder,
    recovery::Recovery,
    settle::lock_release::LockReleases,
    store::sessions::Session,
};

/// The entities, messages, clients and transactions of one namespace.
///
/// A *namespace* is what a client connects to, and its `Core` knows nothing outside of it. A *shard* is one executor
/// with one journal. It may hold several namespaces, each with a `Core` of its own.
///
/// Inputs, in the order in which the node gives them:
/// - once: [`Core::replay`] for each record of the journal, then [`Core::recovered`];
/// - then, over and over: [`Core::handle_deadline`], [`Core::handle_batch`] for what the clients ask, and
///   [`Core::deliver`] as long as it says that there is more; [`Core::relocate`] when the
///   journal cleans up, but not while [`Core::has_unreleased_records`].
///
/// Each call is one atomic unit: its records belong into one journal batch. The node must make them readable
/// (`Output::read`) before its next call. `now` never goes back: the owner of the clock ensures it.
#[derive(Debug)]
pub struct Core {
    state: Namespace,
    /// Buffers of a call's context; empty between calls.
    coalescer: OutputCoalescer,
}

impl Core {
    /// An empty broker.
    pub fn new(config: CoreConfig) -> Self {
        Self { state: Namespace::new(config), coalescer: OutputCoalescer::default() }
    }

    /// Changes limits that a namespace has of its own. What is there already stays, also beyond them.
    pub fn set_limits(&mut self, max_entities: u64, max_history_ids: u64) {
        self.state.messages.config.max_entities = max_entities;
        self.state.messages.config.max_history_ids = max_history_ids;
    }

    /// Does what one client asked in one go. Runs of answers and of removals are merged, so this is the way to go
    /// for more than one command.
    ///
    /// One message may become a copy for each of ten thousand subscriptions. So when `out` is full
    /// ([`Output::round_is_full`]) the rest of the batch is given back, to be handled in a later call. The same holds where a
    /// command needs messages that are not in memory. Each call handles at least one command, or asks for the messages that it needs.
    pub fn handle_batch(&mut self, now: Timestamp, batch: Batch, out: &mut impl Output) -> Option<BatchRest> {
        let client = batch.client;
        let mut cx = self.begin_call(now, client, out);
        let mut commands = batch.commands.into_iter();
        let mut reads = Vec::new();
        while !commands.as_slice().is_empty() {
            prefetch_commands(&self.state.messages.entities, commands.as_slice());
            let mut done = 0;
            let mut rest = commands.as_mut_slice();
            while done < AHEAD
                && let Some((command, behind)) = rest.split_first_mut()
            {
                if CommandReads::may_read(command) {
                    reads = CommandReads::of(&mut self.state).missing(&mut cx, command, behind);
                }
                if !reads.is_empty()
                    || !CommandRouter::of(&mut self.state).dispatch_in_place(&mut cx, command)
                {
                    break;
                }
                rest = behind;
                done += 1;
                cx.out.charge(Work::COMMAND);
                if cx.out.round_is_full() {
                    break;
                }
            }
            if let Some(last) = usize::checked_sub(done, 1) {
                // They go where they lie.
                drop(commands.nth(last));
            } else if reads.is_empty()
                && let Some(command) = commands.next()
            {
                cx.out.charge(Work::COMMAND);
                CommandRouter::of(&mut self.state).dispatch(&mut cx, command);
            }
            if !reads.is_empty() || cx.out.round_is_full() {
                break;
            }
        }
        self.finish_call(cx);
        if commands.as_slice().is_empty() {
            return None;
        }
        Some(BatchRest { batch: Batch { client, commands: commands.collect() }, reads })
    }

    /// Does one thing that a client asked.
    ///
    /// A client that did not connect, or has disconnected, may still publish and settle, for such commands carry
    /// all they need. Anything else it asks is ignored.
    pub fn handle(&mut self, now: Timestamp, client: ClientId, command: Command, out: &mut impl Output) {
        let mut cx = self.begin_call(now, client, out);
        cx.out.charge(Work::COMMAND);
        CommandRouter::of(&mut self.state).dispatch(&mut cx, command);
        self.finish_call(cx);
    }

    /// When `handle_deadline` wants to be called next. It may find nothing to do then.
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.state.lock_releases.has_work() || !self.state.deletions.is_empty() {
            return Some(Timestamp::from_millis(0));
        }
        let timer = self.state.messages.entities.agenda.first_timer().map(|(at, _)| at);
        let others = [
            self.state.transactions.deadline(),
            self.state.messages.entities.agenda.forward_deadline(),
            self.state.messages.entities.idle.deadline(),
        ];
        timer.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Does the work that is due. Returns whether more is due already, because the work of one call is bounded.
    pub fn handle_deadline(&mut self, now: Timestamp, out: &mut impl Output) -> bool {
        let mut call = self.begin_call(now, NO_CLIENT, out);
        let cx = &mut call;
        // Forwarding gets at most half of the bound, so that it does not delay deliveries to waiting consumers.
        let most = messages_within(cx.out.work_left(), self.state.messages.config.deliver_messages_max);
        let (half, rest) = (most / 2, most.div_ceil(2));
        let left = rest.saturating_add(Forwarder::of(&mut self.state.messages).drain_forwards(cx, half));
        // Transactions before lock releases, because a rollback adds locks to their queue.
        let left = LockReleases::of(&mut self.state).time_out_transactions(now, left);
        let left = LockReleases::of(&mut self.state).drain_lock_releases(cx, left);
        let mut left = EntityRemoval::of(&mut self.state).drain_deletions(left, cx.out);
        while let Some((at, queue)) = self.state.messages.entities.agenda.first_timer()
            && at <= now
            && left > 0
            && cx.out.work_left() > Work(0)
        {
            left = DueWork::of(&mut self.state).handle_due(cx, queue, left);
            self.state.messages.entities.rearm(queue);
        }
        cx.out.charge(Work::MESSAGE.times(u64::from(most.saturating_sub(left))));
        // Last: an expired lock does not keep an entity, and its end is the time of the entity's last use.
        EntityRemoval::of(&mut self.state).delete_idle(cx, left);
        self.finish_call(call);
        self.deadline().is_some_and(|at| at <= now)
    }

    /// Delivers messages to consumers and answers `Peek`, `ReceiveDeferred` and drain. Bounded; returns whether there is
    /// more to do. What waits for the disk is not: [`Core::handle_read_done`] says when it is. Call it when the records of earlier
    /// calls can be read.
    pub fn deliver(&mut self, now: Timestamp, out: &mut impl Output) -> bool {
        let mut call = self.begin_call(now, NO_CLIENT, out);
        let cx = &mut call;
        let mut budget = DeliveryBudget::of(&self.state.messages.config);
        // Peeks first: a backlog of deliveries would use up the budget of every call.
        ReadRequests::of(&mut self.state).answer_reads(cx, &mut budget);
        while !budget.is_spent(cx.out)
            && let Some(queue) = self.state.messages.entities.agenda.next_to_dispatch()
        {
            Dispatcher::of(&mut self.state).deliver_from(cx, queue, &mut budget);
        }
        self.finish_call(call);
        self.state.messages.entities.agenda.has_to_dispatch()
            || (!self.state.pending_reads.is_empty() && !self.state.messages.disk_waits.has_requests())
    }

    /// A read that was pending is done, or came to nothing ([`Output::read_soon`]): the next [`Core::deliver`] or
    /// [`Core::handle_deadline`] asks again for what waited for it.
    pub fn handle_read_done(&mut self, read: ReadId) {
        while let Some(waiter) = self.state.messages.disk_waits.pop(read) {
            Dispatcher::of(&mut self.state).on_read(waiter);
        }
        self.state.lock_releases.on_read(read);
    }

    /// Whether work that is due waits for reads of the disk. Until they are done it has no deadline.
    pub fn has_due_reads(&self) -> bool {
        self.state.messages.disk_waits.has_due_work() || self.state.lock_releases.is_reading()
    }

    /// Takes in one record of the journal, in order, before anything else. `index` is at least the record's index;
    /// `length` is the length that [`Output::record`] returned for it.
    pub fn replay(&mut self, at: Position, index: &[u8], length: u32) -> Result<(), ReplayError> {
        Recovery::of(&mut self.state.messages).replay(at, index, length)
    }

    /// After the last record: nothing is locked, everything else stands where it stood. Messages whose queue's
    /// definition was lost (a repaired journal) are found in a queue `recovered-<number>`. Dynamic nodes are deleted, because
    /// their connections are gone.
    pub fn recovered(&mut self, out: &mut impl Output) {
        Recovery::of(&mut self.state.messages).recovered(out);
        let mut cx = self.begin_call(Timestamp::default(), NO_CLIENT, out);
        DynamicNodeAdmin::of(&mut self.state).delete_of_earlier_start(&mut cx);
        self.finish_call(cx);
    }

    /// The journal cleans up and meets this record in its oldest segment: it is appended anew if it is alive, a definition with the next
    /// sequence number of its queue.
    pub fn relocate(
        &mut self,
        at: Position,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), ReplayError> {
        Recovery::of(&mut self.state.messages).relocate(at, record, out)
    }

    /// All records that are alive: position and length, in no order. What the journal holds beside them is dead.
    pub fn live_records(&self) -> impl Iterator<Item = (Position, u32)> {
        let stores = self
            .state
            .messages
            .entities
            .stores
            .values()
            .map(|store| &**store)
            .chain(self.state.deletions.stores())
            .flat_map(|store| {
                let definition = store.entity().map(|entity| (entity.position, entity.length));
                let sessions = store.sessions.iter().flat_map(|sessions| sessions.iter());
                let states = sessions.filter_map(Session::state);
                let states = states.map(|state| (state.position, state.length));
                let messages = store.slots.iter().map(|(_, slot)| (slot.position, slot.length));
                let history = store.history.iter().flat_map(|history| history.live_records());
                definition.into_iter().chain(states).chain(messages).chain(history)
            });
        stores.chain(self.state.messages.rules.records())
    }

    /// Whether records of deleted entities are not released yet. Until then the journal must not compact a segment: it
    /// counts these records as live, and the core no longer moves them.
    pub fn has_unreleased_records(&self) -> bool {
        !self.state.deletions.is_empty()
    }

    /// Number of queues, topics and subscriptions.
    pub fn entity_count(&self) -> u64 {
        self.state.messages.entities.names.len() as u64
    }

    /// All entities in order of name.
    pub fn entities(&self) -> impl Iterator<Item = EntityView<'_>> {
        AdminSnapshot::of(&self.state.messages).entities()
    }

    /// One entity by name.
    pub fn entity(&self, name: &str) -> Option<EntityView<'_>> {
        AdminSnapshot::of(&self.state.messages).entity(name)
    }

    /// The name of the entity that a store belongs to.
    pub fn name_of(&self, queue: QueueId) -> Option<&str> {
        Some(&self.state.main_of(queue)?.definition.name)
    }

    /// Transactions that are declared and not discharged, and the bytes they hold.
    pub fn transactions(&self) -> (u64, u64) {
        (self.state.transactions.len() as u64, self.state.transactions.bytes())
    }

    /// The entities that have keys, and the keys: for a client that begins to watch.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &[AuthorizationRule])> {
        let all = self.entities().map(|EntityView { name, settings, .. }| (name, &*settings.authorization));
        all.filter(|(_, rules)| !rules.is_empty())
    }

    /// A number that two cores share if a restart could not tell them apart: the same queues with the same
    /// messages in the same states. Locks, links, credit and positions in the journal are left out.
    pub fn digest(&self) -> u64 {
        AdminSnapshot::of(&self.state.messages).digest()
    }

    /// A call begins, for a client or for [`NO_CLIENT`].
    fn begin_call<'a, O: Output>(&mut self, now: Timestamp, client: ClientId, out: &'a mut O) -> Cx<'a, O> {
        let coalescer = std::mem::take(&mut self.coalescer);
        let mut cx = Cx::new(now, client, &self.state.messages.config, coalescer, out);
        if self.state.messages.entities.dynamic.has_orphans() {
            cx.watch_stores();
        }
        cx
    }

    /// A call ends: ids of histories and coalesced replies are recorded and sent.
    #[inline]
    fn finish_call(&mut self, mut cx: Cx<'_, impl Output>) {
        let changed = cx.take_changed();
        if !changed.is_empty() {
            DynamicNodeAdmin::of(&mut self.state).end_due(&mut cx, &changed);
        }
        self.state.messages.record_histories(&mut cx);
        self.coalescer = cx.finish();
    }
}

#[cfg(test)]
mod tests;
