use std::time::Duration;

use broker_filter::{
    CorrelationFilter, Filter, NumberType, Parameters, SqlAction, SqlFilter, SystemProperty, Value, Written,
};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    AccessRight, AuthorizationRule, EntityKind, EntitySettings, EntityStatus, KeyText, LockLifetime,
    Properties, PropertyValue, Rule, StoredExtras, Timestamp, store::partition::Counters,
};

pub(super) fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Active), Just(State::Deferred), Just(State::Scheduled)]
}

prop_compose! {
    pub(super) fn message_index()(
        (queue, sequence, enqueued, expires) in (any::<u32>(), 1..SEQUENCE_END, any::<u64>(), any::<u64>()),
        (delivery_count, state, flags) in (any::<u32>(), state(), 0u8..8),
        (due, own_ttl, extras) in (any::<Option<u64>>(), any::<Option<u64>>(), proptest::option::of(extras())),
        body: Option<(u32, u64)>,
    ) -> MessageIndex {
        MessageIndex {
            queue: QueueId(queue),
            sequence,
            enqueued_at: Timestamp::from_millis(enqueued),
            expires_at: Timestamp::from_millis(expires),
            delivery_count,
            state,
            flags,
            properties_length: 0,
            due: due.map(Timestamp::from_millis),
            own_ttl,
            body: body.map(|(topic, sequence)| {
                BodyRef { topic: QueueId(if topic == queue { queue ^ 1 } else { topic }), sequence }
            }),
            // None at all and all of them none is the same in a record.
            extras: extras.filter(|extras| *extras != StoredExtras::default()).map(Box::new),
        }
    }
}

prop_compose! {
    fn extras()(
        session in proptest::option::of(".{0,128}"),
        enqueued_sequence: Option<u64>,
        hops: u8,
        dead_letter_source in proptest::option::of("[a-zA-Z0-9/._-]{1,260}"),
    ) -> StoredExtras {
        StoredExtras {
            session: session.map(Box::from),
            enqueued_sequence,
            hops,
            dead_letter_source: dead_letter_source.map(Box::from),
        }
    }
}

prop_compose! {
    fn authorization_rule()(
        name in ".{0,40}",
        rights in proptest::sample::subsequence(vec![AccessRight::Manage, AccessRight::Send, AccessRight::Listen], 0..=3)
            .prop_shuffle(),
        primary in "[A-Za-z0-9+/]{43}=",
        secondary in proptest::option::of("[A-Za-z0-9+/]{43}="),
        (created, modified) in any::<(u64, u64)>(),
    ) -> AuthorizationRule {
        AuthorizationRule {
            name: name.into(),
            rights,
            primary: KeyText::new(primary),
            secondary: secondary.map(KeyText::new),
            created_at: Timestamp::from_millis(created),
            modified_at: Timestamp::from_millis(modified),
        }
    }
}

prop_compose! {
    fn settings()(
        (lock, ttl, window, idle) in (any::<u32>(), any::<Option<u32>>(), any::<u32>(), any::<Option<u32>>()),
        (max_delivery_count, max_message_bytes, max_size_bytes) in (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>()),
        flags in any::<[bool; 6]>(),
        status in prop_oneof![
            Just(EntityStatus::Active),
            Just(EntityStatus::Disabled),
            Just(EntityStatus::SendDisabled),
            Just(EntityStatus::ReceiveDisabled),
        ],
        texts in any::<[Option<String>; 3]>(),
        other in proptest::collection::btree_map(".{0,20}".prop_map(Box::from), ".{0,40}".prop_map(Box::from), 0..4),
        authorization in proptest::collection::vec(authorization_rule(), 0..13),
    ) -> EntitySettings {
        let millis = |millis: u32| Duration::from_millis(u64::from(millis));
        let [forward_to, forward_dead_lettered_to, user_metadata] = texts.map(|text| text.map(Box::from));
        EntitySettings {
            lock_duration: millis(lock),
            hold: if flags[5] { LockLifetime::Lock } else { LockLifetime::Link },
            max_delivery_count,
            default_time_to_live: ttl.map(millis),
            dead_letter_on_expiration: flags[0],
            dead_letter_on_filter_error: flags[1],
            max_message_bytes: max_message_bytes.map(u64::from),
            max_size_bytes: max_size_bytes.map(u64::from),
            requires_session: flags[2],
            requires_duplicate_detection: flags[3],
            duplicate_detection_window: millis(window),
            enable_partitioning: flags[4],
            status,
            forward_to,
            forward_dead_lettered_to,
            auto_delete_on_idle: idle.map(millis),
            user_metadata,
            authorization,
            other,
        }
    }
}

prop_compose! {
    pub(super) fn stores()(first in 0..u32::MAX - 2) -> Stores {
        Stores { queue: QueueId(first), dead_letter: QueueId(first + 1), transfer_dead_letter: QueueId(first + 2) }
    }
}

prop_compose! {
    pub(super) fn definition()(
        (stores, name, settings) in (stores(), "[a-zA-Z0-9/._-]{1,260}", settings()),
        kind in prop_oneof![Just(EntityKind::Queue), Just(EntityKind::Topic), Just(EntityKind::Subscription)],
        (topic, next_sequence) in (0..u32::MAX, 1..=SEQUENCE_END),
        (created, updated, accessed) in any::<(u64, u64, u64)>(),
        count in 0_u64..1 << 48,
    ) -> Definition {
        let counters = || Box::new(Counters::new(std::iter::repeat_n(count, 16)).unwrap());
        let partitions = settings.enable_partitioning.then(counters);
        Definition {
            kind,
            stores,
            topic: (kind == EntityKind::Subscription).then_some(QueueId(topic)),
            name: name.into(),
            settings,
            next_sequence,
            partitions,
            created_at: Timestamp::from_millis(created),
            updated_at: Timestamp::from_millis(updated),
            accessed_at: Timestamp::from_millis(accessed),
        }
    }
}

fn typed() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Double),
        ".{0,20}".prop_map(|text| Value::Text(text.into())),
        any::<i64>().prop_map(Value::Timestamp),
        any::<i64>().prop_map(Value::Duration),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Binary(bytes.into())),
    ]
}

/// A value of a rule; a time or number with how it was written, or without.
fn given() -> impl Strategy<Value = (Value, Option<Written>)> {
    let time = (any::<i64>(), ".{0,20}")
        .prop_map(|(at, text)| (Value::Timestamp(at), Some(Written::Time(text.as_str().into()))));
    let kind = || proptest::sample::select(&NumberType::ALL[..]).prop_map(Written::Number);
    let integer = (any::<i64>(), kind()).prop_map(|(number, kind)| (Value::Int(number), Some(kind)));
    let double = (any::<f64>(), kind()).prop_map(|(number, kind)| (Value::Double(number), Some(kind)));
    prop_oneof![3 => typed().prop_map(|value| (value, None)), 1 => time, 1 => integer, 1 => double]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    proptest::collection::vec(given(), 2..4).prop_map(|values| {
        let mut parameters = Parameters::new();
        for (number, (value, written)) in values.into_iter().enumerate() {
            let name = format!("@p{number}");
            match written {
                Some(written) => parameters.set_written(&name, value, written),
                None => parameters.set(&name, value),
            }
        }
        parameters
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![
        Just(Filter::True),
        Just(Filter::False),
        parameters()
            .prop_map(|it| Filter::Sql(SqlFilter::parse("a = @p0 OR sys.Label LIKE 'x%'", it).unwrap())),
        parameters().prop_map(|it| Filter::Sql(SqlFilter::parse_lenient("NOT a > @p0", it).unwrap())),
        (typed(), given(), "[a-z]{1,5}").prop_map(|(one, (other, written), name)| {
            let mut filter = CorrelationFilter::new();
            filter.system(SystemProperty::Label, one);
            match written {
                Some(written) => filter.user_written(&name, other, written),
                None => filter.user(&name, other),
            }
            Filter::Correlation(filter)
        }),
    ]
}

prop_compose! {
    pub(super) fn rule()(
        (name, filter) in ("[a-z]{1,50}", filter()),
        action in proptest::option::of(parameters()),
    ) -> Rule {
        let action = action.map(|it| SqlAction::parse("SET a = @p0; REMOVE b; SET sys.To = @p1", it).unwrap());
        Rule { name: name.into(), filter, action }
    }
}

fn value() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        ".{0,20}".prop_map(|text| PropertyValue::Text(text.into())),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| PropertyValue::Encoded(bytes.into())),
        typed().prop_map(PropertyValue::Value),
        Just(PropertyValue::Removed),
    ]
}

fn some_properties() -> impl Strategy<Value = Properties> {
    proptest::collection::vec((".{0,10}".prop_map(Box::from), value()), 0..5)
        .prop_map(|properties| Properties(properties.into()))
}

proptest! {
    #[test]
    fn a_message_record_comes_back_whole(mut index in message_index(), properties in some_properties(), payload: Vec<u8>) {
        let encoded = encode_properties(&properties);
        index.properties_length = u32::try_from(encoded.len()).unwrap();
        let record = Bytes::from([index.encode().as_slice(), &encoded, &payload].concat());
        prop_assert_eq!(Fact::decode(index.encode().as_slice()).unwrap(), Fact::Message(index.clone()));
        let open = OpenRecord::open(record).unwrap();
        prop_assert_eq!(&open.index, &index);
        prop_assert_eq!(open.properties().unwrap(), properties);
        prop_assert_eq!(open.own_payload(), &payload[..]);
        prop_assert_eq!(open.into_payload(), payload);
    }

    #[test]
    fn a_plain_record_is_read_in_one_step_and_no_other(index in message_index(), plainly: bool, payload: Vec<u8>) {
        let index = if plainly {
            let plain = MessageIndex { state: State::Active, properties_length: 0, due: None, own_ttl: None, ..index };
            MessageIndex { body: None, extras: None, ..plain }
        } else {
            MessageIndex { properties_length: u32::try_from(payload.len() / 2).unwrap(), ..index }
        };
        let record = Bytes::from([index.encode().as_slice(), &payload].concat());
        let is_plain = index.state == State::Active
            && (index.properties_length, index.due, index.own_ttl, index.body) == (0, None, None, None)
            && index.extras.is_none();
        prop_assert_eq!(Plain::read(&record).is_some(), is_plain);
        if let Some(plain) = Plain::read(&record) {
            let open = OpenRecord::open(record.clone()).unwrap();
            let found = (plain.queue, plain.sequence, plain.enqueued_at);
            prop_assert_eq!(found, (open.index.queue, open.index.sequence, open.index.enqueued_at));
            prop_assert_eq!(&record[Plain::LENGTH..], &payload[..]);
        }
        for end in 0..Plain::LENGTH {
            prop_assert_eq!(Plain::read(&record[..end]), None);
        }
    }

    #[test]
    fn the_other_records_come_back_whole(
        definition in definition(),
        stores in stores(),
        (queue, sequence, count, state) in (any::<u32>(), any::<u64>(), any::<u32>(), state()),
        runs in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..20),
        rule in rule(),
    ) {
        let queue = QueueId(queue);
        let mut removed = Vec::new();
        encode_removed(&mut removed, queue, &runs);
        let changed = encode_changed(queue, sequence, count, state);
        let cases = [
            (definition.encode(), Fact::Definition(Box::new(definition))),
            (encode_deleted(stores), Fact::Deleted(stores)),
            (removed, Fact::Removed { queue, runs }),
            (changed.to_vec(), Fact::Changed { queue, sequence, delivery_count: count, state }),
            (
                encode_rule(queue, count, &rule, Timestamp::from_millis(sequence)),
                Fact::Rule(Box::new(RuleRecord {
                    subscription: queue,
                    number: count,
                    rule: Some((rule, Timestamp::from_millis(sequence))),
                })),
            ),
            (
                encode_rule_gone(queue, count),
                Fact::Rule(Box::new(RuleRecord { subscription: queue, number: count, rule: None })),
            ),
        ];
        for (record, fact) in cases {
            prop_assert_eq!(Fact::decode(&record).unwrap(), fact);
            for end in 0..record.len() {
                prop_assert!(Fact::decode(&record[..end]).is_err(), "cut at {}", end);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes: Vec<u8>, kind in 0u8..11, plausible: bool) {
        if plausible && bytes.len() > 4 {
            bytes[..4].copy_from_slice(&[VERSION, kind, 0, 0]);
        }
        drop(Fact::decode(&bytes));
        let bytes = Bytes::from(bytes);
        drop(decode_properties(&bytes));
        let open = OpenRecord::open(bytes.clone());
        prop_assert!(open.is_ok() || Plain::read(&bytes).is_none_or(|plain| plain.sequence == 0 || plain.sequence >= SEQUENCE_END));
        if let Ok(open) = open {
            drop(open.properties());
            prop_assert!(open.own_payload().len() <= bytes.len());
        }
    }
}

#[test]
fn impossible_values_are_named() {
    let good = encode_changed(QueueId(1), 1, 0, State::Active);
    let mut version = good;
    version[0] = 3;
    let mut older = good;
    older[0] = 1;
    let mut kind = good;
    kind[1] = 99;
    let mut state = good;
    state[20] = 4;
    let cases = [
        (
            version.to_vec(),
            "it was written by a newer version of ferrybus: record format 3 is not known to this one, which reads format 2",
        ),
        (
            older.to_vec(),
            "it is no record of this journal's format: record format 1 is not known to this one, which reads format 2",
        ),
        (
            kind.to_vec(),
            "it was written by a newer version of ferrybus: record kind 99 is not known to this one",
        ),
        (state.to_vec(), "`state` is 4, which has no meaning"),
        (good[..19].to_vec(), "the record ends early, `delivery_count` is missing"),
        (good[..23].to_vec(), "the record ends early, `reserved` is missing"),
    ];
    for (record, error) in cases {
        assert_eq!(Fact::decode(&record).unwrap_err().to_string(), error);
    }
}

#[test]
fn the_bytes_of_records_match_the_format_document() {
    let index = MessageIndex {
        queue: QueueId(0x0102),
        sequence: 3,
        enqueued_at: Timestamp::from_millis(4),
        expires_at: Timestamp::from_millis(5),
        delivery_count: 6,
        state: State::Scheduled,
        flags: DURABLE | OWN_TTL,
        properties_length: 7,
        due: Some(Timestamp::from_millis(8)),
        own_ttl: Some(9),
        body: None,
        extras: Some(Box::new(StoredExtras {
            session: Some("s".into()),
            enqueued_sequence: Some(10),
            hops: 1,
            dead_letter_source: Some("q".into()),
        })),
    };
    let drawn: &[&[u8]] = &[
        &[2, 3, 0, 0],
        &[2, 1, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0],
        &[7, 0, 0, 0],
        &[45, 0, 2, 3],
        &[1, 8, 0, 8, 0, 0, 0, 0, 0, 0, 0],
        &[2, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0],
        &[3, 1, 0, b's'],
        &[4, 8, 0, 10, 0, 0, 0, 0, 0, 0, 0],
        &[5, 1, 0, 1],
        &[6, 1, 0, b'q'],
    ];
    assert_eq!(index.encode().as_slice(), drawn.concat());
    let copy = MessageIndex {
        state: State::Active,
        body: Some(BodyRef { topic: QueueId(0x0304), sequence: 11 }),
        due: None,
        own_ttl: None,
        extras: None,
        ..index
    };
    let same = drawn[1..7].concat();
    let drawn_copy: [&[u8]; 4] =
        [&[2, 6, 0, 0], &same, &[15, 0, 0, 3], &[32, 12, 0, 4, 3, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0]];
    assert_eq!(copy.encode().as_slice(), drawn_copy.concat());
    let mut removed = Vec::new();
    encode_removed(&mut removed, QueueId(5), &[(7, 2)]);
    assert_eq!(removed, [2, 4, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    let stores = Stores { queue: QueueId(5), dead_letter: QueueId(6), transfer_dead_letter: QueueId(7) };
    assert_eq!(encode_deleted(stores), [2, 2, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(encode_rule_gone(QueueId(5), 6), [2, 9, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0]);
    let rule = Rule { name: "r".into(), filter: Filter::True, action: None };
    let drawn_rule: &[&[u8]] = &[
        &[2, 9, 0, 0],
        &[5, 0, 0, 0],
        &[6, 0, 0, 0],
        &[0, 0, 0, 0],
        &[7, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, b'r'],
        &[0],
        &[0],
    ];
    assert_eq!(encode_rule(QueueId(5), 6, &rule, Timestamp::from_millis(7)), drawn_rule.concat());
    let changed = encode_changed(QueueId(5), 7, 2, State::Deferred);
    assert_eq!(changed, [2, 5, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn the_bytes_of_a_history_match_the_format_document() {
    let digests = [crate::store::history::Digest([7; 16]), crate::store::history::Digest([8; 16])];
    let at = Timestamp::from_millis(4);
    let drawn: &[&[u8]] = &[
        &[2, 8, 0, 0, 5, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 2, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[7; 16],
        &[8; 16],
    ];
    let record = encode_history(QueueId(5), 3, at, digests.iter());
    assert_eq!(record, drawn.concat());
    let run = HistoryRun { queue: QueueId(5), number: 3, at, digests: digests.to_vec() };
    assert_eq!(Fact::decode(&record), Ok(Fact::History(run)));
    let forgotten = encode_forgotten(QueueId(5), 9);
    assert_eq!(forgotten, [2, 8, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(Fact::decode(&forgotten), Ok(Fact::Forgotten { queue: QueueId(5), kept_from: 9 }));
}

#[test]
fn a_history_that_cannot_be_is_named() {
    let record = |form: u8, number: u64, count: u16| {
        let mut record = vec![2, 8, 0, 0, 5, 0, 0, 0];
        record.extend_from_slice(&number.to_le_bytes());
        record.extend_from_slice(&[form, 0]);
        record.extend_from_slice(&count.to_le_bytes());
        record.extend_from_slice(&4u64.to_le_bytes());
        record.resize(record.len() + 16 * HISTORY_IDS_MAX, 9);
        record
    };
    let most = u16::try_from(HISTORY_IDS_MAX).unwrap();
    let value = |field, value| Err(RecordError::Value { field, value });
    let cases = [
        (record(0, 1, most), Ok(())),
        (record(0, 1, most + 1), value("id count", u64::from(most) + 1)),
        (record(0, 1, u16::MAX), value("id count", u64::from(u16::MAX))),
        (record(0, SEQUENCE_END - 1, 1), Ok(())),
        (record(0, SEQUENCE_END, 1), value("number", SEQUENCE_END)),
        (record(1, SEQUENCE_END, 0), value("number", SEQUENCE_END)),
        (record(0, u64::MAX, 1), value("number", u64::MAX)),
        (record(2, 1, 1), value("form", 2)),
    ];
    for (record, expected) in cases {
        let decoded = Fact::decode(&record).map(|_| ());
        assert_eq!(decoded, expected, "{:?}", &record[..28]);
    }
    let cut = record(0, 1, 2);
    assert_eq!(Fact::decode(&cut[..28 + 31]), Err(RecordError::Short { field: "id" }));
}

#[test]
fn a_body_lies_in_another_store_and_a_message_has_none() {
    let copy = MessageIndex {
        queue: QueueId(1),
        sequence: 1,
        enqueued_at: Timestamp::default(),
        expires_at: Timestamp::MAX,
        delivery_count: 0,
        state: State::Active,
        flags: 0,
        properties_length: 0,
        due: None,
        own_ttl: None,
        body: Some(BodyRef { topic: QueueId(2), sequence: 1 }),
        extras: None,
    };
    let good = copy.encode().as_slice().to_vec();
    let own_store = MessageIndex { body: Some(BodyRef { topic: QueueId(1), sequence: 1 }), ..copy.clone() };
    let body_of_body = MessageIndex { state: State::Body, ..copy.clone() };
    let none = MessageIndex { body: None, ..copy };
    let as_kind = |index: &MessageIndex, kind: u8| {
        let mut bytes = index.encode().as_slice().to_vec();
        bytes[1] = kind;
        bytes
    };
    let cases = [
        (good, true),
        (as_kind(&own_store, kind::COPY), false),
        (as_kind(&body_of_body, kind::COPY), false),
        (as_kind(&none, kind::COPY), false),
        (as_kind(&none, kind::MESSAGE), true),
        (as_kind(&own_store, kind::MESSAGE), false),
    ];
    for (record, fits) in cases {
        assert_eq!(Fact::decode(&record).is_ok(), fits, "{record:?}");
    }
}

#[test]
fn a_removal_takes_up_to_its_limit_of_runs() {
    for (count, fits) in [(REMOVED_RUNS_MAX, true), (REMOVED_RUNS_MAX + 1, false)] {
        let runs: Vec<(u64, u32)> = (0..count as u64).map(|n| (n * 2, 1)).collect();
        let mut record = Vec::new();
        encode_removed(&mut record, QueueId(1), &runs);
        assert_eq!(Fact::decode(&record).is_ok(), fits, "{count}");
    }
}

#[test]
fn numbers_of_messages_leave_room_for_all_that_follow() {
    let index = MessageIndex {
        queue: QueueId(1),
        sequence: 1,
        enqueued_at: Timestamp::default(),
        expires_at: Timestamp::MAX,
        delivery_count: 0,
        state: State::Active,
        flags: 0,
        properties_length: 0,
        due: None,
        own_ttl: None,
        body: None,
        extras: None,
    };
    let cases = [(0, false), (1, true), (SEQUENCE_END - 1, true), (SEQUENCE_END, false), (u64::MAX, false)];
    for (sequence, is_good) in cases {
        let record = MessageIndex { sequence, ..index.clone() }.encode();
        let expected =
            if is_good { None } else { Some(RecordError::Value { field: "sequence", value: sequence }) };
        assert_eq!(Fact::decode(record.as_slice()).err(), expected, "{sequence}");
    }
}
