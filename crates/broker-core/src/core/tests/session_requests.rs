//! Requests about sessions: renewal, state, listing, peeking (`docs/features/sessions.md`).

use std::time::Duration;

use bytes::Bytes;

use super::{harness::*, recovery::clean};
use crate::{
    AttachError, ClientId, Command, Effect, EntitySettings, LinkId, Message, Outcome, Output as _,
    Properties, QuotaError, ReceiveMode, SequenceNumber, SessionError, SessionWanted, Timestamp,
    UnsettledPolicy, record::encode_session_state,
};

const LOCK: u64 = 10_000;

fn settings() -> EntitySettings {
    EntitySettings {
        requires_session: true,
        lock_duration: Duration::from_millis(LOCK),
        ..EntitySettings::default()
    }
}

fn of_session(id: &str, text: &str) -> Message {
    Message { session_id: Some(id.into()), ..message(text) }
}

/// With session `s` held by `ME` on link 1.
fn holding(settings: EntitySettings) -> Broker {
    let mut broker = Broker::with_queue(settings);
    accept(&mut broker, 1, "s");
    broker
}

fn accept(broker: &mut Broker, link: u32, id: &str) {
    let command = Command::OpenConsumer {
        consumer: LinkId(link),
        path: main_path("q"),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: Some(SessionWanted::Named(id.into())),
        auto_create: false,
    };
    let told = broker.tell(ME, command);
    assert!(matches!(&told[..], [Effect::ConsumerOpened { .. }]), "{told:?}");
}

fn close(broker: &mut Broker, link: u32) {
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(link) });
}

fn set_as(broker: &mut Broker, client: ClientId, id: &str, state: Option<&[u8]>) -> Result<(), SessionError> {
    let (path, ticket) = (main_path("q"), broker.ticket());
    let state = state.map(Bytes::copy_from_slice);
    let command = Command::SetSessionState { path, session: id.into(), state, ticket };
    match broker.tell(client, command).pop() {
        Some(Effect::Settled { first, .. }) if first == ticket => Ok(()),
        Some(Effect::SessionRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn set(broker: &mut Broker, id: &str, state: Option<&[u8]>) {
    assert_eq!(set_as(broker, ME, id, state), Ok(()));
}

fn get_as(broker: &mut Broker, client: ClientId, id: &str) -> Result<Option<Vec<u8>>, SessionError> {
    ask_for_state(broker, client, id, false)
}

fn ask_for_state(
    broker: &mut Broker,
    client: ClientId,
    id: &str,
    looks_on: bool,
) -> Result<Option<Vec<u8>>, SessionError> {
    let (path, ticket) = (main_path("q"), broker.ticket());
    let told = broker.tell(client, Command::GetSessionState { path, session: id.into(), looks_on, ticket });
    match told.into_iter().next_back() {
        Some(Effect::SessionState { state, .. }) => Ok(state.map(|state| state.to_vec())),
        Some(Effect::SessionRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn get(broker: &mut Broker, id: &str) -> Option<Vec<u8>> {
    get_as(broker, ME, id).unwrap()
}

fn renew(broker: &mut Broker, client: ClientId, id: &str) -> Result<Timestamp, SessionError> {
    let (path, ticket) = (main_path("q"), broker.ticket());
    match broker.tell(client, Command::RenewSession { path, session: id.into(), ticket }).pop() {
        Some(Effect::SessionRenewed { until, .. }) => Ok(until),
        Some(Effect::SessionRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn list(broker: &mut Broker, updated_after: Option<Timestamp>, skip: u32, top: u32) -> Vec<String> {
    list_after(broker, updated_after, None, skip, top)
}

fn list_after(
    broker: &mut Broker,
    updated_after: Option<Timestamp>,
    after: Option<&str>,
    skip: u32,
    top: u32,
) -> Vec<String> {
    let (path, ticket, after) = (main_path("q"), broker.ticket(), after.map(Box::from));
    match broker.tell(ME, Command::ListSessions { path, updated_after, after, skip, top, ticket }).pop() {
        Some(Effect::SessionList { ids, skip: skipped, .. }) => {
            assert_eq!(skipped, skip);
            ids.into_iter().map(String::from).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn check(broker: &Broker) {
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    broker.check_liveness();
}

#[test]
fn renewing_moves_the_end_for_the_session_and_its_messages() {
    let mut broker = holding(settings());
    broker.publish(of_session("s", "m"));
    let got = broker.credit(ME, 1, 1);
    broker.wait(LOCK - 1);
    assert_eq!(renew(&mut broker, ME, "s"), Ok(broker.now.after(Duration::from_millis(LOCK))));
    broker.wait(LOCK - 1);
    assert_eq!(broker.settle(&got[0], Outcome::Abandon(Properties::default())), Ok(()));
    broker.wait(1);
    assert!(broker.take(ME).iter().any(|effect| matches!(effect, Effect::SessionLost { .. })));
    assert_eq!(renew(&mut broker, ME, "s"), Err(SessionError::LockLost));
}

#[test]
fn only_the_holder_may_renew_read_and_write() {
    let mut broker = holding(settings());
    broker.create("plain", EntitySettings::default());
    let lost = || SessionError::LockLost;
    assert_eq!(renew(&mut broker, OTHER, "s"), Err(lost()));
    assert_eq!(set_as(&mut broker, OTHER, "s", Some(b"x")), Err(lost()));
    assert_eq!(get_as(&mut broker, OTHER, "s"), Err(lost()));
    assert_eq!(renew(&mut broker, ME, "nobody's"), Err(lost()));
    assert_eq!(get_as(&mut broker, ME, "nobody's"), Err(lost()));
    for (path, error) in [
        (main_path("plain"), SessionError::NoSessions("plain".into())),
        (dead_letters("q"), SessionError::NoSessions("q".into())),
        (main_path("none"), SessionError::NotFound("none".into())),
    ] {
        let ticket = broker.ticket();
        let session: Box<str> = "s".into();
        let (skip, top, updated_after) = (0, 1, None);
        let commands = [
            Command::RenewSession { path: path.clone(), session: session.clone(), ticket },
            Command::SetSessionState { path: path.clone(), session: session.clone(), state: None, ticket },
            Command::GetSessionState { path: path.clone(), session, looks_on: false, ticket },
            Command::ListSessions { path, updated_after, after: None, skip, top, ticket },
        ];
        for command in commands {
            let told = broker.tell(ME, command.clone());
            let refused = matches!(&told[..], [Effect::SessionRefused { error: it, .. }] if *it == error);
            assert!(refused, "{command:?}: {told:?}");
        }
    }
    // The end itself is too late, treated or not.
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    assert_eq!(renew(&mut broker, ME, "s"), Err(lost()));
    assert_eq!(set_as(&mut broker, ME, "s", Some(b"x")), Err(lost()));
    assert_eq!(get_as(&mut broker, ME, "s"), Err(lost()));
}

#[test]
fn who_looks_on_reads_the_state_of_a_session_whoever_holds_it() {
    let mut broker = holding(settings());
    broker.create("plain", EntitySettings::default());
    set(&mut broker, "s", Some(b"x"));
    for (client, id, expected) in
        [(ME, "s", Some(b"x".to_vec())), (OTHER, "S", Some(b"x".to_vec())), (OTHER, "nobody's", None)]
    {
        assert_eq!(ask_for_state(&mut broker, client, id, true), Ok(expected), "{id}");
    }
    broker.now = broker.now.after(Duration::from_millis(LOCK));
    assert_eq!(ask_for_state(&mut broker, OTHER, "s", true), Ok(Some(b"x".to_vec())), "nobody holds it");
    let (path, ticket) = (main_path("plain"), broker.ticket());
    let told =
        broker.tell(ME, Command::GetSessionState { path, session: "s".into(), looks_on: true, ticket });
    let refused = matches!(&told[..], [Effect::SessionRefused { error: SessionError::NoSessions(_), .. }]);
    assert!(refused, "{told:?}");
}

#[test]
fn a_state_is_any_bytes_and_null_clears_it() {
    let mut broker = holding(settings());
    assert_eq!(get(&mut broker, "s"), None);
    set(&mut broker, "s", None);
    for state in [&b"one"[..], b"", b"\0\xff", &[7; 5_000]] {
        set(&mut broker, "s", Some(state));
        assert_eq!(get(&mut broker, "s").as_deref(), Some(state));
        check(&broker);
    }
    set(&mut broker, "s", None);
    assert_eq!(get(&mut broker, "s"), None);
    check(&broker);
}

#[test]
fn a_state_is_read_as_written_in_one_go() {
    let mut broker = holding(settings());
    set(&mut broker, "s", Some(b"before"));
    let (path, session): (_, Box<str>) = (main_path("q"), "s".into());
    let get = |ticket| Command::GetSessionState {
        path: path.clone(),
        session: session.clone(),
        looks_on: false,
        ticket,
    };
    let set = |state: Option<&'static [u8]>, ticket| {
        let state = state.map(Bytes::from_static);
        Command::SetSessionState { path: path.clone(), session: session.clone(), state, ticket }
    };
    let mut tickets = Vec::new();
    tickets.resize_with(7, || broker.ticket());
    let told = broker.tell_all(
        ME,
        vec![
            get(tickets[0]),
            set(Some(b"one"), tickets[1]),
            get(tickets[2]),
            set(None, tickets[3]),
            get(tickets[4]),
            set(Some(b"two"), tickets[5]),
            get(tickets[6]),
        ],
    );
    let states: Vec<_> = told
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::SessionState { state, .. } => Some(state.map(|state| state.to_vec())),
            _ => None,
        })
        .collect();
    let expected = [Some(&b"before"[..]), Some(b"one"), None, Some(b"two")];
    assert_eq!(states, expected.map(|state| state.map(<[u8]>::to_vec)));
    check(&broker);
}

#[test]
fn a_state_outlives_messages_restarts_and_cleaning() {
    let mut broker = holding(settings());
    set(&mut broker, "s", Some(b"old"));
    set(&mut broker, "s", Some(b"kept"));
    accept(&mut broker, 2, "t");
    set(&mut broker, "t", Some(b"cleared"));
    set(&mut broker, "t", None);
    broker.restart();
    check(&broker);
    accept(&mut broker, 1, "s");
    accept(&mut broker, 2, "t");
    assert_eq!((get(&mut broker, "s"), get(&mut broker, "t")), (Some(b"kept".to_vec()), None));
    for _ in 0..3 {
        let end = broker.journal.end();
        clean(&mut broker, end);
        check(&broker);
        assert_eq!(get(&mut broker, "s"), Some(b"kept".to_vec()));
    }
    broker.restart();
    accept(&mut broker, 1, "s");
    assert_eq!(get(&mut broker, "s"), Some(b"kept".to_vec()));
}

#[test]
fn a_state_is_as_large_as_a_message_at_most_and_counts_to_the_entity() {
    let settings =
        EntitySettings { max_message_bytes: Some(1_000), max_size_bytes: Some(1_500), ..settings() };
    let mut broker = holding(settings);
    let too_large = SessionError::StateTooLarge { bytes: 1_001, limit: 1_000 };
    assert_eq!(set_as(&mut broker, ME, "s", Some(&[0; 1_001])), Err(too_large));
    set(&mut broker, "s", Some(&[0; 1_000]));
    let bytes = broker.core.entity("q").unwrap().bytes;
    assert!((1_000..1_100).contains(&bytes), "{bytes}");
    assert_eq!(broker.replayed().entity("q").unwrap().bytes, bytes);
    accept(&mut broker, 2, "t");
    let refused = set_as(&mut broker, ME, "t", Some(&[0; 600]));
    assert_eq!(refused, Err(QuotaError::Entity { entity: "q".into(), bytes, limit: 1_500 }.into()));
    // The replaced state is not counted, and clearing is always possible.
    set(&mut broker, "s", Some(&[1; 1_000]));
    broker.journal.full = true;
    assert_eq!(set_as(&mut broker, ME, "s", Some(b"x")), Err(QuotaError::Storage.into()));
    set(&mut broker, "s", None);
    assert_eq!(broker.core.entity("q").unwrap().bytes, 0);
    check(&broker);
}

#[test]
fn a_state_that_cannot_be_read_is_said_to_be() {
    let mut broker = holding(settings());
    set(&mut broker, "s", Some(b"x"));
    broker.journal.broken = broker.journal.records.keys().copied().collect();
    assert_eq!(get_as(&mut broker, ME, "s"), Err(SessionError::Storage));
    set(&mut broker, "s", Some(b"y"));
    assert_eq!(get(&mut broker, "s"), Some(b"y".to_vec()));
}

#[test]
fn sessions_with_active_messages_or_states_are_listed() {
    let mut broker = holding(settings());
    let later = broker.now.after(Duration::from_secs(1));
    broker.publish(of_session("active", "m"));
    broker.publish(of_session("locked", "m"));
    broker.publish(of_session("deferred", "m"));
    broker.publish(Message { scheduled_enqueue_time: Some(later), ..of_session("scheduled", "m") });
    accept(&mut broker, 2, "locked");
    broker.credit(ME, 2, 1);
    accept(&mut broker, 3, "deferred");
    let got = broker.credit(ME, 3, 1);
    broker.settle(&got[0], Outcome::Defer(Properties::default())).unwrap();
    accept(&mut broker, 4, "state");
    set(&mut broker, "state", Some(b"x"));
    let first = broker.now;
    broker.wait(10);
    set(&mut broker, "s", Some(b"y"));
    let mut all = list(&mut broker, None, 0, 100);
    assert_eq!(list(&mut broker, None, 1, 2), all[1..3], "pages are parts of the whole");
    all.sort_unstable();
    assert_eq!(all, ["active", "locked", "s", "state"]);
    assert!(list(&mut broker, None, 4, 2).is_empty());
    assert!(list(&mut broker, None, 0, 0).is_empty());
    let mut with_state = list(&mut broker, Some(Timestamp::from_millis(0)), 0, 9);
    with_state.sort_unstable();
    assert_eq!(with_state, ["s", "state"]);
    assert_eq!(list(&mut broker, Some(first), 0, 9), ["s"], "later than it, not at it");
    set(&mut broker, "s", None);
    assert!(list(&mut broker, Some(first), 0, 9).is_empty());
}

#[test]
fn so_many_sessions_are_listed_at_once_as_fit_an_answer() {
    let mut broker = Broker::with_queue(settings());
    for number in 0..4_100 {
        broker.publish(of_session(&format!("{number:05}"), "m"));
    }
    let first = list(&mut broker, None, 0, u32::MAX);
    assert_eq!((first.len(), first.first().map(String::as_str)), (4_096, Some("00000")));
    assert_eq!(list(&mut broker, None, 4_096, u32::MAX), ["04096", "04097", "04098", "04099"]);
}

#[test]
fn a_store_of_more_sessions_than_an_order_is_kept_of_lists_the_same_pages() {
    let kept_max = 16_384;
    let mut broker = Broker::with_queue(settings());
    let publish = |broker: &mut Broker, number: usize| {
        let id = format!("{}{number:05}", if number.is_multiple_of(2) { "S" } else { "s" });
        broker.publish(of_session(&id, "m"));
        id
    };
    // The last comes first.
    let mut ids: Vec<String> = (1..=kept_max).rev().map(|number| publish(&mut broker, number)).collect();
    let pages = |broker: &mut Broker| {
        let whole = list(broker, None, 0, 5_000);
        let skipped = list(broker, None, 9_999, 3);
        let last = list(broker, None, 16_380, 9);
        let behind = list_after(broker, None, Some("S12345-"), 1, 3);
        [whole, skipped, last, behind]
    };
    let mut ordered = pages(&mut broker);
    ids.push(publish(&mut broker, 0));
    ids.sort_unstable_by_key(|id| id.to_lowercase());
    let selected = pages(&mut broker);
    let expected = [&ids[..4_096], &ids[9_999..10_002], &ids[16_380..], &ids[12_347..12_350]];
    assert_eq!(selected.each_ref().map(Vec::as_slice), expected);
    // The new session is the first of all.
    ordered[0].insert(0, "S00000".into());
    ordered[0].pop();
    assert_eq!((&ordered[0], &ordered[3]), (&selected[0], &selected[3]));
    assert_eq!((&ordered[1][..], &ordered[2][..]), (&ids[10_000..10_003], &ids[16_381..]));
    broker.restart();
    assert_eq!(pages(&mut broker), selected);
}

#[test]
fn peeking_at_a_session_shows_its_messages_wherever_they_stand() {
    let mut broker = holding(settings());
    let later = broker.now.after(Duration::from_secs(1));
    for text in ["deferred", "locked", "active"] {
        broker.publish(of_session("s", text));
        broker.publish(of_session("other", "m"));
    }
    broker.publish(Message { scheduled_enqueue_time: Some(later), ..of_session("s", "scheduled") });
    let got = broker.credit(ME, 1, 2);
    broker.settle(&got[0], Outcome::Defer(Properties::default())).unwrap();
    let peek = |broker: &mut Broker, session: &str, from: u64, count: u32| {
        let (path, ticket) = (main_path("q"), broker.ticket());
        let (session, from) = (Some(session.into()), SequenceNumber(from));
        match broker.tell(OTHER, Command::Peek { path, session, from, count, bytes: 1 << 20, ticket }).pop() {
            Some(Effect::Peeked { messages, .. }) => {
                messages.iter().map(|peeked| (peeked.sequence.0, peeked.stored.state)).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(peek(&mut broker, "s", 0, 9), [(1, 1), (3, 0), (5, 0), (7, 2)]);
    assert_eq!(peek(&mut broker, "s", 4, 1), [(5, 0)]);
    assert!(peek(&mut broker, "none", 0, 9).is_empty());
    close(&mut broker, 1);
    assert_eq!(peek(&mut broker, "s", 0, 9).len(), 4, "no lock is needed");
}

#[test]
fn a_deleted_entity_takes_its_states_along() {
    let mut broker = holding(settings());
    set(&mut broker, "s", Some(b"x"));
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteEntity { name: "q".into(), expected: None, ticket });
    check(&broker);
    assert!(broker.journal.live().is_empty());
}

#[test]
fn an_id_is_one_session_in_any_case_and_shown_as_it_came_first() {
    let mut broker = Broker::with_queue(settings());
    broker.publish(of_session("CaseId", "m1"));
    broker.publish(of_session("caseid", "m2"));
    broker.publish(of_session("other", "m3"));
    for _ in 0..2 {
        assert_eq!(list(&mut broker, None, 0, 10), ["CaseId", "other"]);
        let (path, from, ticket) = (main_path("q"), SequenceNumber(0), broker.ticket());
        let session = Some("cASEiD".into());
        let told = broker.tell(ME, Command::Peek { path, session, from, count: 10, bytes: 1 << 20, ticket });
        assert!(matches!(&told[..], [Effect::Peeked { messages, .. }] if messages.len() == 2), "{told:?}");
        broker.restart();
    }
    // A client that names the session is told its own spelling, and one that takes the next session the first spelling.
    let wanted = [SessionWanted::Named("CASEID".into()), SessionWanted::Next { patience: Duration::ZERO }];
    for (wanted, shown) in wanted.into_iter().zip(["CASEID", "CaseId"]) {
        let (path, mode, unsettled) = (main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::KeepLocks);
        let (consumer, session) = (LinkId(1), Some(wanted));
        let open = Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create: false };
        let told = broker.tell(ME, open);
        let [Effect::ConsumerOpened { session: Some(grant), .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(&*grant.id, shown);
        let open = Command::OpenConsumer {
            consumer: LinkId(2),
            path: main_path("q"),
            mode,
            unsettled,
            session: Some(SessionWanted::Named("caseid".into())),
            auto_create: false,
        };
        let told = broker.tell(OTHER, open);
        let refused = |effect: &Effect| {
            matches!(effect, Effect::AttachRefused { error: AttachError::SessionLocked(_), .. })
        };
        assert!(told.iter().any(refused), "{told:?}");
        assert_eq!(texts(&broker.credit(ME, 1, 10)), ["m1", "m2"]);
        set(&mut broker, "cAsEiD", Some(shown.as_bytes()));
        assert_eq!(get(&mut broker, "caseID").as_deref(), Some(shown.as_bytes()));
        assert!(renew(&mut broker, ME, "CaseID").is_ok());
        close(&mut broker, 1);
        check(&broker);
    }
}

#[test]
fn spellings_that_were_sessions_of_their_own_before_are_one_and_keep_the_state_set_last() {
    for (first, second) in [("CaseId", "caseid"), ("caseid", "CaseId")] {
        let mut broker = Broker::with_queue(settings());
        broker.publish(of_session(first, "m1"));
        broker.publish(of_session(second, "m2"));
        // As versions before have written them: neither state replaces the other.
        let queue = broker.queue("q");
        for id in [first, second] {
            let index = encode_session_state(queue, id, broker.now, true);
            broker.journal.record(&index, &[id.as_bytes()]);
        }
        broker.restart();
        assert_eq!(list(&mut broker, None, 0, 10), [first]);
        accept(&mut broker, 1, second);
        assert_eq!(texts(&broker.credit(ME, 1, 10)), ["m1", "m2"]);
        assert_eq!(get(&mut broker, first).as_deref(), Some(second.as_bytes()));
        set(&mut broker, first, None);
        broker.restart();
        accept(&mut broker, 1, second);
        assert_eq!(get(&mut broker, second), None);
        assert_eq!(broker.replayed().digest(), broker.core.digest());
    }
}

#[test]
fn a_list_goes_on_behind_the_last_session_of_the_page_before() {
    let mut broker = Broker::with_queue(settings());
    let ids: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for id in &ids {
        broker.publish(of_session(id, "m"));
    }
    let mut seen: Vec<String> = Vec::new();
    loop {
        let last = seen.last().map(|id| id.to_uppercase());
        let page = list_after(&mut broker, None, last.as_deref(), 0, 3);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, ids);
    assert_eq!(
        list_after(&mut broker, None, Some("s3"), 2, 2),
        ids[6..8],
        "what is skipped lies behind it too"
    );
    assert!(list_after(&mut broker, None, Some("s9"), 0, 2).is_empty());
}

#[test]
fn sessions_are_listed_by_their_ids_whichever_came_first_and_across_restarts() {
    let mut broker = Broker::with_queue(settings());
    for id in ["m", "Z", "b", "gone", "ä", "k"] {
        broker.publish(of_session(id, "m"));
    }
    accept(&mut broker, 1, "gone");
    let got = broker.credit(ME, 1, 1);
    assert_eq!(list_after(&mut broker, None, None, 0, 3), ["b", "gone", "k"]);
    assert_eq!(list_after(&mut broker, None, Some("GONE"), 0, 9), ["k", "m", "Z", "ä"]);
    broker.settle(&got[0], Outcome::Complete).unwrap();
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(1) });
    // The place of the one that has gone is used again.
    broker.publish(of_session("a", "m"));
    for restarts in 0..2 {
        assert_eq!(list_after(&mut broker, None, None, 0, 9), ["a", "b", "k", "m", "Z", "ä"], "{restarts}");
        let behind = list_after(&mut broker, None, Some("gone"), 0, 2);
        assert_eq!(behind, ["k", "m"], "{restarts}: behind its place");
        broker.restart();
    }
}
