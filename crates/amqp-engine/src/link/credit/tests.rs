use proptest::prelude::*;

use super::*;

#[test]
fn credit_counts_from_the_delivery_count_that_the_receiver_has_seen() {
    let cases = [
        // handed, on wire, receiver's count, credit, limit, available
        (0, 0, Some(0), 10, 10, 10),
        (0, 0, None, 10, 10, 10),
        (5, 5, None, 10, 10, 5),
        (5, 5, Some(5), 10, 15, 10),
        (5, 5, Some(3), 10, 13, 8),
        (5, 3, Some(3), 1, 4, 0),
        (5, 5, Some(5), 0, 5, 0),
        (5, 5, Some(5), u32::MAX, 5 + u64::from(u32::MAX), u32::MAX),
    ];
    for case @ (handed, on_wire, count, credit, limit, available) in cases {
        let mut sender = SendCredit { handed, limit: 0 };
        sender.update(on_wire, count, credit);
        assert_eq!((sender.limit(), sender.available()), (limit, available), "{case:?}");
    }
}

#[test]
fn counts_of_the_wire_wrap_and_those_of_the_credit_do_not() {
    let sent = 0x2_0000_0003;
    let mut sender = SendCredit { handed: sent, limit: sent };
    sender.update(sent, Some(wire(sent - 5)), 10);
    assert_eq!(sender.limit(), sent + 5);
}

#[test]
fn a_drain_gives_up_the_credit_of_the_peer_and_no_more() {
    let mut sender = SendCredit { handed: 3, limit: 10 };
    sender.drain_to(7);
    assert_eq!((sender.handed(), sender.limit()), (7, 7));
    let mut sender = SendCredit { handed: 3, limit: 10 };
    sender.drain_to(100);
    assert_eq!((sender.handed(), sender.available()), (10, 0));
    let mut sender = SendCredit { handed: 3, limit: 10 };
    sender.drain_to(0);
    assert_eq!((sender.handed(), sender.available()), (3, 0));
}

#[test]
fn a_sender_that_advances_its_count_gives_up_credit() {
    let mut receiver = ReceiveCredit::new(u32::MAX);
    receiver.grant(10);
    assert!(receiver.take());
    receiver.sender_is_at(4);
    assert_eq!((receiver.count(), receiver.credit()), (4, 5));
    receiver.sender_is_at(2);
    assert_eq!((receiver.count(), receiver.credit()), (4, 5), "a count does not go back");
    receiver.sender_is_at(100);
    assert_eq!(receiver.credit(), 0);
    assert!(!receiver.take(), "beyond the credit");
}

proptest! {
    #[test]
    fn both_ends_agree_on_the_credit(on_wire in 0u64..1 << 40, behind in 0u32..1_000_000, credit: u32) {
        let mut sender = SendCredit { handed: on_wire, limit: 0 };
        let seen = on_wire.saturating_sub(behind.into());
        sender.update(on_wire, Some(wire(seen)), credit);
        prop_assert_eq!(sender.limit(), seen + u64::from(credit));
    }
}
