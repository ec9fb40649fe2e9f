//! A store of numbered values over the journal, killed and cut off from power at every point; a model says what
//! must be there afterwards.
//!
//! Invariant: after any crash the store is what some prefix of its units made it, and that prefix holds every unit
//! whose end was durable.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    sync::{Arc, Mutex},
};

use broker_log::{
    CompactionStep, Disk, DiskCall, DiskWorker, Durability, Faults, FaultyDisk, Journal, JournalConfig,
    Position, RecoveryError, recover,
};
use proptest::prelude::*;

/// Faults of the disk, shared between the disk and the test.
#[derive(Clone, Debug)]
struct Plan(Arc<Mutex<PlanState>>);

#[derive(Debug)]
struct PlanState {
    random: u64,
    calls: u64,
    /// Calls from this one on fail: power is gone.
    off_at: u64,
    fail_sync: bool,
    /// In a crash, this many of 256 sectors survive.
    survivors: u64,
}

impl Plan {
    fn new(seed: u64, off_at: u64) -> Self {
        Self(Arc::new(Mutex::new(PlanState {
            random: seed,
            calls: 0,
            off_at,
            fail_sync: false,
            survivors: 128,
        })))
    }

    fn change(&self, change: impl FnOnce(&mut PlanState)) {
        change(&mut self.0.lock().unwrap());
    }
}

impl PlanState {
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Faults for Plan {
    fn fails(&mut self, call: DiskCall) -> Option<ErrorKind> {
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        if state.calls > state.off_at {
            return Some(ErrorKind::BrokenPipe);
        }
        let fails = matches!(call, DiskCall::SyncData(_)) && std::mem::take(&mut state.fail_sync);
        fails.then_some(ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        let mut state = self.0.lock().unwrap();
        state.next() % 256 < state.survivors
    }
}

/// One atomic change.
#[derive(Clone, Debug)]
enum Change {
    Put(u32, Vec<u8>),
    Delete(u32),
}

/// The store under test and everything that was ever asked of it.
struct World {
    disk: FaultyDisk,
    plan: Plan,
    config: JournalConfig,
    journal: Journal,
    worker: DiskWorker<FaultyDisk>,
    /// Units in order, with the position that made each durable.
    units: Vec<(Position, Vec<Change>)>,
    values: BTreeMap<u32, (Position, Vec<u8>)>,
    open_unit: Vec<Change>,
    next_id: u32,
}

fn encode(change: &Change) -> (Vec<u8>, Vec<u8>) {
    match change {
        Change::Put(id, body) => ([&[1][..], &id.to_le_bytes()].concat(), body.clone()),
        Change::Delete(id) => ([&[2][..], &id.to_le_bytes()].concat(), Vec::new()),
    }
}

fn apply(state: &mut BTreeMap<u32, Vec<u8>>, change: &Change) {
    match change {
        Change::Put(id, body) => drop(state.insert(*id, body.clone())),
        Change::Delete(id) => drop(state.remove(id)),
    }
}

type Values = BTreeMap<u32, (Position, Vec<u8>)>;

/// `Ok(None)`: a record could not be read while it was shown.
fn open(disk: &FaultyDisk, config: JournalConfig) -> Result<Option<(Journal, Values)>, RecoveryError> {
    let mut values = Values::new();
    let mut unreadable = false;
    let mut last = Position(0);
    let mut journal = recover(disk.clone(), config, &mut |at, record| {
        assert!(at > last, "positions ascend");
        last = at;
        let index = record.index();
        let id = u32::from_le_bytes(index[1..5].try_into().unwrap());
        if index[0] == 1 {
            let Ok(bytes) = record.full() else {
                unreadable = true;
                return;
            };
            assert_eq!(bytes.len(), record.len() as usize);
            assert_eq!(&bytes[..index.len()], index);
            values.insert(id, (at, bytes[5..].to_vec()));
        } else {
            values.remove(&id);
        }
    })?;
    journal.set_live(values.values().map(|(at, body)| (*at, 5 + u32::try_from(body.len()).unwrap())));
    Ok((!unreadable).then_some((journal, values)))
}

impl World {
    fn new(plan: Plan, config: JournalConfig) -> Result<Self, RecoveryError> {
        let disk = FaultyDisk::new(plan.clone());
        let (journal, values) = open(&disk, config)?.expect("an empty disk holds no record");
        let worker = DiskWorker::new(disk.clone());
        Ok(Self {
            disk,
            plan,
            config,
            journal,
            worker,
            units: Vec::new(),
            values,
            open_unit: Vec::new(),
            next_id: 0,
        })
    }

    fn append(&mut self, change: Change) {
        let (index, body) = encode(&change);
        let (at, length) = self.journal.append(&index, &[&body]);
        match &change {
            Change::Put(id, body) => {
                if let Some((old, body)) = self.values.insert(*id, (at, body.clone())) {
                    self.journal.release(old, 5 + u32::try_from(body.len()).unwrap());
                }
            }
            Change::Delete(id) => {
                self.journal.release(at, length);
                let (old, body) = self.values.remove(id).unwrap();
                self.journal.release(old, 5 + u32::try_from(body.len()).unwrap());
            }
        }
        self.open_unit.push(change);
    }

    fn put(&mut self, bytes: usize) {
        let id = self.next_id;
        self.next_id += 1;
        let body = id.to_le_bytes().iter().copied().cycle().take(bytes).collect();
        self.append(Change::Put(id, body));
    }

    fn delete(&mut self, nth: usize) {
        if let Some(id) = self.values.keys().nth(nth % self.values.len().max(1)).copied() {
            self.append(Change::Delete(id));
        }
    }

    fn commit(&mut self, sync: bool) {
        let until = self.journal.commit();
        self.units.push((until, std::mem::take(&mut self.open_unit)));
        if sync {
            self.journal.request_sync(until);
        }
    }

    fn io(&mut self, most: usize) {
        for _ in 0..most {
            let Some(request) = self.journal.poll_io() else { break };
            self.journal.handle_io(self.worker.perform(request));
        }
    }

    fn clean(&mut self, most: usize) {
        for _ in 0..most {
            match self.journal.poll_compaction(700) {
                None => break,
                Some(CompactionStep::Records(records)) => {
                    for (at, bytes) in records {
                        let id = u32::from_le_bytes(bytes[1..5].try_into().unwrap());
                        if bytes[0] == 1 && self.values.get(&id).is_some_and(|(live, _)| *live == at) {
                            let body = self.values[&id].1.clone();
                            assert_eq!(&bytes[5..], body);
                            self.append(Change::Put(id, body));
                        }
                    }
                    self.commit(false);
                }
                Some(CompactionStep::SegmentDone { up_to }) => {
                    assert!(self.values.values().all(|(at, _)| *at >= up_to), "a live value is left behind");
                    self.journal.segment_compacted();
                }
            }
        }
    }

    /// The process is gone; `power` as well.
    fn restart(&mut self, power: bool) {
        let durable = self.journal.durable();
        let must = self.units.iter().take_while(|(until, _)| *until <= durable).count();
        if power {
            self.disk.crash();
        }
        self.plan.change(|plan| {
            plan.off_at = u64::MAX;
            plan.fail_sync = false;
        });
        let (journal, values) =
            open(&self.disk, self.config).expect("what was durable is whole").expect("records can be read");
        self.journal = journal;
        self.values = values;
        self.open_unit.clear();
        self.units.truncate(self.matching_prefix(must));
        let end = self.journal.stats().end;
        for unit in &mut self.units {
            unit.0 = unit.0.min(end);
        }
        self.values_are_readable();
    }

    /// Number of units, at least `must`, that make up the recovered records.
    fn matching_prefix(&self, must: usize) -> usize {
        let found: BTreeMap<u32, Vec<u8>> =
            self.values.iter().map(|(id, (_, body))| (*id, body.clone())).collect();
        let mut state = BTreeMap::new();
        let mut matching = (must == 0 && found.is_empty()).then_some(0);
        for (count, (_, changes)) in self.units.iter().enumerate() {
            for change in changes {
                apply(&mut state, change);
            }
            if count + 1 >= must && state == found {
                matching = Some(count + 1);
            }
        }
        matching.unwrap_or_else(|| {
            panic!("{} units were durable, found {:?}", must, found.keys().collect::<Vec<_>>());
        })
    }

    fn values_are_readable(&mut self) {
        for (at, body) in self.values.values() {
            let bytes = self.journal.read(*at, 5 + u32::try_from(body.len()).unwrap()).unwrap();
            assert_eq!(&bytes[5..], body);
        }
    }

    fn space_is_bounded(&self) {
        let stats = self.journal.stats();
        let live: u64 = self.values.values().map(|(_, body)| body.len() as u64 + 17).sum();
        assert_eq!(stats.live_bytes, live);
        let files = self.disk.seen().list().unwrap().len() as u64;
        assert!(files <= stats.segments + stats.spares + 4, "{files} files, {stats:?}");
    }
}

fn config(cache_bytes: u64) -> JournalConfig {
    JournalConfig {
        segment_bytes: 4 << 10,
        cache_bytes,
        spare_segments: 1,
        reserve_bytes: 0,
        ..JournalConfig::default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize),
    Delete(usize),
    Commit(bool),
    Io(usize),
    Clean(usize),
    FailSync,
    Kill,
    Crash(u64),
    CrashAfter(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => prop_oneof![4 => 0_usize..300, 1 => 300_usize..3000, 1 => 5000_usize..9000].prop_map(Step::Put),
        8 => any::<usize>().prop_map(Step::Delete),
        8 => any::<bool>().prop_map(Step::Commit),
        10 => (1_usize..6).prop_map(Step::Io),
        4 => (1_usize..12).prop_map(Step::Clean),
        1 => Just(Step::FailSync),
        1 => Just(Step::Kill),
        1 => (0_u64..257).prop_map(Step::Crash),
        1 => (1_u64..12).prop_map(Step::CrashAfter),
    ]
}

fn run(steps: &[Step], seed: u64, cache_bytes: u64) {
    let mut world = World::new(Plan::new(seed, u64::MAX), config(cache_bytes)).unwrap();
    for step in steps {
        match step {
            Step::Put(bytes) => world.put(*bytes),
            Step::Delete(nth) => world.delete(*nth),
            Step::Commit(sync) => world.commit(*sync),
            Step::Io(most) => world.io(*most),
            Step::Clean(most) => {
                world.commit(false);
                world.clean(*most);
            }
            Step::FailSync => world.plan.change(|plan| plan.fail_sync = true),
            Step::Kill => world.restart(false),
            Step::Crash(survivors) => {
                world.plan.change(|plan| plan.survivors = *survivors);
                world.restart(true);
            }
            Step::CrashAfter(calls) => world.plan.change(|plan| plan.off_at = plan.calls + calls),
        }
        if world.journal.poisoned().is_some() {
            let power = world.plan.0.lock().unwrap().off_at != u64::MAX;
            world.restart(power);
        }
    }
    world.commit(true);
    world.io(usize::MAX);
    if world.journal.poisoned().is_none() {
        world.space_is_bounded();
    }
    world.restart(true);
}

proptest! {
    #[test]
    fn any_crash_leaves_a_prefix_that_holds_all_that_was_durable(
        steps in prop::collection::vec(step(), 1..150),
        seed: u64,
        cache in prop_oneof![Just(0_u64), Just(1 << 20)],
    ) {
        run(&steps, seed, cache);
    }
}

proptest! {
    /// The bound of `docs/operations.md` on the folder: twice the live bytes, or three segments more; one that is being
    /// filled; and each a quarter longer than it should be.
    #[test]
    fn space_is_reclaimed_whatever_the_order_of_releases(
        sizes in prop::collection::vec(prop_oneof![4 => 0_usize..300, 1 => 300_usize..3000], 20..200),
        order in prop::collection::vec(any::<usize>(), 200),
        kept in 0_usize..20,
        cache in prop_oneof![Just(0_u64), Just(1 << 20)],
    ) {
        let mut world = World::new(Plan::new(1, u64::MAX), config(cache)).unwrap();
        for bytes in sizes {
            world.put(bytes);
            world.commit(true);
            world.io(usize::MAX);
        }
        for nth in order {
            if world.values.len() <= kept {
                break;
            }
            world.delete(nth);
            world.commit(true);
            world.io(usize::MAX);
        }
        let mut turns = 0;
        loop {
            let before = world.journal.stats();
            world.clean(10);
            world.commit(true);
            world.io(usize::MAX);
            let after = world.journal.stats();
            turns += 1;
            if (before.segments_freed, before.end) == (after.segments_freed, after.end) {
                break;
            }
            prop_assert!(turns < 10_000, "cleaning finds no end");
        }
        world.space_is_bounded();
        let stats = world.journal.stats();
        let segment = world.config.segment_bytes;
        let bound = (2 * stats.live_bytes).max(stats.live_bytes + 3 * segment) + segment;
        prop_assert!(stats.used_bytes <= bound + bound / 4, "{stats:?}");
    }
}

/// A busy store: values come, go out of order, some stay.
fn workload(world: &mut World, rounds: usize) {
    for round in 0..rounds {
        for _ in 0..3 {
            world.put(50 + round * 37 % 400);
        }
        if round > 4 {
            world.delete(round * 7);
            world.delete(round * 13);
            world.delete(round * 3 + 1);
        }
        world.commit(true);
        world.io(4);
        if world.journal.poisoned().is_some() {
            return;
        }
        world.clean(3);
    }
}

#[test]
fn a_crash_at_every_single_disk_call_loses_nothing_durable() {
    let plan = Plan::new(1, u64::MAX);
    let mut world = World::new(plan.clone(), config(0)).unwrap();
    workload(&mut world, 60);
    assert!(world.journal.stats().segments_freed > 3, "{:?}", world.journal.stats());
    let calls = plan.0.lock().unwrap().calls;
    for off_at in 0..calls {
        for survivors in [0, 128, 256] {
            let plan = Plan::new(off_at, off_at);
            plan.change(|plan| plan.survivors = survivors);
            let Ok(mut world) = World::new(plan.clone(), config(0)) else {
                continue;
            };
            workload(&mut world, 60);
            world.restart(true);
            workload(&mut world, 4);
            world.restart(true);
        }
    }
}

#[test]
fn a_crash_at_every_disk_call_of_a_recovery_loses_nothing_durable() {
    for off_after in 0.. {
        let plan = Plan::new(off_after, u64::MAX);
        let mut world = World::new(plan.clone(), config(0)).unwrap();
        workload(&mut world, 17);
        world.disk.crash();
        plan.change(|plan| plan.off_at = plan.calls + off_after);
        // Whether it succeeds or not, the next one finds everything.
        let interrupted = open(&world.disk, world.config);
        let used = plan.0.lock().unwrap();
        let whole = used.calls <= used.off_at;
        drop(used);
        assert!(!whole || interrupted.is_ok(), "nothing failed");
        drop(interrupted);
        world.restart(true);
        if whole {
            assert!(off_after > 10, "a recovery of {off_after} calls has hardly been cut");
            return;
        }
    }
}

/// After a loss of power a recovery cuts off segments, which may be the only ones that know of the files used again.
#[test]
fn with_durability_os_a_recovery_that_ends_at_any_disk_call_leaves_a_journal_that_opens() {
    let config = JournalConfig { durability: Durability::Os, ..config(0) };
    for seed in 0..24 {
        for off_after in 0.. {
            let plan = Plan::new(seed, u64::MAX);
            plan.change(|plan| plan.survivors = 32 * (seed % 8));
            let mut world = World::new(plan.clone(), config).unwrap();
            workload(&mut world, 30);
            world.disk.crash();
            plan.change(|plan| plan.off_at = plan.calls + off_after);
            drop(open(&world.disk, world.config));
            let used = plan.0.lock().unwrap();
            let whole = used.calls <= used.off_at;
            drop(used);
            // The process was killed, or power was lost once more.
            if off_after % 2 == 1 {
                world.disk.crash();
            }
            plan.change(|plan| plan.off_at = u64::MAX);
            let opened = open(&world.disk, world.config);
            assert!(opened.is_ok(), "seed {seed}, after {off_after} calls: {:?}", opened.err());
            if whole {
                break;
            }
        }
    }
}

#[test]
fn with_durability_os_a_killed_process_loses_nothing() {
    let config = JournalConfig { durability: Durability::Os, ..config(0) };
    let mut world = World::new(Plan::new(3, u64::MAX), config).unwrap();
    for _ in 0..20 {
        workload(&mut world, 20);
        world.commit(true);
        world.io(usize::MAX);
        // Without a sync, what was written counts: else nothing would be promised, and nothing could be lost.
        let (until, _) = world.units.last().unwrap();
        assert!(world.journal.durable() >= *until, "{:?}", world.journal.stats());
        world.restart(false);
    }
}

#[test]
fn with_durability_os_a_loss_of_power_leaves_a_prefix() {
    for seed in 0..60 {
        let config = JournalConfig { durability: Durability::Os, ..config(0) };
        let mut world = World::new(Plan::new(seed, u64::MAX), config).unwrap();
        workload(&mut world, 10);
        // Nothing is promised.
        for unit in &mut world.units {
            unit.0 = Position(u64::MAX);
        }
        world.restart(true);
        workload(&mut world, 10);
        world.restart(false);
    }
}
