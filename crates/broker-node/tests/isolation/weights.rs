//! Of two namespaces with weights 1 and 4 that both want more than there is, each has its share of everything that they share; the
//! share of an idle one goes to the other.

use std::collections::VecDeque;

use broker_core::{
    Batch, Command, EntityKind, EntityPath, LinkId, Message, NamespaceSettings, ReceiveMode, SubQueue,
    Ticket, Timestamp, UnsettledPolicy,
};
use broker_log::{IoRequest, JournalConfig, Owner};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceView};
use bytes::Bytes;

use crate::{
    broker::Broker,
    tenant::{client, create, path, publish},
    world::{NAMES, id_of},
};

const NOW: u64 = 1_000_000;
const WEIGHTS: [u16; 2] = [1, 4];
/// Units of work of a round.
const BUDGET: u64 = 1_200;
const ROUND_BYTES: u64 = 4 << 20;
/// Rounds of a measurement.
const ROUNDS: u64 = 20;
/// More than is handled in them.
const MANY: u64 = 6_000;

/// Namespaces with weights 1 and 4, in this order, each with a client and a queue.
struct Pair {
    broker: Broker,
    ids: [NamespaceId; 2],
}

impl Pair {
    fn new() -> Self {
        // Everything stays in memory.
        Self::with_journal(JournalConfig {
            segment_bytes: 8 << 20,
            reserve_bytes: 0,
            ..JournalConfig::default()
        })
    }

    fn with_journal(journal: JournalConfig) -> Self {
        let mut broker = Broker::with_journal(ROUND_BYTES, journal);
        for (name, weight) in NAMES.iter().zip(WEIGHTS) {
            let settings = NamespaceSettings { weight, ..NamespaceSettings::default() };
            let put = NamespaceCommand::Put { name: (*name).into(), settings, uid: 7, only_create: true };
            broker.change(NOW, put, Ticket(1));
        }
        broker.run(NOW, &mut Vec::new()).unwrap();
        let ids = [0, 1].map(|at| id_of(&broker, NAMES[at]).unwrap());
        let mut pair = Self { broker, ids };
        pair.ask_both(NOW, |_| vec![Command::Connect, create(0, Ticket(1))]);
        pair.broker.run(NOW, &mut Vec::new()).unwrap();
        pair
    }

    /// The same, whose rounds have a budget of work.
    fn with_budget(mut self) -> Self {
        self.broker = self.broker.with_budgets(vec![BUDGET]);
        self.broker.run(NOW, &mut Vec::new()).unwrap();
        self
    }

    fn ask(&mut self, now: u64, at: usize, commands: Vec<Command>) {
        self.broker.ask(now, self.ids[at], Batch { client: client(0), commands });
    }

    /// Asks both, so that each knows of the other.
    fn ask_both(&mut self, now: u64, commands: impl Fn(usize) -> Vec<Command>) {
        for id in self.ids {
            self.broker.node.expect_batch(id);
        }
        for at in 0..self.ids.len() {
            self.ask(now, at, commands(at));
        }
    }

    /// One round with all that the disk does for it.
    fn round(&mut self, now: u64) -> bool {
        let more = self.broker.round(now);
        while self.broker.node.poll_effects().is_some() {}
        more
    }

    fn wait(&self) -> [bool; 2] {
        self.ids.map(|id| self.broker.node.command_wait(id, client(0)).is_some())
    }

    /// Works while there is work, and lets the disk do nothing.
    fn work(&mut self) {
        while self.broker.node.work(Timestamp::from_millis(NOW)) {}
    }

    fn of_each(&self, what: impl Fn(&NamespaceView<'_>) -> u64) -> [u64; 2] {
        self.ids.map(|id| what(&self.broker.node.namespace(id).unwrap()))
    }

    /// Messages of the queue of each.
    fn stored(&self) -> [u64; 2] {
        self.of_each(|view| view.core.entity(&path(0).entity).unwrap().active)
    }
}

/// The second has four times as much as the first, to a tenth.
fn assert_shares(what: &str, [light, heavy]: [u64; 2]) {
    assert!(
        36 * light <= 10 * heavy && 10 * heavy <= 44 * light && light >= 10,
        "{what}: {light} and {heavy} are not 1 to 4"
    );
}

fn less(after: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|at| after[at] - before[at])
}

fn sends(count: u64, bytes: usize) -> Vec<Command> {
    (0..count).map(|number| publish(0, 1, bytes, None, Ticket(10 + number))).collect()
}

#[test]
fn commands_are_served_by_weight() {
    let mut pair = Pair::new().with_budget();
    pair.ask_both(NOW, |_| sends(MANY, 40));
    pair.round(NOW);
    let (stored, work) = (pair.stored(), pair.of_each(|view| view.work.0));
    for round in 0..ROUNDS {
        let before = pair.stored();
        pair.round(NOW);
        assert_eq!(pair.wait(), [true; 2], "both want more in round {round}");
        assert_shares("commands of a round", less(pair.stored(), before));
    }
    assert_shares("commands", less(pair.stored(), stored));
    assert_shares("work", less(pair.of_each(|view| view.work.0), work));
}

#[test]
fn expiry_is_background_work_by_weight() {
    let mut pair = Pair::new();
    let one = |number| publish(0, 1, 40, Some(1_000), Ticket(10 + number));
    pair.ask_both(NOW, |_| (0..MANY).map(one).collect());
    pair.broker.run(NOW, &mut Vec::new()).unwrap();
    assert_eq!(pair.stored(), [MANY; 2]);
    let mut pair = pair.with_budget();
    let later = NOW + 2_000;
    let work = pair.of_each(|view| view.background_work.0);
    for _ in 0..ROUNDS {
        let before = pair.stored();
        assert!(pair.round(later), "there is more to do");
        assert_shares("messages that expire in a round", less(before, pair.stored()));
    }
    assert!(pair.stored()[1] > 0, "both want more");
    assert_shares("background work", less(pair.of_each(|view| view.background_work.0), work));
}

#[test]
fn queues_are_deleted_in_pieces_by_weight() {
    let mut pair = Pair::new();
    pair.ask_both(NOW, |_| sends(MANY, 40));
    pair.broker.run(NOW, &mut Vec::new()).unwrap();
    let mut pair = pair.with_budget();
    let records = |pair: &Pair| pair.of_each(|view| view.core.live_records().count() as u64);
    let (name, expected) = (path(0).entity, None);
    pair.ask_both(NOW, |_| vec![Command::DeleteEntity { name: name.clone(), expected, ticket: Ticket(5) }]);
    pair.round(NOW);
    for _ in 0..ROUNDS {
        let before = records(&pair);
        pair.round(NOW);
        assert_shares("records that are given back in a round", less(before, records(&pair)));
    }
    assert!(records(&pair)[1] > 0, "both want more");
}

#[test]
fn what_waits_for_the_disk_is_shared_by_weight() {
    const BODY: usize = 4_000;
    let mut pair = Pair::new();
    pair.ask_both(NOW, |_| sends(MANY / 2, BODY));
    // The disk does nothing.
    pair.work();
    assert_shares("bytes that wait for the disk", pair.of_each(|view| view.unwritten_bytes));
    // Now it writes all of this.
    pair.round(NOW);
    let appended = pair.of_each(|view| view.appended_bytes);
    for _ in 0..8 {
        let before = pair.of_each(|view| view.appended_bytes);
        pair.round(NOW);
        assert_eq!(pair.wait(), [true; 2]);
        let bytes = less(pair.of_each(|view| view.appended_bytes), before);
        assert_shares("bytes of a round", bytes);
    }
    assert_shares("bytes of the journal", less(pair.of_each(|view| view.appended_bytes), appended));
}

#[test]
fn bytes_of_a_round_are_shared_by_weight() {
    let mut pair = Pair::new();
    // Each message is small beside the share of what may wait for the disk, which a round does not reach.
    pair.broker = pair.broker.with_round_bytes(400_000);
    pair.ask_both(NOW, |_| sends(MANY / 2, 1_000));
    pair.round(NOW);
    let appended = pair.of_each(|view| view.appended_bytes);
    for _ in 0..6 {
        let before = pair.of_each(|view| view.appended_bytes);
        pair.round(NOW);
        assert_eq!(pair.wait(), [true; 2]);
        assert_shares("bytes of a round", less(pair.of_each(|view| view.appended_bytes), before));
    }
    assert_shares("bytes", less(pair.of_each(|view| view.appended_bytes), appended));
}

#[test]
fn the_memory_for_recent_messages_is_shared_by_weight() {
    const CACHE: u64 = 8 << 20;
    const RUN_MAX: u64 = 256 << 10;
    let journal = JournalConfig {
        segment_bytes: 4 << 20,
        reserve_bytes: 0,
        cache_bytes: CACHE,
        ..JournalConfig::default()
    };
    let mut pair = Pair::with_journal(journal);
    // Both send as much, in turn, and each alone more than the memory.
    for _ in 0..200 {
        pair.ask_both(NOW, |_| sends(16, 4_000));
        pair.broker.run(NOW, &mut Vec::new()).unwrap();
    }
    let held = pair.of_each(|view| view.cached_bytes);
    // Seven eighths are shared. The last eighth is nobody's, and whoever has it may have one run more than that.
    let shares = [1, 4].map(|weight| CACHE / 8 * 7 * weight / 5);
    for (held, share) in held.into_iter().zip(shares) {
        assert!(held >= share / 20 * 19, "{held} bytes of a share of {share}");
        assert!(held <= share + CACHE / 8 + RUN_MAX, "{held} bytes of a share of {share}");
    }
    assert!(held[0] + held[1] <= CACHE + RUN_MAX, "{held:?}");
}

/// Queues of each namespace whose messages are on the disk alone.
const COLD_QUEUES: u32 = 8;

fn cold_queue(number: u32) -> EntityPath {
    EntityPath { entity: format!("cold-{number}").into(), sub_queue: SubQueue::Main }
}

/// Both have receivers at many queues, whose messages are on the disk alone.
fn cold() -> Pair {
    const MESSAGES: usize = 10;
    // So large that each is a read of its own, and all reads take as long.
    const BODY: usize = 256 << 10;
    let journal = JournalConfig {
        segment_bytes: 4 << 20,
        reserve_bytes: 0,
        cache_bytes: 64 << 10,
        ..JournalConfig::default()
    };
    let mut pair = Pair::with_journal(journal);
    for number in 0..COLD_QUEUES {
        pair.ask_both(NOW, |_| {
            let create = Command::CreateEntity {
                name: cold_queue(number).entity,
                kind: EntityKind::Queue,
                settings: Box::default(),
                ticket: Ticket(1),
            };
            let message = Message { payload: Bytes::from(vec![7; BODY]), ..Message::default() };
            let send = Command::PublishTo {
                path: cold_queue(number),
                messages: vec![message; MESSAGES],
                auto_create: false,
                ticket: None,
            };
            vec![create, send]
        });
        pair.broker.run(NOW, &mut Vec::new()).unwrap();
    }
    pair.broker.crash(NOW, None);
    let open = |number| Command::OpenConsumer {
        consumer: LinkId(number),
        path: cold_queue(number),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    pair.ask_both(NOW, |_| {
        let connect = [Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }];
        connect.into_iter().chain((0..COLD_QUEUES).map(open)).collect()
    });
    pair.broker.run(NOW, &mut Vec::new()).unwrap();
    pair
}

#[test]
fn reads_of_the_disk_are_shared_by_weight() {
    let mut pair = cold();
    let credit = |number| Command::Credit { consumer: LinkId(number), limit: u64::MAX, drain: false };
    pair.ask_both(NOW, |_| (0..COLD_QUEUES).map(credit).collect());
    let read = |pair: &Pair| {
        pair.ids.map(|id| pair.broker.node.journal().owner_stats(Owner(id.slot.0)).disk_read_bytes)
    };
    let before = read(&pair);
    let mut under_way: VecDeque<IoRequest> = VecDeque::new();
    for step in 0..60 {
        pair.work();
        while pair.broker.node.poll_effects().is_some() {}
        while let Some(request) = pair.broker.node.poll_io() {
            if request.is_read() {
                under_way.push_back(request);
            } else {
                pair.broker.perform(request);
            }
        }
        // The disk does one read after the other.
        let Some(request) = under_way.pop_front() else { panic!("nothing is read in step {step}") };
        pair.broker.perform(request);
    }
    let [light, heavy] = less(read(&pair), before);
    // Four reads are under way at a time, and each namespace has one of them at least: the first has a quarter instead of
    // a fifth.
    let all = light + heavy;
    assert!(19 * all <= 100 * light && 100 * light <= 27 * all, "{light} of {all} bytes");
}

#[test]
fn an_idle_namespace_takes_nothing_from_the_other_one() {
    for (busy, idle) in [(0, 1), (1, 0)] {
        let mut pair = Pair::new().with_budget();
        // Both were at work before.
        pair.ask_both(NOW, |_| sends(1, 40));
        pair.round(NOW);
        pair.round(NOW);
        pair.ask(NOW, busy, sends(MANY, 40));
        pair.round(NOW);
        for _ in 0..ROUNDS / 2 {
            let before = pair.of_each(|view| view.work.0);
            pair.round(NOW);
            assert!(pair.wait()[busy] && !pair.wait()[idle]);
            let work = less(pair.of_each(|view| view.work.0), before);
            assert_eq!(work[idle], 0);
            // Commands have half of a round.
            assert!(work[busy] >= BUDGET / 2 && work[busy] <= BUDGET / 2 + 10, "{work:?} of {BUDGET}");
        }
    }
}
