//! A namespace is deleted while many clients send to it.

use std::collections::BTreeMap;

use super::*;

const CLIENTS: u64 = 10_000;
const FIRST: u64 = 1_000;

#[test]
fn a_deletion_while_ten_thousand_clients_send_leaves_nothing_and_holds_up_nobody_else() {
    let mut bench = Bench::new();
    let (a, b) = (bench.create("team-a", 1), bench.create("team-b", 2));
    bench.with_queue(a);
    bench.with_queue(b);
    let (mut answers, mut others, mut is_deleted) = (BTreeMap::<ClientId, u64>::new(), 0, false);
    for number in 0..CLIENTS {
        let commands = vec![Command::Connect, publish(Some(1)), publish(Some(2))];
        bench.node.handle_batch(NOW, a, Batch { client: ClientId(FIRST + number), commands });
        if number == CLIENTS / 2 {
            let request = NamespaceRequest { client: ADMIN, ticket: Ticket(5) };
            bench.node.change_namespace(NOW, request, NamespaceCommand::Delete { name: "team-a".into() });
        }
        if number % 100 == 0 {
            bench.node.handle_batch(NOW, b, Batch { client: CLIENT, commands: vec![publish(Some(number))] });
            bench.node.work(NOW);
            bench.finish_io();
        }
        while let Some(released) = bench.node.poll_effects() {
            for effect in released.effects {
                match effect {
                    Effect::Published { first, last } if released.namespace == a => {
                        *answers.entry(released.client).or_default() += last.0 - first.0 + 1;
                    }
                    Effect::Published { .. } => others += 1,
                    Effect::NamespaceDone { .. } => is_deleted = true,
                    _ => {}
                }
            }
        }
    }
    bench.settle();
    others += bench.effects_of(b, CLIENT).len() as u64;
    assert!(is_deleted, "it is told while clients send");
    assert_eq!(others, CLIENTS / 100, "each send of the other namespace is answered");
    assert!(answers.len() as u64 >= CLIENTS / 4, "many were served before the deletion: {}", answers.len());
    assert!((answers.len() as u64) < CLIENTS, "none is served after it");
    assert!(answers.values().all(|count| *count <= 2), "no answer comes twice");
    for has_crashed in [false, true] {
        assert_eq!(bench.names(), ["default", "team-b"], "crashed: {has_crashed}");
        assert_eq!(bench.active(b), Some(CLIENTS / 100), "crashed: {has_crashed}");
        bench.crash();
        bench.settle();
    }
    // Its name is free, and none of those clients reaches what has it now.
    let again = bench.create("team-a", 9);
    bench.with_queue(again);
    for number in 0..CLIENTS {
        let commands = vec![Command::Connect, publish(Some(1))];
        bench.node.handle_batch(NOW, a, Batch { client: ClientId(FIRST + number), commands });
    }
    bench.settle();
    assert_eq!(bench.active(again), Some(0));
}
