use super::*;

#[test]
fn memory_is_full_beyond_the_limit_and_has_room_again_a_sixteenth_below_it() {
    let cases = [
        // it was full, limit, used, it is full
        (false, 1_600, 0, false),
        (false, 1_600, 1_600, false),
        (false, 1_600, 1_601, true),
        (true, 1_600, 1_601, true),
        (true, 1_600, 1_600, true),
        (true, 1_600, 1_501, true),
        (true, 1_600, 1_500, false),
        (true, 1_600, 0, false),
        (false, 1_600, 1_501, false),
        (false, u64::MAX, u64::MAX, false),
        (true, u64::MAX, u64::MAX, true),
        (true, 0, 0, false),
        (false, 0, 1, true),
    ];
    for case @ (was_full, limit, used, expected) in cases {
        assert_eq!(is_full(was_full, limit, used), expected, "{case:?}");
    }
}

#[test]
fn memory_is_measured_again_before_it_can_be_full() {
    let cases = [
        // limit, used, milliseconds
        (64 << 20, 64 << 20, 10),
        (64 << 20, 65 << 20, 10),
        (64 << 20, 0, 16),
        (1 << 30, 512 << 20, 128),
        (1 << 40, 0, 1_000),
    ];
    for case @ (limit, used, expected) in cases {
        assert_eq!(time_to_fill(limit, used), Duration::from_millis(expected), "{case:?}");
    }
}

#[test]
fn the_system_tells_what_the_process_uses() {
    let before = resident_bytes().unwrap();
    let held = vec![1_u8; 64 << 20];
    let after = resident_bytes().unwrap();
    assert!(after >= before + (32 << 20), "{before} {after} {}", held.len());
}
