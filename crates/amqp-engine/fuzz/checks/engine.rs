//! The whole engine, fed the bytes of a peer that may send anything, cut in any way.

use crate::driver::{Driver, config, some_instant};
use amqp_engine::Event;
use bytes::BytesMut;

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    let [choice, cut, input @ ..] = data else { return };
    let now = some_instant();
    let run = |piece: usize| -> (Vec<Event>, BytesMut) {
        let mut driver = Driver::new(config(choice & 1 == 1), now);
        for piece in input.chunks(piece) {
            driver.feed(piece);
        }
        driver.finish()
    };
    let whole = run(input.len().max(1));
    let pieces = run(usize::from(*cut) % 64 + 1);
    // The amount held while an answer is awaited is the one thing that cuts may change.
    assert_eq!(whole, pieces);
}
