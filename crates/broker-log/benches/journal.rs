//! Micro: what one record costs its owner's thread, and what one group commit takes.

use broker_log::{DiskWorker, Durability, Journal, JournalConfig, MemDisk, Owner, RealDisk, recover};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn config() -> JournalConfig {
    JournalConfig { cache_bytes: 64 << 20, reserve_bytes: 0, ..JournalConfig::default() }
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append_and_commit");
    let index = [7; 48];
    for size in [64, 1024, 65_536] {
        let body = vec![1; size];
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("in_memory/{size}"), |bencher| {
            let mut journal = Journal::in_memory(config());
            bencher.iter(|| {
                let (at, length) = journal.append(&index, &[&body]);
                journal.release(at, length);
                journal.commit();
                if journal.poll_compaction(1 << 20).is_some() {
                    journal.segment_compacted();
                }
            });
        });
        group.bench_function(format!("of_two_owners_in_turn/{size}"), |bencher| {
            let mut journal = Journal::in_memory(config());
            let mut number = 0;
            bencher.iter(|| {
                number ^= 1;
                let (at, length) = journal.append_of(Owner(number), &index, &[&body]);
                journal.release(at, length);
                journal.commit();
                if journal.poll_compaction(1 << 20).is_some() {
                    journal.segment_compacted();
                }
            });
        });
        group.throughput(Throughput::Elements(100));
        group.bench_function(format!("100_for_disk/{size}"), |bencher| {
            let fresh = || recover(MemDisk::new(), config(), &mut |_, _| {}).expect("an empty disk opens");
            bencher.iter_batched_ref(
                fresh,
                |journal| {
                    for _ in 0..100 {
                        journal.append(&index, &[&body]);
                        journal.commit();
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let mut journal = Journal::in_memory(JournalConfig { durability: Durability::None, ..config() });
    let records: Vec<_> = (0..50_000).map(|_| journal.append(&[1; 48], &[&[2; 1024]])).collect();
    journal.commit();
    let mut next = records.iter().cycle();
    c.bench_function("read_from_memory/1024", |bencher| {
        bencher.iter(|| next.next().map(|(at, length)| journal.read(*at, *length)));
    });
}

fn group_commit(c: &mut Criterion) {
    let directory = std::env::var_os("FERRYBUS_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let directory = directory.join(format!("ferrybus-bench-{}", std::process::id()));
    let disk = RealDisk::open(&directory).expect("the bench directory opens");
    let mut worker = DiskWorker::new(disk.clone());
    let mut journal = recover(disk, config(), &mut |_, _| {}).expect("an empty directory opens");
    let body = [1; 1024];
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
    c.bench_function("group_commit/1x1024", |bencher| {
        bencher.iter(|| {
            let (at, length) = journal.append(&[7; 48], &[&body]);
            journal.release(at, length);
            let until = journal.commit();
            journal.request_sync(until);
            while journal.durable() < until {
                let request = journal.poll_io().expect("something is to be written");
                journal.handle_io(worker.perform(request));
            }
            if journal.poll_compaction(1 << 20).is_some() {
                journal.segment_compacted();
            }
        });
    });
    std::fs::remove_dir_all(directory).expect("the bench directory can be removed");
}

criterion_group!(benches, append, read, group_commit);
criterion_main!(benches);
