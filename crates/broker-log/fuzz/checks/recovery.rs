//! Arbitrary files: recovery and check never panic; what opens goes on, and opens again with the same records.

use broker_log::{DiskWorker, FileId, JournalConfig, MemDisk, check, recover, repair};

/// Panics when the demand is not met.
pub(crate) fn demand(bytes: &[u8]) {
    // The first byte divides the rest into up to four files.
    let Some((first, rest)) = bytes.split_first() else { return };
    let disk = MemDisk::new();
    let files = usize::from(first % 4) + 1;
    for (number, contents) in (0_u32..).zip(rest.chunks(rest.len().div_ceil(files).max(1))) {
        disk.replace(FileId(number), contents.to_vec());
    }
    exercise(&disk);
}

fn exercise(disk: &MemDisk) {
    let config =
        JournalConfig { segment_bytes: 4096, cache_bytes: 0, reserve_bytes: 0, ..JournalConfig::default() };
    let report = check(disk);
    let copy = disk.snapshot();
    if report.is_ok_and(|report| !report.losses.is_empty()) {
        drop(repair(&copy));
        drop(recover(copy, config, &mut |_, record| drop(record.full())));
    }
    let mut records = 0_usize;
    let Ok(mut journal) = recover(disk.clone(), config, &mut |_, record| {
        drop(record.full());
        records += 1;
    }) else {
        return;
    };
    let mut worker = DiskWorker::new(disk.clone());
    journal.append(b"more", &[]);
    let until = journal.commit();
    journal.request_sync(until);
    while journal.durable() < until {
        let request = journal.poll_io().expect("something is to be written");
        journal.handle_io(worker.perform(request));
    }
    let mut again = 0_usize;
    recover(disk.clone(), config, &mut |_, _| again += 1).expect("what was just written opens");
    assert_eq!(again, records + 1);
}
