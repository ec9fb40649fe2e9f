//! Budgets that a pace gave for the times that rounds took, recorded, replay the run of a node exactly, its journal included.

use broker_core::{
    Batch, ClientId, Command, CoreConfig, EntityKind, EntityPath, EntitySettings, LinkId, Message,
    NamespaceSettings, ReceiveMode, SubQueue, Ticket, Timestamp, UnsettledPolicy,
};
use broker_log::{Disk as _, DiskWorker, FileId, JournalConfig, MemDisk};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest, Node};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 2] = ["red", "green"];
const CLIENT: ClientId = ClientId(10);
const START: u64 = 1_000_000;
/// Milliseconds between two rounds.
const STEP: u64 = 40;
/// Nothing has more rounds.
const ROUNDS_MAX: usize = 5_000;

/// Messages that the client of one namespace sends at once, each in a command of its own, and the bytes of each.
type Sends = (usize, u64, usize);

/// The budgets of the rounds.
enum Budgets<'a> {
    /// Those of a pace, where the rounds take these times in turn.
    Paced(WorkPace, &'a [Duration]),
    /// Those of an earlier run.
    Recorded(&'a [u64]),
}

impl Budgets<'_> {
    fn next(&self, round: usize) -> u64 {
        match self {
            Self::Paced(pace, _) => pace.budget().left().0,
            Self::Recorded(budgets) => budgets.get(round).copied().unwrap_or(1),
        }
    }

    fn note(&mut self, round: usize, done: Work) {
        if let Self::Paced(pace, times) = self {
            pace.note(done, times[round % times.len()]);
        }
    }
}

/// Results of one round: what is shown, its work, and the end of the journal.
#[derive(Debug, PartialEq)]
struct Round {
    shown: String,
    work: Work,
    end: u64,
}

#[derive(Debug, PartialEq)]
struct Run {
    budgets: Vec<u64>,
    rounds: Vec<Round>,
    files: Vec<(FileId, Option<Vec<u8>>)>,
}

struct Bench {
    node: Node,
    disk: MemDisk,
}

impl Bench {
    fn new() -> Self {
        let disk = MemDisk::new();
        let journal = JournalConfig {
            segment_bytes: 32 << 10,
            reserve_bytes: 0,
            cache_bytes: 16 << 10,
            ..JournalConfig::default()
        };
        let node = broker_node::recover(disk.clone(), journal, CoreConfig::default()).unwrap();
        Self { node, disk }
    }

    /// Does what the disk is asked for, and gives what is shown.
    fn finish(&mut self) -> String {
        let mut worker = DiskWorker::new(self.disk.clone());
        while let Some(request) = self.node.poll_io() {
            self.node.handle_io(worker.perform(request));
        }
        let shown: Vec<String> =
            std::iter::from_fn(|| self.node.poll_effects()).map(|released| format!("{released:?}")).collect();
        shown.concat()
    }

    /// The namespaces, each with a queue whose messages expire and a receiver.
    fn prepare(&mut self) -> [NamespaceId; 2] {
        let now = Timestamp::from_millis(START);
        for (weight, name) in (1..).zip(NAMES) {
            let settings = NamespaceSettings { weight, ..NamespaceSettings::default() };
            let put = NamespaceCommand::Put { name: name.into(), settings, uid: 7, only_create: true };
            let request = NamespaceRequest { client: CLIENT, ticket: Ticket(1) };
            self.node.change_namespace(now, request, put);
        }
        let found = |node: &Node, name: &str| {
            node.namespaces().find(|view| &*view.definition.name == name).map(|view| view.id)
        };
        let ids = NAMES.map(|name| found(&self.node, name).unwrap());
        for id in ids {
            let time_to_live = Some(Duration::from_millis(20 * STEP));
            let settings = EntitySettings { default_time_to_live: time_to_live, ..EntitySettings::default() };
            let commands = vec![
                Command::Connect,
                Command::ByteBudget { limit: u64::MAX, min_bytes: 0 },
                Command::CreateEntity {
                    name: "q".into(),
                    kind: EntityKind::Queue,
                    settings: Box::new(settings),
                    ticket: Ticket(1),
                },
                Command::OpenConsumer {
                    consumer: LinkId(1),
                    path: queue(),
                    mode: ReceiveMode::ReceiveAndDelete,
                    unsettled: UnsettledPolicy::Release,
                    session: None,
                    auto_create: false,
                },
                // Some of the messages stay until they expire.
                Command::Credit { consumer: LinkId(1), limit: 100, drain: false },
            ];
            self.node.handle_batch(now, id, Batch { client: CLIENT, commands });
        }
        while self.node.work(now) {
            self.finish();
        }
        self.finish();
        ids
    }
}

fn queue() -> EntityPath {
    EntityPath { entity: "q".into(), sub_queue: SubQueue::Main }
}

fn sends(count: u64, bytes: usize) -> Vec<Command> {
    let message = Message { payload: Bytes::from(vec![7; bytes]), ..Message::default() };
    let send = |ticket| Command::PublishTo {
        path: queue(),
        messages: vec![message.clone()],
        auto_create: false,
        ticket: Some(Ticket(ticket)),
    };
    (0..count).map(send).collect()
}

/// Gives the batches in order, one before each round, and then goes on until all messages have expired and nothing is left to do.
fn run(batches: &[Sends], mut budgets: Budgets<'_>) -> Run {
    let mut bench = Bench::new();
    let ids = bench.prepare();
    let (mut recorded, mut rounds) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS_MAX {
        let now = Timestamp::from_millis(START + STEP * round as u64);
        let budget = budgets.next(round);
        recorded.push(budget);
        bench.node.set_work_budget(WorkBudget::new(Work(budget)));
        if let Some((at, count, bytes)) = batches.get(round) {
            bench.node.expect_batch(ids[*at]);
            let commands = sends(*count, *bytes);
            bench.node.handle_batch(now, ids[*at], Batch { client: CLIENT, commands });
        }
        let more = bench.node.work(now);
        let work = bench.node.round_work();
        budgets.note(round, work);
        let shown = bench.finish();
        let waits = bench.node.has_deferred() || bench.node.has_reading();
        rounds.push(Round { shown, work, end: bench.node.journal().committed().0 });
        if round >= batches.len() && !more && !waits && bench.node.deadline().is_none() {
            break;
        }
        assert!(round + 1 < ROUNDS_MAX, "it does not end");
    }
    let files = bench.disk.list().unwrap();
    let files = files.into_iter().map(|(file, _)| (file, bench.disk.contents(file))).collect();
    Run { budgets: recorded, rounds, files }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_recorded_budgets_of_a_pace_replay_a_run_with_its_journal(
        batches in prop::collection::vec((0..NAMES.len(), 1_u64..80, 0_usize..2_000), 1..16),
        nanos in prop::collection::vec(prop_oneof![0_u64..30_000, 30_000_u64..3_000_000], 1..9),
        target_us in 4_u64..300,
    ) {
        let times: Vec<Duration> = nanos.into_iter().map(Duration::from_nanos).collect();
        let pace = WorkPace::new(Duration::from_micros(target_us));
        let first = run(&batches, Budgets::Paced(pace, &times));
        let again = run(&batches, Budgets::Recorded(&first.budgets));
        prop_assert!(again == first, "{:?} and {:?}", again.rounds, first.rounds);
    }
}

#[test]
fn the_times_that_rounds_take_decide_what_is_done_in_each() {
    let batches = [(0, 70, 500), (1, 70, 900), (0, 70, 20), (1, 70, 1_500)];
    let slow = [Duration::from_millis(2)];
    let pace = WorkPace::new(Duration::from_micros(20));
    let first = run(&batches, Budgets::Paced(pace, &slow));
    let mut different = first.budgets.clone();
    different.dedup();
    assert!(different.len() > 3, "{different:?}: the budgets follow the times");
    let quick = run(&batches, Budgets::Paced(pace, &[Duration::ZERO]));
    assert!(quick.rounds != first.rounds && quick.files != first.files, "{:?}", quick.budgets);
}
