//! Our own client with socket buffers of 8 KiB, set after the connect, as the SDKs for .NET set them: with Nagle's algorithm on
//! and off, with several sizes of messages and numbers of messages that it prefetches.
//!
//! Invariant: each combination has a connection and a queue of its own, so that the first message of each counts.

use std::time::{Duration, Instant};

use super::connection::{self, Connection};
use super::times::{StepTimes, Times};
use crate::Fallible;

/// Name in the report.
pub(super) const CLIENT: &str = "ours, buffers of 8 KiB";
const SIZES_KIB: [usize; 4] = [1, 16, 64, 200];
const PREFETCHES: [u32; 3] = [0, 100, 1_000];

/// Each combination, `rounds` messages.
pub(super) fn measure(port: u16, rounds: usize) -> Fallible<Vec<StepTimes>> {
    let mut steps = Vec::new();
    for nagle in [false, true] {
        let word = if nagle { "Nagle on" } else { "Nagle off" };
        for kib in SIZES_KIB {
            let mut sends = Vec::new();
            for prefetch in PREFETCHES {
                let (sent, received) = pass(port, nagle, kib, prefetch, rounds)?;
                sends.extend(sent);
                let name = format!("receive {kib} KiB, prefetch {prefetch}, {word}");
                steps.push(StepTimes { name, times: Times::of(&received) });
            }
            steps.push(StepTimes { name: format!("send {kib} KiB, {word}"), times: Times::of(&sends) });
        }
    }
    Ok(steps)
}

/// Sends messages and receives them on one connection: the times of both.
fn pass(
    port: u16,
    nagle: bool,
    kib: usize,
    prefetch: u32,
    rounds: usize,
) -> Fallible<(Vec<Duration>, Vec<Duration>)> {
    let queue = format!("latency-{kib}-{prefetch}-{nagle}");
    let message = connection::message(kib << 10);
    let mut client = Connection::small(port, nagle)?;
    client.sender(&queue)?;
    let sent = (0..rounds).map(|_| client.send(&message)).collect::<Fallible<Vec<_>>>()?;
    client.receiver(&queue)?;
    let mut received = Vec::new();
    for round in 0..rounds {
        let begun = Instant::now();
        match prefetch {
            0 => client.grant(1)?,
            _ if round == 0 => client.grant(prefetch)?,
            _ => {}
        }
        let asked = begun.elapsed();
        received.push(asked + client.receive()?);
    }
    Ok((sent, received))
}

#[cfg(test)]
mod tests;
