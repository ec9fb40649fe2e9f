//! Two namespaces with weights 1 and 4 whose clients all connect again share the turns of a thread.

use std::collections::{BTreeMap, VecDeque};

use broker_core::NamespaceSlot;
use broker_node::NamespaceId;

use super::*;

const LIGHT: usize = 0;
const HEAVY: usize = 1;
const WEIGHTS: [u16; 2] = [1, 4];
/// In microseconds.
const LONGEST: u64 = 1_000;

fn namespace(at: usize) -> (u16, NamespaceId) {
    let slot = NamespaceSlot(u16::try_from(at).unwrap());
    (0, NamespaceId { slot, uid: 7 })
}

/// Handshakes of both namespaces at the turns of one thread, without the tasks: a test says when a turn ends, and its cost.
struct Storm {
    turns: HandshakeTurns,
    /// Turns that last, in the order in which they have begun.
    running: VecDeque<(TurnId, usize)>,
    /// Turns that wait.
    waiting: BTreeMap<TurnId, usize>,
    /// Time for which each has computed, in microseconds.
    computed: [u64; 2],
    ended: [u64; 2],
}

impl Storm {
    fn new() -> Self {
        Self {
            turns: HandshakeTurns::default(),
            running: VecDeque::new(),
            waiting: BTreeMap::new(),
            computed: [0; 2],
            ended: [0; 2],
        }
    }

    fn enter(&mut self, at: usize, step: Step) {
        let id = self.turns.turns.state().queue.enter(namespace(at), WEIGHTS[at], step);
        self.waiting.insert(id, at);
    }

    /// Begins all turns that may begin.
    fn grant(&mut self) {
        while let Some(id) = self.turns.turns.state().queue.grant() {
            let at = self.waiting.remove(&id).expect("it has waited");
            self.running.push_back((id, at));
        }
    }

    /// The turn that has begun first ends. Says whose it was.
    fn end(&mut self, cost: impl Fn(usize, u64) -> u64) -> usize {
        self.grant();
        let (id, at) = self.running.pop_front().expect("a turn lasts");
        let micros = cost(at, self.ended[at]);
        self.turns.turns.state().queue.leave(id, 1_000 * micros);
        self.computed[at] += micros;
        self.ended[at] += 1;
        at
    }
}

/// Times of the turns of each namespace, in microseconds, by number.
type Cost = fn(usize, u64) -> u64;

const COSTS: [(&str, Cost); 5] = [
    ("all as expected", |_, _| 250),
    ("the light one's are longer", |at, _| if at == LIGHT { 900 } else { 150 }),
    ("the heavy one's are longer", |at, _| if at == LIGHT { 120 } else { 1_000 }),
    ("they change", |_, number| 100 + 150 * (number % 7)),
    ("each has a long one now and then", |_, number| if number.is_multiple_of(10) { 1_000 } else { 100 }),
];

/// Turns of the thread that may last at once, each as long as the longest: so far one may be from its share.
const BOUND: u64 = AT_ONCE as u64 * LONGEST;

#[test]
fn handshakes_compute_by_weight_however_long_each_lasts() {
    for (name, cost) in COSTS {
        let mut storm = Storm::new();
        for at in [LIGHT, HEAVY] {
            for _ in 0..2 * AT_ONCE {
                storm.enter(at, Step::Begin);
            }
        }
        for turn in 0..4_000 {
            let at = storm.end(cost);
            // Another client of this namespace connects.
            storm.enter(at, Step::Begin);
            let [light, heavy] = storm.computed;
            assert!(
                heavy.abs_diff(4 * light) <= 5 * BOUND,
                "{name}: {light} and {heavy} microseconds after {turn} turns"
            );
        }
        let [light, heavy] = storm.computed;
        assert!(
            36 * light <= 10 * heavy && 10 * heavy <= 44 * light,
            "{name}: {light} and {heavy} microseconds are not 1 to 4"
        );
    }
}

#[test]
fn handshakes_of_several_steps_compute_by_weight_too() {
    let mut storm = Storm::new();
    for at in [LIGHT, HEAVY] {
        for _ in 0..2 * AT_ONCE {
            storm.enter(at, Step::Begin);
        }
    }
    // Those of the light one, with certificates of clients, take three turns and those of the heavy one a single one.
    let mut steps = 0;
    for _ in 0..4_000 {
        let at = storm.end(|_, _| 200);
        steps += u64::from(at == LIGHT);
        let goes_on = at == LIGHT && !steps.is_multiple_of(3);
        storm.enter(at, if goes_on { Step::Continue } else { Step::Begin });
    }
    let [light, heavy] = storm.computed;
    assert!(36 * light <= 10 * heavy && 10 * heavy <= 44 * light, "{light} and {heavy} microseconds");
}

#[test]
fn a_namespace_without_handshakes_takes_nothing_from_the_other_one() {
    for (busy, idle) in [(LIGHT, HEAVY), (HEAVY, LIGHT)] {
        let mut storm = Storm::new();
        for _ in 0..4 * AT_ONCE {
            storm.enter(busy, Step::Begin);
        }
        // It had some before, and has none any more.
        storm.enter(idle, Step::Begin);
        for _ in 0..1_000 {
            if storm.end(|_, _| 250) == busy {
                storm.enter(busy, Step::Begin);
            }
            storm.grant();
            assert_eq!(storm.running.len(), AT_ONCE, "no place stays empty");
        }
        assert_eq!(storm.ended[idle], 1);
        // When it comes again, the next turn that ends is followed by its own.
        storm.enter(idle, Step::Begin);
        storm.end(|_, _| 250);
        storm.grant();
        assert_eq!(storm.running.back().map(|(_, at)| *at), Some(idle), "{idle} comes again");
    }
}
