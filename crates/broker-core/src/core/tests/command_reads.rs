//! Commands for messages that are read from the disk: none is begun before what it needs is there, each is done once, and the core
//! waits for no read.

use super::harness::*;
use crate::{
    Batch, BatchRest, Command, Delivery, Effect, EntitySettings, Outcome, ReceiveMode, SequenceNumber,
    TransactionId, store::reads_in_vain::READS_IN_VAIN_MAX,
};

/// Gives commands of one client; what they wait for.
fn give(broker: &mut Broker, commands: Vec<Command>) -> Option<BatchRest> {
    broker.journal.make_readable();
    broker.core.handle_batch(broker.now, Batch { client: ME, commands }, &mut broker.journal)
}

/// The disk reads all that is asked for, and the rest of a batch is handled.
fn go_on(broker: &mut Broker, rest: BatchRest) -> Option<BatchRest> {
    assert!(!rest.reads.is_empty());
    while broker.finish_read() {}
    give(broker, rest.batch.commands)
}

/// Messages that are locked, and lie on the disk.
fn locked(settings: EntitySettings, messages: u64) -> (Broker, Vec<Delivery>) {
    let mut broker = Broker::with_queue(settings);
    for number in 0..messages {
        broker.publish(message(&number.to_string()));
    }
    let got = broker.lock(messages);
    assert_eq!(got.len() as u64, messages);
    broker.journal.is_on_disk = true;
    (broker, got)
}

fn settle(broker: &mut Broker, delivery: &Delivery, outcome: Outcome) -> Command {
    Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock.unwrap().id,
        outcome,
        ticket: Some(broker.ticket()),
    }
}

fn settled(told: &[Effect]) -> usize {
    told.iter().filter(|effect| matches!(effect, Effect::Settled { .. })).count()
}

fn dead_letters_of_q(broker: &Broker) -> u64 {
    broker.core.entity("q").unwrap().dead_letter
}

#[test]
fn a_message_is_dead_lettered_when_it_was_read_and_the_commands_behind_wait_for_it() {
    let (mut broker, got) = locked(EntitySettings::default(), 3);
    let outcome = |number: usize| match number {
        1 => Outcome::DeadLetter(properties(&[("DeadLetterReason", "bad")])),
        _ => Outcome::Complete,
    };
    let commands: Vec<Command> =
        (0..3).map(|number| settle(&mut broker, &got[number], outcome(number))).collect();
    let rest = give(&mut broker, commands).expect("the second needs its message");
    assert_eq!((rest.batch.commands.len(), rest.reads.len()), (2, 1));
    assert_eq!((settled(&broker.take(ME)), dead_letters_of_q(&broker)), (1, 0));
    assert!(go_on(&mut broker, rest).is_none());
    assert_eq!((settled(&broker.take(ME)), dead_letters_of_q(&broker)), (2, 1));
    assert_eq!(broker.journal.waited, 0);
}

#[test]
fn the_reads_of_several_commands_are_asked_for_together() {
    let (mut broker, got) = locked(EntitySettings::default(), 40);
    let commands: Vec<Command> = got
        .iter()
        .map(|delivery| settle(&mut broker, delivery, Outcome::DeadLetter(properties(&[]))))
        .collect();
    let mut rest = give(&mut broker, commands);
    let mut asked = Vec::new();
    while let Some(left) = rest {
        asked.push(left.reads.len());
        rest = go_on(&mut broker, left);
    }
    assert_eq!(asked, [16, 16, 8]);
    assert_eq!((dead_letters_of_q(&broker), broker.journal.waited), (40, 0));
}

#[test]
fn properties_are_written_when_the_message_was_read() {
    for outcome in [
        Outcome::Abandon(properties(&[("key", "value")])),
        Outcome::Release(properties(&[("key", "value")])),
        Outcome::Defer(properties(&[("key", "value")])),
    ] {
        let (mut broker, got) = locked(EntitySettings::default(), 1);
        let command = settle(&mut broker, &got[0], outcome);
        let rest = give(&mut broker, vec![command]).expect("it needs the message");
        assert!(go_on(&mut broker, rest).is_none());
        assert_eq!((settled(&broker.take(ME)), broker.journal.waited), (1, 0));
        broker.journal.is_on_disk = false;
        let shown = broker.peek(main_path("q"), 0, 5);
        assert_eq!(property(&shown[0].stored.properties, "key").as_deref(), Some("value"));
    }
}

#[test]
fn a_message_that_returns_for_the_last_time_is_read_first() {
    let settings = EntitySettings { max_delivery_count: 1, ..EntitySettings::default() };
    for outcome in [Outcome::Abandon(properties(&[])), Outcome::Defer(properties(&[]))] {
        let (mut broker, got) = locked(settings.clone(), 1);
        let command = settle(&mut broker, &got[0], outcome);
        let rest = give(&mut broker, vec![command]).expect("it becomes a dead letter");
        assert!(go_on(&mut broker, rest).is_none());
        assert_eq!((dead_letters_of_q(&broker), broker.journal.waited), (1, 0));
    }
    // Others need no read, and neither does a lock that is lost.
    let (mut broker, got) = locked(EntitySettings::default(), 1);
    let command = settle(&mut broker, &got[0], Outcome::Abandon(properties(&[])));
    assert!(give(&mut broker, vec![command]).is_none());
    let command = settle(&mut broker, &got[0], Outcome::DeadLetter(properties(&[])));
    assert!(give(&mut broker, vec![command]).is_none());
    assert_eq!(broker.journal.waited, 0);
}

#[test]
fn a_lock_that_is_lost_while_the_message_is_read_refuses_the_settlement() {
    let (mut broker, got) = locked(EntitySettings::default(), 1);
    let command = settle(&mut broker, &got[0], Outcome::DeadLetter(properties(&[])));
    let rest = give(&mut broker, vec![command]).expect("it needs the message");
    broker.now = broker.now.after(std::time::Duration::from_secs(1_000));
    assert!(go_on(&mut broker, rest).is_none());
    let told = broker.take(ME);
    assert!(matches!(told[..], [Effect::SettleRefused { .. }]), "{told:?}");
    assert_eq!(dead_letters_of_q(&broker), 0);
}

#[test]
fn tokens_and_transactions_are_done_when_all_of_their_messages_were_read() {
    let (mut broker, got) = locked(EntitySettings::default(), 20);
    let ticket = broker.ticket();
    let by_token = Command::SettleByToken {
        path: main_path("q"),
        session: None,
        tokens: got[..18].iter().map(|delivery| delivery.lock.unwrap().token).collect(),
        outcome: Outcome::DeadLetter(properties(&[])),
        ticket,
    };
    let rest = give(&mut broker, vec![by_token]).expect("it needs 18 messages");
    assert_eq!(rest.reads.len(), 16);
    let rest = go_on(&mut broker, rest).expect("two more");
    assert_eq!((rest.reads.len(), dead_letters_of_q(&broker)), (2, 0));
    // The harness forgets a record that was asked for once: it is read again.
    let mut rest = Some(rest);
    while let Some(left) = rest {
        rest = go_on(&mut broker, left);
    }
    assert_eq!((settled(&broker.take(ME)), dead_letters_of_q(&broker)), (1, 18));

    let transaction = TransactionId(1);
    let enlist = |broker: &mut Broker, delivery: &Delivery| {
        let command = Box::new(settle(broker, delivery, Outcome::DeadLetter(properties(&[]))));
        Command::Enlist { transaction, command, settled: false }
    };
    let mut commands = vec![Command::Declare { transaction, ticket: broker.ticket() }];
    commands.extend(got[18..].iter().map(|delivery| enlist(&mut broker, delivery)));
    assert!(give(&mut broker, commands).is_none());
    let discharge = Command::Discharge { transaction, fail: false, ticket: Some(broker.ticket()) };
    let rest = give(&mut broker, vec![discharge]).expect("it needs two messages");
    assert_eq!((rest.reads.len(), dead_letters_of_q(&broker)), (2, 18));
    assert!(go_on(&mut broker, rest).is_none());
    let told = broker.take(ME);
    assert!(told.iter().any(|effect| matches!(effect, Effect::TransactionDone { .. })), "{told:?}");
    assert_eq!(dead_letters_of_q(&broker), 20);
}

#[test]
fn a_rollback_reads_nothing() {
    let (mut broker, got) = locked(EntitySettings::default(), 1);
    let transaction = TransactionId(1);
    let command = Box::new(settle(&mut broker, &got[0], Outcome::DeadLetter(properties(&[]))));
    let commands = vec![
        Command::Declare { transaction, ticket: broker.ticket() },
        Command::Enlist { transaction, command, settled: false },
        Command::Discharge { transaction, fail: true, ticket: Some(broker.ticket()) },
    ];
    assert!(give(&mut broker, commands).is_none());
    assert!(broker.journal.pending.is_empty());
}

#[test]
fn the_state_of_a_session_is_read_first() {
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    let open = Command::OpenConsumer {
        consumer: crate::LinkId(1),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: crate::UnsettledPolicy::KeepLocks,
        session: Some(crate::SessionWanted::Named("s".into())),
        auto_create: false,
    };
    broker.tell(ME, open);
    let (path, session, state) = (main_path("q"), "s".into(), Some(bytes::Bytes::from_static(b"state")));
    let ticket = broker.ticket();
    broker.tell(ME, Command::SetSessionState { path, session, state, ticket });
    broker.journal.is_on_disk = true;
    let get = |broker: &mut Broker, session: &str| Command::GetSessionState {
        path: main_path("q"),
        session: session.into(),
        looks_on: true,
        ticket: broker.ticket(),
    };
    let unknown = get(&mut broker, "unknown");
    assert!(give(&mut broker, vec![unknown]).is_none(), "there is nothing to read");
    broker.take(ME);
    let known = get(&mut broker, "s");
    let rest = give(&mut broker, vec![known]).expect("it needs the state");
    assert!(go_on(&mut broker, rest).is_none());
    let told = broker.take(ME);
    assert!(matches!(&told[..], [Effect::SessionState { state: Some(state), .. }] if **state == *b"state"));
    assert_eq!(broker.journal.waited, 0);
}

#[test]
fn a_command_whose_reads_bring_nothing_waits_for_the_disk_and_the_next_one_does_not() {
    let (mut broker, got) = locked(EntitySettings::default(), 2);
    for delivery in &got {
        broker.journal.waited = 0;
        let command = settle(&mut broker, delivery, Outcome::DeadLetter(properties(&[])));
        let mut rest = give(&mut broker, vec![command]);
        let mut reads = 0;
        while let Some(BatchRest { batch, .. }) = rest {
            reads += 1;
            while broker.finish_read() {}
            broker.journal.forget_all();
            rest = give(&mut broker, batch.commands);
        }
        assert_eq!((reads, broker.journal.waited > 0), (READS_IN_VAIN_MAX, true));
    }
    assert_eq!(dead_letters_of_q(&broker), 2);
}

#[test]
fn of_many_deferred_messages_those_that_were_read_are_kept() {
    let (mut broker, got) = locked(EntitySettings::default(), 40);
    broker.journal.is_on_disk = false;
    for delivery in &got {
        broker.settle(delivery, Outcome::Defer(properties(&[]))).unwrap();
    }
    broker.journal.is_on_disk = true;
    let numbers: Vec<u64> = got.iter().map(|delivery| delivery.sequence.0).collect();
    let fetched = broker.fetch(main_path("q"), &numbers, false).unwrap();
    let sequences: Vec<SequenceNumber> = fetched.iter().map(|fetched| fetched.sequence).collect();
    assert_eq!(sequences, got.iter().map(|delivery| delivery.sequence).collect::<Vec<_>>());
    assert!(fetched.iter().all(|fetched| fetched.stored.delivery_count == 1 && fetched.lock.is_some()));
    assert_eq!(broker.journal.waited, 0);
}
