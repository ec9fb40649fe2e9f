use super::*;
use crate::{AccessRight, AuthorizationRule, KeyText, RecordOwner};

fn definition() -> NamespaceDefinition {
    let key = AuthorizationRule {
        name: "orders".into(),
        rights: vec![AccessRight::Send],
        primary: KeyText::new("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        secondary: None,
        created_at: Timestamp::from_millis(3),
        modified_at: Timestamp::from_millis(4),
    };
    NamespaceDefinition {
        slot: NamespaceSlot(0x0102),
        uid: 7 << 100 | 5,
        name: "team-a".into(),
        state: NamespaceState::Active,
        settings: NamespaceSettings {
            hostnames: vec!["a.example".into(), "127.0.0.2".into()],
            weight: 3,
            held: true,
            limits: NamespaceLimits::default()
                .with(NamespaceLimit::Entities, Some(0))
                .with(NamespaceLimit::SendsPerSecond, Some(1_000)),
        },
        keys: vec![key],
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(2),
    }
}

#[test]
fn a_definition_is_read_back_as_it_was_written() {
    for state in [NamespaceState::Active, NamespaceState::Deleting, NamespaceState::Deleted] {
        let written = NamespaceDefinition { state, ..definition() };
        assert_eq!(NamespaceRecord::decode(&NamespaceRecord::encode(&written)), Ok(written));
    }
    let plain =
        NamespaceDefinition { settings: NamespaceSettings::default(), keys: Vec::new(), ..definition() };
    assert_eq!(NamespaceRecord::decode(&NamespaceRecord::encode(&plain)), Ok(plain));
}

#[test]
fn the_fixed_part_has_the_documented_places() {
    let record = NamespaceRecord::encode(&definition());
    assert_eq!(record[..16], [2, 10, 2, 1, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0]);
    assert_eq!(record[16..32], (7_u128 << 100 | 5).to_le_bytes());
    assert_eq!(record[32..48], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&record[48..56], &record[56..64]), (&[0; 8][..], &[255; 8][..]));
    assert_eq!(record[96..104], *b"\x06\0team-a");
    assert_eq!(RecordOwner::of(&record), Ok(RecordOwner::Namespaces(NamespaceSlot(0x0102))));
}

#[test]
fn what_is_cut_or_unknown_is_an_error_and_no_panic() {
    let record = NamespaceRecord::encode(&definition());
    for length in 0..record.len() {
        // Extensions end where the record does, so it may end between two of them.
        if let Ok(shorter) = NamespaceRecord::decode(&record[..length]) {
            assert!(length >= 104 && shorter != definition(), "{length} bytes");
        }
    }
    let with = |at: usize, byte: u8| {
        let mut other = record.clone();
        other[at] = byte;
        NamespaceRecord::decode(&other).unwrap_err()
    };
    assert_eq!(with(0, 9), RecordError::Version { version: 9 });
    assert_eq!(with(1, 3), RecordError::Kind { kind: 3 });
    assert_eq!(with(8, 3), RecordError::Value { field: "state", value: 3 });
    assert_eq!(with(9, 2), RecordError::Value { field: "flags", value: 2 });
    assert_eq!(with(104, 9), RecordError::Value { field: "extension tag", value: 9 });
}
