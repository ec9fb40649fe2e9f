//! A namespace that wants more than a round has delays another by its share of the round, and by one command.

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
const BODY_MAX: usize = 2_000;
/// Bytes that a record has beside its message, at most.
const RECORD_MAX: u64 = BODY_MAX as u64 + 200;

/// Two rounds of one namespace alone are less than the least share of what may wait for the disk, 256 KiB by weights up to 7.
const ROUND_MAX: u64 = 7_000;

/// Messages that one namespace sends at once.
#[derive(Clone, Debug)]
struct Load {
    weight: u16,
    /// Sizes of its messages, each in a command of its own.
    bodies: Vec<usize>,
}

fn load() -> impl Strategy<Value = Load> {
    (1_u16..8, prop::collection::vec(0..BODY_MAX, 0..120))
        .prop_map(|(weight, bodies)| Load { weight, bodies })
}

struct Shares {
    broker: Broker,
    ids: [NamespaceId; NAMESPACES],
    loads: [Load; NAMESPACES],
    round_bytes: u64,
}

impl Shares {
    fn new(loads: [Load; NAMESPACES], round_bytes: u64) -> Self {
        let mut broker = Broker::new(round_bytes);
        for (name, load) in NAMES.iter().zip(&loads) {
            let settings = NamespaceSettings { weight: load.weight, ..NamespaceSettings::default() };
            let put = NamespaceCommand::Put { name: (*name).into(), settings, uid: 7, only_create: true };
            broker.change(NOW, put, Ticket(1));
        }
        broker.run(NOW, &mut Vec::new()).unwrap();
        let ids = NAMES.map(|name| id_of(&broker, name).unwrap());
        for id in ids {
            let commands = vec![Command::Connect, create(0, Ticket(1))];
            broker.ask(NOW, id, Batch { client: client(0), commands });
        }
        broker.run(NOW, &mut Vec::new()).unwrap();
        Self { broker, ids, loads, round_bytes }
    }

    /// Hands in everything at once.
    fn hand_in(&mut self) {
        for (id, load) in self.ids.iter().zip(&self.loads) {
            let one = |(ticket, bytes): (u64, &usize)| publish(0, 1, *bytes, None, Ticket(ticket));
            let commands: Vec<Command> = (2..).zip(&load.bodies).map(one).collect();
            self.broker.ask(NOW, *id, Batch { client: client(0), commands });
        }
    }

    fn waits(&self) -> [bool; NAMESPACES] {
        self.ids.map(|id| self.broker.node.command_wait(id, client(0)).is_some())
    }

    fn appended(&self) -> [u64; NAMESPACES] {
        self.ids.map(|id| {
            let view = self.broker.node.namespaces().find(|view| view.id == id);
            view.map_or(0, |view| view.appended_bytes)
        })
    }

    fn weight(&self, of: [bool; NAMESPACES]) -> u64 {
        let weights = self.loads.iter().zip(of).filter(|(_, is_one)| *is_one);
        weights.map(|(load, _)| u64::from(load.weight)).sum()
    }

    /// One round; those that wanted more before it and after it have had their shares, and no more.
    fn round(&mut self) {
        let (waited, before) = (self.waits(), self.appended());
        self.broker.round(NOW);
        while self.broker.node.poll_effects().is_some() {}
        let (waits, after) = (self.waits(), self.appended());
        let busy: [bool; NAMESPACES] = std::array::from_fn(|at| waited[at] && waits[at]);
        for at in (0..NAMESPACES).filter(|at| busy[*at]) {
            let bytes = after[at] - before[at];
            let of = |weight: u64| self.round_bytes * u64::from(self.loads[at].weight) / weight;
            let (least, most) = (of(self.weight(waited)), of(self.weight(busy)));
            assert!(bytes >= least, "{} has {bytes} of a round, at least {least}", NAMES[at]);
            assert!(
                bytes <= most.max(1) + RECORD_MAX,
                "{} has {bytes} of a round, at most {most}",
                NAMES[at]
            );
        }
    }

    /// Most rounds that the commands of a namespace take, whatever the others ask.
    fn rounds_max(&self, at: usize) -> u64 {
        let Load { weight, bodies } = &self.loads[at];
        let bytes: u64 = bodies.iter().map(|bytes| *bytes as u64 + (RECORD_MAX - BODY_MAX as u64)).sum();
        let share = self.round_bytes * u64::from(*weight) / self.weight([true; NAMESPACES]);
        bytes / share.max(1) + 1
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn busy_namespaces_have_their_shares_of_each_round_by_weight_and_others_wait_no_longer(
        loads in [load(), load(), load()],
        round_bytes in 64_u64..ROUND_MAX,
    ) {
        let mut shares = Shares::new(loads, round_bytes);
        shares.hand_in();
        shares.broker.round(NOW);
        let mut rounds = 1;
        while shares.waits().contains(&true) {
            rounds += 1;
            shares.round();
            for at in (0..NAMESPACES).filter(|at| shares.waits()[*at]) {
                prop_assert!(rounds <= shares.rounds_max(at), "{} still waits after {rounds} rounds", NAMES[at]);
            }
        }
    }

    #[test]
    fn one_command_in_a_quiet_namespace_is_handled_in_the_round_in_which_it_comes(
        loads in [load(), load(), load()],
        round_bytes in 64_u64..20_000,
        comes_in in 0_u64..20,
    ) {
        let mut shares = Shares::new(loads, round_bytes);
        shares.loads[2].bodies.clear();
        shares.hand_in();
        for _ in 0..comes_in {
            shares.broker.round(NOW);
        }
        let id = shares.ids[2];
        let commands = vec![publish(0, 1, BODY_MAX, None, Ticket(9))];
        shares.broker.ask(NOW, id, Batch { client: client(0), commands });
        shares.broker.round(NOW);
        prop_assert!(!shares.waits()[2]);
        let view = shares.broker.node.core_of(id).unwrap().entity("orders").unwrap();
        prop_assert_eq!(view.active, 1);
    }
}
