use broker_log::{DiskWorker, FileId, MemDisk};

use super::*;

/// All files with their contents.
fn files(disk: &MemDisk) -> Vec<(FileId, Vec<u8>)> {
    let files = disk.list().unwrap().into_iter();
    files.map(|(file, _)| (file, disk.contents(file).unwrap())).collect()
}

/// A journal whose last record begins so, and that was not closed.
fn journal_with(disk: &MemDisk, index: &[u8]) {
    let mut journal = broker_log::recover(disk.clone(), config(), &mut |_, _| {}).unwrap();
    let mut worker = DiskWorker::new(disk.clone());
    journal.append(index, &[b"body"]);
    let until = journal.commit();
    journal.request_sync(until);
    while let Some(request) = journal.poll_io() {
        journal.handle_io(worker.perform(request));
    }
    assert!(journal.durable() >= until);
}

fn config() -> JournalConfig {
    JournalConfig { segment_bytes: 65_536, reserve_bytes: 0, ..JournalConfig::default() }
}

#[test]
fn a_refused_start_changes_nothing_on_disk() {
    // The last one has a kind that this program does not know.
    for unknown in [&[250][..], &[255, 1, 2, 3], b"of another program", &[2, 99, 0, 0, 0, 0, 0, 0]] {
        let disk = MemDisk::new();
        journal_with(&disk, unknown);
        let before = files(&disk);
        for _ in 0..2 {
            let refused = recover(disk.clone(), config(), CoreConfig::default());
            let Err(refused @ RecoveryError::Replay { .. }) = refused else { panic!("{unknown:?}") };
            assert!(refused.to_string().contains("written by a newer version of ferrybus"), "{refused}");
            assert_eq!(files(&disk), before, "{unknown:?}");
        }
        // An opened journal would look different.
        broker_log::recover(disk.clone(), config(), &mut |_, _| {}).unwrap();
        assert_ne!(files(&disk), before, "{unknown:?}");
    }
}
