use std::{
    task::{Context, Poll, Waker},
    thread,
};

use broker_core::{
    Command, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LinkId, Message, ReceiveMode,
    SubQueue, Ticket, UnsettledPolicy,
};
use broker_log::JournalConfig;

use super::*;
use crate::clock::AHEAD_MAX;

fn begun() -> Executor {
    begun_with(CoreConfig::default())
}

fn begun_with(core: CoreConfig) -> Executor {
    let executor = Executor::default();
    let node = broker_node::in_memory(JournalConfig::default(), core);
    executor.begin(NodeDriver::new(node, Arc::clone(&executor.clock), None));
    executor
}

/// A client with a queue `q` whose locks last `lock_duration`.
fn client(executor: &Executor, client: ClientId, lock_duration: Duration) -> Arc<EffectQueue> {
    let effect_queue = Arc::new(EffectQueue::default());
    executor.push(ExecutorItem::Register(client, NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
    let settings = Box::new(EntitySettings { lock_duration, ..EntitySettings::default() });
    let create =
        Command::CreateEntity { name: "q".into(), kind: EntityKind::Queue, settings, ticket: Ticket(0) };
    submit_item(
        executor,
        client,
        vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }, create],
    );
    effect_queue
}

fn submit_item(executor: &Executor, client: ClientId, commands: Vec<Command>) {
    executor.push(ExecutorItem::Batch(Batch { client, commands }, 0));
}

fn q() -> EntityPath {
    EntityPath { entity: "q".into(), sub_queue: SubQueue::Main }
}

fn publish(ticket: u64) -> Command {
    let messages = vec![Message::default()];
    Command::PublishTo { path: q(), messages, auto_create: false, ticket: Some(Ticket(ticket)) }
}

/// Opens a link that wants so many messages.
fn consume(limit: u64) -> Vec<Command> {
    let consumer = LinkId(1);
    let open = Command::OpenConsumer {
        consumer,
        path: q(),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    vec![open, Command::Credit { consumer, limit, drain: false }]
}

fn published(effects: &[Effect]) -> u64 {
    let count = |effect: &Effect| match effect {
        Effect::Published { first, last } => last.0 - first.0 + 1,
        _ => 0,
    };
    effects.iter().map(count).sum()
}

/// Blocks the thread until the effect queue has something.
fn wait(effect_queue: &EffectQueue) -> Vec<Effect> {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match effect_queue.poll_take(&Context::from_waker(&waker)) {
            Poll::Ready(effects) => return effects,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_batch_submitted_to_an_idle_node_is_answered_at_once() {
    let executor = begun();
    let effect_queue = client(&executor, ClientId(1), Duration::from_secs(60));
    submit_item(&executor, ClientId(1), vec![publish(1)]);
    assert_eq!(published(&effect_queue.take()), 1);
}

#[test]
fn batches_submitted_at_the_same_time_are_all_answered() {
    const CLIENTS: u64 = 4;
    const BATCHES: u64 = 500;
    let executor = begun();
    thread::scope(|scope| {
        let housekeeper = scope.spawn(|| executor.run_housekeeper(|_| false));
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                let executor = &executor;
                scope.spawn(move || {
                    let effect_queue = client(executor, ClientId(number), Duration::from_secs(60));
                    for ticket in 1..=BATCHES {
                        submit_item(executor, ClientId(number), vec![publish(ticket)]);
                    }
                    let mut answered = 0;
                    while answered < BATCHES {
                        answered += published(&wait(&effect_queue));
                    }
                    answered
                })
            })
            .collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), BATCHES);
        }
        executor.push(ExecutorItem::Shutdown);
        assert_eq!(housekeeper.join().unwrap(), Ended::Stopped);
    });
}

#[test]
fn a_deadline_comes_though_nobody_brings_anything() {
    let executor = begun();
    thread::scope(|scope| {
        let housekeeper = scope.spawn(|| executor.run_housekeeper(|_| false));
        let effect_queue = client(&executor, ClientId(1), Duration::from_millis(1));
        submit_item(&executor, ClientId(1), consume(2));
        submit_item(&executor, ClientId(1), vec![publish(1)]);
        let mut delivered = 0;
        while delivered < 2 {
            delivered += wait(&effect_queue).iter().filter(|e| matches!(e, Effect::Delivery(_))).count();
        }
        executor.push(ExecutorItem::Shutdown);
        assert_eq!(housekeeper.join().unwrap(), Ended::Stopped);
    });
}

/// A core that panics when a message is sent to a topic.
fn panicking() -> CoreConfig {
    CoreConfig { describe: |_, _| panic!("as the test wants it"), ..CoreConfig::default() }
}

#[test]
fn after_a_panic_the_node_has_ended_for_everybody() {
    let executor = begun_with(panicking());
    let settings = Box::new(EntitySettings::default());
    let create =
        Command::CreateEntity { name: "q".into(), kind: EntityKind::Topic, settings, ticket: Ticket(0) };
    executor.push(ExecutorItem::Register(ClientId(1), NamespaceId::DEFAULT, Arc::default()));
    submit_item(&executor, ClientId(1), vec![Command::Connect, create]);
    // The client whose batch makes the node panic goes on.
    submit_item(&executor, ClientId(1), vec![publish(1)]);
    assert_eq!(executor.run_housekeeper(|_| false), Ended::Panicked);
    let effect_queue = client(&executor, ClientId(1), Duration::from_secs(60));
    assert!(effect_queue.take().is_empty());
    assert!(executor.state().items.is_empty(), "nothing piles up");
    assert!(executor.node().is_none(), "its files are free");
}

#[test]
fn clients_of_which_a_node_that_panics_has_not_heard_are_abandoned_when_it_recovers() {
    let executor = begun_with(panicking());
    let settings = Box::new(EntitySettings::default());
    let create =
        Command::CreateEntity { name: "q".into(), kind: EntityKind::Topic, settings, ticket: Ticket(0) };
    let first = Arc::<EffectQueue>::default();
    executor.push(ExecutorItem::Register(ClientId(1), NamespaceId::DEFAULT, Arc::clone(&first)));
    submit_item(&executor, ClientId(1), vec![Command::Connect, create]);
    let register = |id| {
        let effect_queue = Arc::<EffectQueue>::default();
        let item = ExecutorItem::Register(ClientId(id), NamespaceId::DEFAULT, Arc::clone(&effect_queue));
        (effect_queue, item)
    };
    // They wait while another thread runs the node: one in front of the batch that makes it panic, and one behind.
    let ((before, begins), (behind, begins_later)) = (register(2), register(3));
    executor.state().run_state = RunState::Running;
    executor.push(begins);
    submit_item(&executor, ClientId(1), vec![publish(1)]);
    executor.push(begins_later);
    let mut state = executor.state();
    (state.run_state, state.work_pending) = (RunState::Idle, true);
    drop(state);
    assert_eq!(executor.run_housekeeper(|ended| ended == Ended::Panicked), Ended::Panicked);
    let (late, begins_too_late) = register(4);
    assert!(!executor.push(begins_too_late));
    for (name, effect_queue) in [("first", first), ("before", before), ("behind", behind), ("late", late)] {
        assert!(effect_queue.is_abandoned(), "{name}");
    }
}

#[test]
fn clients_that_wait_for_a_node_that_panics_are_abandoned_when_it_recovers() {
    let executor = begun();
    let effect_queue = Arc::<EffectQueue>::default();
    executor.state().run_state = RunState::Running;
    executor.push(ExecutorItem::Register(ClientId(1), NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
    executor.fail();
    assert!(!effect_queue.is_abandoned(), "whether the shard recovers is not known yet");
    assert_eq!(executor.run_housekeeper(|_| true), Ended::Panicked);
    assert!(effect_queue.is_abandoned());
}

#[test]
fn quiet_is_told_once_after_a_whole_span_without_work() {
    let at = Timestamp::from_millis;
    let mut state = ExecutorState { active: true, ..ExecutorState::default() };
    state.update_idle(at(1000));
    assert_eq!(state.wake_at(), Some(at(1050)));
    state.active = true;
    state.update_idle(at(1050));
    state.update_idle(at(1099));
    assert!(state.items.is_empty(), "it had been stirred");
    state.update_idle(at(1100));
    assert!(matches!(state.items[..], [ExecutorItem::Idle]));
    assert_eq!(state.wake_at(), None);
    state.update_idle(at(9999));
    assert_eq!(state.items.len(), 1);
}

#[test]
fn a_housekeeper_that_sleeps_is_called_when_the_clock_moves() {
    let executor = begun();
    thread::scope(|scope| {
        let housekeeper = scope.spawn(|| executor.run_housekeeper(|_| false));
        let effect_queue = client(&executor, ClientId(1), Duration::from_secs(300));
        submit_item(&executor, ClientId(1), consume(2));
        submit_item(&executor, ClientId(1), vec![publish(1)]);
        // To just before the end of the lock: the rest passes by itself, by the new time.
        let (tell, told) = oneshot::channel();
        executor.push(ExecutorItem::Advance(Duration::from_millis(299_900), tell));
        assert!(told.blocking_recv().unwrap().is_some());
        let mut delivered = 0;
        while delivered < 2 {
            delivered += wait(&effect_queue).iter().filter(|e| matches!(e, Effect::Delivery(_))).count();
        }
        executor.push(ExecutorItem::Shutdown);
        assert_eq!(housekeeper.join().unwrap(), Ended::Stopped);
    });
}

#[test]
fn a_clock_is_not_moved_too_far_and_the_client_is_told() {
    let executor = begun();
    let advance = |by: Duration| {
        let (tell, told) = oneshot::channel();
        executor.push(ExecutorItem::Advance(by, tell));
        told.blocking_recv().unwrap()
    };
    assert_eq!(advance(AHEAD_MAX + Duration::from_millis(1)), None);
    assert_eq!(executor.clock.ahead(), Duration::ZERO);
    let at_the_limit = advance(AHEAD_MAX).unwrap();
    assert_eq!(executor.clock.ahead(), AHEAD_MAX);
    assert_eq!(advance(Duration::from_millis(1)), None);
    assert!(executor.clock.utc() >= at_the_limit);
}
