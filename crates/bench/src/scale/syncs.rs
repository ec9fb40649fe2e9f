//! Syncs a second of several journals on one disk: bare loops of write and fdatasync side by side.
//!
//! Invariant: each loop has a file of its own whose space is there.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::relay::Journal;

/// Time for which they are counted.
const SPELL: Duration = Duration::from_secs(1);

/// Syncs a second of all of `journals` together, each of so many bytes. The threads wait for the disk most of the time, so
/// that few cores are enough for many of them.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a batch is far smaller")]
pub(super) fn measure(folder: &Path, journals: u16, bytes: f64) -> Fallible<f64> {
    println!("  {journals} journals at once …");
    let files = (0..journals).map(|_| Journal::new(folder)).collect::<Fallible<Vec<_>>>()?;
    let block = vec![7; (bytes as usize).max(1)];
    let begin = Instant::now();
    thread::scope(|scope| {
        let write = |mut file: Journal| {
            let mut syncs = 0_u32;
            while begin.elapsed() < SPELL {
                file.keep(&block)?;
                syncs += 1;
            }
            Ok(syncs)
        };
        let threads: Vec<_> = files.into_iter().map(|file| scope.spawn(move || write(file))).collect();
        let mut all = 0.0;
        for thread in threads {
            let syncs: std::io::Result<u32> =
                thread.join().map_err(|_| "a thread that writes has panicked")?;
            all += f64::from(syncs?);
        }
        Ok(all / begin.elapsed().as_secs_f64())
    })
}
