//! A valid journal, damaged as the input says, with checksums of headers put right again: never a panic, never a record
//! that was not written.

use std::collections::BTreeSet;

use broker_log::{DiskWorker, FileId, JournalConfig, MemDisk, check, recover, repair};

/// Of a segment.
const HEADER_BYTES: usize = 64;

/// Panics when the demand is not met.
pub(crate) fn demand(damage: &[u8]) {
    let config = JournalConfig {
        segment_bytes: 4096,
        cache_bytes: 0,
        reserve_bytes: 0,
        spare_segments: 1,
        ..JournalConfig::default()
    };
    let disk = MemDisk::new();
    let written = fill(&disk, config);
    let mut header_edited = false;
    for change in damage.chunks_exact(4) {
        let [file, low, high, value] = change else { continue };
        let file = FileId(u32::from(file % 8));
        let Some(mut contents) = disk.contents(file) else { continue };
        let offset = usize::from(u16::from_le_bytes([*low, *high])) % contents.len().max(1);
        if let Some(byte) = contents.get_mut(offset) {
            *byte ^= value;
        }
        header_edited |= offset < HEADER_BYTES;
        // A hostile editor knows how to sum a segment header.
        if offset < 60 && value % 2 == 0 && contents.len() >= 64 {
            let sum = crc32c::crc32c(&contents[..60]).to_le_bytes();
            contents[60..64].copy_from_slice(&sum);
        }
        disk.replace(file, contents);
    }
    let mut sink = |_, record: broker_log::RecordView<'_>| {
        if let Ok(bytes) = record.full()
            && !header_edited
        {
            assert!(written.contains(&bytes.to_vec()), "a record that was never written");
        }
    };
    drop(check(&disk));
    let copy = disk.snapshot();
    if repair(&copy).is_ok() {
        drop(recover(copy, config, &mut sink));
    }
    drop(recover(disk, config, &mut sink));
}

fn fill(disk: &MemDisk, config: JournalConfig) -> BTreeSet<Vec<u8>> {
    let mut journal = recover(disk.clone(), config, &mut |_, _| {}).expect("an empty disk opens");
    let mut worker = DiskWorker::new(disk.clone());
    let mut written = BTreeSet::new();
    for number in 0..24_u8 {
        let body = vec![number; 300 + usize::from(number) * 13];
        journal.append(&[number; 8], &[&body]);
        written.insert([&[number; 8][..], &body].concat());
        let until = journal.commit();
        journal.request_sync(until);
        while let Some(request) = journal.poll_io() {
            journal.handle_io(worker.perform(request));
        }
    }
    written
}
