use amqp_codec::types::Role;

use super::*;

fn attach(filter: Option<(&str, AnnotationValue<'_>)>, properties: &[(&str, AnnotationValue<'_>)]) -> Attach {
    let mut source = Source::new("q");
    source.filter = filter.map(|entry| RawMap::with_symbol_keys(&[entry]));
    Attach {
        source: Some(source),
        properties: Some(RawMap::with_symbol_keys(properties)),
        ..Attach::new("r", 0, Role::Receiver)
    }
}

/// A value with the descriptor that Rust and Go give it.
fn described(value: &[u8]) -> Vec<u8> {
    [&[0x00, 0x80, 0, 0, 0, 0x13, 0x70, 0, 0, 0x0c][..], value].concat()
}

#[test]
fn every_clients_way_to_ask_for_a_session_is_understood() {
    let (text, null) = (described(&[0xa1, 1, b's']), described(&[0x40]));
    let raw = |bytes| AnnotationValue::Raw(RawValue::first(bytes).unwrap());
    let named = |id: &str| Ok(Some(SessionWanted::Named(id.into())));
    let next = || Ok(Some(SessionWanted::Next { patience: PATIENCE }));
    let cases = [
        (None, Ok(None)),
        (Some(("apache.org:selector-filter:string", AnnotationValue::Str("x"))), Ok(None)),
        (Some((SESSION_FILTER, AnnotationValue::Str("s"))), named("s")),
        (Some((SESSION_FILTER, AnnotationValue::Str(""))), named("")),
        (Some((SESSION_FILTER, raw(&text))), named("s")),
        (Some((SESSION_FILTER, raw(&[0x40]))), next()),
        (Some((SESSION_FILTER, raw(&null))), next()),
        (Some((SESSION_FILTER, AnnotationValue::Int(1))), Err(Refusal::SessionFilter)),
        (Some((NON_EXCLUSIVE, AnnotationValue::Str("s"))), Err(Refusal::SharedSession)),
    ];
    for (filter, expected) in cases {
        assert_eq!(requested(&attach(filter, &[])), expected, "{filter:?}");
    }
}

#[test]
fn whoever_takes_any_session_is_answered_a_little_before_the_time_that_it_says() {
    let null = AnnotationValue::Raw(RawValue::first(&[0x40]).unwrap());
    let cases = [
        (None, PATIENCE),
        (Some(AnnotationValue::Uint(60_000)), Duration::from_millis(59_900)),
        (Some(AnnotationValue::Uint(1_500)), Duration::from_millis(1_400)),
        (Some(AnnotationValue::Uint(1_000)), Duration::from_millis(900)),
        (Some(AnnotationValue::Uint(999)), Duration::from_micros(899_100)),
        (Some(AnnotationValue::Long(20)), Duration::from_millis(18)),
        (Some(AnnotationValue::Ulong(0)), Duration::ZERO),
        (Some(AnnotationValue::Long(-1)), PATIENCE),
        (Some(AnnotationValue::Str("1")), PATIENCE),
    ];
    for (timeout, patience) in cases {
        let properties: Vec<_> = timeout.into_iter().map(|value| (TIMEOUT, value)).collect();
        let found = requested(&attach(Some((SESSION_FILTER, null)), &properties));
        assert_eq!(found, Ok(Some(SessionWanted::Next { patience })), "{timeout:?}");
    }
}

/// A filter with one entry, from encoded bytes.
fn filter(key: &[u8], value: &[u8]) -> RawMap {
    let mut bytes = BytesMut::new();
    write_map(&mut bytes, 2, |out| {
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    });
    RawMap::new(bytes.freeze()).unwrap()
}

#[test]
fn the_answer_has_the_filter_in_the_encoding_of_the_question() {
    let (mut symbol, mut string) = (BytesMut::new(), BytesMut::new());
    symbol.extend_from_slice(&[0xa3, 28]);
    symbol.extend_from_slice(SESSION_FILTER.as_bytes());
    AnnotationValue::Str(SESSION_FILTER).write(&mut string);
    // A descriptor that is a symbol instead of a number.
    let by_name = [&[0x00, 0xa3, 28][..], SESSION_FILTER.as_bytes()].concat();
    let named = |inner: &[u8]| [&by_name[..], inner].concat();
    let got = [0xa1, 1, b's'];
    let cases = [
        // key, value that was asked, value of the answer
        (&symbol, got.to_vec(), got.to_vec()),
        (&symbol, vec![0x40], got.to_vec()),
        (&symbol, described(&got), described(&got)),
        (&symbol, described(&[0x40]), described(&got)),
        (&symbol, named(&[0x40]), named(&got)),
        (&string, described(&got), described(&got)),
        (&string, got.to_vec(), got.to_vec()),
        // The client spells the same string with a longer constructor: the type stays, its width is ours.
        (&symbol, described(&[0xb1, 0, 0, 0, 1, b's']), described(&got)),
    ];
    let grant = SessionGrant { id: "s".into(), until: Timestamp::from_millis(1_500) };
    for (key, asked, expected) in cases {
        let mut source = Source::new("q");
        source.filter = Some(filter(key, &asked));
        let answer = with_session(source, &grant.id).filter.unwrap();
        assert_eq!(answer, filter(key, &expected), "{asked:x?}");
    }
}

#[test]
fn the_end_of_the_lock_is_told_in_ticks() {
    let grant = SessionGrant { id: "s".into(), until: Timestamp::from_millis(1_500) };
    let until = properties(&grant).get(LOCKED_UNTIL).and_then(RawValue::as_i64);
    assert_eq!(until, Some(621_355_968_015_000_000));
    assert_eq!(ticks(Timestamp::MAX), i64::MAX, "a lock without end does not wrap");
}
