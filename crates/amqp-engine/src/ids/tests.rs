use proptest::prelude::*;

use super::*;

#[test]
fn delivery_ids_order_across_the_wrap() {
    let cases = [
        // a, b, a precedes b
        (0, 1, true),
        (1, 0, false),
        (7, 7, false),
        (u32::MAX, 0, true),
        (0, u32::MAX, false),
        (u32::MAX - 5, 5, true),
        (0, 0x7fff_ffff, true),
    ];
    for case @ (a, b, expected) in cases {
        assert_eq!(DeliveryId(a).precedes(DeliveryId(b)), expected, "{case:?}");
    }
}

#[test]
fn generations_do_not_repeat() {
    let mut generations = Generations::default();
    assert_ne!(generations.next(), generations.next());
}

proptest! {
    #[test]
    fn distance_undoes_addition(start: u32, step in 0..i32::MAX) {
        let end = DeliveryId(start.wrapping_add(step.cast_unsigned()));
        prop_assert_eq!(DeliveryId(start).distance_to(end), step);
        prop_assert_eq!(end.distance_to(DeliveryId(start)), -step);
    }
}
