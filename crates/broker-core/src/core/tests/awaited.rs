//! Which records effects wait for: all but those of completions that nobody asked an answer for.

use super::harness::*;
use crate::{
    Command, Delivery, EntitySettings, LinkId, LockId, Outcome, ReceiveMode, SequenceNumber, Ticket,
    TransactionId, record::REMOVED_RUNS_MAX,
};

type Case = (&'static str, fn(&Delivery, &Delivery) -> Vec<Command>, &'static [bool]);
type Act = fn(&mut Broker);

/// A queue with `a` and `b` under lock and `c`, and a link that receives and deletes, still without credit.
fn with_two_locked() -> (Broker, Vec<Delivery>) {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b", "c"]);
    let got = broker.lock(2);
    broker.open(ME, 1, main_path("q"), ReceiveMode::ReceiveAndDelete);
    (broker, got)
}

fn settle(delivery: &Delivery, outcome: Outcome, ticket: Option<u64>) -> Command {
    Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome,
        ticket: ticket.map(Ticket),
    }
}

fn complete(delivery: &Delivery, ticket: Option<u64>) -> Command {
    settle(delivery, Outcome::Complete, ticket)
}

/// Of each record that these commands and what follows from them write, whether effects wait for it.
fn awaited(broker: &mut Broker, commands: Vec<Command>) -> Vec<bool> {
    let from = broker.journal.end();
    broker.tell_all(ME, commands);
    awaited_since(broker, from)
}

fn awaited_since(broker: &Broker, from: u64) -> Vec<bool> {
    let journal = &broker.journal;
    journal.records.range(from..).map(|(at, _)| !journal.unawaited.contains(at)).collect()
}

#[test]
fn only_a_run_of_completions_without_tickets_is_not_awaited() {
    let cases: [Case; 9] = [
        ("one completion", |a, _| vec![complete(a, None)], &[false]),
        ("a run of them", |a, b| vec![complete(a, None), complete(b, None)], &[false]),
        ("with a ticket", |a, _| vec![complete(a, Some(1))], &[true]),
        ("the last with a ticket", |a, b| vec![complete(a, None), complete(b, Some(1))], &[true]),
        ("the first with a ticket", |a, b| vec![complete(a, Some(1)), complete(b, None)], &[true]),
        (
            "before credit to receive and delete",
            |a, _| {
                let credit = Command::Credit { consumer: LinkId(1), limit: 1, drain: false };
                vec![complete(a, None), credit]
            },
            &[false, true],
        ),
        (
            "by tokens",
            |a, b| {
                let tokens = vec![a.lock.unwrap().token, b.lock.unwrap().token];
                let (path, ticket) = (main_path("q"), Ticket(1));
                vec![Command::SettleByToken {
                    path,
                    session: None,
                    tokens,
                    outcome: Outcome::Complete,
                    ticket,
                }]
            },
            &[true],
        ),
        (
            "a lock that is lost",
            |a, _| {
                let (queue, sequence, outcome) = (a.queue, a.sequence, Outcome::Complete);
                vec![Command::Settle { queue, sequence, lock: LockId(77), outcome, ticket: None }]
            },
            &[],
        ),
        (
            "then a send without a ticket",
            |a, _| {
                let publish = Command::Publish { queue: a.queue, message: message("d"), ticket: None };
                vec![complete(a, None), publish]
            },
            // Removals are recorded last, in the same atomic unit.
            &[true, false],
        ),
    ];
    for (what, commands, expected) in cases {
        let (mut broker, got) = with_two_locked();
        assert_eq!(awaited(&mut broker, commands(&got[0], &got[1])), expected, "{what}");
    }
}

#[test]
fn other_outcomes_without_tickets_are_awaited() {
    let none = || properties(&[]);
    let outcomes: [(Outcome, &[bool]); 5] = [
        (Outcome::Abandon(none()), &[true]),
        (Outcome::Release(none()), &[]),
        (Outcome::Release(properties(&[("k", "v")])), &[true]),
        (Outcome::Defer(none()), &[true]),
        (Outcome::DeadLetter(none()), &[true, true]),
    ];
    for (outcome, expected) in outcomes {
        let (mut broker, got) = with_two_locked();
        let what = format!("{outcome:?}");
        assert_eq!(awaited(&mut broker, vec![settle(&got[0], outcome, None)]), expected, "{what}");
    }
}

#[test]
fn a_completion_in_a_transaction_is_awaited_though_nobody_asks_for_an_answer() {
    let (mut broker, got) = with_two_locked();
    let transaction = TransactionId(1);
    broker.tell(ME, Command::Declare { transaction, ticket: Ticket(1) });
    let command = Command::Settle {
        queue: got[0].queue,
        sequence: got[0].sequence,
        lock: got[0].lock.unwrap().id,
        outcome: Outcome::Complete,
        ticket: None,
    };
    let commands = vec![
        Command::Enlist { transaction, command: Box::new(command), settled: true },
        complete(&got[1], None),
        Command::Discharge { transaction, fail: false, ticket: None },
    ];
    assert_eq!(awaited(&mut broker, commands), [true], "with the run in which it is");
    assert_eq!(broker.active(), 1);
}

#[test]
fn every_other_removal_of_a_message_is_awaited() {
    let cases: [(&str, Act); 6] = [
        ("receive and delete", |broker| {
            assert_eq!(broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 1).len(), 1);
        }),
        ("receive by number, and delete", |broker| {
            assert_eq!(broker.fetch(main_path("q"), &[2], true).unwrap().len(), 1);
        }),
        ("expiry", |broker| broker.wait(2_000)),
        ("cancelling", |broker| broker.cancel(&[4]).unwrap()),
        ("deleting messages", |broker| {
            let (path, ticket, before) = (main_path("q"), broker.ticket(), broker.now);
            broker.tell(ME, Command::DeleteMessages { path, session: None, count: 9, before, ticket });
        }),
        ("completing a dead letter by its token", |broker| {
            let path = dead_letters("q");
            let got = broker.receive(path.clone(), ReceiveMode::PeekLock, 1);
            let (tokens, ticket) = (vec![got[0].lock.unwrap().token], broker.ticket());
            let outcome = Outcome::Complete;
            broker.tell(ME, Command::SettleByToken { path, session: None, tokens, outcome, ticket });
        }),
    ];
    for (what, act) in cases {
        // 1 lasts a second, 2 is deferred, 3 is a dead letter, 4 is scheduled.
        let mut broker = Broker::with_queue(EntitySettings::default());
        broker.publish(message_for("mortal", 1_000));
        broker.publish_all(&["deferred", "dead"]);
        for (delivery, outcome) in broker.lock(3).iter().zip([
            Outcome::Release(properties(&[])),
            Outcome::Defer(properties(&[])),
            Outcome::DeadLetter(properties(&[])),
        ]) {
            broker.settle(delivery, outcome).unwrap();
        }
        assert_eq!(broker.schedule(&["scheduled"], 60_000), [4]);
        broker.wait(1);
        let from = broker.journal.end();
        act(&mut broker);
        let all = awaited_since(&broker, from);
        assert!(!all.is_empty() && all.iter().all(|awaited| *awaited), "{what}: {all:?}");
    }
}

#[test]
fn a_run_that_needs_two_records_awaits_the_one_with_the_ticket() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let count = 2 * REMOVED_RUNS_MAX + 2;
    broker.publish_all(&vec!["m"; count]);
    let got = broker.lock(count as u64);
    // Every second one, so that each is a run of its own.
    let mut commands: Vec<Command> = got.iter().step_by(2).map(|delivery| complete(delivery, None)).collect();
    commands.pop();
    commands.push(complete(&got[count - 2], Some(1)));
    assert_eq!(awaited(&mut broker, commands), [false, true]);
    assert_eq!(
        awaited(&mut broker, vec![complete(&got[1], None)]),
        [false],
        "it is forgotten with its record"
    );
}

#[test]
fn a_completion_whose_record_was_lost_leaves_the_message_as_it_was() {
    let (mut broker, got) = with_two_locked();
    let from = broker.journal.end();
    broker.tell(ME, complete(&got[0], None));
    assert_eq!(awaited_since(&broker, from), [false]);
    // The crash came before it was durable; what came before it is there.
    broker.journal.records.retain(|at, _| *at < from);
    broker.journal.released.clear();
    broker.restart();
    let again = broker.lock(9);
    assert_eq!(texts(&again), ["a", "b", "c"]);
    assert_eq!(again[0].sequence, SequenceNumber(1));
    assert_eq!(again[0].stored.delivery_count, got[0].stored.delivery_count, "it has not failed");
    assert_eq!(broker.settle(&again[0], Outcome::Complete), Ok(()));
}
