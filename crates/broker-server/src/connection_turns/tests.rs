use std::{
    collections::VecDeque,
    task::{Wake, Waker},
};

use broker_core::NamespaceSlot;
use broker_node::NamespaceId;

use super::*;

/// Time of a turn.
const TURN: Duration = Duration::from_millis(1);

fn residence(at: usize) -> Residence {
    (0, NamespaceId { slot: NamespaceSlot(u16::try_from(at).unwrap()), uid: 7 })
}

/// Tasks that are ready to run, in order.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

/// Wakes one task.
struct Task(Arc<Ready>, usize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.0.lock().unwrap().push_back(self.1);
    }
}

/// A thread whose connections always have something to do.
struct Thread {
    ready: Arc<Ready>,
    connections: Vec<(NamespaceTurn, usize)>,
    weights: Vec<u16>,
    now: Instant,
    /// Turns of each namespace.
    turns: Vec<u32>,
}

impl Thread {
    /// So many connections of each namespace, which has this weight.
    fn new(namespaces: &[(usize, u16)]) -> Self {
        let turns = Arc::<ConnectionTurns>::default();
        let mut connections = Vec::new();
        for (namespace, (count, _)) in namespaces.iter().enumerate() {
            connections.extend((0..*count).map(|_| (NamespaceTurn::new(Arc::clone(&turns)), namespace)));
        }
        let ready = Ready(Mutex::new((0..connections.len()).collect()));
        Self {
            ready: Arc::new(ready),
            connections,
            weights: namespaces.iter().map(|(_, weight)| *weight).collect(),
            now: clock::instant(),
            turns: vec![0; namespaces.len()],
        }
    }

    /// Runs the next task that is ready. Its number, if it has had a turn.
    fn step(&mut self) -> Option<usize> {
        let task = self.ready.0.lock().unwrap().pop_front().expect("some task is ready");
        let (turn, namespace) = &mut self.connections[task];
        let waker = Waker::from(Arc::new(Task(Arc::clone(&self.ready), task)));
        let (weight, now) = (self.weights[*namespace], self.now);
        if !turn.poll_begin(residence(*namespace), || weight, &Context::from_waker(&waker), || now) {
            return None;
        }
        self.now += TURN;
        turn.end(|| now + TURN);
        self.turns[*namespace] += 1;
        // It has more to do.
        waker.wake();
        Some(task)
    }

    /// Runs until each connection has asked for a turn.
    fn warm_up(&mut self) {
        while self.connections.iter().any(|(turn, _)| turn.namespace.is_none()) {
            self.step();
        }
        self.turns.fill(0);
    }

    fn run(&mut self, turns: u32) {
        while self.turns.iter().sum::<u32>() < turns {
            self.step();
        }
    }
}

#[test]
fn one_connection_waits_for_two_turns_beside_a_thousand_of_another_namespace() {
    let mut thread = Thread::new(&[(1_000, 1), (1, 1)]);
    thread.warm_up();
    thread.run(10_000);
    let [many, one] = thread.turns[..] else { panic!() };
    // It asks for its next turn once it has had one: by then another one is given.
    assert!(one.abs_diff(3_333) < 10, "{one} turns beside {many}");
}

#[test]
fn two_connections_have_half_of_the_turns_beside_a_thousand_of_another_namespace() {
    let mut thread = Thread::new(&[(1_000, 1), (2, 1)]);
    thread.warm_up();
    thread.run(10_000);
    let [many, two] = thread.turns[..] else { panic!() };
    assert!(two.abs_diff(5_000) < 10, "{two} turns beside {many}");
}

#[test]
fn busy_namespaces_have_turns_by_weight() {
    let mut thread = Thread::new(&[(50, 1), (50, 4)]);
    thread.warm_up();
    thread.run(10_000);
    let [light, heavy] = thread.turns[..] else { panic!() };
    assert!(light.abs_diff(2_000) < 50, "{light} turns beside {heavy}");
}

#[test]
fn connections_of_one_namespace_have_their_turns_in_order() {
    let mut thread = Thread::new(&[(100, 1), (100, 1)]);
    thread.warm_up();
    for round in 0..10 {
        let mut seen = [0; 200];
        while seen.iter().sum::<u32>() < 200 {
            if let Some(task) = thread.step() {
                seen[task] += 1;
            }
        }
        assert!(seen.iter().all(|turns| *turns <= 2), "round {round}: {seen:?}");
    }
}

#[test]
fn where_there_is_one_namespace_nobody_waits() {
    let mut thread = Thread::new(&[(100, 1)]);
    for _ in 0..1_000 {
        assert!(thread.step().is_some());
    }
}

#[test]
fn a_connection_that_leaves_gives_up_its_turn_and_its_place() {
    let mut thread = Thread::new(&[(AT_ONCE + 1, 1), (1, 1)]);
    thread.warm_up();
    for (turn, _) in thread.connections.iter_mut().take(AT_ONCE + 1) {
        turn.leave(clock::instant);
    }
    thread.connections.drain(..=AT_ONCE);
    let turns = Arc::clone(&thread.connections[0].0.thread);
    assert!(!turns.is_shared.load(Ordering::Relaxed), "one namespace is left");
    assert_eq!(turns.members.lock().unwrap().values().copied().collect::<Vec<_>>(), [1]);
    let called = thread.ready.0.lock().unwrap().contains(&(AT_ONCE + 1));
    assert!(called, "the turn of the last one has come");
    drop(thread);
    assert!(turns.members.lock().unwrap().is_empty());
}
