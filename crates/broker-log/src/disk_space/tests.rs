use super::*;

fn space(max_disk_bytes: Option<u64>, free_bytes: Option<u64>) -> DiskSpace {
    let config = JournalConfig { reserve_bytes: 100, max_disk_bytes, ..JournalConfig::default() };
    DiskSpace::new(&config, free_bytes)
}

#[test]
fn storage_is_full_below_the_reserve_and_beyond_the_limit() {
    let cases = [
        // limit, free, used, in spares, full
        (None, None, u64::MAX, 0, false),
        (None, Some(100), 0, 0, false),
        (None, Some(99), 0, 0, true),
        // Files that wait to be used are room for what frees space.
        (None, Some(99), 0, 1, false),
        (None, Some(10), 0, 89, true),
        (None, Some(u64::MAX), 0, u64::MAX, false),
        (Some(1_000), None, 900, 0, false),
        (Some(1_000), None, 901, 500, true),
        // Of a small limit a quarter is the reserve.
        (Some(200), None, 150, 0, false),
        (Some(200), None, 151, 0, true),
    ];
    for case @ (limit, free, used, spare, full) in cases {
        assert_eq!(space(limit, free).is_full(used, spare), full, "{case:?}");
    }
}

#[test]
fn a_further_file_leaves_the_reserve_whole_and_the_limit_kept() {
    let cases = [
        // limit, free, files with it, room
        (None, None, 1_000, true),
        (None, Some(150), 1, true),
        (None, Some(149), 1, false),
        (Some(200), None, 4, true),
        (Some(200), None, 5, false),
    ];
    for case @ (limit, free, files, room) in cases {
        assert_eq!(space(limit, free).has_room_for_file(files, 50), room, "{case:?}");
    }
}

#[test]
fn space_is_tight_before_the_reserve_is_in_use() {
    let cases = [
        // limit, free, bytes in files, tight
        (None, None, 1_000, false),
        (None, Some(200), 1_000, false),
        (None, Some(199), 0, true),
        (Some(200), None, 200, false),
        (Some(200), None, 201, true),
    ];
    for case @ (limit, free, bytes, tight) in cases {
        assert_eq!(space(limit, free).is_tight(bytes), tight, "{case:?}");
    }
}

#[test]
fn a_caller_that_is_refused_has_the_disk_measured_once() {
    let mut space = space(None, Some(50));
    assert!(space.is_full(0, 0) && !space.take_measurement_due(), "a look alone asks for nothing");
    assert!(space.report_full(0, 0));
    assert!(space.take_measurement_due());
    assert!(!space.take_measurement_due());
    space.on_measured(100);
    assert!(!space.report_full(0, 0) && !space.take_measurement_due());
    assert_eq!(space.free_bytes(), Some(100));
}
