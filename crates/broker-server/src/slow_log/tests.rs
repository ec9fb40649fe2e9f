use broker_core::{ClientId, LinkId, Message, Outcome, SequenceNumber};
use proptest::prelude::*;

use super::*;

const Q: QueueId = QueueId(3);

fn publish() -> Batch {
    let publish = Command::Publish { queue: Q, message: Message::default(), ticket: None };
    batch(vec![Command::Connect, publish.clone(), publish])
}

fn batch(commands: Vec<Command>) -> Batch {
    Batch { client: ClientId(1), commands }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// One turn that began at `start`.
fn step(slow: &mut SlowLog, start: Instant, waited: u64, until: u64) {
    slow.handles(NamespaceId::DEFAULT, &publish());
    slow.on_step(start, millis(waited), Position(until));
}

#[test]
fn a_turn_is_slow_from_one_past_the_threshold_on() {
    let start = crate::clock::instant();
    let cases = [
        // waited, then to the durable position, slow
        (0, 100, false),
        (0, 101, true),
        (50, 50, false),
        (50, 51, true),
        (101, 0, true),
    ];
    for case @ (waited, took, expected) in cases {
        let mut slow = SlowLog::new(millis(100));
        step(&mut slow, start, waited, 10);
        let told = slow.durable(Position(10), start + millis(took));
        assert_eq!(told.is_some(), expected, "{case:?}");
        if let Some(told) = told {
            let expected = SlowOperation {
                operation: "publish",
                namespace: NamespaceId::DEFAULT,
                target: OperationTarget::Queue(Q),
                commands: 3,
                took: millis(waited + took),
                waited: millis(waited),
                others: 0,
            };
            assert_eq!(told, expected, "{case:?}");
        }
    }
}

#[test]
fn a_turn_lasts_until_its_records_are_durable() {
    let start = crate::clock::instant();
    let mut slow = SlowLog::new(millis(100));
    step(&mut slow, start, 0, 10);
    assert_eq!(slow.durable(Position(9), start + millis(500)), None);
    assert!(slow.waits());
    let told = slow.durable(Position(10), start + millis(700)).unwrap();
    assert_eq!(told.took, millis(700));
    assert!(!slow.waits());
}

#[test]
fn one_line_in_a_second_tells_of_the_slowest_and_counts_the_others() {
    let start = crate::clock::instant();
    let mut slow = SlowLog::new(millis(100));
    for (waited, until) in [(0, 1), (300, 2), (100, 3)] {
        step(&mut slow, start, waited, until);
    }
    let told = slow.durable(Position(3), start + millis(200)).unwrap();
    assert_eq!((told.took, told.others), (millis(500), 2));
    step(&mut slow, start, 0, 4);
    assert_eq!(slow.durable(Position(4), start + millis(1_199)), None, "too soon for another");
    step(&mut slow, start, 0, 5);
    let told = slow.durable(Position(5), start + millis(1_200)).unwrap();
    assert_eq!(told.others, 1);
}

#[test]
fn unawaited_commands_are_not_timed() {
    let mut slow = SlowLog::new(millis(0));
    let credit = Command::Credit { consumer: LinkId(1), limit: 1, drain: false };
    slow.handles(NamespaceId::DEFAULT, &batch(vec![Command::Connect, credit, Command::Disconnect]));
    slow.on_step(crate::clock::instant(), millis(9), Position(1));
    assert!(!slow.waits());
    let settle = Command::Settle {
        queue: Q,
        sequence: SequenceNumber(1),
        lock: broker_core::LockId(1),
        outcome: Outcome::Complete,
        ticket: None,
    };
    assert_eq!(named(&settle), Some(("settle", OperationTarget::Queue(Q))));
}

proptest! {
    #[test]
    fn the_remembered_commands_are_bounded(steps in 0usize..3_000) {
        let start = crate::clock::instant();
        let mut slow = SlowLog::new(millis(1));
        for number in 0..steps {
            step(&mut slow, start, 0, number as u64);
        }
        prop_assert!(slow.steps.len() <= STEPS_MAX);
    }
}
