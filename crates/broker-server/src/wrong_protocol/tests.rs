use std::net::Ipv4Addr;

use super::*;

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(number))
}

#[test]
fn each_mistake_of_an_address_is_logged_once_a_minute() {
    let begin = Instant::now();
    let mut table = Table::default();
    let cases = [
        // seconds, address, mistake, lines left out before
        (0, 1, Mistake::TlsOnPlainPort, Some(0)),
        (1, 1, Mistake::TlsOnPlainPort, None),
        (59, 1, Mistake::TlsOnPlainPort, None),
        (59, 1, Mistake::Amqp091, Some(2)),
        (59, 2, Mistake::TlsOnPlainPort, Some(0)),
        (60, 1, Mistake::TlsOnPlainPort, Some(0)),
        (61, 1, Mistake::TlsOnPlainPort, None),
    ];
    for (seconds, number, mistake, expected) in cases {
        let now = begin + Duration::from_secs(seconds);
        assert_eq!(
            table.admit(now, address(number), mistake),
            expected,
            "{seconds} s, {number}, {mistake:?}"
        );
    }
}

#[test]
fn the_table_is_bounded_and_has_room_again_after_a_minute() {
    let begin = Instant::now();
    let mut table = Table::default();
    let most = u32::try_from(ADDRESSES_MAX).unwrap();
    for number in 0..most {
        assert_eq!(table.admit(begin, address(number), Mistake::Amqp091), Some(0));
    }
    for number in most..3 * most {
        assert_eq!(table.admit(begin, address(number), Mistake::Amqp091), None);
    }
    assert_eq!(table.logged.len(), ADDRESSES_MAX);
    assert_eq!(table.admit(begin + MINUTE, address(9_999), Mistake::Amqp091), Some(2 * u64::from(most)));
    assert_eq!(table.logged.len(), 1);
}
