use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{ClientId, LinkId, ReceiveMode};

const NOW: Timestamp = Timestamp::from_millis(100);

fn holder(consumer: u32, until: u64) -> Holder {
    Holder {
        consumer: Some(ConsumerNumber(consumer)),
        until: Timestamp::from_millis(until),
        since: LockId(0),
        taken: 0,
    }
}

fn table(messages: &[(&str, u64)]) -> Sessions {
    let mut table = Sessions::new(7);
    for (id, sequence) in messages {
        let number = table.get_or_create(id);
        table.set_message_state(number, *sequence, SessionMessageState::Ready);
    }
    table
}

fn named(table: &Sessions, number: SessionNumber) -> String {
    table.get(number).unwrap().id().to_string()
}

/// Accepts whatever is next, and says its id.
fn accept_next(table: &mut Sessions, consumer: u32) -> Option<String> {
    let (number, _) = table.next_available()?;
    assert!(table.accept(number, holder(consumer, 1_000)));
    Some(named(table, number))
}

#[test]
fn the_session_with_the_oldest_ready_message_is_next() {
    let mut table = table(&[("b", 1), ("a", 2), ("b", 3), ("c", 4)]);
    let next: Vec<_> = (1..5).map(|consumer| accept_next(&mut table, consumer)).collect();
    assert_eq!(next, [Some("b".into()), Some("a".into()), Some("c".into()), None]);
}

#[test]
fn a_session_with_nothing_ready_is_not_available() {
    let mut table = table(&[("a", 1), ("b", 2)]);
    let a = table.find("a").unwrap();
    table.set_message_state(a, 1, SessionMessageState::Unavailable);
    assert_eq!(accept_next(&mut table, 1).as_deref(), Some("b"));
    assert_eq!(table.next_available(), None);
    table.set_message_state(a, 1, SessionMessageState::Ready);
    assert_eq!(table.next_available(), Some((a, 1)));
}

#[test]
fn a_held_session_is_nobody_elses() {
    let mut table = table(&[("a", 1)]);
    let a = table.find("a").unwrap();
    assert!(table.accept(a, holder(1, 1_000)));
    assert!(!table.accept(a, holder(2, 1_000)));
    table.end(a);
    assert!(table.accept(a, holder(2, 1_000)));
}

#[test]
fn a_session_is_free_when_the_last_delivered_message_is_back() {
    let mut table = table(&[("a", 1), ("a", 2)]);
    let a = table.find("a").unwrap();
    table.accept(a, holder(1, 1_000));
    table.set_message_state(a, 1, SessionMessageState::Delivered);
    table.set_message_state(a, 2, SessionMessageState::Delivered);
    table.end(a);
    assert_eq!((table.get(a).unwrap().lock(), table.next_available()), (SessionLock::Ending, None));
    assert_eq!(table.get(a).unwrap().delivered().collect::<Vec<_>>(), [1, 2]);
    table.set_message_state(a, 2, SessionMessageState::Ready);
    assert!(!table.accept(a, holder(2, 1_000)), "the first would come too late");
    table.remove(a, 1);
    assert_eq!(table.next_available(), Some((a, 2)));
}

#[test]
fn a_session_exists_while_it_has_a_message_a_state_or_a_holder() {
    let mut table = table(&[("a", 1)]);
    let a = table.find("a").unwrap();
    let state = SessionState { position: Position(7), length: 30, updated_at: NOW };
    table.accept(a, holder(1, 1_000));
    assert_eq!(table.next_in_turn(NOW), Some((a, ConsumerNumber(1), 1)));
    table.remove(a, 1);
    assert_eq!(table.set_state(a, Some(state)), None);
    assert_eq!((table.len(), table.state_bytes), (1, 30));
    table.end(a);
    assert_eq!(table.len(), 1, "it has a state");
    assert_eq!(table.set_state(a, None), Some(state));
    assert_eq!((table.len(), table.state_bytes), (0, 0));
    assert_eq!(table.get_or_create("b"), a, "its number is used again");
}

#[test]
fn locks_end_in_order_of_their_ends() {
    let mut table = table(&[("a", 1), ("b", 2)]);
    let (a, b) = (table.find("a").unwrap(), table.find("b").unwrap());
    table.accept(a, holder(1, 200));
    table.accept(b, holder(2, 300));
    assert_eq!(table.deadline(), Some(Timestamp::from_millis(200)));
    table.renew(a, Timestamp::from_millis(400));
    assert_eq!(table.deadline(), Some(Timestamp::from_millis(300)));
    assert_eq!(table.first_ended(Timestamp::from_millis(299)), None);
    assert_eq!(table.first_ended(Timestamp::from_millis(300)), Some(b), "the end itself is too late");
    assert!(table.get(b).unwrap().holder(Timestamp::from_millis(299)).is_some());
    assert!(table.get(b).unwrap().holder(Timestamp::from_millis(300)).is_none());
    table.end(b);
    assert_eq!(table.deadline(), Some(Timestamp::from_millis(400)));
}

#[test]
fn holders_take_turns_and_come_back_when_called() {
    let mut table = table(&[("a", 1), ("a", 3), ("b", 2)]);
    let (a, b) = (table.find("a").unwrap(), table.find("b").unwrap());
    table.accept(a, holder(1, 1_000));
    table.accept(b, holder(2, 1_000));
    let mut out = Vec::new();
    while let Some((number, consumer, sequence)) = table.next_in_turn(NOW) {
        out.push((consumer.0, sequence));
        table.set_message_state(number, sequence, SessionMessageState::Delivered);
    }
    assert_eq!(out, [(1, 1), (2, 2), (1, 3)]);
    table.set_message_state(a, 1, SessionMessageState::Ready);
    assert_eq!(table.next_in_turn(NOW), Some((a, ConsumerNumber(1), 1)));
    assert_eq!(table.next_in_turn(NOW), None, "its holder wanted nothing");
    table.call(a);
    assert_eq!(table.next_in_turn(NOW), Some((a, ConsumerNumber(1), 1)));
}

#[test]
fn a_lost_or_late_acceptor_gets_nothing() {
    let mut table = table(&[("a", 1), ("b", 2)]);
    let (a, b) = (table.find("a").unwrap(), table.find("b").unwrap());
    table.accept(a, holder(1, 1_000));
    table.accept(b, holder(2, 100));
    table.lose_holder(a);
    assert_eq!(table.next_in_turn(NOW), None);
    assert_eq!(table.first_ended(NOW), Some(b));
    assert!(!table.accept(a, holder(3, 1_000)), "the lock runs on");
}

#[test]
fn acceptors_are_served_in_order_and_time_out() {
    let mut acceptors = Acceptors::default();
    let waiting = |link: u32, deadline: u64| Acceptor {
        client: ClientId(1),
        link: LinkId(link),
        mode: ReceiveMode::PeekLock,
        deadline: Timestamp::from_millis(deadline),
        limit: 0,
        drain: false,
    };
    let first = acceptors.push(waiting(1, 300));
    acceptors.push(waiting(2, 200));
    acceptors.push(waiting(3, 250));
    acceptors.set_credit(first, 5, true);
    assert_eq!(acceptors.deadline(), Some(Timestamp::from_millis(200)));
    assert!(acceptors.pop_impatient(Timestamp::from_millis(199)).is_none());
    assert_eq!(acceptors.pop_impatient(Timestamp::from_millis(200)).unwrap().link, LinkId(2));
    let served = acceptors.pop_first().unwrap();
    assert_eq!((served.link, served.limit, served.drain), (LinkId(1), 5, true));
    assert!(acceptors.remove(first).is_none());
    assert_eq!(acceptors.deadline(), Some(Timestamp::from_millis(250)));
    assert!(acceptors.pop_first().is_some() && acceptors.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Stand { message: u64, standing: u8 },
    Remove { message: u64 },
    Accept { session: u8, until: u64 },
    Renew { session: u8, until: u64 },
    Lose { session: u8 },
    End { session: u8 },
    State { session: u8, some: bool },
    Turn { take: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0u8..5;
    prop_oneof![
        8 => (1u64..30, 0u8..3).prop_map(|(message, standing)| Step::Stand { message, standing }),
        3 => (1u64..30).prop_map(|message| Step::Remove { message }),
        3 => (session.clone(), 50u64..300).prop_map(|(session, until)| Step::Accept { session, until }),
        1 => (session.clone(), 50u64..300).prop_map(|(session, until)| Step::Renew { session, until }),
        1 => session.clone().prop_map(|session| Step::Lose { session }),
        2 => session.clone().prop_map(|session| Step::End { session }),
        1 => (session, any::<bool>()).prop_map(|(session, some)| Step::State { session, some }),
        3 => any::<bool>().prop_map(|take| Step::Turn { take }),
    ]
}

/// Expected content of the table, found by a full scan.
#[derive(Default)]
struct Model {
    messages: BTreeMap<u64, SessionMessageState>,
    holders: BTreeMap<u8, Holder>,
    ending: Vec<u8>,
    states: Vec<u8>,
}

impl Model {
    fn session(message: u64) -> u8 {
        u8::try_from(message % 5).unwrap()
    }

    fn of(&self, session: u8) -> impl Iterator<Item = (u64, SessionMessageState)> {
        let own = self.messages.iter().filter(move |(message, _)| Self::session(**message) == session);
        own.map(|(message, standing)| (*message, *standing))
    }

    fn first(&self, session: u8) -> Option<u64> {
        self.of(session)
            .find(|(_, standing)| *standing == SessionMessageState::Ready)
            .map(|(message, _)| message)
    }

    fn settle(&mut self) {
        let ending = std::mem::take(&mut self.ending);
        let is_out =
            |session: &u8| self.of(*session).any(|(_, standing)| standing == SessionMessageState::Delivered);
        self.ending = ending.into_iter().filter(is_out).collect();
    }

    fn is_free(&self, session: u8) -> bool {
        !self.holders.contains_key(&session) && !self.ending.contains(&session)
    }

    fn take_step(&mut self, table: &mut Sessions, step: &Step) {
        let id = |session: u8| format!("s{session}");
        match *step {
            Step::Stand { message, standing } => {
                let standing = [
                    SessionMessageState::Ready,
                    SessionMessageState::Delivered,
                    SessionMessageState::Unavailable,
                ][usize::from(standing)];
                let number = table.get_or_create(&id(Self::session(message)));
                table.set_message_state(number, message, standing);
                self.messages.insert(message, standing);
            }
            Step::Remove { message } => {
                if self.messages.remove(&message).is_some() {
                    let number = table.find(&id(Self::session(message))).unwrap();
                    table.remove(number, message);
                }
            }
            Step::Accept { session, until } => {
                let number = table.get_or_create(&id(session));
                let holder = holder(u32::from(session), until);
                let accepted = table.accept(number, holder);
                assert_eq!(accepted, self.is_free(session));
                if accepted {
                    self.holders.insert(session, holder);
                }
            }
            Step::Renew { session, until } => {
                if let (Some(holder), Some(number)) =
                    (self.holders.get_mut(&session), table.find(&id(session)))
                {
                    holder.until = Timestamp::from_millis(until);
                    table.renew(number, holder.until);
                }
            }
            Step::Lose { session } => {
                if let (Some(holder), Some(number)) =
                    (self.holders.get_mut(&session), table.find(&id(session)))
                {
                    holder.consumer = None;
                    table.lose_holder(number);
                }
            }
            Step::End { session } => {
                if self.holders.remove(&session).is_some() {
                    self.ending.push(session);
                    table.end(table.find(&id(session)).unwrap());
                }
            }
            Step::State { session, some } => {
                let state = SessionState { position: Position(1), length: 10, updated_at: NOW };
                let Some(number) = table.find(&id(session)) else { return };
                let before = table.set_state(number, some.then_some(state));
                assert_eq!(before.is_some(), self.states.contains(&session));
                self.states.retain(|known| *known != session);
                if some {
                    self.states.push(session);
                }
            }
            Step::Turn { take } => self.take_turn(table, take),
        }
    }

    fn take_turn(&mut self, table: &mut Sessions, take: bool) {
        let next = table.next_in_turn(NOW);
        if let Some((number, consumer, sequence)) = next {
            let session = u8::try_from(consumer.0).unwrap();
            let holder = self.holders[&session];
            assert!(holder.consumer == Some(consumer) && NOW < holder.until);
            assert_eq!(Some(sequence), self.first(session));
            if take {
                table.set_message_state(number, sequence, SessionMessageState::Delivered);
                self.messages.insert(sequence, SessionMessageState::Delivered);
            } else {
                table.call(number);
            }
        }
    }

    fn check(&self, table: &Sessions) {
        let free = (0..5).filter(|session| self.is_free(*session));
        let next = free.filter_map(|session| Some((self.first(session)?, session))).min();
        let found = table.next_available().map(|(number, first)| (first, named(table, number)));
        assert_eq!(found, next.map(|(first, session)| (first, format!("s{session}"))));
        assert_eq!(table.next_end(), self.holders.values().map(|holder| holder.until).min());
        assert_eq!(table.state_bytes, 10 * self.states.len() as u64);
        for session in 0..5 {
            let number = table.find(&format!("s{session}"));
            let must =
                self.of(session).next().is_some() || !self.is_free(session) || self.states.contains(&session);
            // One in turn is forgotten when its turn comes.
            assert!(number.is_some() || !must, "s{session}");
            let Some(found) = number.and_then(|number| table.get(number)) else { continue };
            let mut messages = Vec::new();
            let mut from = 0;
            while let Some(message) = found.next(from) {
                messages.push(message);
                from = message + 1;
            }
            assert_eq!(messages, self.of(session).map(|(message, _)| message).collect::<Vec<_>>());
            assert_eq!(found.first_ready(), self.first(session));
            let out = self.of(session).filter(|(_, standing)| *standing == SessionMessageState::Delivered);
            assert!(found.delivered().eq(out.map(|(message, _)| message)));
        }
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_full_scan(
        steps in proptest::collection::vec(step(), 1..200),
        list_from in 0usize..200,
        kept_max in 0usize..6,
        asked in asked(),
    ) {
        let (mut table, mut model) = (Sessions::new(7), Model::default());
        table.listing.keep_at_most(kept_max);
        for (number, step) in steps.iter().enumerate() {
            model.take_step(&mut table, step);
            model.settle();
            model.check(&table);
            if number >= list_from {
                prop_assert_eq!(page(&mut table, &asked).1, scanned(&table, &asked));
                prop_assert_eq!(table.listing.is_kept(), table.len() <= kept_max);
            }
            prop_assert!(!table.listing.is_kept() || table.len() <= kept_max);
        }
        // Every acceptor that can be served is in the queue.
        let waiting = (0..5u8).filter(|session| {
            let holder = model.holders.get(session);
            holder.is_some_and(|holder| holder.consumer.is_some() && NOW < holder.until)
                && model.first(*session).is_some()
        });
        let mut waiting: Vec<u32> = waiting.map(u32::from).collect();
        let mut served: Vec<u32> = std::iter::from_fn(|| table.next_in_turn(NOW)).map(|(_, it, _)| it.0).collect();
        waiting.sort_unstable();
        served.sort_unstable();
        prop_assert_eq!(served, waiting);
    }
}

/// A list that is asked for.
#[derive(Clone, Debug)]
struct Asked {
    after: Option<String>,
    skip: usize,
    top: usize,
    /// Whether it has those alone that have something ready.
    ready: bool,
}

const ALL: Asked = Asked { after: None, skip: 0, top: usize::MAX, ready: false };

fn asked() -> impl Strategy<Value = Asked> {
    let after = proptest::option::of(prop_oneof![
        (0u8..5).prop_map(|session| format!("S{session}")),
        (0u8..5).prop_map(|session| format!("s{session}-")),
    ]);
    let top = prop_oneof![0usize..6, Just(usize::MAX)];
    (after, 0usize..6, top, any::<bool>()).prop_map(|(after, skip, top, ready)| Asked {
        after,
        skip,
        top,
        ready,
    })
}

fn page(table: &mut Sessions, asked: &Asked) -> (u64, Vec<String>) {
    let has = |session: &Session| !asked.ready || session.first_ready().is_some();
    let (visited, page) = table.page(asked.after.as_deref(), (asked.skip, asked.top), has);
    (visited, page.into_iter().map(|session| session.id().to_string()).collect())
}

/// The same by a full scan, of sessions whose ids are their keys.
fn scanned(table: &Sessions, asked: &Asked) -> Vec<String> {
    let after = asked.after.as_ref().map(|after| after.to_lowercase());
    let all = table.iter().filter(|session| !asked.ready || session.first_ready().is_some());
    let mut ids: Vec<String> = all.map(|session| session.id().to_string()).collect();
    ids.retain(|id| after.as_ref().is_none_or(|after| id > after));
    ids.sort_unstable();
    ids.into_iter().skip(asked.skip).take(asked.top).collect()
}

fn come(table: &mut Sessions, message: u64) {
    let number = table.get_or_create(&format!("{message}"));
    table.set_message_state(number, message, SessionMessageState::Ready);
}

fn go(table: &mut Sessions, message: u64) {
    table.remove(table.find(&format!("{message}")).unwrap(), message);
}

#[test]
fn sessions_that_come_and_go_pay_for_the_order_of_a_list() {
    let mut table = Sessions::new(7);
    let none = Asked { top: 0, ..ALL };
    let visited = |table: &mut Sessions| page(table, &none).0;
    (0..100).for_each(|message| come(&mut table, message));
    assert!(!table.listing.is_kept(), "nobody has asked");
    assert_eq!(visited(&mut table), 100);
    assert_eq!(visited(&mut table), 0, "it is kept");
    (100..200).for_each(|message| come(&mut table, message));
    (100..164).for_each(|message| go(&mut table, message));
    let (all, listed) = page(&mut table, &ALL);
    assert_eq!((all, listed.len()), (136, 136), "the order was there");
    assert!(table.listing.is_kept(), "as many have come and gone as were visited, and 64");
    come(&mut table, 200);
    assert!(!table.listing.is_kept());
    assert_eq!(visited(&mut table), 137);
    while table.pop().is_some() {}
    assert_eq!(page(&mut table, &ALL), (0, Vec::new()));
}

#[test]
fn a_store_of_many_sessions_has_no_order_and_lists_the_same_pages() {
    let mut table = Sessions::new(7);
    table.listing.keep_at_most(100);
    (0..100).for_each(|message| come(&mut table, message));
    assert_eq!(page(&mut table, &Asked { top: 7, ..ALL }).0, 107, "they are brought into order");
    assert!(table.listing.is_kept());
    come(&mut table, 100);
    assert!(!table.listing.is_kept(), "one too many");
    for asked in [
        ALL,
        Asked { top: 7, ..ALL },
        Asked { skip: 40, top: 7, ..ALL },
        Asked { skip: 94, top: 7, ..ALL },
        Asked { skip: 95, top: 7, ..ALL },
        Asked { skip: 101, top: 7, ..ALL },
        Asked { after: Some("50".into()), skip: 3, top: 7, ready: true },
        Asked { after: Some("50x".into()), skip: 3, top: 0, ready: true },
    ] {
        let all = scanned(&table, &asked);
        assert_eq!(page(&mut table, &asked), (101, all), "each list visits all: {asked:?}");
        assert!(!table.listing.is_kept(), "{asked:?}");
    }
    go(&mut table, 50);
    assert!(!table.listing.is_kept(), "nobody has asked");
    let asked = Asked { after: Some("50".into()), skip: 3, top: 7, ready: true };
    assert_eq!(page(&mut table, &asked), (110, scanned(&table, &asked)));
    assert!(table.listing.is_kept(), "few enough again");
    assert_eq!(page(&mut table, &asked), (10, scanned(&table, &asked)));
}
