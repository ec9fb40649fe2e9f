use proptest::prelude::*;

use super::*;

fn outcome() -> impl Strategy<Value = WireOutcome> {
    prop_oneof![
        Just(WireOutcome::Accepted),
        Just(WireOutcome::Rejected),
        Just(WireOutcome::Released),
        any::<(Option<bool>, Option<bool>)>().prop_map(|(delivery_failed, undeliverable_here)| {
            WireOutcome::Modified { delivery_failed, undeliverable_here }
        }),
    ]
}

fn errand() -> impl Strategy<Value = Correlation> {
    let id = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    let session =
        prop_oneof![Just(0), Just(SessionNumber::MAX), 0..=SessionNumber::MAX].prop_map(SessionNumber);
    prop_oneof![
        (session.clone(), id.clone()).prop_map(|(session, id)| Correlation::Received(session, id)),
        (session, id, outcome()).prop_map(|(session, id, outcome)| Correlation::Sent(session, id, outcome)),
        (0u64..1 << 60).prop_map(Correlation::Request),
    ]
}

proptest! {
    #[test]
    fn a_ticket_carries_its_errand(errand in errand()) {
        prop_assert_eq!(Correlation::unpack(errand.pack()), Some(errand));
    }

    #[test]
    fn no_ticket_panics(bits: u64) {
        let _errand = Correlation::unpack(Ticket(bits));
    }

    #[test]
    fn neighbours_differ_in_the_last_number_only(errand in errand()) {
        let next = Correlation::unpack(Ticket(errand.pack().0.wrapping_add(1)));
        let expected = match errand {
            Correlation::Received(session, id) => id.checked_add(1).map(|id| Correlation::Received(session, id)),
            Correlation::Sent(session, id, outcome) => id.checked_add(1).map(|id| Correlation::Sent(session, id, outcome)),
            Correlation::Request(number) => (number + 1 < 1 << 60).then_some(Correlation::Request(number + 1)),
        };
        if let Some(expected) = expected {
            prop_assert_eq!(next, Some(expected));
        }
    }
}
