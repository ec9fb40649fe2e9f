use amqp_codec::raw::{AnnotationValue, RawMap};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn due_of(annotations: &[(&str, AnnotationValue<'_>)]) -> Result<Option<u64>, Refusal> {
    let map = RawMap::with_symbol_keys(annotations);
    due(map.view(), NOW).map(|due| due.map(Timestamp::as_millis))
}

#[test]
fn the_time_is_milliseconds_since_1970_and_comes_before_a_delay() {
    use AnnotationValue::{Int, Long, Null, Timestamp, Uint, Ulong};
    let latest = i64::MAX.unsigned_abs();
    let cases = [
        (vec![], None),
        (vec![(DELIVERY_TIME, Long(1_060_000))], Some(1_060_000)),
        (vec![(DELIVERY_TIME, Timestamp(1_060_000))], Some(1_060_000)),
        (vec![(DELIVERY_TIME, Ulong(1_060_000))], Some(1_060_000)),
        (vec![(DELIVERY_TIME, Timestamp(0))], Some(0)),
        (vec![(DELIVERY_TIME, Long(i64::MAX))], Some(latest)),
        (vec![(DELIVERY_DELAY, Long(60_000))], Some(1_060_000)),
        (vec![(DELIVERY_DELAY, Int(60_000))], Some(1_060_000)),
        (vec![(DELIVERY_DELAY, Uint(60_000))], Some(1_060_000)),
        (vec![(DELIVERY_DELAY, Long(0))], Some(1_000_000)),
        (vec![(DELIVERY_DELAY, Long(i64::MAX))], Some(latest)),
        (vec![(DELIVERY_DELAY, Long(5)), (DELIVERY_TIME, Long(7))], Some(7)),
        (vec![(DELIVERY_TIME, Null), (DELIVERY_DELAY, Long(5))], Some(1_000_005)),
        (vec![(DELIVERY_TIME, Null), (DELIVERY_DELAY, Null)], None),
    ];
    for (annotations, expected) in cases {
        assert_eq!(due_of(&annotations), Ok(expected), "{annotations:?}");
    }
}

#[test]
fn a_negative_or_foreign_value_is_refused_by_its_name() {
    use AnnotationValue::{Bool, Long, Str, Timestamp, Ulong};
    let cases = [
        (DELIVERY_TIME, Long(-1)),
        (DELIVERY_TIME, Timestamp(-1)),
        (DELIVERY_TIME, Str("2027-01-01T00:00:00Z")),
        (DELIVERY_TIME, Ulong(u64::MAX)),
        (DELIVERY_DELAY, Long(-1)),
        (DELIVERY_DELAY, Long(i64::MIN)),
        (DELIVERY_DELAY, Timestamp(60_000)),
        (DELIVERY_DELAY, Str("60000")),
        (DELIVERY_DELAY, Bool(true)),
    ];
    for (name, value) in cases {
        let refusal = due_of(&[(name, value)]).unwrap_err();
        assert!(
            matches!(refusal, Refusal::BadAnnotation { name: told, .. } if told == name),
            "{name} {value:?}"
        );
        assert!(
            refusal.text().contains(name) && refusal.text().contains("not negative"),
            "{}",
            refusal.text()
        );
    }
    // The one that does not count is not judged.
    assert_eq!(due_of(&[(DELIVERY_TIME, Long(7)), (DELIVERY_DELAY, Long(-1))]), Ok(Some(7)));
}
