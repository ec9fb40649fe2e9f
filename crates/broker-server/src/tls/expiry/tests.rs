use super::*;

const DAY: u64 = 86_400;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

#[test]
fn the_end_is_told_from_14_days_before_it_once_a_day() {
    let mut notice = ExpiryNotice::default();
    let end = 100 * DAY;
    let cases = [
        // when, what is said
        (50 * DAY, None),
        (86 * DAY - 1, None),
        (86 * DAY, Some(Remaining::Days(14))),
        (86 * DAY + 1, None),
        (87 * DAY - 1, None),
        (87 * DAY, Some(Remaining::Days(13))),
        (99 * DAY + 1, Some(Remaining::Days(0))),
        (100 * DAY, None),
        (100 * DAY + 1, Some(Remaining::None)),
        (101 * DAY, None),
        (101 * DAY + 1, Some(Remaining::None)),
    ];
    for (now, expected) in cases {
        assert_eq!(notice.due(at(now), end), expected, "{now}");
    }
}

#[test]
fn a_certificate_that_was_just_taken_in_is_told_of_at_once() {
    let mut notice = ExpiryNotice::default();
    assert_eq!(notice.due(at(10 * DAY), 12 * DAY), Some(Remaining::Days(2)));
    notice = ExpiryNotice::default();
    assert_eq!(notice.due(at(10 * DAY + 5), 12 * DAY), Some(Remaining::Days(1)));
}
