//! The whole engine, fed the bytes of a peer that may send anything, cut in any way.
#![no_main]

mod driver;
#[path = "../../tests/it/wire.rs"]
mod wire;

use std::time::Instant;

use amqp_engine::Event;
use bytes::BytesMut;
use driver::{Driver, config};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, cut, input @ ..] = data else { return };
    let now = Instant::now();
    let run = |piece: usize| -> (Vec<Event>, BytesMut) {
        let mut driver = Driver::new(config(choice & 1 == 1), now);
        for piece in input.chunks(piece) {
            driver.feed(piece);
        }
        driver.finish()
    };
    let whole = run(input.len().max(1));
    let pieces = run(usize::from(*cut) % 64 + 1);
    // How much is held while an answer is awaited is the one thing that cuts may change.
    assert_eq!(whole, pieces);
});
