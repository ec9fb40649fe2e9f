use proptest::prelude::*;

use super::*;

const SESSIONS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Add(u128, SentDelivery),
    Settle(u128, SentDelivery),
    Refuse(u128, SentDelivery),
    End(u128),
    EndSession(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let transaction = || 0u128..4;
    let delivery = || (0..SESSIONS, 0u32..4).prop_map(|(session, id)| (SessionNumber(session), id));
    prop_oneof![
        6 => (transaction(), delivery()).prop_map(|(name, it)| Step::Add(name, it)),
        2 => (transaction(), delivery()).prop_map(|(name, it)| Step::Settle(name, it)),
        2 => (transaction(), delivery()).prop_map(|(name, it)| Step::Refuse(name, it)),
        2 => transaction().prop_map(Step::End),
        1 => (0..SESSIONS).prop_map(Step::EndSession),
    ]
}

proptest! {
    #[test]
    fn both_ways_to_look_a_delivery_up_agree(steps in proptest::collection::vec(step(), 0..80)) {
        let mut table = EnlistedDeliveries::default();
        let mut model: BTreeMap<(u128, SentDelivery), bool> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(name, it) => {
                    table.add(name, it, WireOutcome::Accepted);
                    model.insert((name, it), false);
                }
                Step::Settle(name, it) => {
                    let known = model.get_mut(&(name, it)).map(|settled| *settled = true).is_some();
                    prop_assert_eq!(table.settle(name, it), known);
                }
                Step::Refuse(name, it) => {
                    table.refuse(name, it);
                    if model.get(&(name, it)) == Some(&false) {
                        model.remove(&(name, it));
                    }
                }
                Step::End(name) => {
                    let ended = table.end(name).into_iter().map(|(it, enlisted)| (it, enlisted.settled));
                    let expected = model.extract_if((name, (SessionNumber(0), 0))..(name + 1, (SessionNumber(0), 0)), |_, _| true);
                    let expected: Vec<_> = expected.map(|((_, it), settled)| (it, settled)).collect();
                    prop_assert_eq!(ended.collect::<Vec<_>>(), expected);
                }
                Step::EndSession(number) => {
                    table.end_session(SessionNumber(number));
                    model.retain(|(_, (session, _)), _| session.0 != number);
                }
            }
            prop_assert_eq!(table.is_empty(), model.is_empty());
            for session in 0..SESSIONS {
                for id in 0..4 {
                    let it = (SessionNumber(session), id);
                    let mut listed = table.transactions_of(it).to_vec();
                    listed.sort_unstable();
                    let expected: Vec<u128> =
                        model.keys().filter(|(_, of)| *of == it).map(|(name, _)| *name).collect();
                    prop_assert_eq!(listed, expected);
                }
            }
        }
    }
}
