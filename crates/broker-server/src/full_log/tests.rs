use super::*;

#[derive(Debug, Eq, PartialEq)]
enum Said {
    Nothing,
    Full,
    StillFull(u64),
    Free,
}

#[test]
fn what_is_full_is_logged_once_then_each_minute_and_when_it_has_room_again() {
    let begin = Instant::now();
    let mut log = FullLog::default();
    let cases = [
        // seconds, full, what is said
        (0, false, Said::Nothing),
        (10, true, Said::Full),
        (11, true, Said::Nothing),
        (69, true, Said::Nothing),
        (70, true, Said::StillFull(60)),
        (71, true, Said::Nothing),
        (130, true, Said::StillFull(120)),
        (131, false, Said::Free),
        (132, false, Said::Nothing),
        // It changes quickly: one line of each kind in a minute.
        (133, true, Said::Nothing),
        (134, false, Said::Nothing),
        (135, true, Said::Nothing),
        (190, true, Said::Full),
        (191, false, Said::Free),
        (400, true, Said::Full),
        (460, true, Said::StillFull(60)),
    ];
    for (seconds, is_full, expected) in cases {
        let said = match log.look(begin + Duration::from_secs(seconds), is_full) {
            None => Said::Nothing,
            Some(FullLogLine::Full) => Said::Full,
            Some(FullLogLine::StillFull { since, now }) => Said::StillFull((now - since).as_secs()),
            Some(FullLogLine::Free) => Said::Free,
        };
        assert_eq!(said, expected, "{seconds} s");
    }
}
