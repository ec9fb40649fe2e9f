//! The namespaces of a node, by slot and by name.
//!
//! Invariant: the default namespace is always there. A name belongs to one namespace, from its creation until all that it
//! held is deleted.

use std::collections::{BTreeMap, VecDeque};

use broker_core::{
    Batch, Core, CoreConfig, NamespaceDefinition, NamespaceRecord, NamespaceSlot, NamespaceState, ReadId,
    RecordError, RecordOwner, ReplayError, Timestamp, Work, namespace_key,
};
use broker_log::{Journal, Position};

use super::{
    NamespaceId, NamespaceView, core::NamespaceCore, deletion::delete_entities, free_slots::FreeSlots,
    recent::RecentNamespaces, round_bounds::RoundBounds, schedule::NamespaceSchedule, usage::NamespaceUsage,
};
use crate::core_output::{NodeOutput, RoundLimit, owner_of};

/// A namespace, its definition, and where that is recorded.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) definition: NamespaceDefinition,
    /// Place and length of its record; the default namespace may have none.
    pub(crate) record: Option<(Position, u32)>,
    pub(crate) core: NamespaceCore,
    /// As they were counted last.
    backlog: Backlog,
}

/// Work of a namespace for which others wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Backlog {
    /// Commands wait for another round.
    defers: bool,
    /// Commands, or work that is due, wait for reads of the disk.
    reads: bool,
    /// Records of deleted entities are not released yet.
    releases: bool,
}

/// All namespaces of a node.
#[derive(Debug)]
pub(crate) struct Namespaces {
    by_slot: BTreeMap<NamespaceSlot, Box<Namespace>>,
    by_name: BTreeMap<Box<str>, NamespaceSlot>,
    /// By the host names that they list.
    by_hostname: BTreeMap<Box<str>, NamespaceSlot>,
    free_slots: FreeSlots,
    pub(crate) schedule: NamespaceSchedule,
    recent: RecentNamespaces,
    /// Changed definitions, with the end of their records.
    changes: VecDeque<(Position, NamespaceDefinition)>,
    /// Namespaces whose commands wait for another round.
    deferring: usize,
    /// Namespaces of which something waits for reads of the disk.
    reading: usize,
    /// Namespaces with records of deleted entities that are not released yet.
    releasing: usize,
    /// Namespaces that have used something of this round.
    used: Vec<NamespaceSlot>,
    /// Namespaces whose turn it is; empty between rounds.
    turn: Vec<NamespaceSlot>,
    /// Configuration of the default core, of which the others have their own.
    config: CoreConfig,
}

impl Namespaces {
    /// The default one alone, with nothing in it.
    pub(crate) fn new(config: CoreConfig) -> Self {
        let mut all = Self {
            by_slot: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_hostname: BTreeMap::new(),
            free_slots: FreeSlots::default(),
            schedule: NamespaceSchedule::default(),
            recent: RecentNamespaces::default(),
            changes: VecDeque::new(),
            deferring: 0,
            reading: 0,
            releasing: 0,
            used: Vec::new(),
            turn: Vec::new(),
            config,
        };
        all.enter(NamespaceDefinition::of_default(), None);
        all
    }

    /// Takes in a definition; the core of its slot stays, if there is one.
    pub(super) fn enter(&mut self, definition: NamespaceDefinition, record: Option<(Position, u32)>) {
        let slot = definition.slot;
        if let Some(before) = self.by_slot.get(&slot) {
            self.by_name.remove(&key(&before.definition));
            unlist(&mut self.by_hostname, &before.definition);
        }
        self.by_name.insert(key(&definition), slot);
        for hostname in &definition.settings.hostnames {
            self.by_hostname.entry(hostname.clone()).or_insert(slot);
        }
        self.free_slots.take(slot);
        let (core, backlog) = match self.by_slot.remove(&slot) {
            Some(before) => (before.core, before.backlog),
            None => (self.new_core(&definition), Backlog::default()),
        };
        let id = NamespaceId::of(&definition);
        let mut core = core.renamed(id);
        core.set_limits(&definition, &self.config);
        self.by_slot.insert(slot, Box::new(Namespace { definition, record, core, backlog }));
    }

    fn new_core(&self, definition: &NamespaceDefinition) -> NamespaceCore {
        let id = NamespaceId::of(definition);
        let config = match id.slot {
            NamespaceSlot::DEFAULT => self.config.clone(),
            // The slot is used again by namespaces with other ids.
            slot => self.config.of_namespace(id.uid.rotate_left(16) ^ u64::from(slot.0)),
        };
        NamespaceCore::new(id, Core::new(config), NamespaceUsage::new(definition.settings.limits, 0))
    }

    /// Takes in one record of the journal.
    pub(crate) fn replay(&mut self, at: Position, index: &[u8], length: u32) -> Result<(), ReplayError> {
        let place = broker_core::Position(at.0);
        let failed = |error: RecordError| ReplayError { at: place, error };
        match RecordOwner::of(index).map_err(failed)? {
            RecordOwner::Namespaces(slot) => {
                let definition = NamespaceRecord::decode(index).map_err(failed)?;
                if definition.state == NamespaceState::Deleted {
                    self.remove(slot);
                } else {
                    self.enter(definition, Some((at, length)));
                }
                Ok(())
            }
            RecordOwner::Core(slot) => {
                // Its definition may have been moved behind this record.
                if !self.by_slot.contains_key(&slot) {
                    // It keeps this one if a repaired journal has lost its own.
                    let name = format!("recovered-{}", slot.0).into();
                    self.enter(NamespaceDefinition::unknown(slot, name), None);
                }
                match self.by_slot.get_mut(&slot) {
                    Some(namespace) => namespace.core.replay(place, index, length),
                    None => Ok(()),
                }
            }
        }
    }

    /// After the last record.
    pub(crate) fn recovered(&mut self, out: &mut NodeOutput) {
        for (slot, namespace) in &mut self.by_slot {
            namespace.core.count_live(namespace.record.map_or(0, |(_, length)| u64::from(length)));
            namespace.core.recovered(out);
            if namespace.core.usage.appended() > 0 && namespace.core.usage.enter_round() {
                self.used.push(*slot);
            }
            let weight = namespace.definition.settings.weight;
            out.journal.set_weight(owner_of(*slot), weight);
            self.schedule.make_ready(*slot, weight);
        }
        let slots: Vec<NamespaceSlot> = self.by_slot.keys().copied().collect();
        for slot in slots {
            self.count_backlog(slot);
        }
        // The records with which the cores settle in are of no round that has limits.
        self.end_round(out.journal.end());
    }

    /// All that the namespace held is gone: it is recorded as deleted, and its slot is free.
    fn end_deletion(&mut self, slot: NamespaceSlot, now: Timestamp, out: &mut NodeOutput) {
        let Some(namespace) = self.by_slot.get_mut(&slot) else { return };
        namespace.definition.state = NamespaceState::Deleted;
        namespace.definition.updated_at = now;
        namespace.write(out);
        let definition = namespace.definition.clone();
        if let Some((at, length)) = namespace.record.take() {
            // Like the removal of a message, it outlives all that it speaks of.
            out.journal.release(at, length);
        }
        self.note_change(definition, out);
        out.journal.forget_owner(owner_of(slot));
        self.remove(slot);
    }

    /// The slot of the namespace with this key.
    pub(super) fn slot_of(&self, key: &str) -> Option<NamespaceSlot> {
        self.by_name.get(key).copied()
    }

    /// The namespace that lists this host name.
    pub(super) fn listing(&self, hostname: &str) -> Option<&Namespace> {
        self.by_slot.get(self.by_hostname.get(hostname)?).map(|namespace| &**namespace)
    }

    /// The lowest slot that no namespace has.
    pub(super) fn free_slot(&self) -> Option<NamespaceSlot> {
        self.free_slots.lowest()
    }

    /// Removes a namespace; its records are the concern of the caller.
    fn remove(&mut self, slot: NamespaceSlot) -> Option<Box<Namespace>> {
        let namespace = self.by_slot.remove(&slot)?;
        self.subtract(namespace.backlog);
        self.by_name.remove(&key(&namespace.definition));
        unlist(&mut self.by_hostname, &namespace.definition);
        self.free_slots.release(slot);
        self.schedule.forget(slot);
        self.recent.forget(slot);
        if slot == NamespaceSlot::DEFAULT {
            self.enter(NamespaceDefinition::of_default(), None);
        }
        Some(namespace)
    }

    /// The namespace with this id, if that is still the one in its slot.
    #[inline]
    pub(crate) fn get(&self, id: NamespaceId) -> Option<&Namespace> {
        self.by_slot.get(&id.slot).map(|namespace| &**namespace).filter(|namespace| namespace.core.id() == id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: NamespaceId) -> Option<&mut Namespace> {
        let found = self.by_slot.get_mut(&id.slot)?;
        (found.core.id() == id).then_some(&mut **found)
    }

    pub(crate) fn in_slot(&mut self, slot: NamespaceSlot) -> Option<&mut Namespace> {
        self.by_slot.get_mut(&slot).map(|namespace| &mut **namespace)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Namespace> {
        self.by_slot.values().map(|namespace| &**namespace)
    }

    pub(crate) fn of_default(&self) -> &Namespace {
        self.by_slot.get(&NamespaceSlot::DEFAULT).expect("the default namespace is always there")
    }

    /// A round begins.
    pub(crate) fn begin_round(&mut self) {
        for slot in self.used.drain(..) {
            if let Some(namespace) = self.by_slot.get_mut(&slot) {
                namespace.core.usage.begin_round();
            }
        }
    }

    /// A round ends at `end`. The work that was done in it.
    pub(crate) fn end_round(&mut self, end: Position) -> Work {
        let several = self.by_slot.len() > 1;
        let mut work = Work(0);
        for slot in &self.used {
            let Some(namespace) = self.by_slot.get_mut(slot) else { continue };
            let usage = &mut namespace.core.usage;
            work += usage.work_of_round();
            if several {
                usage.end_round(end);
            } else {
                usage.end_round_alone();
            }
        }
        work
    }

    /// The namespace appends in this round: its bytes count in it, and in no later one.
    pub(super) fn note_used(&mut self, slot: NamespaceSlot) {
        if let Some(namespace) = self.by_slot.get_mut(&slot)
            && namespace.core.usage.enter_round()
        {
            self.used.push(slot);
        }
    }

    /// Limit of a namespace in this round.
    fn round_limit(&mut self, slot: NamespaceSlot, weight: u16, round: RoundBounds) -> RoundLimit {
        self.note_used(slot);
        RoundLimit {
            share: self.schedule.share(slot, weight, round.limits.round_bytes_max.max(1)),
            work: Work(self.schedule.share(slot, weight, round.work.0.max(1))),
            unwritten: self.unwritten_max(slot, weight, round),
            full_at: round.full_at,
        }
    }

    /// Bytes of a namespace that may wait for the disk: alone all that may wait, else its share. One unit of commands may wait at
    /// the least.
    fn unwritten_max(&mut self, slot: NamespaceSlot, weight: u16, round: RoundBounds) -> u64 {
        if self.by_slot.len() == 1 {
            return u64::MAX;
        }
        self.recent.note(slot, weight, round.now);
        if let Some(namespace) = self.by_slot.get_mut(&slot) {
            namespace.core.usage.settle(round.durable);
        }
        let (own, all) = (u64::from(weight.max(1)), self.recent.weight());
        if all <= own {
            return round.limits.unwritten_bytes_alone.max(1);
        }
        (round.limits.unwritten_bytes_shared.saturating_mul(own) / all).max(1)
    }

    /// A command for this namespace comes in this round: the shares of the others leave room for it.
    pub(crate) fn expect(&mut self, id: NamespaceId) {
        if self.by_slot.len() > 1
            && let Some(namespace) = self.get(id).filter(|namespace| namespace.is_active())
        {
            self.schedule.make_ready(id.slot, namespace.definition.settings.weight);
        }
    }

    /// A read for which a namespace waited is done: it has something to do.
    pub(crate) fn handle_read_done(&mut self, slot: NamespaceSlot, read: ReadId) {
        if let Some(namespace) = self.by_slot.get_mut(&slot) {
            namespace.core.handle_read_done(read);
            self.schedule.make_ready(slot, namespace.definition.settings.weight);
        }
    }

    /// One turn of each namespace that has something to do. True when there is more to do at once.
    pub(crate) fn work_all(&mut self, round: RoundBounds, has_time: bool, out: &mut NodeOutput) -> bool {
        if has_time {
            let by_slot = &self.by_slot;
            self.schedule.wake_due(round.now, |slot| {
                by_slot.get(&slot).map_or(1, |namespace| namespace.definition.settings.weight)
            });
        }
        let mut turn = std::mem::take(&mut self.turn);
        self.schedule.take_turn(&mut turn);
        let mut more = false;
        for slot in turn.drain(..) {
            more |= self.work(slot, round, has_time, out);
        }
        self.turn = turn;
        more
    }

    /// One turn of a namespace: commands that wait, due work, deliveries. True when there is more to do at once.
    fn work(
        &mut self,
        slot: NamespaceSlot,
        of_all: RoundBounds,
        has_time: bool,
        out: &mut NodeOutput,
    ) -> bool {
        let now = of_all.now;
        let Some(namespace) = self.by_slot.get(&slot) else { return false };
        let weight = namespace.definition.settings.weight;
        let round = self.round_limit(slot, weight, of_all);
        let Some(namespace) = self.by_slot.get_mut(&slot) else { return false };
        // Work that is due appends, as commands do.
        let is_behind = round.is_behind(&namespace.core.usage);
        let has_time = has_time && !is_behind;
        let is_deleting = namespace.definition.state == NamespaceState::Deleting;
        if is_deleting && has_time && !delete_entities(&mut namespace.core, now, out, round) {
            self.end_deletion(slot, now, out);
            return false;
        }
        let mut more = is_deleting && has_time;
        let Some(namespace) = self.by_slot.get_mut(&slot) else { return more };
        let core = &mut namespace.core;
        core.handle_waiting(now, out, round);
        more |= core.work(now, has_time, out, round);
        let waits = core.has_deferred();
        more |= waits && !core.is_full(out, round.of_the_disk());
        // While it is behind, the disk brings it back, and no deadline.
        let deadline = core.core().deadline().filter(|_| !is_behind);
        self.schedule.set_deadline(slot, deadline);
        self.count_backlog(slot);
        // While the disk is behind, a deletion has nothing to do, and no deadline that would bring it back.
        if more || waits || is_deleting || is_behind {
            self.schedule.make_ready(slot, weight);
        } else {
            self.schedule.rest(slot);
        }
        more
    }

    /// Number of namespaces.
    pub(crate) fn count(&self) -> usize {
        self.by_slot.len()
    }

    /// Whether some namespace has records of deleted entities that are not released yet.
    pub(crate) fn has_unreleased_records(&self) -> bool {
        self.releasing > 0
    }

    /// Whether some namespace wants a turn in the next round.
    pub(crate) fn has_ready(&self) -> bool {
        self.schedule.has_ready()
    }

    /// Whether some namespace has commands that wait.
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferring > 0
    }

    /// Whether commands, or work that is due, wait for reads of the disk in some namespace.
    pub(crate) fn has_reading(&self) -> bool {
        self.reading > 0
    }

    /// Counts the backlog of a namespace that was at work.
    #[inline]
    fn count_backlog(&mut self, slot: NamespaceSlot) {
        let Some(namespace) = self.by_slot.get_mut(&slot) else { return };
        let core = &namespace.core;
        let now = Backlog {
            defers: core.has_deferred(),
            reads: core.has_commands_reading() || core.core().has_due_reads(),
            releases: core.core().has_unreleased_records(),
        };
        let before = std::mem::replace(&mut namespace.backlog, now);
        self.subtract(before);
        self.deferring += usize::from(now.defers);
        self.reading += usize::from(now.reads);
        self.releasing += usize::from(now.releases);
    }

    fn subtract(&mut self, backlog: Backlog) {
        self.deferring -= usize::from(backlog.defers);
        self.reading -= usize::from(backlog.reads);
        self.releasing -= usize::from(backlog.releases);
    }

    /// Handles one client's commands for the namespace with this id, if it takes any.
    pub(crate) fn handle_batch(
        &mut self,
        id: NamespaceId,
        batch: Batch,
        of_all: RoundBounds,
        out: &mut NodeOutput,
    ) {
        let Some(namespace) = self.get(id).filter(|namespace| namespace.is_active()) else { return };
        let weight = namespace.definition.settings.weight;
        self.schedule.make_ready(id.slot, weight);
        let round = self.round_limit(id.slot, weight, of_all);
        if let Some(namespace) = self.get_mut(id) {
            namespace.core.handle_batch(of_all.now, batch, out, round);
        }
        self.count_backlog(id.slot);
    }

    /// Positions and lengths of all records that are alive.
    pub(crate) fn live_records(&self) -> impl Iterator<Item = (Position, u32)> {
        self.all().flat_map(|namespace| {
            let records = namespace.core.core().live_records().map(|(at, length)| (Position(at.0), length));
            records.chain(namespace.record)
        })
    }

    /// The journal cleans up and meets this record in its oldest segment.
    pub(crate) fn relocate(
        &mut self,
        at: Position,
        record: &bytes::Bytes,
        out: &mut NodeOutput,
        round: RoundLimit,
    ) -> Result<(), ReplayError> {
        let failed = |error: RecordError| ReplayError { at: broker_core::Position(at.0), error };
        match RecordOwner::of(record).map_err(failed)? {
            RecordOwner::Core(slot) => {
                self.note_used(slot);
                match self.by_slot.get_mut(&slot) {
                    Some(namespace) => namespace.core.relocate(at, record, out, round),
                    None => Ok(()),
                }
            }
            RecordOwner::Namespaces(slot) => {
                self.note_used(slot);
                if let Some(namespace) = self.by_slot.get_mut(&slot)
                    && namespace.record.is_some_and(|(place, _)| place == at)
                {
                    namespace.write(out);
                }
                Ok(())
            }
        }
    }

    /// Notes a definition that changed, for those that follow them.
    pub(super) fn note_change(&mut self, definition: NamespaceDefinition, out: &mut NodeOutput) {
        out.journal.set_weight(owner_of(definition.slot), definition.settings.weight);
        self.changes.push_back((out.journal.end(), definition));
    }

    /// Whether changed definitions wait to be told.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The next changed definition that is kept for good up to `agreed`.
    pub(crate) fn poll_change(&mut self, agreed: Position) -> Option<NamespaceDefinition> {
        let (until, _) = self.changes.front()?;
        if *until > agreed {
            return None;
        }
        self.changes.pop_front().map(|(_, definition)| definition)
    }
}

impl Namespace {
    /// Whether it takes commands.
    pub(crate) fn is_active(&self) -> bool {
        self.definition.state == NamespaceState::Active
    }

    pub(crate) fn view(&self, journal: &Journal) -> NamespaceView<'_> {
        let id = self.core.id();
        let in_journal = journal.owner_stats(owner_of(id.slot));
        NamespaceView {
            id,
            definition: &self.definition,
            core: self.core.core(),
            live_bytes: self.core.usage.live_bytes(),
            appended_bytes: self.core.usage.appended(),
            unwritten_bytes: self.core.usage.unwritten_bytes(),
            work: self.core.usage.work(),
            background_work: self.core.usage.background_work(),
            cached_bytes: in_journal.cached_bytes,
            disk_reads: in_journal.disk_reads,
        }
    }

    /// Records the definition, in place of the record that there is.
    pub(super) fn write(&mut self, out: &mut NodeOutput) {
        let record = NamespaceRecord::encode(&self.definition);
        let before = self.record.replace(out.journal.append_of(owner_of(self.definition.slot), &record, &[]));
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        self.core.usage.append(length);
        out.await_end();
        if let Some((at, length)) = before {
            self.core.usage.release(length);
            out.journal.release(at, length);
        }
        out.journal.commit();
    }
}

/// Takes the host names of a definition out of the index.
fn unlist(by_hostname: &mut BTreeMap<Box<str>, NamespaceSlot>, definition: &NamespaceDefinition) {
    for hostname in &definition.settings.hostnames {
        if by_hostname.get(hostname) == Some(&definition.slot) {
            by_hostname.remove(hostname);
        }
    }
}

/// The key under which a definition is found.
fn key(definition: &NamespaceDefinition) -> Box<str> {
    // A name that was taken in is one.
    namespace_key(&definition.name).unwrap_or_else(|_| definition.name.clone())
}
