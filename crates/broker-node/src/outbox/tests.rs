use super::*;
use broker_core::Ticket;

fn published(ticket: u64) -> Effect {
    Effect::Published { first: Ticket(ticket), last: Ticket(ticket) }
}

#[test]
fn effects_of_interleaved_clients_come_out_by_client_and_in_order() {
    let mut outbox = Outbox::default();
    for (client, ticket) in [(1, 10), (2, 20), (1, 11), (3, 30), (2, 21), (1, 12)] {
        outbox.push(NamespaceId::DEFAULT, ClientId(client), published(ticket));
    }
    let mut seen: Vec<(u64, Vec<u64>)> = outbox
        .take()
        .into_iter()
        .map(|released| {
            let tickets = released.effects.iter().map(|effect| match effect {
                Effect::Published { first, .. } => first.0,
                other => panic!("not expected: {other:?}"),
            });
            (released.client.0, tickets.collect())
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(1, vec![10, 11, 12]), (2, vec![20, 21]), (3, vec![30])]);
    assert!(outbox.is_empty());
    assert!(outbox.take().is_empty());
}

#[test]
fn answers_that_may_be_large_are_counted() {
    let state = |bytes: usize| Effect::SessionState { ticket: Ticket(1), state: Some(vec![7; bytes].into()) };
    let cases = [
        (published(1), 0),
        (Effect::SessionState { ticket: Ticket(1), state: None }, 0),
        (state(100_000), 100_000),
        (Effect::SessionList { ticket: Ticket(1), skip: 0, ids: vec!["one".into(), "two".into()] }, 256),
        (Effect::Rules { ticket: Ticket(1), rules: Vec::new() }, 0),
    ];
    for (effect, bytes) in cases {
        let mut outbox = Outbox::default();
        let text = format!("{effect:?}");
        assert_eq!(outbox.push(NamespaceId::DEFAULT, ClientId(1), effect), bytes, "{text:.40}");
    }
}

#[test]
fn clients_of_two_namespaces_with_one_number_are_two() {
    let other = NamespaceId { slot: broker_core::NamespaceSlot(3), uid: 9 };
    let mut outbox = Outbox::default();
    for (namespace, ticket) in [(NamespaceId::DEFAULT, 1), (other, 2), (NamespaceId::DEFAULT, 3)] {
        outbox.push(namespace, ClientId(1), published(ticket));
    }
    let released = outbox.take();
    let counts: Vec<_> = released.iter().map(|one| (one.namespace, one.effects.len())).collect();
    assert_eq!(counts, [(other, 1), (NamespaceId::DEFAULT, 2)]);
}
