//! Records that effects wait for, and records that they do not: completions whose client asked for no answer.

use broker_core::{Output as _, SessionWanted};
use proptest::prelude::*;

use super::*;
use crate::namespace::usage::NamespaceUsage;

const LINK: LinkId = LinkId(1);
const DELETES: LinkId = LinkId(2);

type Lock = (QueueId, SequenceNumber, LockId);

impl Bench {
    /// A queue with so many durable messages, of which two are under lock; the link has no credit left.
    fn with_two_locked(messages: u64) -> (Self, Vec<Lock>) {
        let mut bench = Self::new();
        bench.handle((0..messages).map(|_| publish(None)).collect());
        bench.open(LINK, ReceiveMode::PeekLock);
        bench.open(DELETES, ReceiveMode::ReceiveAndDelete);
        bench.handle(vec![Command::ByteBudget { limit: 1 << 20, min_bytes: 0 }, credit(LINK, 2)]);
        bench.finish_io();
        let locks = locks(&bench.effects());
        assert_eq!(locks.len(), 2);
        assert_eq!(bench.unwritten(), 0);
        (bench, locks)
    }

    fn open(&mut self, consumer: LinkId, mode: ReceiveMode) {
        self.handle(vec![Command::OpenConsumer {
            consumer,
            path: orders(),
            mode,
            unsettled: UnsettledPolicy::Release,
            session: None,
            auto_create: false,
        }]);
    }

    fn unwritten(&self) -> u64 {
        self.node.journal().unwritten_bytes()
    }

    fn syncs(&self) -> u64 {
        self.node.journal().stats().syncs
    }

    /// After a crash: the numbers of what is received.
    fn numbers_after_crash(&mut self) -> Vec<u64> {
        self.crash();
        self.open(LINK, ReceiveMode::PeekLock);
        self.handle(vec![Command::ByteBudget { limit: 1 << 20, min_bytes: 0 }, credit(LINK, 100)]);
        self.finish_io();
        locks(&self.effects()).iter().map(|(_, sequence, _)| sequence.0).collect()
    }
}

fn credit(consumer: LinkId, limit: u64) -> Command {
    Command::Credit { consumer, limit, drain: false }
}

fn complete((queue, sequence, lock): Lock, ticket: Option<u64>) -> Command {
    Command::Settle { queue, sequence, lock, outcome: Outcome::Complete, ticket: ticket.map(Ticket) }
}

fn locks(effects: &[Effect]) -> Vec<Lock> {
    let lock = |effect: &Effect| match effect {
        Effect::Delivery(delivery) => Some((delivery.queue, delivery.sequence, delivery.lock?.id)),
        _ => None,
    };
    effects.iter().filter_map(lock).collect()
}

#[test]
fn deliveries_behind_a_completion_without_an_answer_are_shown_at_once() {
    let (mut bench, locks) = Bench::with_two_locked(4);
    let syncs = bench.syncs();
    bench.handle(vec![complete(locks[0], None), complete(locks[1], None), credit(LINK, 4)]);
    assert!(bench.unwritten() > 0);
    assert!(bench.node.poll_io().is_none_or(|request| !request.is_write()), "nobody asks for a sync");
    assert_eq!(self::locks(&bench.effects()).len(), 2);
    assert_eq!(bench.syncs(), syncs);
}

#[test]
fn awaited_records_hold_effects_back() {
    type Case = (&'static str, fn(Lock) -> Vec<Command>, usize);
    let cases: [Case; 4] = [
        ("an answer to a completion", |lock| vec![complete(lock, Some(5)), credit(LINK, 3)], 2),
        ("receive and delete", |_| vec![credit(DELETES, 1)], 1),
        ("a send in the same round", |lock| vec![complete(lock, None), publish(Some(5)), credit(LINK, 3)], 2),
        ("a send without an answer", |lock| vec![complete(lock, None), publish(None), credit(LINK, 3)], 1),
    ];
    for (what, commands, expected) in cases {
        let (mut bench, locks) = Bench::with_two_locked(3);
        bench.handle(commands(locks[0]));
        assert!(bench.effects().is_empty(), "{what}: shown before it is durable");
        bench.finish_io();
        assert_eq!(bench.effects().len(), expected, "{what}");
        assert_eq!(bench.unwritten(), 0, "{what}: what is not awaited went along");
    }
}

#[test]
fn unawaited_completions_are_written_in_time_all_the_same() {
    let (mut bench, locks) = Bench::with_two_locked(3);
    bench.handle(vec![complete(locks[0], None), credit(LINK, 3)]);
    assert_eq!(bench.effects().len(), 1);
    let due = NOW.after(NodeLimits::default().flush_after);
    assert_eq!(bench.node.deadline(), Some(due));
    // More of it puts nothing off.
    let later = NOW.after(Duration::from_millis(5));
    bench.node.handle_batch(
        later,
        NamespaceId::DEFAULT,
        Batch { client: CLIENT, commands: vec![complete(locks[1], None)] },
    );
    while bench.node.work(later) {}
    assert_eq!(bench.node.deadline(), Some(due));
    bench.node.work(due);
    bench.finish_io();
    assert_eq!(bench.unwritten(), 0);
    assert_eq!(bench.numbers_after_crash(), [3]);
}

#[test]
fn a_completion_that_a_crash_overtook_never_was_and_its_message_comes_again() {
    let (mut bench, locks) = Bench::with_two_locked(4);
    bench.handle(vec![complete(locks[0], Some(5))]);
    bench.finish_io();
    assert!(matches!(bench.effects()[..], [Effect::Settled { .. }]));
    bench.handle(vec![complete(locks[1], None), credit(LINK, 3)]);
    assert_eq!(self::locks(&bench.effects())[0].1, SequenceNumber(3), "shown with nothing on disk");
    assert_eq!(bench.numbers_after_crash(), [2, 3, 4], "the one that was confirmed stays gone");
}

#[test]
fn a_sync_for_others_leaves_no_timer_behind() {
    let (mut bench, locks) = Bench::with_two_locked(3);
    bench.handle(vec![complete(locks[0], None)]);
    let due = NOW.after(NodeLimits::default().flush_after);
    assert_eq!(bench.node.deadline(), Some(due));
    bench.handle(vec![publish(Some(5))]);
    assert_eq!(bench.node.deadline(), None, "all of it is on its way");
    bench.finish_io();
    assert_eq!((bench.effects().len(), bench.unwritten()), (1, 0));
}

#[test]
fn completions_during_a_sync_for_others_are_written_in_time() {
    let (mut bench, locks) = Bench::with_two_locked(4);
    bench.handle(vec![publish(Some(5))]);
    let write = bench.node.poll_io().filter(IoRequest::is_write).expect("it is asked for");
    bench.handle(vec![complete(locks[0], None), credit(LINK, 3)]);
    let done = DiskWorker::new(bench.disk.clone()).perform(write);
    bench.node.handle_io(done);
    assert_eq!(bench.effects().len(), 2);
    assert!(bench.unwritten() > 0 && bench.node.poll_io().is_none_or(|request| !request.is_write()));
    let due = NOW.after(NodeLimits::default().flush_after);
    assert_eq!(bench.node.deadline(), Some(due));
    bench.node.work(due);
    bench.finish_io();
    assert_eq!(bench.unwritten(), 0);
}

#[test]
fn effects_stay_in_order_behind_a_round_that_is_held() {
    let (mut bench, locks) = Bench::with_two_locked(4);
    bench.handle(vec![publish(Some(5))]);
    // By itself this would be shown at once.
    bench.handle(vec![complete(locks[0], None), credit(LINK, 3)]);
    assert!(bench.effects().is_empty());
    bench.finish_io();
    let shown = bench.effects();
    assert!(matches!(shown[..], [Effect::Published { .. }, Effect::Delivery(_)]), "{shown:?}");
}

#[test]
fn a_clean_shutdown_keeps_unawaited_completions() {
    let (mut bench, locks) = Bench::with_two_locked(3);
    bench.handle(vec![complete(locks[0], None)]);
    bench.node.close();
    bench.finish_io();
    assert!(bench.node.is_closed());
    assert_eq!(bench.numbers_after_crash(), [2, 3]);
}

#[test]
fn after_a_failed_sync_of_unawaited_completions_no_effect_is_shown() {
    let (mut bench, locks) = Bench::with_two_locked(4);
    bench.handle(vec![complete(locks[0], None)]);
    bench.faults.0.store(true, Ordering::Relaxed);
    bench.node.work(NOW.after(NodeLimits::default().flush_after));
    bench.finish_io();
    assert!(bench.node.fault().is_some());
    bench.handle(vec![publish(Some(5))]);
    assert!(bench.effects().is_empty());
}

#[test]
fn the_state_of_a_session_never_outlives_a_completion_before_it() {
    let mut bench = Bench::new();
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let path = EntityPath { entity: "steps".into(), sub_queue: SubQueue::Main };
    let message = Message {
        session_id: Some("s".into()),
        payload: Bytes::from_static(b"\x00\x53\x75\xa0\x01x"),
        ..Message::default()
    };
    bench.handle(vec![
        Command::CreateEntity {
            name: "steps".into(),
            kind: EntityKind::Queue,
            settings: Box::new(settings),
            ticket: Ticket(2),
        },
        Command::PublishTo { path: path.clone(), messages: vec![message], auto_create: false, ticket: None },
        Command::OpenConsumer {
            consumer: LINK,
            path: path.clone(),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::Release,
            session: Some(SessionWanted::Named("s".into())),
            auto_create: false,
        },
        Command::ByteBudget { limit: 1 << 20, min_bytes: 0 },
        credit(LINK, 1),
    ]);
    bench.finish_io();
    let lock = locks(&bench.effects())[0];
    let state = Some(Bytes::from_static(b"done"));
    bench.handle(vec![complete(lock, None)]);
    bench.handle(vec![Command::SetSessionState { path, session: "s".into(), state, ticket: Ticket(3) }]);
    assert!(bench.effects().is_empty());
    bench.finish_io();
    assert_eq!(bench.effects().len(), 1, "the state is confirmed");
    bench.crash();
    assert_eq!(bench.node.core().entity("steps").map(|queue| queue.active), Some(0));
}

/// One event in the life of a node.
#[derive(Clone, Debug)]
enum Event {
    /// The core writes a record that effects wait for, or one that they do not.
    Record {
        awaited: bool,
    },
    /// The core tells somebody something.
    Effect,
    /// A call of the core ends.
    UnitEnds,
    RoundEnds,
    /// The disk begins with a request, or is done with it.
    Disk,
    /// So many milliseconds.
    Time(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<bool>().prop_map(|awaited| Event::Record { awaited }),
        3 => Just(Event::Effect),
        2 => Just(Event::UnitEnds),
        4 => Just(Event::RoundEnds),
        3 => Just(Event::Disk),
        1 => (0_u64..20).prop_map(Event::Time),
    ]
}

/// Model of the node: the effects that it owes, and the position that each waits for.
#[derive(Default)]
struct Model {
    /// End of the last awaited record.
    awaited: u64,
    /// Effects of this round.
    round: Vec<u64>,
    /// Effects to be shown, each with the position up to which everything must be durable before.
    owed: VecDeque<(u64, u64)>,
    next: u64,
}

impl Model {
    fn may_show(&mut self, durable: u64) -> Vec<u64> {
        let mut shown = Vec::new();
        while let Some((effect, _)) = self.owed.pop_front_if(|(_, until)| *until <= durable) {
            shown.push(effect);
        }
        shown
    }
}

fn shown(node: &mut Node) -> Vec<u64> {
    let mut tickets = Vec::new();
    while let Some(released) = node.poll_effects() {
        tickets.extend(released.effects.iter().map(|effect| match effect {
            Effect::Published { first, .. } => first.0,
            other => panic!("{other:?}"),
        }));
    }
    tickets
}

fn check(events: Vec<Event>) -> Result<(), TestCaseError> {
    let disk = FaultyDisk::new(SyncFails::default());
    let mut worker = DiskWorker::new(disk.clone());
    let (mut node, mut now, mut model) = (Bench::recover(&disk), NOW, Model::default());
    let mut at_work = None;
    for event in events {
        match event {
            Event::Record { .. } | Event::Effect => {
                let mut usage = NamespaceUsage::default();
                let mut out = node.output.of(NamespaceId::DEFAULT, &mut usage, RoundLimit::default());
                match event {
                    Event::Record { awaited: true } => {
                        out.record(b"awaited", &[]);
                        model.awaited = node.output.journal.end().0;
                    }
                    Event::Record { awaited: false } => drop(out.record_unawaited(b"unawaited")),
                    _ => {
                        model.next += 1;
                        model.round.push(model.next);
                        let ticket = Ticket(model.next);
                        out.effect(CLIENT, Effect::Published { first: ticket, last: ticket });
                    }
                }
            }
            Event::UnitEnds => drop(node.output.journal.commit()),
            Event::RoundEnds => {
                node.close_round(now);
                model.owed.extend(model.round.drain(..).map(|effect| (effect, model.awaited)));
            }
            Event::Disk => match at_work.take() {
                Some(request) => node.handle_io(worker.perform(request)),
                None => at_work = node.poll_io(),
            },
            Event::Time(millis) => now = now.after(Duration::from_millis(millis)),
        }
        let durable = node.output.journal.durable().0;
        prop_assert_eq!(shown(&mut node), model.may_show(durable), "not too early, not too late, in order");
    }
    // Without anything new all of it becomes durable when its time has come.
    node.output.outbox.push(
        NamespaceId::DEFAULT,
        CLIENT,
        Effect::Published { first: Ticket(0), last: Ticket(0) },
    );
    node.close_round(now);
    while let Some(request) = at_work.take().or_else(|| node.poll_io()) {
        node.handle_io(worker.perform(request));
    }
    let last = now.after(2 * node.limits.flush_after);
    while let Some(due) = node.deadline() {
        prop_assert!(due <= last, "{due:?} is too late");
        node.close_round(due);
        while let Some(request) = node.poll_io() {
            node.handle_io(worker.perform(request));
        }
    }
    prop_assert_eq!(node.output.journal.unwritten_bytes(), 0, "nobody wakes the node");
    Ok(())
}

proptest! {
    #[test]
    fn an_effect_waits_for_the_awaited_records_before_it_and_for_nothing_else(
        events in prop::collection::vec(event(), 0..80)
    ) {
        check(events)?;
    }
}
