//! The disk is full in the middle of a change of a namespace.

use super::*;

const MESSAGES: u64 = 3;

/// The namespace `team-a`, as far as a client and an administrator can tell.
#[derive(Clone, Debug, Eq, PartialEq)]
struct State {
    settings: NamespaceSettings,
    messages: Option<u64>,
}

fn state(bench: &Bench) -> Option<State> {
    let found = bench.node.namespaces().find(|namespace| &*namespace.definition.name == "team-a")?;
    if found.definition.state != NamespaceState::Active {
        return None;
    }
    Some(State { settings: found.definition.settings.clone(), messages: bench.active(found.id) })
}

fn publish_some(bench: &mut Bench, id: NamespaceId) {
    bench.with_queue(id);
    bench.ask(id, (0..MESSAGES).map(|ticket| publish(Some(ticket))).collect());
}

/// Has the disk be full after each number of writes of this change.
fn fill_everywhere(
    is_there: bool,
    command: impl Fn() -> NamespaceCommand,
    after: Option<&NamespaceSettings>,
) {
    let (mut was_refused, mut was_lost) = (false, false);
    for room in 0_u64.. {
        let mut bench = Bench::new();
        let other = bench.create("team-b", 2);
        publish_some(&mut bench, other);
        if is_there {
            let id = bench.create("team-a", 1);
            publish_some(&mut bench, id);
        }
        let before = state(&bench);
        let messages = before.as_ref().and_then(|before| before.messages);
        let changed = after.map(|settings| State { settings: settings.clone(), messages });
        bench.faults.1.store(room, Ordering::Relaxed);
        let request = NamespaceRequest { client: ADMIN, ticket: Ticket(5) };
        bench.node.change_namespace(NOW, request, command());
        bench.settle();
        let effects = bench.effects_of(NamespaceId::DEFAULT, ADMIN);
        let is_done = matches!(effects.as_slice(), [Effect::NamespaceDone { .. }]);
        assert!(is_done || effects.is_empty(), "room for {room}: {effects:?}");
        let had_room = bench.node.fault().is_none() && is_done;
        // There is room again, and the process starts anew.
        bench.faults.1.store(u64::MAX, Ordering::Relaxed);
        bench.crash();
        bench.settle();
        let found = state(&bench);
        if is_done {
            assert_eq!(found, changed, "room for {room}: it was told that it is done");
        } else {
            assert!(found == before || found == changed, "room for {room}: {found:?}");
            was_lost |= found == before;
            was_refused = true;
        }
        assert_eq!(bench.active(other), Some(MESSAGES), "room for {room}: of another namespace");
        assert_eq!(bench.stored(), 0, "room for {room}: of the default one");
        if found != changed {
            bench.change(command()).unwrap();
            bench.settle();
            assert_eq!(state(&bench), changed, "room for {room}: with room it is done");
        }
        let there = changed.is_some();
        assert_eq!(
            bench.names().contains(&"team-a".to_owned()),
            there,
            "room for {room}: nothing is left of it"
        );
        if had_room {
            assert!(was_refused && was_lost, "the disk was full before the change was durable");
            return;
        }
    }
}

#[test]
fn a_creation_is_made_whole_or_not_at_all() {
    let settings = limits(NamespaceLimit::Entities, 5);
    fill_everywhere(false, || put("team-a", settings.clone(), 1), Some(&settings));
}

#[test]
fn a_change_of_limits_is_made_whole_or_not_at_all() {
    let settings = NamespaceSettings {
        hostnames: vec!["a.example".into()],
        weight: 7,
        ..limits(NamespaceLimit::Bytes, 1 << 20)
    };
    fill_everywhere(true, || put("team-a", settings.clone(), 1), Some(&settings));
}

#[test]
fn a_hold_is_made_whole_or_not_at_all() {
    let settings = NamespaceSettings { held: true, ..NamespaceSettings::default() };
    fill_everywhere(true, || put("team-a", settings.clone(), 1), Some(&settings));
}

#[test]
fn a_deletion_goes_on_once_there_is_room() {
    fill_everywhere(true, || NamespaceCommand::Delete { name: "team-a".into() }, None);
}
