//! Records that are read by reader threads, in any order and with errors, while others are appended, die and are moved to other
//! segments; a model knows what each record holds and which reads somebody waits for.
//!
//! Invariant: a record that is read is the one that was appended; each read that somebody waits for is reported once; and
//! when reads do not fail, every record comes after a bounded number of them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use broker_log::{
    CompactionStep, Disk as _, DiskCall, DiskWorker, Faults, FaultyDisk, FileId, IoRequest, Journal,
    JournalConfig, Owner, Position, Read, ReadError, ReadId, recover,
};
use proptest::prelude::*;

/// Reads fail while it is set.
#[derive(Clone, Default)]
struct ReadsFail(Arc<AtomicBool>);

impl Faults for ReadsFail {
    fn fails(&mut self, call: DiskCall) -> Option<ErrorKind> {
        let fails = matches!(call, DiskCall::Read(_)) && self.0.load(Ordering::Relaxed);
        fails.then_some(ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        true
    }
}

const OWNERS: u16 = 3;
const READS_IN_FLIGHT_MAX: u64 = 4;

#[derive(Clone, Debug)]
enum Step {
    Append {
        owner: u16,
        length: usize,
        count: u8,
    },
    Release(prop::sample::Index),
    /// Records of an owner from this one on are asked for, as a receiver does.
    Ask {
        owner: u16,
        first: prop::sample::Index,
        count: u8,
    },
    /// All that was asked for and is not a read is done.
    Write,
    Read {
        which: prop::sample::Index,
        fails: bool,
    },
    /// The read of the segment that is compacted is done.
    Walk,
    /// The owner has had its turn.
    Turn(u16),
    Forget(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS;
    let length = prop_oneof![4 => 16..300_usize, 3 => 1_000..30_000_usize, 1 => 60_000..150_000_usize];
    prop_oneof![
        3 => (owner.clone(), length, 1..12_u8).prop_map(|(owner, length, count)| Step::Append { owner, length, count }),
        4 => any::<prop::sample::Index>().prop_map(Step::Release),
        6 => (owner.clone(), any::<prop::sample::Index>(), 1..20_u8)
            .prop_map(|(owner, first, count)| Step::Ask { owner, first, count }),
        3 => Just(Step::Write),
        8 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1))
            .prop_map(|(which, fails)| Step::Read { which, fails }),
        3 => Just(Step::Walk),
        2 => owner.clone().prop_map(Step::Turn),
        1 => owner.prop_map(Step::Forget),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Known {
    owner: Owner,
    at: Position,
    length: u32,
}

struct Model {
    journal: Journal,
    worker: DiskWorker<FaultyDisk>,
    disk: FaultyDisk,
    faults: ReadsFail,
    /// By the number that each of them holds.
    live: BTreeMap<u64, Known>,
    next: u64,
    reads: Vec<IoRequest>,
    /// The read of the segment that is compacted.
    walk: Option<IoRequest>,
    awaited: BTreeSet<(Owner, ReadId)>,
    /// Reads that have failed so far.
    failed: u64,
}

fn contents(number: u64, length: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

impl Model {
    fn new(cache_bytes: u64) -> Self {
        Self::with(JournalConfig {
            segment_bytes: 64 << 10,
            cache_bytes,
            reserve_bytes: 0,
            ..JournalConfig::default()
        })
    }

    fn with(config: JournalConfig) -> Self {
        let faults = ReadsFail::default();
        let disk = FaultyDisk::new(faults.clone());
        Self {
            journal: recover(disk.clone(), config, &mut |_, _| {}).unwrap(),
            worker: DiskWorker::new(disk.clone()),
            disk,
            faults,
            live: BTreeMap::new(),
            next: 0,
            reads: Vec::new(),
            walk: None,
            awaited: BTreeSet::new(),
            failed: 0,
        }
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Append { owner, length, count } => {
                for _ in 0..*count {
                    let bytes = contents(self.next, *length);
                    let (at, length) = self.journal.append_of(Owner(*owner), &bytes[..8], &[&bytes[8..]]);
                    self.live.insert(self.next, Known { owner: Owner(*owner), at, length });
                    self.next += 1;
                }
                self.journal.commit();
            }
            Step::Release(which) if !self.live.is_empty() => {
                let number = *self.live.keys().nth(which.index(self.live.len())).unwrap();
                let known = self.live.remove(&number).unwrap();
                self.journal.release(known.at, known.length);
            }
            Step::Ask { owner, first, count } => {
                let all: Vec<u64> = self.live_of(Owner(*owner)).collect();
                if !all.is_empty() {
                    let first = first.index(all.len());
                    for number in all[first..].iter().take((*count).into()) {
                        // A receiver stops where the next record is not there.
                        if self.ask(*number) != Some(true) {
                            break;
                        }
                    }
                }
            }
            Step::Write => self.write(),
            Step::Read { which, fails } if !self.reads.is_empty() => {
                let index = which.index(self.reads.len());
                self.read(index, *fails);
            }
            Step::Walk => self.walk(),
            Step::Turn(owner) => self.journal.release_windows(Owner(*owner)),
            Step::Forget(owner) => {
                self.journal.forget_owner(Owner(*owner));
                self.awaited.retain(|(other, _)| *other != Owner(*owner));
            }
            Step::Release(_) | Step::Read { .. } => {}
        }
        self.hand_out();
    }

    fn live_of(&self, owner: Owner) -> impl Iterator<Item = u64> {
        self.live.iter().filter(move |(_, known)| known.owner == owner).map(|(number, _)| *number)
    }

    /// Asks for a record. Whether it is there; `None`: its read has failed.
    fn ask(&mut self, number: u64) -> Option<bool> {
        let Known { owner, at, length } = self.live[&number];
        match self.journal.read_soon_of(owner, at, length) {
            Ok(Read::Record(bytes)) => {
                assert_eq!(bytes, contents(number, bytes.len()));
                assert_eq!(bytes.len(), length as usize);
                Some(true)
            }
            Ok(Read::Pending(read)) => {
                self.awaited.insert((owner, read));
                Some(false)
            }
            Err(ReadError::Disk { at: place, .. }) => {
                assert_eq!(place, at);
                assert!(self.failed > 0, "no read has failed");
                self.failed -= 1;
                None
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }

    /// Compacts as far as it goes without a read, and writes.
    fn write(&mut self) {
        self.compact();
        let until = self.journal.commit();
        self.journal.request_sync(until);
        self.hand_out();
        assert_eq!(self.journal.durable(), self.journal.end());
        assert!(self.journal.poisoned().is_none() && self.journal.compaction_stopped().is_none());
    }

    fn compact(&mut self) {
        while let Some(step) = self.journal.poll_compaction(64 << 10) {
            match step {
                CompactionStep::Records(records) => {
                    for (at, record) in records {
                        let number = u64::from_le_bytes(record[..8].try_into().unwrap());
                        let Some(known) = self.live.get_mut(&number).filter(|known| known.at == at) else {
                            continue;
                        };
                        let (moved, length) =
                            self.journal.append_of(known.owner, &record[..8], &[&record[8..]]);
                        self.journal.release(at, length);
                        known.at = moved;
                    }
                }
                CompactionStep::SegmentDone { .. } => self.journal.segment_compacted(),
            }
        }
    }

    /// The read of the segment that is compacted is done.
    fn walk(&mut self) {
        if let Some(request) = self.walk.take() {
            self.journal.handle_io(self.worker.perform(request));
        }
    }

    /// Takes what is to be read. Other work is done at once, or a request would be lost.
    fn hand_out(&mut self) {
        while let Some(request) = self.journal.poll_io() {
            if request.is_for_compaction() {
                assert!(self.walk.is_none(), "one is outstanding");
                self.walk = Some(request);
            } else if request.is_read() {
                self.reads.push(request);
            } else {
                self.journal.handle_io(self.worker.perform(request));
            }
        }
        let stats = self.journal.stats();
        assert!(self.reads.len() as u64 <= READS_IN_FLIGHT_MAX, "{stats:?}");
        assert_eq!(stats.reads_in_flight, self.reads.len() as u64);
    }

    /// One of the reads is done. All that are reported are awaited, and none is reported twice.
    fn read(&mut self, index: usize, fails: bool) -> Vec<(Owner, ReadId)> {
        let request = self.reads.remove(index);
        self.faults.0.store(fails, Ordering::Relaxed);
        let done = self.worker.perform(request);
        self.faults.0.store(false, Ordering::Relaxed);
        self.failed += u64::from(fails);
        self.journal.handle_io(done);
        let reported: Vec<_> = std::iter::from_fn(|| self.journal.poll_read_done()).collect();
        for read in &reported {
            assert!(self.awaited.remove(read), "{read:?} is awaited");
        }
        reported
    }

    /// All records come when all of them are asked for at once, each by a reader of its own.
    fn read_all(&mut self) {
        self.write();
        self.finish_reads();
        // Failures that nobody has asked for again are forgotten.
        (0..OWNERS).for_each(|owner| self.journal.release_windows(Owner(owner)));
        let mut waiting: BTreeMap<(Owner, ReadId), Vec<u64>> = BTreeMap::new();
        let mut asking: Vec<u64> = self.live.keys().copied().collect();
        let mut rounds = 0;
        while !asking.is_empty() || !waiting.is_empty() {
            for number in std::mem::take(&mut asking) {
                let Known { owner, at, length } = self.live[&number];
                match self.journal.read_soon_of(owner, at, length).unwrap() {
                    Read::Record(bytes) => assert_eq!(bytes, contents(number, bytes.len())),
                    Read::Pending(read) => {
                        self.awaited.insert((owner, read));
                        waiting.entry((owner, read)).or_default().push(number);
                    }
                }
            }
            // All owners have had their turn.
            (0..OWNERS).for_each(|owner| self.journal.release_windows(Owner(owner)));
            self.hand_out();
            assert!(waiting.is_empty() || !self.reads.is_empty(), "{waiting:?} wait for nothing");
            while !self.reads.is_empty() {
                for read in self.read(self.reads.len() - 1, false) {
                    asking.extend(waiting.remove(&read).unwrap());
                }
            }
            rounds += 1;
            assert!(rounds <= 2 + 2 * self.live.len(), "{waiting:?} after {rounds} rounds");
        }
        assert!(self.awaited.is_empty());
    }

    fn finish_reads(&mut self) {
        loop {
            self.hand_out();
            if self.reads.is_empty() {
                break;
            }
            self.read(0, false);
            (0..OWNERS).for_each(|owner| self.journal.release_windows(Owner(owner)));
        }
        assert!(self.awaited.is_empty(), "{:?} are done", self.awaited);
        assert_eq!(self.journal.stats().reads_waiting, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_appended_and_everything_comes(
        cache_bytes in prop_oneof![Just(0), Just(64 << 10), Just(512 << 10)],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut model = Model::new(cache_bytes);
        for step in &steps {
            model.play(step);
        }
        model.read_all();
    }
}

/// A journal with records of one owner that are on the disk alone.
fn cold(count: u64, length: usize) -> Model {
    let mut model = Model::new(0);
    for _ in 0..count {
        model.play(&Step::Append { owner: 0, length, count: 1 });
    }
    model.write();
    model
}

#[test]
fn a_reader_in_order_is_read_ahead_of() {
    let mut model = cold(400, 5_000);
    let (mut pauses, mut number) = (0, 0);
    while number < 390 {
        if model.ask(number) == Some(true) {
            number += 1;
        } else {
            pauses += 1;
            model.hand_out();
            assert!(!model.reads.is_empty());
            model.read(0, false);
        }
        // A thread that is always done before the reader comes.
        model.hand_out();
        while !model.reads.is_empty() {
            model.read(0, false);
            model.hand_out();
        }
    }
    assert!(pauses <= 6, "{pauses}");
    assert!(model.journal.disk_reads() < 60, "{}", model.journal.disk_reads());
}

#[test]
fn a_segment_that_dies_is_not_used_again_before_its_read_is_done() {
    let mut model = cold(150, 5_000);
    assert_eq!(model.ask(0), Some(false));
    model.hand_out();
    let freed = model.journal.stats().segments_freed;
    let first: Vec<u64> = model.live.keys().copied().take(120).collect();
    for number in first {
        let known = model.live.remove(&number).unwrap();
        model.journal.release(known.at, known.length);
    }
    for _ in 0..60 {
        model.play(&Step::Append { owner: 1, length: 5_000, count: 1 });
        model.write();
    }
    assert!(model.journal.stats().segments_freed > freed);
    let spares = model.journal.stats().spares;
    assert_eq!(model.reads.len(), 1);
    let reported = model.read(0, false);
    assert_eq!(reported.len(), 1, "its reader asks again, and finds the record elsewhere or nowhere");
    model.write();
    assert!(model.journal.stats().spares >= spares);
    model.read_all();
}

#[test]
fn owners_share_the_reads_however_many_one_of_them_asks_for() {
    let mut model = Model::new(0);
    model.play(&Step::Append { owner: 1, length: 20_000, count: 1 });
    for _ in 0..200 {
        model.play(&Step::Append { owner: 0, length: 20_000, count: 1 });
    }
    model.write();
    for number in (0..=200).rev() {
        model.ask(number);
    }
    let read_of = |model: &mut Model| {
        model.hand_out();
        model.read(0, false)
    };
    let before: Vec<_> = (0..8).flat_map(|_| read_of(&mut model)).map(|(owner, _)| owner.0).collect();
    assert!(before.contains(&1), "{before:?}");
    model.finish_reads();
}

#[test]
fn a_read_that_fails_is_one_records_error_and_told_once() {
    let mut model = cold(600, 1_000);
    assert_eq!(model.ask(3), Some(false));
    assert_eq!(model.ask(7), Some(false));
    model.hand_out();
    assert_eq!(model.read(0, true).len(), 1, "one read is for both");
    assert_eq!(model.ask(3), None);
    assert_eq!(model.ask(7), Some(false), "it is read for itself");
    model.finish_reads();
    assert_eq!(model.ask(7), Some(true));
    assert_eq!(model.ask(3), Some(false), "the disk may be well again");
    model.finish_reads();
    assert_eq!(model.ask(3), Some(true));
}

#[test]
fn a_journal_ends_while_a_read_is_out() {
    let mut model = cold(100, 5_000);
    for number in [3, 20] {
        assert_eq!(model.ask(number), Some(false));
    }
    model.hand_out();
    assert!(!model.reads.is_empty());
    // One more that no thread has.
    assert_eq!(model.ask(35), Some(false));
    model.journal.request_close();
    while let Some(request) = model.journal.poll_io() {
        assert!(!request.is_read(), "nobody waits any more");
        model.journal.handle_io(model.worker.perform(request));
    }
    assert!(model.journal.is_closed());
    while !model.reads.is_empty() {
        model.read(0, false);
    }
    assert!(model.journal.is_closed() && model.journal.poisoned().is_none());
}

#[test]
fn a_record_that_is_damaged_on_the_disk_is_told_by_the_read_of_it() {
    const DAMAGED: u64 = 40;
    let mut model = cold(100, 5_000);
    let seen = model.disk.seen();
    let text = contents(DAMAGED, 64);
    let mut places = 0;
    for (file, _) in seen.list().unwrap() {
        let mut bytes = seen.contents(file).unwrap();
        if let Some(place) = bytes.windows(text.len()).position(|window| window == text) {
            bytes[place + 32] ^= 1;
            seen.replace(file, bytes);
            places += 1;
        }
    }
    assert_eq!(places, 1);
    let Known { owner, at, length } = model.live[&DAMAGED];
    assert_eq!(model.ask(DAMAGED), Some(false));
    model.hand_out();
    assert_eq!(model.read(0, false).len(), 1);
    let told = model.journal.read_soon_of(owner, at, length);
    assert!(matches!(told, Err(ReadError::Corrupt { at: place, .. }) if place == at), "{told:?}");
    assert_eq!(model.ask(DAMAGED + 1), Some(true), "others of its window are sound");
}

/// A journal whose segments need several reads each to be walked through: the batches are longer than what is read at once,
/// and one of the first segment is three times as long. Every tenth record lives.
fn to_be_compacted() -> Model {
    let mut model = Model::with(JournalConfig {
        segment_bytes: 6 << 20,
        cache_bytes: 0,
        reserve_bytes: 0,
        ..JournalConfig::default()
    });
    for round in 0..40 {
        let (length, count) = if round == 1 { (3 << 20, 1) } else { (30_000, 40) };
        model.play(&Step::Append { owner: 0, length, count });
        model.write();
    }
    let dead: Vec<u64> = model.live.keys().copied().filter(|number| number % 10 != 0).collect();
    for number in dead {
        let known = model.live.remove(&number).unwrap();
        model.journal.release(known.at, known.length);
    }
    model
}

#[test]
fn compaction_asks_for_what_it_reads_and_goes_on_when_it_is_there() {
    let mut model = to_be_compacted();
    let (mut reads, mut rounds) = (0, 0);
    while model.journal.stats().segments_freed < 3 {
        // A read that the journal performs itself fails, and ends its compaction.
        model.faults.0.store(true, Ordering::Relaxed);
        model.write();
        model.faults.0.store(false, Ordering::Relaxed);
        reads += usize::from(model.walk.is_some());
        model.walk();
        rounds += 1;
        assert!(rounds < 200, "{:?}", model.journal.stats());
    }
    assert!((15..60).contains(&reads), "{reads} reads of 1 MiB for three segments of 6 MiB");
    model.read_all();
}

#[test]
fn a_read_of_compaction_that_fails_stops_it_and_nothing_else() {
    for after in [0, 1, 5] {
        let mut model = to_be_compacted();
        for _ in 0..after {
            model.write();
            model.walk();
        }
        model.write();
        let request = model.walk.take().unwrap();
        model.faults.0.store(true, Ordering::Relaxed);
        let done = model.worker.perform(request);
        model.faults.0.store(false, Ordering::Relaxed);
        model.journal.handle_io(done);
        assert_eq!(model.journal.poll_compaction(64 << 10), None);
        assert!(matches!(model.journal.compaction_stopped(), Some(ReadError::Disk { .. })), "{after}");
        assert!(model.journal.poisoned().is_none());
        model.play(&Step::Append { owner: 1, length: 500, count: 1 });
        model.hand_out();
        assert!(model.walk.is_none(), "nothing is read for it any more");
        let newest = *model.live.keys().last().unwrap();
        assert_eq!(model.ask(newest), Some(true));
    }
}

/// The file of the oldest segment.
fn oldest_file(model: &Model) -> FileId {
    model.disk.seen().list().unwrap().into_iter().min().unwrap().0
}

fn damage(model: &Model, damage: impl FnOnce(&mut Vec<u8>)) -> FileId {
    let (seen, file) = (model.disk.seen(), oldest_file(model));
    let mut bytes = seen.contents(file).unwrap();
    damage(&mut bytes);
    seen.replace(file, bytes);
    file
}

/// Compacts until it stops, or so many segments are freed.
fn compact_until_stopped(model: &mut Model, freed: u64) {
    let mut rounds = 0;
    while model.journal.compaction_stopped().is_none() && model.journal.stats().segments_freed < freed {
        model.compact();
        let until = model.journal.commit();
        model.journal.request_sync(until);
        model.hand_out();
        model.walk();
        rounds += 1;
        assert!(rounds < 400, "{:?}", model.journal.stats());
    }
}

/// Offset of the content of a record in the oldest segment, which begins at position 0.
fn content_of(model: &Model, number: u64) -> usize {
    usize::try_from(model.live[&number].at.0).unwrap() + 12
}

#[test]
fn compaction_passes_over_damage_in_which_nothing_lives() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 6] = [
        ("the header of the segment", |bytes| bytes[8] ^= 1),
        ("its mark", |bytes| bytes[64 + 80] ^= 1),
        ("a dead record in the first piece", |bytes| bytes[500_000] ^= 1),
        ("the dead record that is longer than a piece", |bytes| bytes[3 << 20] ^= 1),
        ("a dead record in a later piece", |bytes| bytes[(5 << 20) - 100_000] ^= 1),
        ("the seal", |bytes| {
            let end = bytes.len();
            bytes[end - 10] ^= 1;
        }),
    ];
    for (case, change) in damages {
        let mut model = to_be_compacted();
        let long = model.live.remove(&40).unwrap();
        model.journal.release(long.at, long.length);
        let live = model.live.clone();
        damage(&model, change);
        compact_until_stopped(&mut model, 1);
        assert_eq!(model.journal.compaction_stopped(), None, "{case}");
        assert!(live.keys().eq(model.live.keys()));
        assert!(model.live.values().all(|known| known.at.0 >= 5 << 20), "{case}: all of it was moved");
    }
}

#[test]
fn compaction_stops_at_a_damaged_record_that_lives_and_goes_on_once_it_is_dead() {
    const DAMAGED: u64 = 60;
    let mut model = to_be_compacted();
    let (at, length) = (model.live[&DAMAGED].at, model.live[&DAMAGED].length);
    let place = content_of(&model, DAMAGED) + 100;
    let file = damage(&model, |bytes| bytes[place] ^= 1);
    compact_until_stopped(&mut model, 1);
    let stopped = model.journal.compaction_stopped().cloned();
    let Some(ReadError::Corrupt { file: named, offset, at: batch }) = stopped else { panic!("{stopped:?}") };
    assert!(named == file && batch <= at && offset <= place as u64, "{stopped:?}");
    // All others have left the segment.
    let tail = model.journal.stats().tail;
    let next = model.live.values().filter(|known| known.at > at).map(|known| known.at).min().unwrap();
    assert!(model.live.values().all(|known| known.at == at || known.at >= next), "{tail}");
    assert!(next.0 >= 5 << 20, "{next}: of a later segment");
    assert_eq!(model.journal.stats().segments_freed, 0);
    assert_eq!(model.journal.poll_compaction(64 << 10), None);
    assert!(model.journal.compaction_stopped().is_some(), "as long as it lives");
    model.live.remove(&DAMAGED);
    model.journal.release(at, length);
    model.write();
    assert_eq!(model.journal.stats().segments_freed, 1);
    compact_until_stopped(&mut model, 2);
    assert_eq!(model.journal.compaction_stopped(), None);
    model.read_all();
}

#[test]
fn compaction_stops_where_the_file_ends_before_what_lives() {
    let mut model = to_be_compacted();
    let file = damage(&model, |bytes| bytes.truncate((5 << 20) + 17));
    compact_until_stopped(&mut model, 1);
    let stopped = model.journal.compaction_stopped();
    assert!(matches!(stopped, Some(ReadError::Corrupt { file: named, .. }) if *named == file), "{stopped:?}");
    assert_eq!(model.journal.stats().segments_freed, 0);
    assert!(
        model.live.values().all(|known| known.at.0 + 30_000 > 5 << 20),
        "what is there is moved: {:?}",
        model.live.iter().take(3).collect::<Vec<_>>()
    );
}

#[test]
fn a_read_of_compaction_that_failed_is_tried_again_after_a_pause_that_grows() {
    let mut model = to_be_compacted();
    let (mut now, mut pauses) = (1_000_000, Vec::new());
    model.journal.set_time(now);
    model.write();
    for _ in 0..12 {
        model.faults.0.store(true, Ordering::Relaxed);
        model.walk();
        model.faults.0.store(false, Ordering::Relaxed);
        model.compact();
        model.hand_out();
        let failed_at = now;
        while model.walk.is_none() {
            assert!(matches!(model.journal.compaction_stopped(), Some(ReadError::Disk { .. })));
            now += 500;
            assert!(now - failed_at < 300_000, "a pause without end");
            model.journal.set_time(now);
            model.compact();
            model.hand_out();
        }
        assert!(model.journal.compaction_stopped().is_some(), "until a read succeeds");
        pauses.push(now - failed_at);
    }
    assert_eq!(pauses[..4], [1_000, 2_000, 4_000, 8_000]);
    assert_eq!(pauses[8..], [256_000; 4]);
    while model.walk.is_some() && model.journal.compaction_stopped().is_some() {
        model.walk();
        model.compact();
        model.hand_out();
    }
    assert_eq!(model.journal.compaction_stopped(), None);
    compact_until_stopped(&mut model, 3);
    assert_eq!(model.journal.stats().segments_freed, 3);
    model.read_all();
}

#[test]
fn a_clock_that_is_put_back_does_not_prolong_the_pause_of_compaction() {
    let mut model = to_be_compacted();
    model.journal.set_time(1_000_000);
    model.write();
    model.faults.0.store(true, Ordering::Relaxed);
    model.walk();
    model.faults.0.store(false, Ordering::Relaxed);
    model.compact();
    model.hand_out();
    assert!(model.walk.is_none());
    model.journal.set_time(5_000);
    model.compact();
    model.hand_out();
    assert!(model.walk.is_some());
}

#[test]
fn a_segment_that_cannot_be_read_is_freed_once_nothing_in_it_lives() {
    let mut model = to_be_compacted();
    model.write();
    model.faults.0.store(true, Ordering::Relaxed);
    model.walk();
    model.compact();
    assert!(model.journal.compaction_stopped().is_some());
    let tail = model.journal.stats().tail;
    let inside: Vec<u64> = model.live.keys().copied().take_while(|number| *number < 400).collect();
    for number in inside {
        let known = model.live.remove(&number).unwrap();
        model.journal.release(known.at, known.length);
    }
    // No read succeeds, and none is needed.
    model.write();
    assert!(model.journal.stats().segments_freed > 0 && model.journal.stats().tail > tail);
}
