//! Macro: records through the journal with a disk thread, on a real directory, beside the same bytes through a bare
//! loop of `pwrite` and `fdatasync`. `cargo bench -p broker-log --bench pipeline [-- DIRECTORY]`;
//! `PIPELINE_ONLY` picks one of `1x1024`, `64x1024`, `1000x1024`, `64x65536`, `fsync`, `keep`, `os`, `none`, `recovery`.
//!
//! The producer keeps at most `window` records that are not durable. Each record dies as soon as it is durable, or,
//! in the scenarios that say so, out of order with one in eight staying for long.

#![expect(clippy::disallowed_methods, reason = "a bench measures time and uses a thread")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a bench prints rates or stops"
)]

use std::{
    collections::{BTreeMap, VecDeque},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use broker_log::{
    CompactionStep, DiskWorker, Durability, IoDone, IoRequest, Journal, JournalConfig, Position, RealDisk,
    recover,
};

const INDEX: [u8; 48] = [7; 48];

fn main() {
    let directory = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let directory = directory.map_or_else(|| std::env::temp_dir().join("ferrybus-pipeline"), PathBuf::from);
    println!(
        "directory {}, {} cores",
        directory.display(),
        thread::available_parallelism().map_or(0, usize::from)
    );
    let only = std::env::var("PIPELINE_ONLY").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let sizes = [(1, 1024, 20_000), (64, 1024, 400_000), (1000, 1024, 3_000_000), (64, 65_536, 60_000)];
    for (window, bytes, records) in sizes {
        if wanted(&format!("{window}x{bytes}")) {
            bare(&directory, window, bytes, records);
            pipeline(&directory, Durability::Fsync, window, bytes, records, false);
        }
    }
    for (name, durability, keep) in [
        ("fsync", Durability::Fsync, false),
        ("keep", Durability::Fsync, true),
        ("os", Durability::Os, false),
        ("none", Durability::None, false),
    ] {
        if wanted(name) {
            pipeline(&directory, durability, 16_384, 1024, 4_000_000, keep);
        }
    }
    if wanted("recovery") {
        recovery(&directory);
    }
}

/// The machine's limit: the same bytes, written over a prepared file in groups of `window`, each synced.
fn bare(directory: &Path, window: usize, bytes: usize, records: usize) {
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join("bare");
    let file = std::fs::File::create(&path).unwrap();
    let group = vec![1_u8; window * (bytes + 60)];
    let size = (64 << 20) / group.len() * group.len();
    file.write_all_at(&vec![0; size], 0).unwrap();
    file.sync_all().unwrap();
    let rounds = (records / window).min(20_000);
    let start = Instant::now();
    let mut offset = 0;
    for _ in 0..rounds {
        file.write_all_at(&group, offset as u64).unwrap();
        file.sync_data().unwrap();
        offset = (offset + group.len()) % size;
    }
    let rate = (rounds * window) as f64 / start.elapsed().as_secs_f64();
    println!("bare      window {window:>5}, {bytes:>5} bytes: {rate:>9.0}/s");
    std::fs::remove_file(path).unwrap();
}

struct Bench {
    journal: Journal,
    requests: Option<mpsc::Sender<IoRequest>>,
    done: mpsc::Receiver<IoDone>,
    waiting: VecDeque<(Position, u32)>,
    kept: BTreeMap<Position, u32>,
    keep: bool,
    count: u64,
}

fn fresh(directory: &Path) {
    drop(std::fs::remove_dir_all(directory.join("journal")));
}

fn open(directory: &Path, config: JournalConfig) -> (Journal, DiskWorker<RealDisk>) {
    let disk = RealDisk::open(directory.join("journal")).unwrap();
    (recover(disk.clone(), config, &mut |_, _| {}).unwrap(), DiskWorker::new(disk))
}

fn pipeline(
    directory: &Path,
    durability: Durability,
    window: usize,
    bytes: usize,
    records: usize,
    keep: bool,
) {
    fresh(directory);
    let config = JournalConfig { durability, reserve_bytes: 0, ..JournalConfig::default() };
    let (mut journal, mut worker) = open(directory, config);
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
    let (requests, inbox) = mpsc::channel::<IoRequest>();
    let (outbox, done) = mpsc::channel();
    let disk_thread = thread::spawn(move || {
        let mut writing = Duration::ZERO;
        for request in inbox {
            let start = Instant::now();
            outbox.send(worker.perform(request)).unwrap();
            writing += start.elapsed();
        }
        writing
    });
    let mut bench = Bench {
        journal,
        requests: Some(requests),
        done,
        waiting: VecDeque::new(),
        kept: BTreeMap::new(),
        keep,
        count: 0,
    };
    let body = vec![1; bytes];
    // A first part warms memory and grows the files.
    bench.run(&body, window, (records / 4).max((600 << 20) / (bytes + 64)).min(records * 4));
    let (cpu, start) = (cpu_seconds(), Instant::now());
    bench.run(&body, window, records);
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let stats = bench.journal.stats();
    bench.requests = None;
    let writing = disk_thread.join().unwrap();
    println!(
        "{durability:?} window {window:>5}, {bytes:>5} bytes{}: {:>9.0}/s, {:.2} µs CPU each, {} syncs, disk thread busy {:.0} % of all, {} segments",
        if keep { ", out of order" } else { "" },
        records as f64 / elapsed,
        cpu * 1e6 / records as f64,
        stats.syncs,
        writing.as_secs_f64() / elapsed * 100.0,
        stats.segments,
    );
}

impl Bench {
    fn run(&mut self, body: &[u8], window: usize, records: usize) {
        let mut sent = 0;
        while sent < records || !self.waiting.is_empty() {
            let room = window - self.waiting.len();
            let now = room.min(records - sent).min(256);
            for _ in 0..now {
                let record = self.journal.append(&INDEX, &[body]);
                self.waiting.push_back(record);
            }
            sent += now;
            let until = self.journal.commit();
            self.journal.request_sync(until);
            self.clean(2 * (now + 1) * (body.len() + 60));
            self.exchange(now == 0);
        }
    }

    /// Hands out disk work, takes results; waits for one when there is nothing else to do.
    fn exchange(&mut self, wait: bool) {
        if wait
            && self.journal.durable()
                < self.waiting.front().map_or(Position(0), |first| Position(first.0.0 + 1))
        {
            let done = self.done.recv().unwrap();
            self.journal.handle_io(done);
        }
        while let Ok(done) = self.done.try_recv() {
            self.journal.handle_io(done);
        }
        while let Some(request) = self.journal.poll_io() {
            self.requests.as_ref().unwrap().send(request).unwrap();
        }
        let durable = self.journal.durable();
        while let Some(&(at, length)) =
            self.waiting.front().filter(|(at, length)| at.0 + u64::from(*length) < durable.0)
        {
            self.waiting.pop_front();
            self.count += 1;
            if self.keep && self.count.is_multiple_of(8) {
                self.kept.insert(at, length);
            } else {
                self.journal.release(at, length);
            }
            if self.kept.len() > 50_000 {
                let (at, length) = self.kept.pop_first().unwrap();
                self.journal.release(at, length);
            }
        }
    }

    fn clean(&mut self, bytes: usize) {
        match self.journal.poll_compaction(bytes) {
            Some(CompactionStep::Records(records)) => {
                for (at, bytes) in records {
                    if self.kept.remove(&at).is_some() {
                        let (index_bytes, rest) = bytes.split_at(INDEX.len());
                        let anew = self.journal.append(index_bytes, &[rest]);
                        self.journal.release(at, anew.1);
                        self.kept.insert(anew.0, anew.1);
                    }
                }
                self.journal.commit();
            }
            Some(CompactionStep::SegmentDone { .. }) => self.journal.segment_compacted(),
            None => {}
        }
    }
}

/// A million messages on disk, then the time to open.
fn recovery(directory: &Path) {
    fresh(directory);
    let config = JournalConfig { reserve_bytes: 0, ..JournalConfig::default() };
    let (mut journal, mut worker) = open(directory, config);
    for _ in 0..1000 {
        for _ in 0..1000 {
            journal.append(&INDEX, &[&[1; 1024]]);
        }
        let until = journal.commit();
        journal.request_sync(until);
        while journal.durable() < until {
            let request = journal.poll_io().unwrap();
            journal.handle_io(worker.perform(request));
        }
    }
    drop((journal, worker));
    for _ in 0..3 {
        let start = Instant::now();
        let disk = RealDisk::open(directory.join("journal")).unwrap();
        let mut count = 0;
        let journal =
            recover(disk, config, &mut |_, record| count += record.index().len() / INDEX.len()).unwrap();
        println!(
            "recovery of {count} records of 1 KiB in {:?}, {} segments",
            start.elapsed(),
            journal.stats().segments
        );
    }
    fresh(directory);
}

fn cpu_seconds() -> f64 {
    // All threads of the process, in ticks of 10 ms: fields 14 and 15.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
