use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Properties, PropertyValue, QueueSettings, Timestamp};

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Active), Just(State::Deferred), Just(State::Scheduled)]
}

prop_compose! {
    fn message_index()(
        (queue, sequence, enqueued, expires) in (any::<u32>(), 1..u64::MAX, any::<u64>(), any::<u64>()),
        (delivery_count, state, flags) in (any::<u32>(), state(), 0u8..8),
        (due, own_ttl) in (any::<Option<u64>>(), any::<Option<u64>>()),
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
        }
    }
}

prop_compose! {
    fn definition()(
        (queue, dead_letter, name) in (any::<u32>(), any::<u32>(), "[a-zA-Z0-9/._-]{1,260}"),
        (next_sequence, lock, ttl) in (1..u64::MAX, any::<u32>(), any::<Option<u32>>()),
        (max_delivery_count, dead_letter_on_expiration) in (any::<u32>(), any::<bool>()),
        (max_message_bytes, max_size_bytes) in (any::<Option<u32>>(), any::<Option<u32>>()),
    ) -> Definition {
        Definition {
            queue: QueueId(queue),
            dead_letter: QueueId(if dead_letter == queue { queue ^ 1 } else { dead_letter }),
            name: name.into(),
            settings: QueueSettings {
                lock_duration: Duration::from_millis(u64::from(lock)),
                max_delivery_count,
                default_time_to_live: ttl.map(|ttl| Duration::from_millis(u64::from(ttl))),
                dead_letter_on_expiration,
                max_message_bytes: max_message_bytes.map(u64::from),
                max_size_bytes: max_size_bytes.map(u64::from),
            },
            next_sequence,
        }
    }
}

fn value() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        ".{0,20}".prop_map(|text| PropertyValue::Text(text.into())),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| PropertyValue::Encoded(bytes.into())),
    ]
}

fn some_properties() -> impl Strategy<Value = Properties> {
    proptest::collection::vec((".{0,10}".prop_map(Box::from), value()), 0..5).prop_map(Properties)
}

proptest! {
    #[test]
    fn a_message_record_comes_back_whole(mut index in message_index(), properties in some_properties(), payload: Vec<u8>) {
        let encoded = encode_properties(&properties);
        index.properties_length = u32::try_from(encoded.len()).unwrap();
        let record = Bytes::from([index.encode().as_slice(), &encoded, &payload].concat());
        prop_assert_eq!(Fact::decode(index.encode().as_slice()).unwrap(), Fact::Message(index));
        let open = OpenRecord::open(record).unwrap();
        prop_assert_eq!(open.index, index);
        prop_assert_eq!(open.properties().unwrap(), properties);
        prop_assert_eq!(open.payload(), &payload[..]);
        prop_assert_eq!(open.into_payload(), payload);
    }

    #[test]
    fn the_other_records_come_back_whole(
        definition in definition(),
        (queue, other, sequence, count, state) in (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>(), state()),
        runs in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..20),
    ) {
        let (queue, dead_letter) = (QueueId(queue), QueueId(other));
        let mut removed = Vec::new();
        encode_removed(&mut removed, queue, &runs);
        let changed = encode_changed(queue, sequence, count, state);
        let cases = [
            (definition.encode(), Fact::Definition(definition)),
            (encode_deleted(queue, dead_letter).to_vec(), Fact::Deleted { queue, dead_letter }),
            (removed, Fact::Removed { queue, runs }),
            (changed.to_vec(), Fact::Changed { queue, sequence, delivery_count: count, state }),
        ];
        for (record, fact) in cases {
            prop_assert_eq!(Fact::decode(&record).unwrap(), fact);
            for end in 0..record.len() {
                prop_assert!(Fact::decode(&record[..end]).is_err(), "cut at {}", end);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes: Vec<u8>, kind in 0u8..7, plausible: bool) {
        if plausible && bytes.len() > 2 {
            (bytes[0], bytes[1]) = (VERSION, kind);
        }
        drop(Fact::decode(&bytes));
        let bytes = Bytes::from(bytes);
        drop(decode_properties(&bytes));
        if let Ok(open) = OpenRecord::open(bytes.clone()) {
            drop(open.properties());
            prop_assert!(open.payload().len() <= bytes.len());
        }
    }
}

#[test]
fn what_cannot_be_is_named() {
    let good = encode_changed(QueueId(1), 1, 0, State::Active);
    let mut version = good;
    version[0] = 2;
    let mut kind = good;
    kind[1] = 9;
    let mut state = good;
    state[2] = 3;
    let cases = [
        (version.to_vec(), "record format 2 is not known, this program reads format 1"),
        (kind.to_vec(), "record kind 9 is not known"),
        (state.to_vec(), "`state` is 3, which has no meaning"),
        (good[..19].to_vec(), "the record ends early, `delivery_count` is missing"),
    ];
    for (record, error) in cases {
        assert_eq!(Fact::decode(&record).unwrap_err().to_string(), error);
    }
}

#[test]
fn the_format_stays_what_the_document_draws() {
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
    };
    let drawn: &[&[u8]] = &[
        &[1, 3, 2, 3],
        &[2, 1, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0],
        &[7, 0, 0, 0],
        &[20, 0, 0, 0],
        &[1, 8, 8, 0, 0, 0, 0, 0, 0, 0],
        &[2, 8, 9, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(index.encode().as_slice(), drawn.concat());
    let mut removed = Vec::new();
    encode_removed(&mut removed, QueueId(5), &[(7, 2)]);
    assert_eq!(removed, [1, 4, 1, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(encode_deleted(QueueId(5), QueueId(6)), [1, 2, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0]);
    let changed = encode_changed(QueueId(5), 7, 2, State::Deferred);
    assert_eq!(changed, [1, 5, 1, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
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
