use proptest::prelude::*;

use super::*;

fn echo() -> impl Strategy<Value = Echo> {
    prop_oneof![
        Just(Echo::Accepted),
        Just(Echo::Rejected),
        Just(Echo::Released),
        any::<(Option<bool>, Option<bool>)>().prop_map(|(delivery_failed, undeliverable_here)| {
            Echo::Modified { delivery_failed, undeliverable_here }
        }),
    ]
}

fn errand() -> impl Strategy<Value = Errand> {
    let id = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    let session =
        prop_oneof![Just(0), Just(SessionNumber::MAX), 0..=SessionNumber::MAX].prop_map(SessionNumber);
    prop_oneof![
        (session.clone(), id.clone()).prop_map(|(session, id)| Errand::Received(session, id)),
        (session, id, echo()).prop_map(|(session, id, echo)| Errand::Sent(session, id, echo)),
        (0u64..1 << 60).prop_map(Errand::Request),
    ]
}

proptest! {
    #[test]
    fn a_ticket_carries_its_errand(errand in errand()) {
        prop_assert_eq!(Errand::unpack(errand.pack()), Some(errand));
    }

    #[test]
    fn no_ticket_panics(bits: u64) {
        let _errand = Errand::unpack(Ticket(bits));
    }

    #[test]
    fn neighbours_differ_in_the_last_number_only(errand in errand()) {
        let next = Errand::unpack(Ticket(errand.pack().0.wrapping_add(1)));
        let expected = match errand {
            Errand::Received(session, id) => id.checked_add(1).map(|id| Errand::Received(session, id)),
            Errand::Sent(session, id, echo) => id.checked_add(1).map(|id| Errand::Sent(session, id, echo)),
            Errand::Request(number) => (number + 1 < 1 << 60).then_some(Errand::Request(number + 1)),
        };
        if let Some(expected) = expected {
            prop_assert_eq!(next, Some(expected));
        }
    }
}

#[test]
fn the_answer_repeats_the_outcome_without_its_error() {
    let error = amqp_codec::performative::Error {
        condition: amqp_codec::types::Symbol::from_static("com.microsoft:dead-letter"),
        description: None,
        info: None,
    };
    let echo = Echo::of(&DeliveryState::Rejected(Some(Box::new(error)))).unwrap();
    assert_eq!(echo.state(), DeliveryState::Rejected(None));
    assert_eq!(Echo::of(&DeliveryState::Received { section_number: 0, section_offset: 0 }), None);
}
