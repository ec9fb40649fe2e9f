use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn slot() -> Slot {
    Slot::new(Position(0), 10, at(100), Timestamp::MAX)
}

#[test]
fn a_slot_takes_48_bytes() {
    assert_eq!(size_of::<Slot>(), 48);
}

#[test]
fn a_lock_is_valid_until_just_before_its_end() {
    let mut slot = slot();
    slot.start_lock(LockId(7), ConsumerNumber(1), at(200));
    let lost = Err(SettleError::LockLost);
    let cases = [
        // lock, now, expected
        (LockId(7), 199, Ok(())),
        (LockId(7), 200, lost), // the end itself is too late
        (LockId(7), 201, lost),
        (LockId(6), 199, lost),
    ];
    for case @ (lock, now, expected) in cases {
        assert_eq!(slot.check_lock(lock, at(now)), expected, "{case:?}");
    }
    slot.end_lock();
    assert_eq!(slot.check_lock(LockId(7), at(150)), lost);
}

#[test]
fn a_message_expires_at_its_instant_and_ttl_zero_lives_one_millisecond() {
    let cases = [
        // enqueued, expires, now, expired
        (100, 200, 199, false),
        (100, 200, 200, true),
        (100, 100, 100, false),
        (100, 100, 101, true),
        (100, u64::MAX, u64::MAX, false),
    ];
    for case @ (enqueued, expires, now, expired) in cases {
        let slot = Slot::new(Position(0), 1, at(enqueued), at(expires));
        assert_eq!(slot.is_expired(at(now)), expired, "{case:?}");
    }
}

#[test]
fn the_enqueued_time_survives_in_48_bits() {
    for millis in [0, 1, 1_763_000_000_000, (1 << 48) - 1] {
        assert_eq!(Slot::new(Position(0), 1, at(millis), Timestamp::MAX).enqueued_at(), at(millis));
    }
}
