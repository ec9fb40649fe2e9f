use broker_log::{Journal, JournalConfig};

use super::*;

/// A journal with a record of `bytes` that waits to be written, and its disk.
fn waiting(name: &str, bytes: usize) -> (Journal, Arc<RealDisk>) {
    let config = JournalConfig { segment_bytes: 1 << 20, ..JournalConfig::default() };
    let directory = std::env::temp_dir().join(format!("ferrybus-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let mut journal = broker_log::recover(Arc::clone(&disk), config, &mut |_, _| {}).unwrap();
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
        let threads = DiskThread::start(&disk, &Arc::default()).unwrap();
        threads.worker.lock().unwrap().quick_writes = if quick { QUICK_WRITES } else { QUICK_WRITES - 1 };
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
    let threads = DiskThread::start(&disk, &Arc::default()).unwrap();
    let other = std::iter::from_fn(|| journal.poll_io()).find(|request| !request.is_write()).unwrap();
    assert!(threads.perform(other, || true).is_none());
    drop(threads);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_panic_while_a_request_is_performed_ends_the_node() {
    let (mut journal, disk) = waiting("panic", 100);
    let directory = disk.directory().to_owned();
    let request = std::iter::from_fn(|| journal.poll_io()).find(IoRequest::is_write).unwrap();
    let executor = Arc::<Executor>::default();
    let node = broker_node::in_memory(JournalConfig::default(), broker_core::CoreConfig::default());
    executor.begin(crate::node_driver::NodeDriver::new(node, Arc::default(), None));
    let perform = |_| -> IoDone { panic!("as the test wants it") };
    let lane = DiskThreadHandle::start("fragile", [perform], &executor).unwrap();
    lane.give(request);
    assert_eq!(executor.run_housekeeper(|_| false), crate::node_driver::Ended::Panicked);
    drop(lane);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn after_a_slow_write_it_takes_many_quick_ones_before_anybody_waits_for_one() {
    let (_journal, disk) = waiting("quick", 100);
    let directory = disk.directory().to_owned();
    let worker = TimedDiskWorker::on(disk, &Arc::default());
    let mut worker = worker.lock().unwrap();
    assert!(worker.is_quick(), "as long as nothing is known against it");
    worker.note(QUICK);
    for _ in 1..QUICK_WRITES {
        worker.note(QUICK / 2);
        assert!(!worker.is_quick());
    }
    worker.note(Duration::ZERO);
    assert!(worker.is_quick());
    drop(worker);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn no_connections_thread_waits_for_a_file_to_be_created() {
    let (mut journal, disk) = waiting("creating", 100);
    let directory = disk.directory().to_owned();
    let threads = DiskThread::start(&disk, &Arc::default()).unwrap();
    // Nothing is prepared, so a segment that is full is followed by one that is not there yet.
    let request = loop {
        let request = std::iter::from_fn(|| journal.poll_io()).find(IoRequest::is_write).unwrap();
        if request.creates_file() {
            break request;
        }
        let done = threads.worker.lock().unwrap().perform(request);
        journal.handle_io(done);
        journal.append(&[0; 1 << 10], &[]);
        let end = journal.commit();
        journal.request_sync(end);
    };
    assert!(request.bytes() <= AT_ONCE_BYTES_MAX);
    threads.worker.lock().unwrap().quick_writes = QUICK_WRITES;
    assert!(threads.perform(request, || true).is_none());
    drop(threads);
    std::fs::remove_dir_all(directory).unwrap();
}
