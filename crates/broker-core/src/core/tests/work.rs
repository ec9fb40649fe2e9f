//! Work that one call may do: a call with a small budget does a part, and the calls together do the same.

use std::time::Duration;

use super::harness::*;
use crate::{
    Command, Effect, EntityQuery, EntitySettings, LinkId, LockToken, Message, Outcome, ReceiveMode, Rule,
    SequenceNumber, SessionWanted, Ticket, Timestamp, TransactionId, UnsettledPolicy, Work,
};

const MESSAGES: u64 = 40;

fn with_messages() -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for number in 0..MESSAGES {
        broker.publish(message(&format!("m{number}")));
    }
    broker
}

#[test]
fn a_peek_goes_on_in_the_next_call_and_its_answer_is_whole() {
    let mut broker = with_messages();
    let whole = broker.peek(main_path("q"), 0, 30);
    assert_eq!(whole.len(), 30);
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(4 * Work::MESSAGE.0);
    let again = broker.peek(main_path("q"), 0, 30);
    let numbers = |peeked: &[crate::Peeked]| peeked.iter().map(|found| found.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&whole));
    let calls = broker.journal.calls - calls;
    assert!((10..=30).contains(&calls), "{calls} calls");
}

#[test]
fn deliveries_end_with_the_work_of_a_call_and_go_on_in_the_next_one() {
    let mut broker = with_messages();
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(1);
    let got = broker.credit(ME, 1, MESSAGES);
    assert_eq!(got.len() as u64, MESSAGES);
    assert!(broker.journal.calls - calls >= MESSAGES, "each call delivers one message");
}

#[test]
fn work_that_is_due_ends_with_the_work_of_a_call_and_goes_on_in_the_next_one() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for number in 0..MESSAGES {
        broker.publish(message_for(&format!("m{number}"), 1_000));
    }
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(1);
    broker.wait(2_000);
    assert_eq!(broker.active(), 0);
    assert!(broker.journal.calls - calls >= MESSAGES / 2, "two messages in a call at the most");
}

#[test]
fn requests_are_charged_by_what_they_look_at() {
    let mut broker = with_messages();
    for number in 0..20 {
        broker.create(&format!("other-{number}"), EntitySettings::default());
    }
    let mut cost = |ask: &mut dyn FnMut(&mut Broker)| {
        let before = broker.journal.work;
        ask(&mut broker);
        Work(broker.journal.work.0 - before.0)
    };
    let list =
        |top| Command::Describe { query: EntityQuery::All { after: "".into(), top }, ticket: Ticket(77) };
    let (few, many) = (
        cost(&mut |broker| drop(broker.tell(ME, list(2)))),
        cost(&mut |broker| drop(broker.tell(ME, list(20)))),
    );
    assert_eq!(many.0 - few.0, Work::LIST_ENTRY.times(18).0);
    let (few, many) = (
        cost(&mut |broker| drop(broker.peek(main_path("q"), 0, 2))),
        cost(&mut |broker| drop(broker.peek(main_path("q"), 0, 32))),
    );
    assert!(many.0 - few.0 >= Work::MESSAGE.times(30).0, "{few:?} {many:?}");
}

#[test]
fn letters_that_patterns_with_holes_compare_are_charged() {
    let letters = 6_400;
    let cost = |filter: &str| {
        let mut broker = Broker::with_topic(EntitySettings::default());
        broker.subscribe("s", EntitySettings::default(), vec![rule("r", filter, None)]);
        let before = broker.journal.work;
        broker.send(vec![message_with("m", &[("text", "a".repeat(letters).as_str().into())])]);
        broker.journal.work.0 - before.0
    };
    let (with_holes, search, without) =
        (cost("text LIKE '%b_%'"), cost("text LIKE '%bb%'"), cost("text LIKE 'bb%'"));
    assert_eq!(with_holes - without, Work::of_steps(letters as u64).0);
    assert_eq!(search - without, Work::of_steps(letters as u64 / 8).0);
}

#[test]
fn a_cancellation_within_a_transaction_is_charged_for_what_it_looks_at() {
    let cost = |together: u64| {
        let mut broker = Broker::with_queue(EntitySettings::default());
        let transaction = TransactionId(1);
        broker.declare(transaction);
        let (_, command) = schedule(together);
        let told = broker.tell(ME, command.within(transaction));
        let Some(Effect::Scheduled { sequences, .. }) = told.first() else { panic!("{told:?}") };
        let (path, sequences) = (main_path("q"), sequences.iter().copied().take(1).collect());
        let before = broker.journal.work;
        let cancel = Command::CancelScheduled { path, sequences, ticket: Ticket(6) };
        broker.tell(ME, cancel.within(transaction));
        broker.journal.work.0 - before.0
    };
    assert_eq!(cost(50) - cost(1), Work::SLOT.times(49).0);
}

#[test]
fn a_list_of_sessions_is_charged_for_those_that_it_visits() {
    let sessions = 40;
    let mut broker =
        Broker::with_queue(EntitySettings { requires_session: true, ..EntitySettings::default() });
    for number in 0..sessions {
        broker.publish(Message { session_id: Some(format!("{number}").into()), ..message("m") });
    }
    let mut cost = |updated_after, skip, top| {
        let before = broker.journal.work;
        let (path, after, ticket) = (main_path("q"), None, Ticket(9));
        let told = broker.tell(ME, Command::ListSessions { path, updated_after, after, skip, top, ticket });
        let Some(Effect::SessionList { ids, .. }) = told.first() else { panic!("{told:?}") };
        (ids.len(), broker.journal.work.0 - before.0 - Work::COMMAND.0)
    };
    let visit = |count: u64| Work::SLOT.times(count).0;
    let list = |count: u64| Work::LIST_ENTRY.times(count).0;
    let first = (5, list(5) + visit(5) + visit(sessions));
    assert_eq!(cost(None, 0, 5), first, "the first list brings them into order");
    assert_eq!(cost(None, 0, 5), (5, list(5) + visit(5)));
    assert_eq!(cost(None, 3, 5), (5, list(5) + visit(8)), "those that are skipped are visited");
    assert_eq!(cost(None, u32::MAX / 2, 5), (0, visit(sessions)), "no more than there are");
    let never = Some(Timestamp::MAX);
    assert_eq!(cost(never, 0, 5), (0, visit(sessions)), "none is wanted, and all are visited");
}

#[test]
fn each_list_of_a_store_of_many_sessions_is_charged_for_all_of_them() {
    // One more than an order is kept of.
    let sessions = 16_385;
    let mut broker =
        Broker::with_queue(EntitySettings { requires_session: true, ..EntitySettings::default() });
    for number in 0..sessions {
        broker.publish(Message { session_id: Some(format!("{number}").into()), ..message("m") });
    }
    let mut cost = |after: Option<&str>, updated_after, skip| {
        let before = broker.journal.work;
        let (path, top, after, ticket) = (main_path("q"), 5, after.map(Box::from), Ticket(9));
        let told = broker.tell(ME, Command::ListSessions { path, updated_after, after, skip, top, ticket });
        let Some(Effect::SessionList { ids, .. }) = told.first() else { panic!("{told:?}") };
        (ids.len(), broker.journal.work.0 - before.0 - Work::COMMAND.0)
    };
    let walk = Work::SLOT.times(sessions).0;
    let page = (5, walk + Work::LIST_ENTRY.times(5).0);
    assert_eq!(cost(None, None, 0), page, "no order is made");
    assert_eq!(cost(None, None, 0), page, "none was made");
    assert_eq!(cost(Some("5"), None, 300), page, "all are compared with the id");
    assert_eq!(cost(None, None, 20_000), (0, walk));
    assert_eq!(cost(None, Some(Timestamp::MAX), 0), (0, walk));
}

/// Something that releases much at once.
struct Release {
    name: &'static str,
    /// A broker with so many messages, or locks of messages.
    prepare: fn(u64) -> Broker,
    ask: fn(&mut Broker),
}

const RELEASES: [Release; 11] = [
    Release { name: "a queue is deleted", prepare: stored, ask: delete_queue },
    Release { name: "a topic is deleted with its copies", prepare: copied, ask: delete_topic },
    Release { name: "a queue is idle", prepare: stored_for_a_while, ask: pass_an_hour },
    Release { name: "a receiver closes", prepare: locked, ask: close_receiver },
    Release { name: "a receiver leaves", prepare: locked, ask: leave_receiver },
    Release { name: "a receiver disconnects", prepare: locked, ask: disconnect },
    Release { name: "locks expire", prepare: locked_for_a_time, ask: pass_an_hour },
    Release { name: "a session is closed", prepare: locked_in_session, ask: close_receiver },
    Release { name: "the lock of a session expires", prepare: locked_in_session, ask: pass_an_hour },
    Release { name: "a transaction is rolled back", prepare: settled_in_transaction, ask: roll_back },
    Release { name: "a receiver closes and its queue is deleted", prepare: locked, ask: close_and_delete },
];

fn stored(messages: u64) -> Broker {
    stored_in(EntitySettings::default(), None, messages)
}

fn stored_in(settings: EntitySettings, session: Option<&str>, messages: u64) -> Broker {
    let mut broker = Broker::with_queue(settings);
    let queue = broker.queue("q");
    let one = Message { session_id: session.map(Box::from), ..message("m") };
    let messages = vec![one; usize::try_from(messages).unwrap()];
    broker.tell(ME, Command::PublishBatch { queue, messages, ticket: None });
    broker
}

fn stored_for_a_while(messages: u64) -> Broker {
    let idle = Some(Duration::from_secs(600));
    let mut broker =
        stored_in(EntitySettings { auto_delete_on_idle: idle, ..EntitySettings::default() }, None, messages);
    broker.run_deadlines();
    broker
}

fn copied(messages: u64) -> Broker {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.subscribe("s", EntitySettings::default(), vec![Rule::default_rule()]);
    broker.send(vec![message("m"); usize::try_from(messages).unwrap()]);
    broker
}

/// A receiver without timers has all of them.
fn locked(messages: u64) -> Broker {
    locked_under(UnsettledPolicy::Release, messages)
}

/// The same with timers.
fn locked_for_a_time(messages: u64) -> Broker {
    locked_under(UnsettledPolicy::KeepLocks, messages)
}

fn locked_under(policy: UnsettledPolicy, messages: u64) -> Broker {
    let mut broker = stored(messages);
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, policy);
    assert_eq!(broker.credit(ME, 1, messages).len() as u64, messages);
    broker
}

fn locked_in_session(messages: u64) -> Broker {
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let mut broker = stored_in(settings, Some("s"), messages);
    let open = Command::OpenConsumer {
        consumer: LinkId(1),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: Some(SessionWanted::Named("s".into())),
        auto_create: false,
    };
    broker.tell(ME, open);
    assert_eq!(broker.credit(ME, 1, messages).len() as u64, messages);
    broker
}

fn settled_in_transaction(messages: u64) -> Broker {
    let mut broker = stored(messages);
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let got = broker.credit(ME, 1, messages);
    assert_eq!(got.len() as u64, messages);
    let transaction = TransactionId(1);
    broker.tell(ME, Command::Declare { transaction, ticket: Ticket(1) });
    for delivery in got {
        let command = Box::new(Command::Settle {
            queue: delivery.queue,
            sequence: delivery.sequence,
            lock: delivery.lock.unwrap().id,
            outcome: Outcome::Complete,
            ticket: Some(Ticket(2)),
        });
        broker.tell(ME, Command::Enlist { transaction, command, settled: true });
    }
    broker
}

fn delete_queue(broker: &mut Broker) {
    give(broker, Command::DeleteEntity { name: "q".into(), expected: None, ticket: Ticket(5) });
}

fn delete_topic(broker: &mut Broker) {
    give(broker, Command::DeleteEntity { name: "t".into(), expected: None, ticket: Ticket(5) });
}

fn close_receiver(broker: &mut Broker) {
    give(broker, Command::CloseConsumer { consumer: LinkId(1) });
}

fn leave_receiver(broker: &mut Broker) {
    give(broker, Command::LeaveConsumer { consumer: LinkId(1) });
}

fn disconnect(broker: &mut Broker) {
    give(broker, Command::Disconnect);
}

fn roll_back(broker: &mut Broker) {
    give(broker, Command::Discharge { transaction: TransactionId(1), fail: true, ticket: Some(Ticket(5)) });
}

fn close_and_delete(broker: &mut Broker) {
    close_receiver(broker);
    delete_queue(broker);
}

fn pass_an_hour(broker: &mut Broker) {
    broker.now = broker.now.after(Duration::from_secs(3_600));
}

/// Gives a command and nothing else: what it leaves to later calls stays there.
fn give(broker: &mut Broker, command: Command) {
    broker.journal.make_readable();
    broker.core.handle(broker.now, ME, command, &mut broker.journal);
}

/// Does what is due, call by call; says the work of each.
fn work_of_calls(broker: &mut Broker) -> Vec<u64> {
    let mut calls = Vec::new();
    while broker.core.deadline().is_some_and(|at| at <= broker.now) {
        let before = broker.journal.work;
        broker.journal.make_readable();
        broker.core.handle_deadline(broker.now, &mut broker.journal);
        calls.push(broker.journal.work.0 - before.0);
    }
    calls
}

fn work_of(release: &Release, messages: u64) -> u64 {
    let mut broker = (release.prepare)(messages);
    let before = broker.journal.work;
    (release.ask)(&mut broker);
    work_of_calls(&mut broker);
    broker.journal.work.0 - before.0
}

#[test]
fn each_release_of_many_records_or_locks_is_charged_for_each_of_them() {
    for release in &RELEASES {
        // More than one call does at the most.
        let (few, many) = (10, 3_000);
        let more = work_of(release, many) - work_of(release, few);
        let each = Work::MESSAGE.times(many - few).0;
        assert!(
            (each..=3 * each).contains(&more),
            "{}: {more} units for {} messages",
            release.name,
            many - few
        );
    }
}

#[test]
fn each_release_of_many_records_or_locks_goes_on_in_later_calls_when_the_work_of_a_call_is_done() {
    // Locks are noted by the command itself, one unit for each; and an entity is a few entries of lists.
    let (messages, budget, step) = (300, 60, 60);
    for release in &RELEASES {
        let mut whole = (release.prepare)(messages);
        (release.ask)(&mut whole);
        work_of_calls(&mut whole);
        let mut broker = (release.prepare)(messages);
        broker.journal.work_of_call = Some(budget);
        let before = broker.journal.work;
        (release.ask)(&mut broker);
        let first = broker.journal.work.0 - before.0;
        assert!(first <= 2 * (budget + step + 2 * messages), "{}: {first} units at first", release.name);
        let calls = work_of_calls(&mut broker);
        let least = Work::MESSAGE.times(messages).0 / (budget + step) - 2;
        assert!(calls.len() as u64 >= least, "{}: {} calls", release.name, calls.len());
        for work in &calls {
            let most = budget + step + if release.name.contains("session") { messages } else { 0 };
            assert!(*work <= most, "{}: {calls:?}", release.name);
        }
        assert_eq!(broker.core.digest(), whole.core.digest(), "{}", release.name);
        broker.check_liveness();
    }
}

#[test]
fn releases_whose_locks_have_ended_otherwise_are_a_bounded_part_of_a_call_too() {
    let messages = 300;
    let mut broker = locked(messages);
    broker.journal.work_of_call = Some(60);
    close_and_delete(&mut broker);
    let calls = work_of_calls(&mut broker);
    // Each is taken from the queue of releases, and each record is given back.
    assert!(calls.len() as u64 >= Work::MESSAGE.times(2 * messages).0 / 60 - 6, "{} calls", calls.len());
}

/// A request that names many things at once, of which there are as many.
struct Request {
    name: &'static str,
    /// A broker and the request for so many.
    prepare: fn(u64) -> (Broker, Command),
    /// Work of each.
    each: Work,
}

const REQUESTS: [Request; 9] = [
    Request { name: "a batch", prepare: batch, each: Work::COMMAND },
    Request { name: "a batch by name", prepare: batch_by_name, each: Work::COMMAND },
    Request { name: "a batch in a transaction", prepare: batch_in_transaction, each: Work::COMMAND },
    Request { name: "a schedule", prepare: schedule, each: Work::COMMAND },
    Request { name: "a cancellation", prepare: cancellation, each: Work::COMMAND },
    Request { name: "settlement by token", prepare: settlement_by_token, each: Work::COMMAND },
    Request { name: "renewal by token", prepare: renewal_by_token, each: Work::COMMAND },
    Request { name: "a commit", prepare: commit, each: Work::COMMAND },
    Request { name: "deletion in bulk", prepare: deletion_in_bulk, each: Work::MESSAGE },
];

fn messages(count: u64) -> Vec<Message> {
    vec![message("m"); usize::try_from(count).unwrap()]
}

fn batch(count: u64) -> (Broker, Command) {
    let broker = Broker::with_queue(EntitySettings::default());
    let queue = broker.queue("q");
    (broker, Command::PublishBatch { queue, messages: messages(count), ticket: Some(Ticket(5)) })
}

fn by_name(count: u64) -> Command {
    let messages = messages(count);
    Command::PublishTo { path: main_path("q"), messages, auto_create: false, ticket: Some(Ticket(5)) }
}

fn batch_by_name(count: u64) -> (Broker, Command) {
    (Broker::with_queue(EntitySettings::default()), by_name(count))
}

fn batch_in_transaction(count: u64) -> (Broker, Command) {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let transaction = TransactionId(1);
    broker.declare(transaction);
    (broker, by_name(count).within(transaction))
}

fn schedule(count: u64) -> (Broker, Command) {
    let broker = Broker::with_queue(EntitySettings::default());
    let due = Some(broker.now.after(Duration::from_secs(60)));
    let messages = messages(count).into_iter();
    let messages = messages.map(|message| Message { scheduled_enqueue_time: due, ..message }).collect();
    (broker, Command::Schedule { path: main_path("q"), messages, ticket: Ticket(5) })
}

fn cancellation(count: u64) -> (Broker, Command) {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let numbers = broker.schedule(&vec!["m"; usize::try_from(count).unwrap()], 60_000);
    let sequences = numbers.into_iter().map(SequenceNumber).collect();
    (broker, Command::CancelScheduled { path: main_path("q"), sequences, ticket: Ticket(5) })
}

fn tokens(count: u64) -> (Broker, Vec<LockToken>) {
    let mut broker = stored(count);
    let got = broker.lock(count);
    (broker, got.iter().map(|delivery| delivery.lock.unwrap().token).collect())
}

fn settlement_by_token(count: u64) -> (Broker, Command) {
    let (broker, tokens) = tokens(count);
    let (path, outcome, ticket) = (main_path("q"), Outcome::Complete, Ticket(5));
    (broker, Command::SettleByToken { path, session: None, tokens, outcome, ticket })
}

fn renewal_by_token(count: u64) -> (Broker, Command) {
    let (broker, tokens) = tokens(count);
    (broker, Command::RenewLocks { path: main_path("q"), tokens, ticket: Ticket(5) })
}

fn commit(count: u64) -> (Broker, Command) {
    let ticket = Some(Ticket(5));
    (settled_in_transaction(count), Command::Discharge { transaction: TransactionId(1), fail: false, ticket })
}

fn deletion_in_bulk(count: u64) -> (Broker, Command) {
    let (path, ticket) = (main_path("q"), Ticket(5));
    let before = Timestamp::MAX;
    let count_wanted = u32::try_from(count).unwrap();
    (stored(count), Command::DeleteMessages { path, session: None, count: count_wanted, before, ticket })
}

#[test]
fn a_request_that_names_many_things_is_charged_for_each_of_them() {
    let cost = |request: &Request, count: u64| {
        let (mut broker, command) = (request.prepare)(count);
        let before = broker.journal.work;
        give(&mut broker, command);
        let refused = broker.take(ME).into_iter().find(|effect| {
            use Effect::{PublishRefused, RequestRefused, SettleRefused, TransactionRefused};
            matches!(
                effect,
                PublishRefused { .. }
                    | RequestRefused { .. }
                    | SettleRefused { .. }
                    | TransactionRefused { .. }
            )
        });
        assert!(refused.is_none(), "{}: {refused:?}", request.name);
        broker.journal.work.0 - before.0
    };
    for request in &REQUESTS {
        let (few, many) = (cost(request, 2), cost(request, 90));
        assert_eq!(many - few, request.each.times(88).0, "{}", request.name);
    }
}
