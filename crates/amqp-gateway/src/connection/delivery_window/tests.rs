use proptest::prelude::*;

use super::*;

#[test]
fn the_whole_window_is_allowed_at_first_and_again_as_output_drains() {
    let mut delivery_window = DeliveryWindow::new(1000);
    assert_eq!(delivery_window.raise(0), Some(1000));
    assert_eq!(delivery_window.raise(0), None);
    delivery_window.delivered(800);
    assert_eq!(delivery_window.raise(800), None);
    delivery_window.built(850);
    assert_eq!(delivery_window.raise(0), None);
    delivery_window.written(850);
    assert_eq!(delivery_window.raise(0), Some(1800));
}

proptest! {
    #[test]
    fn no_more_than_a_window_is_on_its_way(
        steps in prop::collection::vec((0u8..3, 0usize..400), 1..300),
    ) {
        let (mut delivery_window, mut error_text, mut delivered, mut waiting, mut unwritten) = (DeliveryWindow::new(1000), 0, 0, 0, 0);
        for (kind, bytes) in steps {
            match kind {
                0 if delivered + bytes as u64 <= error_text => {
                    delivery_window.delivered(bytes);
                    delivered += bytes as u64;
                    waiting += bytes;
                }
                1 => {
                    let bytes = bytes.min(waiting);
                    delivery_window.built(bytes);
                    waiting -= bytes;
                    unwritten += bytes;
                }
                _ => {
                    let bytes = bytes.min(unwritten);
                    delivery_window.written(bytes);
                    unwritten -= bytes;
                }
            }
            if let Some(limit) = delivery_window.raise(waiting as u64) {
                prop_assert!(limit > error_text);
                error_text = limit;
                prop_assert!(error_text - delivered + (waiting + unwritten) as u64 <= 1000);
            }
        }
    }
}
