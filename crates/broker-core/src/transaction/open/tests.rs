use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { open: 3, messages: 5, settlements: 4, client_bytes: 60, all_bytes: 100 };

#[derive(Clone, Debug)]
enum Step {
    Declare(Key),
    Send { key: Key, messages: u64, bytes: u64 },
    Settle { key: Key, sequence: u64, lock: u32 },
    Fail(Key),
    Discharge(Key),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || (1u64..4, 1u64..6).prop_map(|(client, name)| (ClientId(client), TransactionId(name)));
    prop_oneof![
        2 => key().prop_map(Step::Declare),
        4 => (key(), 1u64..4, 0u64..30)
            .prop_map(|(key, messages, bytes)| Step::Send { key, messages, bytes }),
        4 => (key(), 1u64..6, 1u32..3).prop_map(|(key, sequence, lock)| Step::Settle { key, sequence, lock }),
        1 => key().prop_map(Step::Fail),
        2 => key().prop_map(Step::Discharge),
        1 => (1u64..200).prop_map(Step::Wait),
    ]
}

fn lock_ref(sequence: u64, lock: u32) -> LockRef {
    LockRef { queue: QueueId(1), sequence, lock: LockId(lock) }
}

fn settlement(sequence: u64, lock: u32) -> Settlement {
    Settlement {
        lock: lock_ref(sequence, lock),
        outcome: Outcome::Complete,
        on_rollback: UnsettledPolicy::KeepLocks,
    }
}

/// The usage must be the sum over the open transactions at every moment.
fn check(table: &Transactions) {
    let sum = |client: Option<ClientId>| -> u64 {
        let of = |key: &&Key| client.is_none_or(|client| key.0 == client);
        table.all.iter().filter(|(key, _)| of(key)).map(|(_, transaction)| transaction.cost.bytes).sum()
    };
    assert_eq!(table.bytes, sum(None));
    assert!(table.bytes <= LIMITS.all_bytes);
    for (client, usage) in &table.clients {
        assert_eq!((usage.open, usage.bytes), (table.of(*client).len() as u64, sum(Some(*client))));
        assert!(usage.open <= LIMITS.open && usage.bytes <= LIMITS.client_bytes);
    }
    for (key, transaction) in &table.all {
        assert_eq!(transaction.work.is_empty(), transaction.deadline == Timestamp::MAX, "{key:?}");
        assert!(transaction.phase == Phase::Open || transaction.work.is_empty(), "{key:?}");
        assert!(transaction.cost.in_tier <= LIMITS.messages, "{key:?}");
        assert!(transaction.cost.settlements <= LIMITS.settlements, "{key:?}");
    }
    for ((queue, sequence), (lock, key, place)) in &table.enlisted {
        let held = LockRef { queue: *queue, sequence: *sequence, lock: *lock };
        let waits = |work: &Work| matches!(work, Work::Settle(settlement) if settlement.lock == held);
        assert!(table.all[key].work.get(*place).is_some_and(waits), "{key:?}");
    }
    let timed = table.all.values().filter(|transaction| transaction.deadline != Timestamp::MAX).count();
    assert_eq!(table.deadlines.len(), timed);
}

proptest! {
    #[test]
    fn the_usage_is_the_sum_over_the_open_transactions(steps in proptest::collection::vec(step(), 1..200)) {
        let mut table = Transactions::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Declare(key) => drop(table.declare(key, &LIMITS)),
                Step::Send { key, messages, bytes } => {
                    let cost = Cost { messages, in_tier: messages, settlements: 0, bytes };
                    if table.check(key, cost, &LIMITS).is_ok() {
                        let work = Work::Publish { queue: QueueId(1), messages: Vec::new(), via: None };
                        table.add(key, work, cost, Timestamp::from_millis(now + 100));
                    }
                }
                Step::Settle { key, sequence, lock } => {
                    let cost = Cost { settlements: 1, bytes: 1, ..Cost::default() };
                    let free = !table.holds(lock_ref(sequence, lock));
                    if free && table.check(key, cost, &LIMITS).is_ok() {
                        let work = Work::Settle(settlement(sequence, lock));
                        table.add(key, work, cost, Timestamp::from_millis(now + 100));
                        prop_assert!(table.holds(lock_ref(sequence, lock)));
                    }
                }
                Step::Fail(key) => drop(table.fail(key)),
                Step::Discharge(key) => drop(table.discharge(key)),
                Step::Wait(millis) => {
                    now += millis;
                    while table.time_out(Timestamp::from_millis(now)).is_some() {}
                    prop_assert!(table.deadline().is_none_or(|at| at.as_millis() > now));
                }
            }
            check(&table);
        }
        for key in table.all.keys().copied().collect::<Vec<_>>() {
            drop(table.discharge(key));
        }
        check(&table);
        prop_assert!(table.clients.is_empty() && table.enlisted.is_empty() && table.deadlines.is_empty());
    }
}

#[test]
fn a_client_that_may_declare_nothing_leaves_no_entry() {
    let mut table = Transactions::default();
    let none = Limits { open: 0, ..LIMITS };
    for client in 1..=3 {
        let key = (ClientId(client), TransactionId(1));
        assert!(matches!(table.declare(key, &none), Err(TransactionError::LimitReached { .. })));
    }
    assert!(table.clients.is_empty() && table.all.is_empty());
}

#[test]
fn the_rollback_policy_of_a_lock_changes_for_that_lock_alone() {
    let mut table = Transactions::default();
    let keys = [1, 2].map(|name| (ClientId(1), TransactionId(name)));
    for key in keys {
        table.declare(key, &LIMITS).unwrap();
        let work = Work::Publish { queue: QueueId(1), messages: Vec::new(), via: None };
        table.add(key, work, Cost::default(), Timestamp::from_millis(100));
    }
    // The second lock of message 1 came after the first was lost.
    for (key, sequence, lock) in [(keys[0], 1, 1), (keys[0], 2, 2), (keys[1], 3, 3), (keys[1], 1, 4)] {
        let cost = Cost { settlements: 1, ..Cost::default() };
        table.add(key, Work::Settle(settlement(sequence, lock)), cost, Timestamp::from_millis(100));
    }
    for (sequence, lock) in [(1, 1), (2, 2), (3, 9), (1, 4)] {
        table.set_on_rollback(lock_ref(sequence, lock), UnsettledPolicy::Fail);
    }
    let found = keys.iter().flat_map(|key| table.work(*key)).filter_map(|work| match work {
        Work::Settle(settlement) => {
            Some((settlement.lock.lock.0, settlement.on_rollback == UnsettledPolicy::Fail))
        }
        _ => None,
    });
    // The first lock of message 1 is nobody's any more, and no lock has the number 9.
    assert_eq!(found.collect::<Vec<_>>(), [(1, false), (2, true), (3, false), (4, true)]);
}

#[test]
fn a_failed_delivery_counts_even_if_its_link_closes() {
    let mut table = Transactions::default();
    let key = (ClientId(1), TransactionId(1));
    table.declare(key, &LIMITS).unwrap();
    let cost = Cost { settlements: 1, ..Cost::default() };
    table.add(key, Work::Settle(settlement(1, 1)), cost, Timestamp::from_millis(100));
    let policies = [UnsettledPolicy::Release, UnsettledPolicy::Fail, UnsettledPolicy::Release];
    let expected = [UnsettledPolicy::Release, UnsettledPolicy::Fail, UnsettledPolicy::Fail];
    for (policy, expected) in policies.into_iter().zip(expected) {
        table.set_on_rollback(lock_ref(1, 1), policy);
        let found = table.work(key).iter().find_map(|work| match work {
            Work::Settle(settlement) => Some(settlement.on_rollback),
            _ => None,
        });
        assert_eq!(found, Some(expected));
    }
}

/// A transaction that schedules so many times so many messages, with consecutive numbers.
fn scheduling(times: u64, together: u64) -> (Transactions, Key) {
    let limits = Limits { messages: u64::MAX, client_bytes: u64::MAX, all_bytes: u64::MAX, ..LIMITS };
    let (mut table, key) = (Transactions::default(), (ClientId(1), TransactionId(1)));
    table.declare(key, &limits).unwrap();
    for first in (0..times).map(|time| 1 + time * together) {
        let numbers: Vec<u64> = (first..first + together).collect();
        let message = |number: &u64| Message { payload: number.to_string().into(), ..Message::default() };
        let messages = numbers.iter().map(message).collect();
        let work = Work::Schedule { queue: QueueId(1), messages, numbers };
        table.add(key, work, Cost::default(), Timestamp::from_millis(1));
    }
    (table, key)
}

fn scheduled(table: &Transactions, key: Key) -> Vec<u64> {
    let numbers = |work: &Work| {
        let Work::Schedule { messages, numbers, .. } = work else { panic!("{work:?}") };
        let payloads: Vec<_> = messages.iter().map(|message| message.payload.to_vec()).collect();
        assert_eq!(
            payloads,
            numbers.iter().map(|number| number.to_string().into_bytes()).collect::<Vec<_>>()
        );
        numbers.clone()
    };
    table.work(key).iter().flat_map(numbers).collect()
}

#[test]
fn a_cancellation_looks_at_what_was_scheduled_with_its_messages_alone() {
    let (mut table, key) = scheduling(1_000, 3);
    let numbers = [SequenceNumber(5), SequenceNumber(2_000), SequenceNumber(4), SequenceNumber(5)];
    assert!(numbers.iter().all(|number| table.schedules(key, QueueId(1), *number)));
    assert!(!table.schedules(key, QueueId(2), SequenceNumber(5)), "another queue");
    assert_eq!(table.unschedule(key, QueueId(1), &numbers), 6);
    assert!(numbers.iter().all(|number| !table.schedules(key, QueueId(1), *number)));
    let left: Vec<u64> = (1..=3_000).filter(|number| ![4, 5, 2_000].contains(number)).collect();
    assert_eq!(scheduled(&table, key), left);
    assert_eq!(table.unschedule(key, QueueId(1), &numbers), 0, "they are gone");
    assert_eq!(table.unschedule(key, QueueId(2), &[SequenceNumber(1)]), 0, "another queue");
    assert_eq!(table.discharge(key).unwrap().len(), 1_000);
    assert!(!table.schedules(key, QueueId(1), SequenceNumber(1)), "it is over");
}
