use amqp_codec::raw::{AnnotationValue, RawValue};
use broker_core::{LockToken, SequenceNumber, SubQueue, Timestamp};
use bytes::Bytes;

use super::*;

fn path() -> EntityPath {
    EntityPath { entity: "q".into(), sub_queue: SubQueue::Main }
}

fn run(ask: Result<CommandBuilder, Refusal>) -> Result<Command, Refusal> {
    ask.map(|ask| ask(Ticket(1)))
}

fn tokens() -> RawValue<'static> {
    // An array of one uuid.
    const ARRAY: &[u8] = &[0xe0, 18, 1, 0x98, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    RawValue::first(ARRAY).unwrap()
}

#[test]
fn peek_takes_any_integer_and_bounds_the_count() {
    let body =
        |from, count| RawMap::with_string_keys(&[("from-sequence-number", from), ("message-count", count)]);
    let cases = [
        (AnnotationValue::Long(5), AnnotationValue::Int(3), Some((5, 3))),
        (AnnotationValue::Ulong(5), AnnotationValue::Uint(3), Some((5, 3))),
        (AnnotationValue::Long(-1), AnnotationValue::Int(i32::MAX), Some((0, 4096))),
        (AnnotationValue::Long(1), AnnotationValue::Int(0), None),
        (AnnotationValue::Str("1"), AnnotationValue::Int(1), None),
    ];
    for (from, count, expected) in cases {
        let found = match run(peek::command(&body(from, count), path(), None, 100)) {
            Ok(Command::Peek { from: SequenceNumber(from), count, bytes: 100, .. }) => Some((from, count)),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => {
                assert!(refusal.named().condition.starts_with("com.microsoft:argument-"), "{refusal:?}");
                None
            }
        };
        assert_eq!(found, expected, "{from:?} {count:?}");
    }
}

#[test]
fn a_deletion_in_bulk_is_bounded() {
    let cases =
        [(1, Some(1)), (4000, Some(4000)), (4001, Some(4000)), (i32::MAX, Some(4000)), (0, None), (-1, None)];
    for (asked, expected) in cases {
        let body = RawMap::with_string_keys(&[("message-count", AnnotationValue::Int(asked))]);
        let now = Timestamp::from_millis(7);
        let found = run(delete::command(&body, path(), None, now)).ok().map(|command| match command {
            Command::DeleteMessages { count, before, session: None, .. } if before == now => count,
            other => panic!("{other:?}"),
        });
        assert_eq!(found, expected, "{asked}");
    }
}

#[test]
fn tokens_are_uuids_in_network_order() {
    let body = RawMap::with_string_keys(&[("lock-tokens", AnnotationValue::Raw(tokens()))]);
    let Ok(Command::RenewLocks { tokens, .. }) = run(locks::renew(&body, path())) else { panic!() };
    assert_eq!(tokens, vec![LockToken(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f)]);
    assert!(run(locks::renew(&RawMap::empty(), path())).is_err());
}

#[test]
fn every_disposition_status_has_its_outcome() {
    let modify = RawMap::with_string_keys(&[("p", AnnotationValue::Bool(true))]);
    let modify = RawValue::first(modify.bytes()).unwrap();
    for (status, expected) in [
        ("completed", Some("Complete")),
        ("abandoned", Some("Abandon(1)")),
        ("defered", Some("Defer(1)")),
        ("suspended", Some("DeadLetter(3)")),
        ("lost", None),
    ] {
        let body = RawMap::with_string_keys(&[
            ("lock-tokens", AnnotationValue::Raw(tokens())),
            ("disposition-status", AnnotationValue::Str(status)),
            ("deadletter-reason", AnnotationValue::Str("r")),
            ("deadletter-description", AnnotationValue::Str("d")),
            ("properties-to-modify", AnnotationValue::Raw(modify)),
        ]);
        let found = run(locks::update(&body, path(), None)).ok().map(|command| match command {
            Command::SettleByToken { outcome, .. } => match outcome {
                broker_core::Outcome::Complete => "Complete".to_owned(),
                broker_core::Outcome::Release(p) => format!("Release({})", p.0.len()),
                broker_core::Outcome::Abandon(p) => format!("Abandon({})", p.0.len()),
                broker_core::Outcome::Defer(p) => format!("Defer({})", p.0.len()),
                broker_core::Outcome::DeadLetter(p) => format!("DeadLetter({})", p.0.len()),
            },
            other => panic!("{other:?}"),
        });
        assert_eq!(found.as_deref(), expected, "{status}");
    }
}

#[test]
fn expirations_are_an_array_of_timestamps() {
    let body = locks::expirations(&[Timestamp::from_millis(1), Timestamp::from_millis(2)]);
    let map = RawMap::new(Bytes::from(body.to_vec())).unwrap();
    let items = map.get("expirations").unwrap().to_items().unwrap();
    let ends: Vec<_> = items.iter().map(|item| RawValue::first(item).unwrap().as_timestamp()).collect();
    assert_eq!(ends, vec![Some(1), Some(2)]);
}

/// An array32 of `count` elements of one type, each of `element`.
fn array(count: u32, constructor: &[u8], element: &[u8]) -> Vec<u8> {
    let elements = element.repeat(count as usize);
    let size = u32::try_from(4 + constructor.len() + elements.len()).unwrap();
    [&[0xf0][..], &size.to_be_bytes(), &count.to_be_bytes(), constructor, &elements].concat()
}

/// A field, the constructor and one element of its array, the reader of the request, and the most elements.
type CountedItems<'a> =
    (&'a str, (&'a [u8], &'a [u8]), &'a dyn Fn(&RawMap) -> Result<CommandBuilder, Refusal>, usize);

#[test]
fn the_items_of_a_request_are_counted_before_they_are_copied() {
    let (uuid, long) = ((&[0x98][..], &[7; 16][..]), (&[0x81][..], &[0, 0, 0, 0, 0, 0, 0, 7][..]));
    let deferred = |body: &RawMap| deferred::command(body, path(), None, 100);
    let cases: [CountedItems<'_>; 4] = [
        ("lock-tokens", uuid, &|body| locks::renew(body, path()), body::ITEMS_MAX),
        ("lock-tokens", uuid, &|body| locks::update(body, path(), None), body::ITEMS_MAX),
        ("sequence-numbers", long, &|body| schedule::cancel(body, path()), body::ITEMS_MAX),
        ("sequence-numbers", long, &deferred, 4096),
    ];
    for (field, (constructor, element), ask, most) in cases {
        let most = u32::try_from(most).unwrap();
        for (count, taken) in [(most, true), (most + 1, false), (u32::MAX, false)] {
            let mut items = array(count.min(most + 1), constructor, element);
            items[5..9].copy_from_slice(&count.to_be_bytes());
            let body = RawMap::with_string_keys(&[
                (field, AnnotationValue::Raw(RawValue::first(&items).unwrap())),
                ("disposition-status", AnnotationValue::Str("completed")),
                ("receiver-settle-mode", AnnotationValue::Uint(1)),
            ]);
            let refusal = run(ask(&body)).err();
            let beyond = matches!(
                refusal,
                Some(Refusal::OutOfRange { field: named, value, .. })
                    if named == field && value == i64::from(count)
            );
            assert_eq!((refusal.is_none(), beyond), (taken, !taken), "{field} {count}: {refusal:?}");
        }
    }
}

#[test]
fn an_array_of_described_tokens_is_refused() {
    let described = array(2, &[0x00, 0xa3, 1, b'd', 0x98], &[7; 16]);
    let body = RawMap::with_string_keys(&[(
        "lock-tokens",
        AnnotationValue::Raw(RawValue::first(&described).unwrap()),
    )]);
    assert!(matches!(run(locks::renew(&body, path())), Err(Refusal::BadRequest { .. })));
}
