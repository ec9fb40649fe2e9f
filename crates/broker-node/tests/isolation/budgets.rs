//! Budgets of work decide in which round something is done, and nothing else; recorded, they replay a run exactly.

use broker_core::{Batch, Command, NamespaceSettings, Ticket};
use broker_node::{NamespaceCommand, NamespaceId};
use proptest::prelude::*;

use crate::{
    broker::Broker,
    plan::NAMESPACES,
    tenant::{client, create, publish},
    world::{NAMES, id_of},
};

const NOW: u64 = 1_000_000;
const ROUND_BYTES: u64 = 4 << 20;

/// A node with the namespaces, each with one queue.
fn broker() -> (Broker, [NamespaceId; NAMESPACES]) {
    let mut broker = Broker::new(ROUND_BYTES);
    for name in NAMES {
        let settings = NamespaceSettings::default();
        let put = NamespaceCommand::Put { name: name.into(), settings, uid: 7, only_create: true };
        broker.change(NOW, put, Ticket(1));
    }
    broker.run(NOW, &mut Vec::new()).unwrap();
    let ids = NAMES.map(|name| id_of(&broker, name).unwrap());
    for id in ids {
        broker.ask(
            NOW,
            id,
            Batch { client: client(0), commands: vec![Command::Connect, create(0, Ticket(1))] },
        );
    }
    broker.run(NOW, &mut Vec::new()).unwrap();
    (broker, ids)
}

/// Results of a run: the effects of each round, the end of the journal after it, and in the end the messages of each namespace.
#[derive(Debug, PartialEq)]
struct Seen {
    rounds: Vec<(String, u64)>,
    stored: [u64; NAMESPACES],
}

/// Gives the batches in order, one before each round, under these budgets in turn.
fn run(batches: &[(usize, usize)], budgets: &[u64]) -> Seen {
    let (broker, ids) = broker();
    let mut broker = broker.with_budgets(budgets.to_vec());
    let mut seen = Seen { rounds: Vec::new(), stored: [0; NAMESPACES] };
    let mut tickets = 10;
    let mut left = batches.iter();
    loop {
        let next = left.next();
        if let Some((at, messages)) = next {
            let one = |ticket| publish(0, 1, 40, None, Ticket(ticket));
            let commands = (tickets..tickets + *messages as u64).map(one).collect();
            tickets += 1_000;
            broker.ask(NOW, ids[*at], Batch { client: client(0), commands });
        }
        let more = broker.round(NOW);
        let shown: Vec<String> = std::iter::from_fn(|| broker.node.poll_effects())
            .map(|released| format!("{released:?}"))
            .collect();
        seen.rounds.push((shown.concat(), broker.node.journal().committed().0));
        if next.is_none() && !more && !broker.node.has_deferred() {
            break;
        }
    }
    seen.stored = ids.map(|id| {
        let core = broker.node.core_of(id).unwrap();
        core.entities().map(|queue| queue.active).sum()
    });
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_same_inputs_with_the_same_budgets_give_the_same_rounds_and_other_budgets_the_same_messages(
        batches in prop::collection::vec((0..NAMESPACES, 1_usize..60), 1..12),
        budgets in prop::collection::vec(1_u64..400, 1..9),
    ) {
        let recorded = run(&batches, &budgets);
        prop_assert_eq!(&run(&batches, &budgets), &recorded);
        let unbounded = run(&batches, &[]);
        prop_assert_eq!(unbounded.stored, recorded.stored);
        prop_assert!(unbounded.rounds.len() <= recorded.rounds.len());
    }

    #[test]
    fn under_any_budget_a_namespace_with_one_command_waits_for_no_round(
        loads in prop::collection::vec(1_usize..400, 2),
        budget in 1_u64..2_000,
    ) {
        let (broker, ids) = broker();
        let mut broker = broker.with_budgets(vec![budget]);
        broker.round(NOW);
        for (at, messages) in loads.iter().enumerate() {
            let commands = (0..*messages as u64).map(|ticket| publish(0, 1, 40, None, Ticket(ticket + 10))).collect();
            broker.ask(NOW, ids[at], Batch { client: client(0), commands });
        }
        broker.round(NOW);
        broker.ask(NOW, ids[2], Batch { client: client(0), commands: vec![publish(0, 1, 40, None, Ticket(5))] });
        broker.round(NOW);
        prop_assert_eq!(broker.node.command_wait(ids[2], client(0)), None);
        // Each of the others gets on in each round, and no more than its share and one step.
        while broker.node.has_deferred() {
            let before = ids.map(|id| broker.node.namespace(id).unwrap().work);
            broker.round(NOW);
            while broker.node.poll_effects().is_some() {}
            for (at, id) in ids.iter().enumerate().take(2) {
                let done = broker.node.namespace(*id).unwrap().work.0 - before[at].0;
                prop_assert!(done <= budget + 40, "{done} of {budget}");
                if broker.node.command_wait(*id, client(0)).is_some() {
                    prop_assert!(done > 0, "it gets on");
                }
            }
        }
    }
}
