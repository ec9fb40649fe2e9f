use broker_log::{Journal, JournalConfig};

use super::*;

/// A journal with a record of `bytes` that waits to be written, and its disk.
fn waiting(name: &str, bytes: usize) -> (Journal, Arc<RealDisk>) {
    let directory = std::env::temp_dir().join(format!("ferrybus-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let mut journal =
        broker_log::recover(Arc::clone(&disk), JournalConfig::default(), &mut |_, _| {}).unwrap();
    journal.append(&vec![0; bytes], &[]);
    let end = journal.commit();
    journal.request_sync(end);
    (journal, disk)
}

#[test]
fn a_write_is_performed_at_once_where_nothing_speaks_against_it() {
    let small = 100;
    let large = usize::try_from(AT_ONCE_BYTES_MAX).unwrap() + 1;
    let cases = [
        // bytes, alone, quick, at once
        (small, true, true, true),
        (small, false, true, false),
        (small, true, false, false),
        (large, true, true, false),
    ];
    for case @ (bytes, alone, quick, at_once) in cases {
        let (mut journal, disk) = waiting("at-once", bytes);
        let directory = disk.directory().to_owned();
        let threads = DiskThread::start(disk, &Arc::default()).unwrap();
        threads.worker.lock().unwrap().is_quick = quick;
        let request = std::iter::from_fn(|| journal.poll_io()).find(IoRequest::is_write).unwrap();
        assert_eq!(threads.perform(request, || alone).is_some(), at_once, "{case:?}");
        drop(threads);
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn preparing_never_keeps_the_node() {
    let (mut journal, disk) = waiting("preparing", 100);
    let directory = disk.directory().to_owned();
    let threads = DiskThread::start(disk, &Arc::default()).unwrap();
    let other = std::iter::from_fn(|| journal.poll_io()).find(|request| !request.is_write()).unwrap();
    assert!(threads.perform(other, || true).is_none());
    drop(threads);
    std::fs::remove_dir_all(directory).unwrap();
}
