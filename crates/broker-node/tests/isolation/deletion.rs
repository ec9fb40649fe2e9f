//! A change of a namespace is made whole or not at all, at whichever disk call the process is killed, and a deletion goes
//! on after that until nothing is left.

use broker_core::{Batch, Command, Effect, NamespaceSettings, NamespaceState, Ticket, Timestamp};
use broker_node::{NamespaceCommand, NamespaceId};

use crate::{
    broker::Broker,
    plan::{Crash, NAMESPACES, Op, Round, Turn},
    tenant::{client, create, publish},
    world::{NAMES, World, create_two, id_of},
};

const SETTINGS: Turn = Turn::Put { entities: Some(2), bytes: Some(1 << 20), weight: 3, held: true };
const CREATION: Turn = Turn::Put { entities: None, bytes: None, weight: 1, held: false };

fn round(turns: [Turn; NAMESPACES]) -> Round {
    Round { turns, first: 0, pass_ms: 1, crash: None, crossing: None }
}

/// Three namespaces with messages of one name; the first of them is left out if it is to be created.
fn prepared(with_first: bool) -> World {
    let mut world = World::new(2_000, vec![]);
    let first = |turn: Turn| if with_first { turn } else { Turn::Nothing };
    world.play(&round([first(CREATION), CREATION, CREATION]));
    let publish = |bytes| Op::Publish { queue: 0, count: 3, bytes, ttl_ms: None };
    let ops = vec![Op::CreateQueue, publish(200), publish(1_500), publish(10), publish(900), publish(3)];
    let ask = Turn::Ask { client: 0, ops, peek: true };
    world.play(&round([first(ask.clone()), ask.clone(), ask]));
    world
}

/// Kills the process at each disk call of a change, and at calls of the start after it. Says whether the namespace had its
/// id after each.
fn kill_everywhere(change: &Turn, with_first: bool) -> (Vec<bool>, u64) {
    let (mut outcomes, mut resumed) = (Vec::new(), 0);
    for after in 0_u64.. {
        let mut was_killed = false;
        for again in [None, Some(0), Some(3), Some(5), Some(9)] {
            let mut world = prepared(with_first);
            let seed = (after + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ again.unwrap_or(77);
            let crash = Some(Crash { after, again, seed });
            let id = world.tenants[0].id;
            let publish = Op::Publish { queue: 0, count: 2, bytes: 40, ttl_ms: None };
            let others = Turn::Ask { client: 0, ops: vec![publish], peek: false };
            let turns = [change.clone(), others.clone(), others];
            // It compares all of them with what they are alone, and looks for halves.
            world.play(&Round { crash, ..round(turns) });
            was_killed |= world.was_killed;
            outcomes.push(world.tenants[0].id.is_some() && (id.is_none() || world.tenants[0].id == id));
            resumed += world.broker.deletions_resumed;
            world.end();
        }
        if !was_killed {
            return (outcomes, resumed);
        }
    }
    unreachable!("a change ends")
}

#[test]
fn a_crash_at_any_disk_call_of_a_creation_leaves_a_whole_namespace_or_none() {
    let (outcomes, _) = kill_everywhere(&CREATION, false);
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

#[test]
fn a_crash_at_any_disk_call_of_a_change_of_limits_leaves_the_earlier_or_the_later_ones() {
    let (outcomes, _) = kill_everywhere(&SETTINGS, true);
    assert!(outcomes.iter().all(|is_there| *is_there), "{outcomes:?}");
}

#[test]
fn a_deletion_that_a_crash_interrupts_goes_on_until_nothing_of_the_namespace_is_alive() {
    let (outcomes, resumed) = kill_everywhere(&Turn::Delete, true);
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
    assert!(resumed > 0, "no start found a deletion under way");
}

#[test]
fn the_deletion_of_a_large_namespace_does_not_hold_up_another_one() {
    let (now, mut broker) = (1_000_000, Broker::new(4 << 20));
    let [large, small] = create_two(&mut broker, now);
    let ask = |broker: &mut Broker, id: NamespaceId, commands: Vec<Command>| {
        broker.ask(now, id, Batch { client: client(0), commands });
    };
    let messages = (2..1_000).map(|ticket| publish(0, 10, 10, None, Ticket(ticket)));
    ask(&mut broker, large, [Command::Connect, create(0, Ticket(1))].into_iter().chain(messages).collect());
    ask(&mut broker, small, vec![Command::Connect, create(0, Ticket(1))]);
    broker.run(now, &mut Vec::new()).unwrap();
    broker.change(now, NamespaceCommand::Delete { name: NAMES[0].into() }, Ticket(2));
    let mut rounds = 0;
    let is_there = |broker: &Broker| {
        broker.node.namespaces().any(|view| view.definition.state == NamespaceState::Deleting)
    };
    while is_there(&broker) {
        rounds += 1;
        ask(&mut broker, small, vec![publish(0, 1, 10, None, Ticket(rounds))]);
        broker.round(now);
        let shown: Vec<_> = std::iter::from_fn(|| broker.node.poll_effects()).collect();
        let effects = Broker::shown_to(&shown, small, client(0));
        assert!(
            matches!(effects.as_slice(), [Effect::Published { last, .. }] if last.0 == rounds),
            "{effects:?}"
        );
    }
    assert!(rounds > 3, "it was deleted in {rounds} rounds");
    broker.run(now, &mut Vec::new()).unwrap();
    broker.check_accounts();
}

#[test]
fn a_deletion_that_the_disk_has_held_up_goes_on_when_the_disk_has_caught_up() {
    let now = 1_000_000;
    let mut broker = Broker::new(4 << 20).with_unwritten_bytes_max(1);
    let put = |name: &str| NamespaceCommand::Put {
        name: name.into(),
        settings: NamespaceSettings::default(),
        uid: 7,
        only_create: true,
    };
    broker.change(now, put(NAMES[0]), Ticket(1));
    broker.run(now, &mut Vec::new()).unwrap();
    let id = id_of(&broker, NAMES[0]).unwrap();
    let commands = vec![Command::Connect, create(0, Ticket(1)), publish(0, 9, 9, None, Ticket(2))];
    broker.ask(now, id, Batch { client: client(0), commands });
    broker.run(now, &mut Vec::new()).unwrap();
    // The record of the deletion itself is more than may wait for the disk.
    broker.change(now, NamespaceCommand::Delete { name: NAMES[0].into() }, Ticket(3));
    broker.node.work(Timestamp::from_millis(now));
    assert!(broker.node.is_behind());
    broker.node.work(Timestamp::from_millis(now));
    broker.run(now, &mut Vec::new()).unwrap();
    assert_eq!(id_of(&broker, NAMES[0]), None);
    broker.check_accounts();
}
