use broker_log::{Damage, DamageKind, FileId, Position};

use super::*;

fn loss(records: Option<u64>, savable: u64) -> Loss {
    let damage = Damage {
        file: Some(FileId(3)),
        offset: 512,
        position: Position(4608),
        fault: DamageKind::Checksum,
        durable: Position(9000),
    };
    Loss { damage, to: Position(5000), records, savable, batches: None }
}

#[test]
fn losses_are_reported_as_exactly_as_they_are_known() {
    let cases = [
        (Some(0), 0, "0 records lost"),
        (Some(1), 0, "1 record lost"),
        (Some(5), 3, "2 records lost, 3 records can be saved"),
        (None, 0, "nobody knows how many records are lost"),
        (None, 1, "nobody knows how many records are lost, 1 record can be saved"),
    ];
    for (records, savable, expected) in cases {
        assert_eq!(lost(&loss(records, savable)), expected);
    }
    let of_batches = |batches| lost(&Loss { batches: Some(batches), ..loss(None, 0) });
    assert_eq!(of_batches(1), "nobody knows how many records are lost, in 1 batch");
    assert_eq!(of_batches(3), "nobody knows how many records are lost, in 3 batches");
}

#[test]
fn json_names_the_place_and_leaves_out_the_place_of_a_missing_file() {
    let mut loss = loss(Some(2), 1);
    let json = loss_in_json(&loss);
    assert_eq!((json["file"].as_str(), json["offset"].as_u64()), (Some("00000003.segment"), Some(512)));
    assert_eq!((json["position"].as_u64(), json["to"].as_u64()), (Some(4608), Some(5000)));
    loss.damage.file = None;
    let json = loss_in_json(&loss);
    assert!(json["file"].is_null() && json["offset"].is_null());
}
