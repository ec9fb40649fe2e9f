use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{ClientId, Effect, QuotaError, StorageError, StoredRecord, record::Fact};

const QUEUE: QueueId = QueueId(7);
const WINDOW: Duration = Duration::from_secs(20);

/// Records in memory.
#[derive(Default)]
struct Journal {
    records: BTreeMap<u64, Bytes>,
    released: Vec<u64>,
    end: u64,
}

impl Output for Journal {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        assert!(rest.is_empty(), "a history is all index");
        let at = self.end;
        self.records.insert(at, Bytes::copy_from_slice(index));
        self.end += index.len() as u64;
        (Position(at), u32::try_from(index.len()).unwrap())
    }

    fn release(&mut self, at: Position, length: u32) {
        assert_eq!(self.records[&at.0].len(), length as usize);
        assert!(!self.released.contains(&at.0), "released once");
        self.released.push(at.0);
    }

    fn effect(&mut self, _: ClientId, _: Effect) {
        panic!("a history tells nobody anything");
    }

    fn read(&mut self, _: Position, _: u32) -> Result<StoredRecord, StorageError> {
        panic!("a history reads nothing");
    }

    fn readable(&self) -> Position {
        Position(self.end)
    }

    fn check_storage(&self) -> Result<(), QuotaError> {
        Ok(())
    }
}

impl Journal {
    fn replayed(&self) -> History {
        let mut history = history();
        for (at, record) in &self.records {
            match Fact::decode(record).unwrap() {
                Fact::History(run) => {
                    assert_eq!(run.queue, QUEUE);
                    let length = u32::try_from(record.len()).unwrap();
                    history.replay(run, Position(*at), length);
                }
                Fact::Forgotten { kept_from, .. } => history.replay_forgotten(kept_from),
                other => panic!("{other:?}"),
            }
        }
        history.finish();
        history
    }

    /// Moves and drops what lies before `up_to`, as cleaning does.
    fn clean(&mut self, history: &mut History, up_to: u64) {
        let old: Vec<(u64, Bytes)> = self.records.range(..up_to).map(|(at, r)| (*at, r.clone())).collect();
        for (at, record) in old {
            if let Fact::History(run) = Fact::decode(&record).unwrap() {
                history.relocate(&run, Position(at), &record, self);
            }
            self.records.remove(&at);
        }
    }

    fn live(&self) -> Vec<u64> {
        self.records.keys().copied().filter(|at| !self.released.contains(at)).collect()
    }
}

fn history() -> History {
    let mut history = History::new(1);
    history.window = WINDOW;
    history
}

fn id(number: u16) -> Digest {
    Digest::of("", &number.to_string())
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn contents(history: &History) -> Vec<(u64, Timestamp, Vec<Digest>)> {
    history.runs().map(|(number, at, ids)| (number, at, ids.copied().collect())).collect()
}

#[test]
fn an_id_is_known_until_its_window_has_passed() {
    let cases = [
        // window in ms, asked how long after, known
        (20_000, 0, true),
        (20_000, 19_999, true),
        (20_000, 20_000, false),
        (20_000, 20_001, false),
        (604_800_000, 604_799_999, true),
        (604_800_000, 604_800_000, false),
    ];
    for case @ (window, later, known) in cases {
        let (mut history, mut journal) = (history(), Journal::default());
        history.window = Duration::from_millis(window);
        history.note(id(1), at(5));
        history.record(QUEUE, &mut journal);
        assert_eq!(history.has(&id(1), at(5 + later)), known, "{case:?}");
        assert!(!history.has(&id(2), at(5)));
    }
}

#[test]
fn ids_of_one_call_fit_into_records_of_bounded_length() {
    let (mut history, mut journal) = (history(), Journal::default());
    for number in 0..1_000 {
        history.note(id(number), at(1));
    }
    history.record(QUEUE, &mut journal);
    let lengths: Vec<usize> = journal.records.values().map(Bytes::len).collect();
    assert_eq!(lengths, [28 + 4_096, 28 + 4_096, 28 + 4_096, 28 + 232 * 16]);
    assert_eq!(contents(&journal.replayed()), contents(&history));
}

#[test]
fn forgetting_is_bounded_and_waits_for_an_eighth_of_the_window() {
    let (mut history, mut journal) = (history(), Journal::default());
    assert_eq!(history.forget_at(), None);
    for number in 0..1_000 {
        history.note(id(number), at(1_000));
    }
    history.record(QUEUE, &mut journal);
    assert_eq!(history.forget_at(), Some(at(1_000 + 20_000 + 2_500)));
    assert_eq!(history.forget(QUEUE, at(20_999), 1_000, &mut journal), 0);
    assert_eq!(history.forget(QUEUE, at(21_000), 300, &mut journal), 512, "whole runs");
    assert_eq!(history.len(), 488);
    assert_eq!(history.forget(QUEUE, at(21_000), 1_000, &mut journal), 488);
    assert_eq!((history.len(), history.forget_at()), (0, None));
    assert_eq!(contents(&journal.replayed()), vec![]);
    assert_eq!(journal.live(), Vec::<u64>::new());
}

#[test]
fn a_short_window_is_not_looked_at_more_than_once_a_second() {
    let (mut history, mut journal) = (history(), Journal::default());
    history.note(id(1), at(0));
    history.record(QUEUE, &mut journal);
    history.window = Duration::from_secs(4);
    assert_eq!(history.forget_at(), Some(at(5_000)));
}

#[test]
fn an_id_that_was_noted_anew_stays_when_the_old_run_goes() {
    let (mut history, mut journal) = (history(), Journal::default());
    history.note(id(1), at(0));
    history.record(QUEUE, &mut journal);
    history.note(id(1), at(20_000));
    history.record(QUEUE, &mut journal);
    assert_eq!(history.forget(QUEUE, at(20_000), 10, &mut journal), 1);
    assert!(history.has(&id(1), at(39_999)));
    assert!(journal.replayed().has(&id(1), at(39_999)));
}

#[test]
fn a_clock_set_back_keeps_the_runs_in_order() {
    let (mut history, mut journal) = (history(), Journal::default());
    for time in [50_000, 10_000, 60_000] {
        history.note(id(u16::try_from(time / 10_000).unwrap()), at(time));
        history.record(QUEUE, &mut journal);
    }
    let times: Vec<u64> = history.runs().map(|(_, at, _)| at.as_millis()).collect();
    assert_eq!(times, [50_000, 50_000, 60_000]);
    assert!(history.has(&id(1), at(60_000)), "too long rather than too short");
}

#[derive(Clone, Debug)]
enum Step {
    Send { ids: Vec<u16> },
    Wait { millis: u32 },
    Forget { most: u32 },
    Crash,
    Clean { share: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0u16..30, 1..6).prop_map(|ids| Step::Send { ids }),
        2 => (0u32..12_000).prop_map(|millis| Step::Wait { millis }),
        2 => (0u32..10).prop_map(|most| Step::Forget { most }),
        1 => Just(Step::Crash),
        1 => any::<u8>().prop_map(|share| Step::Clean { share }),
    ]
}

proptest! {
    #[test]
    fn no_duplicate_passes_within_the_window_and_everything_else_does(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let (mut history, mut journal, mut now) = (history(), Journal::default(), 1_000);
        let mut accepted: BTreeMap<u16, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Send { ids } => {
                    for number in ids {
                        let known = accepted.get(&number).is_some_and(|time| now < time + 20_000);
                        prop_assert_eq!(history.has(&id(number), at(now)), known, "{} at {}", number, now);
                        if !known {
                            history.note(id(number), at(now));
                            accepted.insert(number, now);
                        }
                    }
                    history.record(QUEUE, &mut journal);
                }
                Step::Wait { millis } => now += u64::from(millis),
                Step::Forget { most } => {
                    history.forget(QUEUE, at(now), most, &mut journal);
                }
                Step::Crash => history = journal.replayed(),
                Step::Clean { share } => {
                    let up_to = journal.end * u64::from(share) / 256;
                    journal.clean(&mut history, up_to);
                }
            }
            prop_assert_eq!(contents(&journal.replayed()), contents(&history));
            let mut live: Vec<u64> = history.live_records().map(|(at, _)| at.0).collect();
            live.sort_unstable();
            prop_assert_eq!(live, journal.live());
        }
    }
}
