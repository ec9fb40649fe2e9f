use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::PathBuf,
};

use proptest::prelude::*;

use super::*;
use crate::{DiskWorker, Journal, JournalConfig, MemDisk, work::Request};

/// Memory of which any place can be had.
fn memory(blocks: usize, fill: u8) -> (Vec<u8>, usize) {
    let memory = vec![fill; (blocks + 1) * BLOCK_BYTES];
    let begin = memory.as_ptr().addr().wrapping_neg() % BLOCK_BYTES;
    (memory, begin)
}

/// A file that goes with the test, full of what an earlier life has left.
struct Scratch(PathBuf);

const LEFT: u8 = 0xAA;
const FILE_BLOCKS: usize = 80;

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("broker-log-direct-{name}-{}", std::process::id()));
        fs::write(&path, vec![LEFT; FILE_BLOCKS * BLOCK_BYTES]).unwrap();
        Self(path)
    }

    fn append(&self, direct: &mut Direct, id: u32, offset: usize, parts: &[IoSlice<'_>]) {
        // The cases of this test do not depend on O_DIRECT, which not every file system has.
        let open = || OpenOptions::new().write(true).open(&self.0);
        let read = |offset, buffer: &mut [u8]| File::open(&self.0)?.read_at(buffer, offset);
        direct.append(FileId(id), offset as u64, parts, open, read).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// One part: its length, and how far it lies from where it could be taken in place.
fn part() -> impl Strategy<Value = (usize, usize)> {
    let length = prop_oneof![0_usize..200, 0..3 * BLOCK_BYTES, Just(BLOCK_BYTES), Just(2 * BLOCK_BYTES)];
    (length, prop_oneof![Just(0), 0..BLOCK_BYTES])
}

#[derive(Clone, Debug)]
enum Between {
    Nothing,
    Forget,
    Other,
    Overwrite,
}

proptest! {
    #[test]
    fn a_file_has_the_appended_bytes_and_zeros_to_the_end_of_a_block(
        offset in 0..2 * BLOCK_BYTES,
        writes in prop::collection::vec(
            (
                prop::collection::vec(part(), 0..6),
                prop_oneof![
                    4 => Just(Between::Nothing),
                    1 => Just(Between::Forget),
                    1 => Just(Between::Other),
                    1 => Just(Between::Overwrite),
                ],
            ),
            1..6,
        ),
    ) {
        let (file, other) = (Scratch::new("file"), Scratch::new("other"));
        let mut expected = vec![LEFT; FILE_BLOCKS * BLOCK_BYTES];
        let mut direct = Direct::default();
        let mut end = offset;
        for (number, (parts, between)) in writes.iter().enumerate() {
            let fill = u8::try_from(number + 1).unwrap();
            let begin = end;
            let mut lent = Vec::new();
            for (length, aside) in parts {
                let (memory, start) = memory(5, fill);
                let start = start + (end + aside) % BLOCK_BYTES;
                lent.push((memory, start, *length));
                expected[end..end + length].fill(fill);
                end += length;
            }
            let slices: Vec<_> =
                lent.iter().map(|(memory, start, length)| IoSlice::new(&memory[*start..start + length])).collect();
            file.append(&mut direct, 1, begin, &slices);
            expected[end..end.next_multiple_of(BLOCK_BYTES)].fill(0);
            prop_assert!(fs::read(&file.0).unwrap() == expected, "write {}", number);
            match between {
                Between::Forget => direct.forget(FileId(1)),
                Between::Other => other.append(&mut direct, 2, 0, &slices),
                Between::Overwrite if end > 0 => {
                    // Somebody writes over the last byte, and says so.
                    direct.forget(FileId(1));
                    let open = OpenOptions::new().write(true).open(&file.0).unwrap();
                    open.write_all_at(&[0xEE], end as u64 - 1).unwrap();
                    expected[end - 1] = 0xEE;
                }
                Between::Nothing | Between::Overwrite => {}
            }
        }
    }

    #[test]
    fn all_that_is_written_are_whole_blocks_in_order(
        begun in 0..BLOCK_BYTES,
        parts in prop::collection::vec(part(), 0..8),
    ) {
        let mut at = begun;
        let mut lent = Vec::new();
        for (number, (length, aside)) in parts.iter().enumerate() {
            let (memory, start) = memory(5, u8::try_from(number + 1).unwrap());
            lent.push((memory, start + (at + aside) % BLOCK_BYTES, *length));
            at += length;
        }
        let slices: Vec<_> =
            lent.iter().map(|(memory, start, length)| IoSlice::new(&memory[*start..start + length])).collect();
        let begun = vec![0xBB; begun];
        let mut stage = Vec::new();
        let whole = gather(&mut stage, &begun, &slices);
        for blocks in &whole {
            prop_assert!(!blocks.is_empty() && blocks.len().is_multiple_of(BLOCK_BYTES));
            prop_assert!(blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        }
        let mut expected = [begun, slices.iter().flat_map(|slice| slice.iter().copied()).collect()].concat();
        expected.resize(expected.len().next_multiple_of(BLOCK_BYTES), 0);
        prop_assert!(whole.iter().flat_map(|blocks| blocks.iter().copied()).collect::<Vec<_>>() == expected);
    }
}

#[test]
fn records_of_the_journal_are_taken_from_where_they_lie() {
    let cases = [
        // bytes of a record, records of a write, blocks gathered at most for each write
        (100, 1, 2),
        (1_024, 1, 2),
        (1_024, 50, 3),
        (1_024, 400, 8),
        (65_536, 20, 30),
    ];
    for (bytes, records, most) in cases {
        let disk = MemDisk::new();
        let config = JournalConfig { max_record_bytes: 1 << 20, ..JournalConfig::default() };
        let mut journal: Journal = crate::recover(disk.clone(), config, &mut |_, _| {}).unwrap();
        let mut worker = DiskWorker::new(disk);
        for _ in 0..20 {
            for _ in 0..records {
                journal.append(&[7; 64], &[&vec![8; bytes - 64]]);
                journal.commit();
            }
            journal.request_sync(journal.committed());
            while let Some(request) = journal.poll_io() {
                if let Request::Write(write) = &request.0 {
                    let parts: Vec<_> = write.parts.iter().map(|part| IoSlice::new(part)).collect();
                    let (begun, mut stage) = (vec![0; in_block(write.offset)], Vec::new());
                    let whole: usize =
                        gather(&mut stage, &begun, &parts).iter().map(|blocks| blocks.len()).sum();
                    let gathered = stage.len() / BLOCK_BYTES;
                    assert!(
                        gathered <= most,
                        "{gathered} of {} blocks, {bytes} x {records}",
                        whole / BLOCK_BYTES
                    );
                }
                journal.handle_io(worker.perform(request));
            }
        }
    }
}

#[test]
fn memory_for_gathering_much_is_not_kept() {
    let file = Scratch::new("much");
    let (memory, begin) = memory(FILE_BLOCKS, 5);
    let mut direct = Direct::default();
    // One byte aside: nothing can be taken in place.
    let much = &memory[begin + 1..begin + 1 + (FILE_BLOCKS - 1) * BLOCK_BYTES];
    file.append(&mut direct, 1, 0, &[IoSlice::new(much)]);
    assert_eq!(direct.stage.capacity(), 0);
    file.append(&mut direct, 1, much.len(), &[IoSlice::new(b"little")]);
    assert!((1..=STAGE_BYTES_MAX).contains(&direct.stage.capacity()));
}
