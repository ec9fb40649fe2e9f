//! Memory latency of this machine: it grows with the size of the working set of any program.
//!
//! Invariant: each read depends on the one before, and no line is read twice before all others were.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

/// Numbers in one line of cache.
const LINE: usize = 16;
const READS: u32 = 2_000_000;
/// Working sets: within a second-level cache, a third-level one, and beyond.
const SIZES: [(usize, &str); 3] = [(256 << 10, "256 KiB"), (8 << 20, "8 MiB"), (128 << 20, "128 MiB")];

/// A ring through all lines of so many bytes, in an order that looks like chance.
fn ring(bytes: usize) -> Vec<u32> {
    let lines = bytes / (LINE * size_of::<u32>());
    let mut order: Vec<u32> = (0..u32::try_from(lines).unwrap_or(u32::MAX)).collect();
    let mut random = 1_u64;
    for last in (1..order.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(random >> 33).unwrap_or_default() % last;
        order.swap(last, other);
    }
    let mut ring = vec![0; lines * LINE];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        if let Some(place) = ring.get_mut(*from as usize * LINE) {
            *place = *to;
        }
    }
    ring
}

/// Nanoseconds of one read.
fn read_ns(ring: &[u32]) -> f64 {
    let mut at = 0;
    let begin = Instant::now();
    for _ in 0..READS {
        at = ring.get(at as usize * LINE).copied().unwrap_or_default();
    }
    black_box(at);
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}

/// One line about this machine.
pub(super) fn report() -> String {
    let mut text = "A read that depends on the one before:".to_owned();
    for (place, (bytes, name)) in SIZES.into_iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(text, "{comma} {:.0} ns in {name}", read_ns(&ring(bytes))).unwrap_or_default();
    }
    text + "."
}

#[cfg(test)]
mod tests;
