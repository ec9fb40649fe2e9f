use proptest::prelude::*;

use super::super::tests::{definition, message_index, rule, state, stores};
use super::*;
use crate::{
    Timestamp,
    record::{
        encode_changed, encode_deleted, encode_forgotten, encode_history, encode_removed, encode_rule,
        encode_rule_gone, encode_session_state,
    },
    store::{history::Digest, slot::State},
};

/// The record that 0.1.0 wrote for this fact: the drawing of format 1, read backwards.
fn of_0_1(record: &[u8]) -> Vec<u8> {
    let kind = record[1];
    let (own, body): ([u8; 2], Vec<u8>) = match kind {
        kind::DEFINITION | kind::REMOVED => ([record[8], record[9]], record[12..].to_vec()),
        kind::DELETED => ([0, 0], record[8..].to_vec()),
        kind::MESSAGE | kind::COPY => {
            ([record[42], record[43]], [&record[8..42], &[0, 0], &record[44..]].concat())
        }
        kind::CHANGED => ([record[20], 0], record[8..20].to_vec()),
        kind::SESSION_STATE => ([record[18], 0], [&record[8..18], &[0, 0], &record[20..]].concat()),
        kind::HISTORY if record[16] == 0 => {
            let count = [record[18], record[19], 0, 0];
            ([0, 0], [&record[8..16], &record[20..28], &count, &record[28..]].concat())
        }
        kind::HISTORY => ([1, 0], record[8..16].to_vec()),
        kind::RULE => ([record[12], 0], [&record[8..12], &record[16..]].concat()),
        other => panic!("no record of 0.1.0 has kind {other}"),
    };
    [&[1, kind][..], &own, &record[4..8], &body].concat()
}

proptest! {
    #[test]
    fn each_record_says_what_it_said_in_0_1(
        index in message_index(),
        definition in definition(),
        stores in stores(),
        (queue, sequence, count, state) in (any::<u32>(), 1..1u64 << 62, any::<u32>(), state()),
        runs in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..20),
        rule in rule(),
        digests in proptest::collection::vec(any::<[u8; 16]>(), 0..20),
        (session, has_state) in (".{0,40}", any::<bool>()),
    ) {
        let queue = QueueId(queue);
        let at = Timestamp::from_millis(sequence);
        let mut removed = Vec::new();
        encode_removed(&mut removed, queue, &runs);
        let digests: Vec<Digest> = digests.into_iter().map(Digest).collect();
        let records = [
            index.encode().as_slice().to_vec(),
            definition.encode(),
            encode_deleted(stores),
            removed,
            encode_changed(queue, sequence, count, state).to_vec(),
            encode_session_state(queue, &session, at, has_state),
            encode_history(queue, sequence, at, digests.iter()),
            encode_forgotten(queue, sequence).to_vec(),
            encode_rule(queue, count, &rule, at),
            encode_rule_gone(queue, count),
        ];
        for record in records {
            let old = of_0_1(&record);
            prop_assert_eq!(convert_record_of_0_1(&old), Ok(record));
            for end in 0..old.len() {
                prop_assert!(convert_record_of_0_1(&old[..end]).is_err(), "cut at {}", end);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes: Vec<u8>, kind in 0u8..12) {
        if bytes.len() > 2 {
            (bytes[0], bytes[1]) = (1, kind);
        }
        drop(convert_record_of_0_1(&bytes));
    }
}

#[test]
fn records_of_0_1_are_those_of_its_format_document() {
    let cases: [(&[u8], &[u8]); 5] = [
        // Removed: two messages from number 7 on, of store 5.
        (
            &[1, 4, 1, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            &[2, 4, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
        ),
        // Deleted: stores 5, 6 and 7.
        (
            &[1, 2, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0],
            &[2, 2, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0],
        ),
        // Changed: message 7 of store 5 is deferred and has failed twice.
        (
            &[1, 5, 1, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            &[2, 5, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0],
        ),
        // History: the runs before 9 are forgotten.
        (
            &[1, 8, 1, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            &[2, 8, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        ),
        // Rule: number 6 of the subscription with store 5 is gone.
        (&[1, 9, 1, 0, 5, 0, 0, 0, 6, 0, 0, 0], &[2, 9, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0]),
    ];
    for (old, new) in cases {
        assert_eq!(convert_record_of_0_1(old).as_deref(), Ok(new));
        assert_eq!(of_0_1(new), old);
    }
}

#[test]
fn what_is_no_record_of_0_1_is_an_error() {
    let present = encode_changed(QueueId(1), 1, 0, State::Active);
    assert_eq!(convert_record_of_0_1(&present), Err(RecordError::Version { version: 2 }));
    let kind = [1, 10, 0, 0, 5, 0, 0, 0];
    assert_eq!(convert_record_of_0_1(&kind), Err(RecordError::Kind { kind: 10 }));
    let mut history = vec![1, 8, 0, 0, 5, 0, 0, 0];
    history.extend_from_slice(&[0; 16]);
    history.extend_from_slice(&65_536_u32.to_le_bytes());
    let count = RecordError::Value { field: "id count", value: 65_536 };
    assert_eq!(convert_record_of_0_1(&history), Err(count));
}
