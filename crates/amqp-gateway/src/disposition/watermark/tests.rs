use super::*;

#[test]
fn what_is_settled_is_forgotten_up_to_the_oldest_delivery_that_is_named() {
    let cases = [
        // named, oldest
        (&[][..], 20),
        (&[7, 5][..], 5),
        (&[u32::MAX, 2][..], u32::MAX),
        (&[0, u32::MAX - 3][..], u32::MAX - 3),
    ];
    for case @ (named, oldest) in cases {
        let mut watermark = SettlementWatermark::default();
        assert_eq!(
            watermark.mark(named.iter().copied(), DeliveryId(20)),
            Some(DeliveryId(oldest)),
            "{case:?}"
        );
    }
}

#[test]
fn nothing_is_forgotten_before_what_was_asked_until_then_is_answered() {
    let mut watermark = SettlementWatermark::default();
    watermark.ask();
    watermark.ask();
    assert_eq!(watermark.mark([], DeliveryId(9)), None);
    watermark.ask();
    assert_eq!(watermark.answer(1), None);
    assert_eq!(watermark.mark([], DeliveryId(12)), None, "the first mark stands");
    assert_eq!(watermark.answer(1), Some(DeliveryId(9)));
    assert_eq!(watermark.answer(1), None, "once");
}
