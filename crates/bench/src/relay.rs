//! Latency of a message at a steady pace without a broker: a sender, a thread that relays the bytes it reads, a receiver.
//!
//! No broker can be faster than that here, for it does what every broker must: one connection in, one out. A durable one
//! has to write and sync what it passes on first: what came meanwhile goes with the next sync, as in any group commit.
//!
//! Invariant: times count from when a message was to be sent, so a late wake-up of the sender counts too, as it does in
//! the measure of the brokers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;

/// Bytes of a message.
const SIZE: usize = 1_024;
/// Messages of a run that are not counted.
const WARM_UP: usize = 2_000;

/// End-to-end times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Floor {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// A file whose space is there, to write over again and again.
pub(crate) struct Journal {
    file: File,
    at: u64,
}

/// Bytes of it.
const SPACE: u64 = 64 << 20;

impl Journal {
    /// Made in `folder` and nowhere to be seen: it goes with the process.
    pub(crate) fn new(folder: &Path) -> Fallible<Self> {
        let path = folder.join("relay");
        let file = File::create_new(&path)?;
        std::fs::remove_file(&path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..SPACE).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    /// Returns when `bytes` are on disk.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.append(bytes)?;
        self.sync()
    }

    /// Hands `bytes` to the system.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.at + bytes.len() as u64 > SPACE {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Returns when all of them are on disk.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }
}

/// Passes `messages` on, `rate` of them a second; each is kept on the disk of `folder` first, if there is one.
pub(super) fn measure(rate: u32, messages: usize, folder: Option<&Path>) -> Fallible<Floor> {
    let mut journal = folder.map(Journal::new).transpose()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let connect = || -> Fallible<(TcpStream, TcpStream)> {
        let here = TcpStream::connect(address)?;
        let (there, _) = listener.accept()?;
        here.set_nodelay(true)?;
        there.set_nodelay(true)?;
        Ok((here, there))
    };
    let (mut sender, mut source) = connect()?;
    let (mut target, mut receiver) = connect()?;
    let begin = Instant::now();
    let all = WARM_UP + messages;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                let Some(bytes) = buffer.get(..count) else { return };
                let kept = journal.as_mut().map_or(Ok(()), |journal| journal.keep(bytes));
                if kept.and_then(|()| target.write_all(bytes)).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            let mut message = [7; SIZE];
            for due in (0..all).map(|number| due(number, rate)) {
                if let Some(left) = due.checked_sub(begin.elapsed()) {
                    thread::sleep(left);
                }
                let nanos = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX).to_be_bytes();
                if let Some(head) = message.first_chunk_mut() {
                    *head = nanos;
                }
                if sender.write_all(&message).is_err() {
                    return;
                }
            }
        });
        let mut times = Vec::with_capacity(all);
        let mut message = [0; SIZE];
        for _ in 0..all {
            receiver.read_exact(&mut message)?;
            let due = message.first_chunk().map(|head| u64::from_be_bytes(*head)).unwrap_or_default();
            times.push(begin.elapsed().saturating_sub(Duration::from_nanos(due)));
        }
        let mut times = times.split_off(WARM_UP);
        times.sort_unstable();
        let at =
            |share: usize| times.get(times.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        Ok(Floor { p50: at(50), p99: at(99) })
    })
}

/// Time at which the message of this number is to be sent.
fn due(number: usize, rate: u32) -> Duration {
    Duration::from_secs(1).saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)) / rate
}

#[cfg(test)]
mod tests;
