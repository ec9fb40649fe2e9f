use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{format::RECORD_HEADER_LEN, write_cache::WriteCache};

/// A record, as the test knows it.
#[derive(Clone, Debug)]
struct Known {
    owner: Owner,
    at: u64,
    stored: u64,
    fill: u8,
    /// Number of the stretch of records of its owner to which it belongs.
    run: usize,
    /// Bytes before it that hold no record.
    gap: u64,
    lives: bool,
    /// It was among the newest of its owner that its share has room for, each time that the cache was shrunk.
    is_promised: bool,
}

/// A cache, and a naive account of what must be in it.
struct Model {
    cache: WriteCache,
    weights: Weights,
    keep: u64,
    end: u64,
    known: Vec<Known>,
}

impl Model {
    fn new(keep: u64, weights: &[u16]) -> Self {
        let mut all = Weights::default();
        for (owner, weight) in (0..).zip(weights) {
            all.set(Owner(owner), *weight);
        }
        Self { cache: WriteCache::new(64), weights: all, keep, end: 64, known: Vec::new() }
    }

    fn append(&mut self, owner: u16, length: usize, gap: u64) {
        let (owner, stored) = (Owner(owner), length + RECORD_HEADER_LEN);
        let at = self.end + gap;
        if !self.cache.continues(at, stored) {
            self.cache.freeze();
            self.cache.begin(at, at, stored);
        }
        let fill = u8::try_from(self.known.len() % 251).unwrap();
        self.cache.push(owner, [fill; RECORD_HEADER_LEN], &[], &[&vec![fill; length]]);
        self.end = at + stored as u64;
        let run = self.known.last().map_or(0, |last| last.run + usize::from(last.owner != owner));
        let stored = stored as u64;
        self.known.push(Known { owner, at, stored, fill, run, gap, lives: true, is_promised: true });
    }

    fn release(&mut self, index: usize) {
        let known = &mut self.known[index];
        if std::mem::take(&mut known.lives) {
            self.cache.release(known.at, known.stored);
        }
    }

    /// Everything is written; the cache is shrunk.
    fn write(&mut self) {
        self.cache.freeze();
        self.cache.note_written(self.end);
        let is_shared = self.owners_in_memory() > 1;
        self.cache.shrink(self.keep, self.end, &self.weights);
        if is_shared && self.owners_in_memory() > 1 {
            self.note_promises();
        } else {
            // One owner alone is promised nothing but the newest chunks.
            let Self { cache, known, .. } = self;
            for known in known.iter_mut() {
                known.is_promised &= cache.holding(known.at).is_some();
            }
        }
        self.check();
    }

    fn owners_in_memory(&mut self) -> usize {
        let Self { cache, known, .. } = self;
        let held = known.iter().filter(|known| cache.holding(known.at).is_some());
        held.map(|known| known.owner).collect::<BTreeSet<_>>().len()
    }

    /// Of each owner the newest records stay, up to its part by weight. A run counts as a whole while some of it lives.
    fn note_promises(&mut self) {
        let owners: BTreeMap<Owner, u64> =
            self.known.iter().map(|known| (known.owner, self.weights.of(known.owner))).collect();
        let all: u64 = owners.values().sum();
        for (owner, weight) in owners {
            let share = (self.keep - self.keep / 8) / all * weight;
            let mut taken = 0;
            let of_owner = self.known.iter_mut().rev().filter(|known| known.owner == owner);
            let mut of_owner: Vec<&mut Known> = of_owner.collect();
            for run in of_owner.chunk_by_mut(|one, other| one.run == other.run) {
                if run.iter().any(|known| known.lives) {
                    taken +=
                        run.iter().map(|known| known.stored + known.gap + RETAINED_RUN_BYTES).sum::<u64>();
                }
                for known in run.iter_mut() {
                    known.is_promised &= taken <= share;
                }
            }
        }
    }

    fn check(&mut self) {
        let (mut live, mut retained) = (BTreeMap::new(), BTreeMap::new());
        for run in self.cache.chunks.iter().flat_map(|chunk| chunk.runs.as_slice()) {
            *live.entry(run.owner).or_insert(0) += run.live();
        }
        *live.entry(self.cache.run.owner).or_insert(0) += self.cache.run.live();
        let living_chunks: u64 = self.cache.chunks.iter().map(|chunk| chunk.live).sum();
        assert_eq!(living_chunks + self.cache.run.live(), live.values().sum::<u64>());
        for owner in (0..9).map(Owner) {
            retained.insert(owner, self.cache.retention.shares.retained(owner));
            let expected = live.get(&owner).unwrap_or(&0) + retained[&owner];
            assert_eq!(self.cache.bytes_of(owner), expected, "{owner:?}");
        }
        assert_eq!(retained.values().sum::<u64>(), self.cache.retention.retained.bytes());
        // The last chunk stays in any case; besides it, the cache is full at most.
        let last_alone = self.cache.chunks.len() == 1 && self.cache.retention.retained.bytes() <= self.keep;
        assert!(self.cache.excess(self.keep) == 0 || last_alone, "{} bytes", self.cache.bytes());
        let Self { cache, known, .. } = self;
        for known in known.iter() {
            let Some((bytes, place)) = cache.holding(known.at) else {
                assert!(!known.lives || !known.is_promised, "{known:?}");
                assert!(!known.lives || !cache.is_held(known.at), "{known:?}");
                continue;
            };
            let end = place + usize::try_from(known.stored).unwrap();
            assert!(bytes[place..end].iter().step_by(499).all(|byte| *byte == known.fill), "{known:?}");
        }
    }

    fn in_memory(&mut self, owner: u16) -> Vec<bool> {
        let known: Vec<_> = self.known.iter().filter(|known| known.owner == Owner(owner)).cloned().collect();
        known.into_iter().map(|known| self.cache.holding(known.at).is_some()).collect()
    }

    /// Bytes of an owner's records that are in memory.
    fn bytes_in_memory(&mut self, owner: u16) -> u64 {
        let known: Vec<_> = self.known.iter().filter(|known| known.owner == Owner(owner)).cloned().collect();
        let held = known.into_iter().filter(|known| self.cache.holding(known.at).is_some());
        held.map(|known| known.stored).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn of_each_owner_the_newest_living_records_up_to_its_share_are_in_memory_whatever_others_append(
        // Owner, number of records in a row, their length, a gap, how far back one dies.
        steps in prop::collection::vec((0_u16..4, 1_usize..12, 0_usize..30_000, 0_u64..3, 0_usize..40), 1..100),
        weights in prop::collection::vec(1_u16..5, 4),
        keep in 0_u64..3_000_000,
    ) {
        let mut model = Model::new(keep, &weights);
        for (owner, count, length, gap, dies) in steps {
            for _ in 0..count {
                model.append(owner, length, gap * 64);
            }
            // Those that die are of several ages; a sixth of the steps leave everything alive.
            for number in 0..dies / 6 {
                let Some(index) = model.known.len().checked_sub(dies * (number + 1)) else { break };
                if index < model.known.len() {
                    model.release(index);
                }
            }
            model.write();
        }
        for index in 0..model.known.len() {
            model.release(index);
        }
        model.write();
        prop_assert!(model.cache.retention.retained.is_empty() && model.cache.retention.retained.bytes() == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn one_owner_alone_has_the_newest_chunks_and_nothing_else(
        steps in prop::collection::vec((1_usize..12, 0_usize..60_000, 0_usize..40), 1..60),
        keep in 0_u64..3_000_000,
        owner in 0_u16..5,
    ) {
        let mut model = Model::new(keep, &[1, 2, 3, 4, 5]);
        let mut starts = Vec::new();
        for (count, length, dies) in steps {
            for _ in 0..count {
                model.append(owner, length, 0);
            }
            if let Some(index) = model.known.len().checked_sub(dies + 1) {
                model.release(index);
            }
            model.cache.freeze();
            starts.extend(model.cache.chunks.iter().map(|chunk| (chunk.start, chunk.end)));
            model.write();
            prop_assert!(model.cache.retention.retained.is_empty());
            // Of all chunks that there were, those are held that begin in the last `keep` bytes, and the last one.
            starts.sort_unstable();
            starts.dedup_by_key(|(start, _)| *start);
            let held = |(start, _): &&(u64, u64)| model.end - *start <= keep;
            let first = starts.iter().find(held).or(starts.last()).map(|(start, _)| *start);
            prop_assert_eq!(model.cache.chunks.front().map(|chunk| chunk.start), first);
        }
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn records_of_a_quiet_owner_stay_in_memory_while_another_floods_the_journal() {
    let mut model = Model::new(4 * MIB, &[]);
    for number in 0..3_000 {
        if number % 10 == 0 {
            model.append(1, 1_000, 0);
        }
        model.append(2, 10_000, 0);
        if number % 25 == 0 {
            model.write();
        }
    }
    model.write();
    assert!(model.in_memory(1).iter().all(|held| *held));
    let (quiet, flood) = (model.bytes_in_memory(1), model.bytes_in_memory(2));
    assert!(flood < 4 * MIB - quiet && flood > 3 * MIB, "the other one has the rest: {flood}");
}

#[test]
fn owners_that_both_want_more_hold_their_weights_share() {
    for (weights, expected) in [([1, 1], 500), ([1, 3], 750), ([3, 1], 250)] {
        let mut model = Model::new(8 * MIB, &weights);
        // The first one appends nine times as much.
        for number in 0..6_000 {
            model.append(u16::from(number % 10 == 0), 10_000, 0);
            if number % 25 == 0 {
                model.write();
            }
        }
        model.write();
        let (many, few) = (model.bytes_in_memory(0), model.bytes_in_memory(1));
        let share = few * 1_000 / (many + few);
        // An owner holds no more than it has appended, and an eighth of the cache is nobody's share.
        assert!((expected * 7 / 8 - 20..=expected + 20).contains(&share), "{weights:?}: {share}");
    }
}

#[test]
fn an_owner_above_its_share_loses_the_oldest_records_first() {
    let mut model = Model::new(4 * MIB, &[]);
    for number in 0..4_000 {
        model.append(u16::from(number % 5 == 0), 5_000, 0);
        if number % 20 == 0 {
            model.write();
        }
    }
    model.write();
    let held = model.in_memory(1);
    let first = held.iter().position(|held| *held).unwrap();
    let holes: Vec<_> = (first..held.len()).filter(|n| !held[*n]).collect();
    assert!(first > 100 && holes.is_empty(), "{first}: {holes:?}");
    assert!(!model.cache.retention.retained.is_empty());
}

#[test]
fn memory_of_retained_records_is_free_when_they_die_or_their_segment_goes() {
    let mut model = Model::new(2 * MIB, &[]);
    for number in 0..2_000 {
        model.append(u16::from(number % 10 == 0), 5_000, 0);
        if number % 20 == 0 {
            model.write();
        }
    }
    let retained: Vec<_> = (0..model.known.len())
        .filter(|index| model.known[*index].owner == Owner(1) && model.known[*index].at < model.cache.start)
        .filter(|index| model.cache.retention.retained.holding(model.known[*index].at).is_some())
        .collect();
    assert!(retained.len() > 50);
    let (bytes, of_owner) = (model.cache.bytes(), model.cache.bytes_of(Owner(1)));
    model.release(retained[0]);
    let freed = bytes - model.cache.bytes();
    assert!(freed > 5_000, "{freed}");
    assert_eq!(of_owner - model.cache.bytes_of(Owner(1)), freed);
    // The others were given back without a word, as after a record that is no owner's any more.
    let at = model.known[retained[10]].at;
    model.cache.forget_before(at);
    assert!(model.cache.holding(at).is_some());
    assert!(
        retained[..10].iter().all(|index| model
            .cache
            .retention
            .retained
            .holding(model.known[*index].at)
            .is_none())
    );
    model.cache.forget_before(model.cache.start);
    assert!(model.cache.retention.retained.is_empty());
    assert_eq!(model.cache.bytes(), model.cache.bytes - model.cache.given_back);
}

#[test]
fn a_chunk_of_one_owner_is_retained_without_a_copy() {
    let mut model = Model::new(4 * MIB, &[]);
    for _ in 0..30 {
        model.append(1, 10_000, 0);
    }
    model.write();
    let place = model.cache.holding(64).unwrap().0.as_ptr();
    for _ in 0..1_000 {
        model.append(2, 10_000, 0);
        model.write();
    }
    assert!(!model.cache.is_held(64), "compaction reads it from the disk");
    assert!(model.cache.piece_at_or_after(64).is_none());
    assert_eq!(model.cache.holding(64).unwrap().0.as_ptr(), place);
    model.cache.prefetch([(64, 100)].into_iter());
}

#[test]
fn a_run_over_several_batches_is_retained_as_a_whole() {
    let mut model = Model::new(MIB, &[]);
    for number in 0..400 {
        // Each ten records of the one are five batches.
        model.append(if number % 20 < 10 { 1 } else { 2 }, if number % 20 < 10 { 100 } else { 20_000 }, 128);
        if number % 2 == 0 {
            model.write();
        }
    }
    assert!(model.in_memory(1).iter().all(|held| *held));
    assert!(!model.in_memory(2).iter().all(|held| *held));
}

#[test]
fn one_call_copies_in_proportion_to_what_is_to_be_freed() {
    let mut model = Model::new(64 * MIB, &[]);
    // Two quiet owners by turns, then one that needs everything.
    for number in 0..25_000 {
        model.append(number % 2, 1_000, 0);
    }
    let (mut most, mut excess) = (0, 0);
    for _ in 0..1_000 {
        model.append(3, 100_000, 0);
        model.cache.freeze();
        model.cache.note_written(model.end);
        let before = model.cache.retention.retained.bytes();
        model.cache.shrink(model.keep, model.end, &model.weights);
        most = most.max(model.cache.retention.retained.bytes().saturating_sub(before));
        excess = excess.max(model.cache.excess(model.keep));
    }
    assert!(most > MIB && most < 4 * MIB, "{most} bytes in one call");
    assert!(excess < 8 * MIB, "{excess} bytes too many");
    assert_eq!(model.cache.excess(model.keep), 0);
    model.write();
    assert!(model.in_memory(0).iter().all(|held| *held));
    assert!(model.in_memory(1).iter().all(|held| *held));
}
