use super::*;

const WRITE: Outstanding = Outstanding { end: 100, tail: 40, sync: true };

#[test]
fn a_write_confirms_by_sync_only_where_records_are_durable_by_a_sync() {
    let cases = [
        // includes a sync, records are durable by a sync: synced, known tail, syncs
        (true, true, (100, 40, 1)),
        (true, false, (10, 40, 1)),
        (false, false, (10, 5, 0)),
    ];
    for case @ (sync, by_sync, expected) in cases {
        let mut progress = WriteProgress::new(10, 5);
        progress.commit(120);
        progress.on_written(Outstanding { sync, ..WRITE }, by_sync);
        assert_eq!((progress.synced(), progress.tail_known(), progress.syncs()), expected, "{case:?}");
        assert_eq!(
            (progress.durable(), progress.unwritten_bytes(), progress.writes()),
            (100, 20, 1),
            "{case:?}"
        );
    }
}

#[test]
fn the_tail_that_the_disk_knows_never_goes_back() {
    let mut progress = WriteProgress::new(10, 5);
    progress.on_written(WRITE, true);
    progress.on_written(Outstanding { end: 200, tail: 30, sync: true }, true);
    assert_eq!(progress.tail_known(), 40);
}

#[test]
fn a_request_stands_until_everything_before_it_is_durable() {
    let mut progress = WriteProgress::new(10, 5);
    assert!(!progress.is_requested());
    progress.request(101);
    progress.request(50);
    progress.on_written(WRITE, true);
    assert!(progress.is_requested(), "one byte is missing");
    progress.on_written(Outstanding { end: 101, ..WRITE }, true);
    assert!(!progress.is_requested());
}
