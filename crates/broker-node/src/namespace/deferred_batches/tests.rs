use broker_core::Ticket;
use proptest::prelude::*;

use super::*;

fn batch(client: u64, tickets: impl IntoIterator<Item = u64>) -> Batch {
    let commands = tickets.into_iter().map(|ticket| Command::Declare {
        transaction: broker_core::TransactionId(1),
        ticket: Ticket(ticket),
    });
    Batch { client: ClientId(client), commands: commands.collect() }
}

fn tickets(batch: &Batch) -> Vec<u64> {
    let ticket = |command: &Command| match command {
        Command::Declare { ticket, .. } => ticket.0,
        other => panic!("not expected: {other:?}"),
    };
    batch.commands.iter().map(ticket).collect()
}

#[test]
fn clients_take_turns_and_each_keeps_its_order() {
    let mut waiting = DeferredBatches::default();
    for (client, ticket) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (3, 31)] {
        waiting.push(batch(client, [ticket]));
    }
    let order: Vec<u64> = std::iter::from_fn(|| waiting.pop()).flat_map(|batch| tickets(&batch)).collect();
    assert_eq!(order, [10, 20, 30, 11, 31, 12]);
    assert!(!waiting.has_turns() && !waiting.has(ClientId(1)));
}

#[test]
fn a_batch_that_is_put_back_comes_before_later_ones_of_its_client() {
    let mut waiting = DeferredBatches::default();
    waiting.push(batch(1, [10, 11]));
    waiting.push(batch(1, [12]));
    waiting.push(batch(2, [20]));
    let mut first = waiting.pop().expect("three wait");
    assert_eq!(tickets(&first), [10, 11]);
    first.commands.remove(0);
    waiting.put_back(first);
    let order: Vec<u64> = std::iter::from_fn(|| waiting.pop()).flat_map(|batch| tickets(&batch)).collect();
    assert_eq!(order, [20, 11, 12]);
}

proptest! {
    #[test]
    fn however_batches_are_cut_each_client_s_commands_come_in_order(
        pushed in proptest::collection::vec((0u64..4, 1u64..6), 1..30),
        cuts in proptest::collection::vec(1usize..4, 1..8),
    ) {
        let mut waiting = DeferredBatches::default();
        let mut expected: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (number, (client, count)) in pushed.iter().enumerate() {
            let numbers: Vec<u64> = (0..*count).map(|place| number as u64 * 100 + place).collect();
            expected.entry(*client).or_default().extend(&numbers);
            waiting.push(batch(*client, numbers));
        }
        let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut cuts = cuts.iter().cycle();
        while let Some(mut batch) = waiting.pop() {
            let cut = (*cuts.next().expect("it never ends")).min(batch.commands.len());
            let rest = batch.commands.split_off(cut);
            seen.entry(batch.client.0).or_default().extend(tickets(&batch));
            if !rest.is_empty() {
                waiting.put_back(Batch { client: batch.client, commands: rest });
            }
        }
        prop_assert_eq!(seen, expected);
    }
}
