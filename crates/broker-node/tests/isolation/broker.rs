//! A node on a disk that can be stopped at any of its calls, and what the node shows.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use broker_core::{
    Batch, ClientId, CoreConfig, Effect, NamespaceRecord, NamespaceState, Ticket, Timestamp, Work, WorkBudget,
};
use broker_log::{DiskCall, DiskWorker, Faults, FaultyDisk, IoRequest, JournalConfig};
use broker_node::{
    NamespaceCommand, NamespaceId, NamespaceRequest, NamespaceView, Node, NodeLimits, Released, recover,
};

/// The client of requests for namespaces.
pub(crate) const ADMIN: ClientId = ClientId(70);
pub(crate) const SEGMENT: u64 = 16 << 10;
/// Bytes of a record's header in the journal (`docs/disk-format.md`).
const RECORD_HEADER: u64 = 12;

/// The calls of a disk, counted down.
#[derive(Clone, Default)]
struct Power(Arc<Mutex<Supply>>);

#[derive(Default)]
struct Supply {
    /// Calls that succeed before the process is killed.
    left: Option<u64>,
    /// It was killed.
    is_cut: bool,
    /// State of a generator that decides what survives.
    seed: u64,
}

impl Power {
    fn supply(&self) -> MutexGuard<'_, Supply> {
        self.0.lock().unwrap()
    }
}

impl Faults for Power {
    fn fails(&mut self, _call: DiskCall) -> Option<io::ErrorKind> {
        let mut supply = self.supply();
        match supply.left {
            None => None,
            Some(0) => {
                supply.is_cut = true;
                Some(io::ErrorKind::BrokenPipe)
            }
            Some(left) => {
                supply.left = Some(left - 1);
                None
            }
        }
    }

    fn sector_survives(&mut self) -> bool {
        let mut supply = self.supply();
        supply.seed = supply.seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        supply.seed >> 63 == 1
    }
}

/// The process was killed. What it showed before that counts.
#[derive(Debug)]
pub(crate) struct Killed;

pub(crate) struct Broker {
    pub(crate) node: Node,
    disk: FaultyDisk,
    journal: JournalConfig,
    power: Power,
    limits: NodeLimits,
    /// Budgets of work of the rounds, in turn; none: no bound.
    budgets: Vec<u64>,
    rounds: usize,
    /// Times that a start found a namespace that was being deleted.
    pub(crate) deletions_resumed: u64,
}

impl Broker {
    /// Bytes that compaction looks at in a round.
    pub(crate) const CLEAN_BYTES: usize = 2 << 10;

    pub(crate) fn new(round_bytes: u64) -> Self {
        let journal = JournalConfig {
            segment_bytes: SEGMENT,
            reserve_bytes: 0,
            cache_bytes: 8 << 10,
            ..JournalConfig::default()
        };
        Self::with_journal(round_bytes, journal)
    }

    /// The same with another journal.
    pub(crate) fn with_journal(round_bytes: u64, journal: JournalConfig) -> Self {
        let power = Power::default();
        let disk = FaultyDisk::new(power.clone());
        let limits = NodeLimits {
            round_bytes_max: round_bytes,
            clean_bytes: Self::CLEAN_BYTES,
            ..NodeLimits::default()
        };
        let node = start(&disk, journal).expect("an empty disk").with_limits(limits);
        Self { node, disk, journal, power, limits, budgets: Vec::new(), rounds: 0, deletions_resumed: 0 }
    }

    /// The same broker, that handles no more while so much waits for the disk.
    pub(crate) fn with_unwritten_bytes_max(mut self, unwritten_bytes_max: u64) -> Self {
        self.limits.unwritten_bytes_max = unwritten_bytes_max;
        self.node = self.node.with_limits(self.limits);
        self
    }

    /// The same broker, whose rounds have so many bytes.
    pub(crate) fn with_round_bytes(mut self, round_bytes: u64) -> Self {
        self.limits.round_bytes_max = round_bytes;
        self.node = self.node.with_limits(self.limits);
        self
    }

    /// The same broker, whose rounds have these budgets of work in turn.
    pub(crate) fn with_budgets(mut self, budgets: Vec<u64>) -> Self {
        self.budgets = budgets;
        self
    }

    fn next_budget(&mut self) {
        if let Some(budget) = self.budgets.get(self.rounds % self.budgets.len().max(1)) {
            self.node.set_work_budget(WorkBudget::new(Work(*budget)));
        }
        self.rounds += 1;
    }

    pub(crate) fn ask(&mut self, now: u64, id: NamespaceId, batch: Batch) {
        self.node.handle_batch(Timestamp::from_millis(now), id, batch);
    }

    pub(crate) fn change(&mut self, now: u64, command: NamespaceCommand, ticket: Ticket) {
        let request = NamespaceRequest { client: ADMIN, ticket };
        self.node.change_namespace(Timestamp::from_millis(now), request, command);
    }

    /// Kills the process at the call after so many.
    pub(crate) fn kill_after(&mut self, calls: u64, seed: u64) {
        *self.power.supply() = Supply { left: Some(calls), is_cut: false, seed };
    }

    fn is_cut(&self) -> bool {
        self.power.supply().is_cut
    }

    /// One round of the node, and all that it gives to the disk.
    pub(crate) fn round(&mut self, now: u64) -> bool {
        let more = self.node.work(Timestamp::from_millis(now));
        self.next_budget();
        let mut worker = DiskWorker::new(self.disk.clone());
        while let Some(request) = self.node.poll_io() {
            let done = worker.perform(request);
            self.node.handle_io(done);
        }
        more
    }

    /// Performs one piece of disk work.
    pub(crate) fn perform(&mut self, request: IoRequest) {
        let done = DiskWorker::new(self.disk.clone()).perform(request);
        self.node.handle_io(done);
    }

    /// Works and writes until nothing is left to do; everything shown goes to `shown`.
    pub(crate) fn run(&mut self, now: u64, shown: &mut Vec<Released>) -> Result<(), Killed> {
        let now = Timestamp::from_millis(now);
        let mut worker = DiskWorker::new(self.disk.clone());
        loop {
            let mut busy = self.node.work(now);
            self.next_budget();
            while let Some(request) = self.node.poll_io() {
                busy = true;
                let done = worker.perform(request);
                if self.is_cut() {
                    return Err(Killed);
                }
                self.node.handle_io(done);
            }
            if self.is_cut() {
                return Err(Killed);
            }
            while let Some(released) = self.node.poll_effects() {
                busy = true;
                shown.push(released);
            }
            while self.node.poll_namespace_change().is_some() {}
            assert!(self.node.fault().is_none(), "{:?}", self.node.fault());
            if !busy {
                return Ok(());
            }
        }
    }

    /// The machine loses its power, and the process starts again, perhaps not at once.
    pub(crate) fn crash(&mut self, now: u64, again: Option<u64>) {
        self.disk.crash();
        self.power.supply().is_cut = false;
        self.power.supply().left = again;
        if let Ok(node) = start(&self.disk, self.journal) {
            self.node = node.with_limits(self.limits);
            self.check_whole();
            // The run continues the deletions that the crash interrupted.
            if !self.is_cut() && self.run(now, &mut Vec::new()).is_ok() {
                self.power.supply().left = None;
                return;
            }
        }
        self.power.supply().left = None;
        self.power.supply().is_cut = false;
        self.disk.crash();
        self.node = start(&self.disk, self.journal).expect("a sound journal").with_limits(self.limits);
        self.check_whole();
        self.run(now, &mut Vec::new()).expect("nothing kills it now");
    }

    /// Each namespace has a definition and a core, and no name was made up for records without a definition.
    fn check_whole(&mut self) {
        let deleting = |view: &NamespaceView<'_>| view.definition.state == NamespaceState::Deleting;
        self.deletions_resumed += self.node.namespaces().filter(deleting).count() as u64;
        for view in self.node.namespaces() {
            assert!(self.node.core_of(view.id).is_some(), "{:?} has no core", view.definition);
            assert!(!view.definition.name.starts_with("recovered-"), "{:?}: records alone", view.definition);
            assert_ne!(view.definition.state, NamespaceState::Deleted, "a slot of nobody");
        }
    }

    /// Once nothing is left to do, the accounts are what is found by counting anew, and no namespace is half deleted.
    pub(crate) fn check_accounts(&self) {
        let mut stored = 0;
        for view in self.node.namespaces() {
            let definition = match view.id {
                NamespaceId::DEFAULT => None,
                _ => Some(NamespaceRecord::encode(view.definition).len() as u64),
            };
            let lengths = view.core.live_records().map(|(_, length)| u64::from(length)).chain(definition);
            let lengths: Vec<u64> = lengths.collect();
            let counted = lengths.iter().sum::<u64>();
            assert_eq!(view.live_bytes, counted, "live bytes of {:?}", view.definition);
            assert_eq!(view.definition.state, NamespaceState::Active, "deletions are over");
            stored += counted + RECORD_HEADER * lengths.len() as u64;
        }
        // Nothing of a namespace that is gone is alive in the journal.
        assert_eq!(self.node.journal().stats().live_bytes, stored, "live bytes of the journal");
    }

    /// The effects released to one client of one namespace.
    pub(crate) fn shown_to(shown: &[Released], id: NamespaceId, client: ClientId) -> Vec<Effect> {
        let own = shown.iter().filter(|released| (released.namespace, released.client) == (id, client));
        own.flat_map(|released| released.effects.iter().cloned()).collect()
    }
}

fn start(disk: &FaultyDisk, journal: JournalConfig) -> Result<Node, broker_node::RecoveryError> {
    recover(disk.clone(), journal, CoreConfig::default())
}
