//! Latency of waking a thread on an idle core.
//!
//! A broker whose clients wait for acknowledgements pays that several times for each round. In a virtual machine an idle
//! core may have been given back to the host, and to get it again takes far longer than to switch between threads.
//!
//! Invariant: the waker never rests, so the one that is woken has another core, if there is one.

use std::hint;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;

/// Idle time of the core before each wake: as long as under a load that comes in rounds. A kernel may
/// wait actively for some time before it gives the core away.
const PAUSE: Duration = Duration::from_micros(50);

/// The median of so many wakes, in microseconds.
pub(super) fn measure(wakes: usize) -> Fallible<f64> {
    let (wake, woken) = mpsc::channel::<Instant>();
    let sleeper = thread::spawn(move || woken.iter().map(|sent| sent.elapsed()).collect::<Vec<Duration>>());
    for _ in 0..wakes {
        let begin = Instant::now();
        while begin.elapsed() < PAUSE {
            hint::spin_loop();
        }
        wake.send(Instant::now())?;
    }
    drop(wake);
    let times = sleeper.join().map_err(|_| "the thread that was woken has panicked")?;
    median(times).ok_or_else(|| "nobody was woken".into())
}

fn median(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests;
