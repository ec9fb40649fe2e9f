use super::*;
use broker_core::{ClientId, Effect, Ticket};

fn round(ticket: u64) -> Vec<Released> {
    vec![Released {
        namespace: crate::NamespaceId::DEFAULT,
        client: ClientId(1),
        effects: vec![Effect::Published { first: Ticket(ticket), last: Ticket(ticket) }],
    }]
}

fn tickets(rounds: &[Released]) -> Vec<u64> {
    rounds
        .iter()
        .flat_map(|released| &released.effects)
        .map(|effect| match effect {
            Effect::Published { first, .. } => first.0,
            other => panic!("not expected: {other:?}"),
        })
        .collect()
}

#[test]
fn a_round_waits_for_its_position_and_not_longer() {
    let cases = [
        // until, durable, released
        (10, 9, false),
        (10, 10, true),
        (10, 11, true),
    ];
    for case @ (until, durable, released) in cases {
        let mut held = DurabilityQueue::default();
        held.push(Position(until), round(1));
        assert_eq!(held.pop(Position(durable)).is_some(), released, "{case:?}");
        assert_eq!(held.is_empty(), released, "{case:?}");
    }
}

#[test]
fn rounds_leave_in_the_order_they_came() {
    let mut held = DurabilityQueue::default();
    held.push(Position(10), round(1));
    held.push(Position(10), round(2));
    held.push(Position(30), round(3));
    assert_eq!(held.pop(Position(20)).map(|effects| tickets(&effects)), Some(vec![1]));
    assert_eq!(held.pop(Position(20)).map(|effects| tickets(&effects)), Some(vec![2]));
    assert!(held.pop(Position(20)).is_none());
    assert_eq!(held.pop(Position(30)).map(|effects| tickets(&effects)), Some(vec![3]));
}
