//! Namespaces: each has a core of its own, and nothing crosses.

mod crowd;
mod full_disk;

use broker_core::{
    AccessRight, AuthorizationRule, KeyText, NamespaceDefinition, NamespaceError, NamespaceLimit,
    NamespaceLimits, NamespaceSettings, NamespaceSlot, NamespaceState, PublishError, QuotaError,
};

use super::*;
use crate::{NamespaceCommand, NamespaceRequest};

const ADMIN: ClientId = ClientId(70);

fn put(name: &str, settings: NamespaceSettings, uid: u128) -> NamespaceCommand {
    NamespaceCommand::Put { name: name.into(), settings, uid, only_create: false }
}

fn limits(limit: NamespaceLimit, number: u64) -> NamespaceSettings {
    NamespaceSettings {
        limits: NamespaceLimits::default().with(limit, Some(number)),
        ..NamespaceSettings::default()
    }
}

impl Bench {
    /// Asks for a change, and gives the answer once it is durable.
    fn change(&mut self, command: NamespaceCommand) -> Result<NamespaceDefinition, NamespaceError> {
        self.node.change_namespace(NOW, NamespaceRequest { client: ADMIN, ticket: Ticket(5) }, command);
        self.settle();
        let effects = self.effects_of(NamespaceId::DEFAULT, ADMIN);
        match effects.as_slice() {
            [Effect::NamespaceDone { definition, ticket: Ticket(5), .. }] => Ok((**definition).clone()),
            [Effect::NamespaceRefused { error, ticket: Ticket(5) }] => Err(error.clone()),
            other => panic!("not expected: {other:?}"),
        }
    }

    fn create(&mut self, name: &str, uid: u128) -> NamespaceId {
        let definition = self.change(put(name, NamespaceSettings::default(), uid)).unwrap();
        NamespaceId::of(&definition)
    }

    /// Works and writes until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let more = self.node.work(NOW);
            self.finish_io();
            if !more {
                return;
            }
        }
    }

    fn ask(&mut self, id: NamespaceId, commands: Vec<Command>) -> Vec<Effect> {
        self.node.handle_batch(NOW, id, Batch { client: CLIENT, commands });
        self.settle();
        self.effects_of(id, CLIENT)
    }

    fn effects_of(&mut self, id: NamespaceId, client: ClientId) -> Vec<Effect> {
        let mut all = Vec::new();
        while let Some(released) = self.node.poll_effects() {
            if (released.namespace, released.client) == (id, client) {
                all.extend(released.effects);
            }
        }
        all
    }

    fn with_queue(&mut self, id: NamespaceId) {
        let create = Command::CreateEntity {
            name: "orders".into(),
            kind: EntityKind::Queue,
            settings: Box::new(EntitySettings::default()),
            ticket: Ticket(1),
        };
        let effects = self.ask(id, vec![Command::Connect, create]);
        assert!(matches!(effects.as_slice(), [Effect::EntityDone { .. }]), "{effects:?}");
    }

    fn active(&self, id: NamespaceId) -> Option<u64> {
        self.node.core_of(id)?.entity("orders").map(|queue| queue.active)
    }

    fn names(&self) -> Vec<String> {
        self.node.namespaces().map(|namespace| namespace.definition.name.to_string()).collect()
    }

    fn changes(&mut self) -> Vec<(String, NamespaceState)> {
        let mut all = Vec::new();
        while let Some(definition) = self.node.poll_namespace_change() {
            all.push((definition.name.to_string(), definition.state));
        }
        all
    }
}

#[test]
fn two_namespaces_have_queues_of_one_name_that_nothing_connects() {
    let mut bench = Bench::new();
    let (a, b) = (bench.create("team-a", 1), bench.create("team-b", 2));
    bench.with_queue(a);
    assert_eq!((bench.active(a), bench.active(b)), (Some(0), None));
    bench.with_queue(b);
    bench.ask(a, vec![publish(Some(1)), publish(Some(2))]);
    bench.ask(b, vec![publish(Some(3))]);
    assert_eq!((bench.active(a), bench.active(b), bench.stored()), (Some(2), Some(1), 0));
}

#[test]
fn after_a_crash_each_namespace_has_its_own_messages_and_its_definition() {
    let mut bench = Bench::new();
    let a = bench.create("team-a", 1);
    let settings = NamespaceSettings {
        hostnames: vec!["a.example".into()],
        weight: 4,
        held: true,
        ..limits(NamespaceLimit::Bytes, 1 << 20)
    };
    bench.with_queue(a);
    bench.ask(a, vec![publish(Some(1)), publish(Some(2))]);
    let before = bench.change(put("team-a", settings.clone(), 9)).unwrap();
    assert_eq!((before.uid, &before.settings), (1, &settings), "it is the same namespace still");
    bench.crash();
    let found = bench.node.namespaces().find(|namespace| namespace.id == a).unwrap();
    assert_eq!(found.definition, &before);
    assert_eq!((bench.active(a), bench.stored()), (Some(2), 0));
}

#[test]
fn a_change_is_answered_and_told_when_it_is_durable_and_not_before() {
    let mut bench = Bench::new();
    let request = NamespaceRequest { client: ADMIN, ticket: Ticket(1) };
    bench.node.change_namespace(NOW, request, put("team-a", NamespaceSettings::default(), 1));
    bench.node.work(NOW);
    assert!(bench.changes().is_empty() && bench.effects_of(NamespaceId::DEFAULT, ADMIN).is_empty());
    bench.finish_io();
    assert_eq!(bench.changes(), [("team-a".to_owned(), NamespaceState::Active)]);
    assert_eq!(bench.effects_of(NamespaceId::DEFAULT, ADMIN).len(), 1);
}

#[test]
fn a_change_that_changes_nothing_writes_nothing() {
    let mut bench = Bench::new();
    bench.create("team-a", 1);
    let end = bench.node.journal().end();
    let again = bench.change(put("TEAM-A", NamespaceSettings::default(), 2)).unwrap();
    assert_eq!((again.uid, bench.node.journal().end()), (1, end));
    let only = NamespaceCommand::Put {
        name: "team-a".into(),
        settings: NamespaceSettings::default(),
        uid: 3,
        only_create: true,
    };
    assert_eq!(bench.change(only), Err(NamespaceError::AlreadyExists("team-a".into())));
}

#[test]
fn a_deleted_namespace_is_gone_with_all_that_it_held_and_its_space_comes_back() {
    let mut bench = Bench::new();
    let live = bench.node.journal().stats().live_bytes;
    let a = bench.create("team-a", 1);
    bench.with_queue(a);
    bench.ask(a, (0..500).map(|ticket| publish(Some(ticket))).collect());
    bench.changes();
    let deleted = bench.change(NamespaceCommand::Delete { name: "team-a".into() }).unwrap();
    assert_eq!(deleted.state, NamespaceState::Deleting);
    assert_eq!(bench.names(), ["default"]);
    let states =
        [NamespaceState::Deleting, NamespaceState::Deleted].map(|state| ("team-a".to_owned(), state));
    assert_eq!(bench.changes(), states);
    assert_eq!(bench.node.journal().stats().live_bytes, live, "nothing of it is kept");
    bench.crash();
    assert_eq!(bench.names(), ["default"]);
    assert_eq!(
        bench.change(NamespaceCommand::Delete { name: "default".into() }),
        Err(NamespaceError::Default)
    );
}

#[test]
fn a_deletion_tells_of_each_client_whose_commands_it_drops() {
    let mut bench = Bench::new();
    let id = bench.create("team-a", 1);
    bench.with_queue(id);
    bench.node.set_work_budget(WorkBudget::new(Work(1)));
    for client in [ClientId(7), ClientId(8)] {
        let commands = (0..100).map(|number| publish_bytes(number, 1_000)).collect();
        bench.node.handle_batch(NOW, id, Batch { client, commands });
        assert!(bench.node.command_wait(id, client).is_some());
    }
    assert_eq!(bench.node.poll_caught_up(), None);
    let request = NamespaceRequest { client: CLIENT, ticket: Ticket(1) };
    bench.node.change_namespace(NOW, request, NamespaceCommand::Delete { name: "team-a".into() });
    let mut told: Vec<_> = std::iter::from_fn(|| bench.node.poll_caught_up()).collect();
    told.sort();
    assert_eq!(told, [(id, ClientId(7)), (id, ClientId(8))]);
    assert_eq!(bench.node.command_wait(id, ClientId(7)), None);
}

#[test]
fn who_has_the_id_of_a_deleted_namespace_reaches_nothing_in_its_slot() {
    let mut bench = Bench::new();
    let before = bench.create("team-a", 1);
    bench.with_queue(before);
    bench.change(NamespaceCommand::Delete { name: "team-a".into() }).unwrap();
    let after = bench.create("team-b", 2);
    assert_eq!((before.slot, before == after), (after.slot, false));
    bench.with_queue(after);
    assert!(bench.ask(before, vec![publish(Some(1))]).is_empty());
    assert_eq!(bench.active(after), Some(0));
}

#[test]
fn a_crash_at_any_write_of_a_deletion_leaves_a_namespace_that_goes_on_to_be_deleted_or_is_whole() {
    let mut states = Vec::new();
    for performed in 0..40 {
        let mut bench = Bench::new();
        let a = bench.create("team-a", 1);
        bench.with_queue(a);
        bench.ask(a, (0..300).map(|ticket| publish(Some(ticket))).collect());
        bench.changes();
        let request = NamespaceRequest { client: ADMIN, ticket: Ticket(1) };
        bench.node.change_namespace(NOW, request, NamespaceCommand::Delete { name: "team-a".into() });
        let mut worker = DiskWorker::new(bench.disk.clone());
        for _ in 0..performed {
            bench.node.work(NOW);
            let Some(request) = bench.node.poll_io() else { continue };
            let done = worker.perform(request);
            bench.node.handle_io(done);
        }
        let was_told = bench.changes().len();
        bench.crash();
        let found = bench.node.namespaces().find(|found| found.id == a).map(|found| found.definition.state);
        match found {
            Some(NamespaceState::Active) => {
                assert_eq!((was_told, bench.active(a)), (0, Some(300)));
            }
            Some(NamespaceState::Deleting) | None => {}
            Some(NamespaceState::Deleted) => panic!("a namespace that is gone has no slot"),
        }
        bench.settle();
        let left = bench.names().len();
        assert_eq!(left, if found == Some(NamespaceState::Active) { 2 } else { 1 });
        states.push(found);
    }
    states.dedup();
    assert_eq!(states.first(), Some(&Some(NamespaceState::Active)));
    assert_eq!(states.last(), Some(&None));
}

#[test]
fn a_namespace_beyond_its_bytes_refuses_sends_until_messages_are_gone() {
    let mut bench = Bench::new();
    let a = bench.create("team-a", 1);
    bench.with_queue(a);
    let used = bench.node.namespaces().find(|namespace| namespace.id == a).unwrap().live_bytes;
    let full = bench.change(put("team-a", limits(NamespaceLimit::Bytes, used + 1), 1)).unwrap();
    assert_eq!(full.settings.limits.get(NamespaceLimit::Bytes), Some(used + 1));
    // The limit is one byte above what is there: one message fits, and no second one.
    assert!(matches!(bench.ask(a, vec![publish(Some(1))]).as_slice(), [Effect::Published { .. }]));
    let refused = bench.ask(a, vec![publish(Some(2))]);
    let [Effect::PublishRefused { error, .. }] = refused.as_slice() else { panic!("{refused:?}") };
    let PublishError::QuotaExceeded(QuotaError::Namespace { bytes, limit }) = error else {
        panic!("{error}")
    };
    assert!((*limit, *bytes > *limit) == (used + 1, true), "{error}");
    // Another namespace has its own account.
    assert!(matches!(
        bench.ask(NamespaceId::DEFAULT, vec![publish(Some(3))]).as_slice(),
        [Effect::Published { .. }]
    ));
    bench.change(put("team-a", NamespaceSettings::default(), 1)).unwrap();
    assert!(matches!(bench.ask(a, vec![publish(Some(4))]).as_slice(), [Effect::Published { .. }]));
}

#[test]
fn full_memory_refuses_sends_entities_and_namespaces_of_all_namespaces_until_it_has_room() {
    let mut bench = Bench::new();
    let both = [bench.create("team-a", 1), bench.create("team-c", 3)];
    for id in both {
        bench.with_queue(id);
        assert!(matches!(bench.ask(id, vec![publish(Some(1))]).as_slice(), [Effect::Published { .. }]));
    }
    bench.node.set_memory_full(true);
    let create = || Command::CreateEntity {
        name: "second".into(),
        kind: EntityKind::Queue,
        settings: Box::new(EntitySettings::default()),
        ticket: Ticket(1),
    };
    for id in both {
        let told = bench.ask(id, vec![publish(Some(2)), create()]);
        let [Effect::PublishRefused { error, .. }, Effect::RequestRefused { error: refused, .. }] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!(*error, QuotaError::Memory.into());
        assert_eq!(*refused, QuotaError::Memory.into());
        assert_eq!(bench.active(id), Some(1));
    }
    let refused = bench.change(put("team-b", NamespaceSettings::default(), 2));
    assert_eq!(refused.unwrap_err(), QuotaError::Memory.into());
    // One that exists may be changed and deleted.
    bench.change(put("team-a", limits(NamespaceLimit::Entities, 5), 1)).unwrap();
    bench.change(NamespaceCommand::Delete { name: "team-a".into() }).unwrap();
    bench.settle();
    assert_eq!(bench.names(), ["default", "team-c"]);
    bench.node.set_memory_full(false);
    bench.create("team-b", 2);
    let told = bench.ask(both[1], vec![publish(Some(2)), create()]);
    assert!(matches!(told[..], [Effect::Published { .. }, Effect::EntityDone { .. }]), "{told:?}");
}

#[test]
fn a_namespace_has_as_many_entities_as_its_limit_says() {
    let mut bench = Bench::new();
    let settings = limits(NamespaceLimit::Entities, 1);
    let a = NamespaceId::of(&bench.change(put("team-a", settings, 1)).unwrap());
    bench.with_queue(a);
    let create = |name: &str| Command::CreateEntity {
        name: name.into(),
        kind: EntityKind::Queue,
        settings: Box::new(EntitySettings::default()),
        ticket: Ticket(1),
    };
    assert!(matches!(bench.ask(a, vec![create("second")]).as_slice(), [Effect::RequestRefused { .. }]));
    let more = limits(NamespaceLimit::Entities, 2);
    bench.change(put("team-a", more, 1)).unwrap();
    assert!(matches!(bench.ask(a, vec![create("second")]).as_slice(), [Effect::EntityDone { .. }]));
}

#[test]
fn limits_below_what_is_there_refuse_what_is_new_and_take_nothing_away() {
    let mut bench = Bench::new();
    let a = bench.create("team-a", 1);
    bench.with_queue(a);
    let mut stored = 5;
    let publish_one = |bench: &mut Bench, ticket| bench.ask(a, vec![publish(Some(ticket))]);
    for ticket in 0..stored {
        assert!(matches!(publish_one(&mut bench, ticket).as_slice(), [Effect::Published { .. }]));
    }
    let create = |name: &str| Command::CreateEntity {
        name: name.into(),
        kind: EntityKind::Queue,
        settings: Box::new(EntitySettings::default()),
        ticket: Ticket(1),
    };
    assert!(matches!(bench.ask(a, vec![create("second")]).as_slice(), [Effect::EntityDone { .. }]));
    for (limit, number) in [
        (NamespaceLimit::Bytes, 1_024),
        (NamespaceLimit::Entities, 1),
        (NamespaceLimit::RememberedIds, 0),
        (NamespaceLimit::InFlightBytes, 1),
        (NamespaceLimit::Connections, 1),
    ] {
        let used = bench.node.namespaces().find(|namespace| namespace.id == a).unwrap().live_bytes;
        let number = if limit == NamespaceLimit::Bytes { used / 2 } else { number };
        bench.change(put("team-a", limits(limit, number), 1)).unwrap();
        // A start with such limits takes nothing away either.
        bench.crash();
        bench.ask(a, vec![Command::Connect]);
        assert_eq!(bench.active(a), Some(stored), "{limit:?}");
        let core = bench.node.core_of(a).unwrap();
        assert!(core.entity("orders").is_some() && core.entity("second").is_some(), "{limit:?}");
        let third = format!("third-{}", limit.key());
        let (sent, created) = (publish_one(&mut bench, 9), bench.ask(a, vec![create(&third)]));
        let is_sent = matches!(sent.as_slice(), [Effect::Published { .. }]);
        let is_created = matches!(created.as_slice(), [Effect::EntityDone { .. }]);
        let expected = match limit {
            NamespaceLimit::Bytes => (false, true),
            NamespaceLimit::Entities => (true, false),
            _ => (true, true),
        };
        assert_eq!((is_sent, is_created), expected, "{limit:?}: {sent:?} {created:?}");
        stored += u64::from(is_sent);
    }
}

#[test]
fn a_host_name_leads_to_one_namespace() {
    let mut bench = Bench::new();
    let named = || NamespaceSettings { hostnames: vec!["x.example".into()], ..NamespaceSettings::default() };
    bench.change(put("team-a", named(), 1)).unwrap();
    let error = NamespaceError::Hostname { hostname: "x.example".into(), namespace: "team-a".into() };
    assert_eq!(bench.change(put("team-b", named(), 2)), Err(error));
    assert_eq!(bench.names(), ["default", "team-a"]);
    bench.change(put("team-a", named(), 1)).unwrap();
}

#[test]
fn keys_of_an_interface_come_and_go_and_survive_a_crash() {
    let mut bench = Bench::new();
    let a = bench.create("team-a", 1);
    let key = |name: &str| AuthorizationRule {
        name: name.into(),
        rights: vec![AccessRight::Listen],
        primary: KeyText::new("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        secondary: None,
        created_at: NOW,
        modified_at: NOW,
    };
    let put_key = |name: &str| NamespaceCommand::PutKey { name: "team-a".into(), key: Box::new(key(name)) };
    for number in 0..12 {
        bench.change(put_key(&format!("k{number}"))).unwrap();
    }
    let full = NamespaceError::TooManyKeys { namespace: "team-a".into(), limit: 12 };
    assert_eq!(bench.change(put_key("k12")), Err(full));
    let remove = || NamespaceCommand::RemoveKey { name: "team-a".into(), key: "k3".into() };
    assert_eq!(bench.change(remove()).unwrap().keys.len(), 11);
    let missing = NamespaceError::NoKey { namespace: "team-a".into(), key: "k3".into() };
    assert_eq!(bench.change(remove()), Err(missing));
    bench.crash();
    let found = bench.node.namespaces().find(|namespace| namespace.id == a).unwrap();
    assert_eq!(found.definition.keys.len(), 11);
}

#[test]
fn definitions_and_messages_of_namespaces_outlive_the_segments_in_which_they_were_written() {
    let mut bench = Bench::new();
    let a = bench.create("team-a", 1);
    bench.with_queue(a);
    bench.ask(a, vec![publish(Some(1))]);
    // Rounds of messages that are purged push the oldest segments out.
    for round in 0..60 {
        let big: Vec<Command> = (0..10).map(|number| publish_bytes(round * 10 + number, 4_000)).collect();
        bench.ask(NamespaceId::DEFAULT, big);
        let recreate = [
            Command::DeleteEntity { name: "orders".into(), expected: None, ticket: Ticket(1) },
            Command::CreateEntity {
                name: "orders".into(),
                kind: EntityKind::Queue,
                settings: Box::new(EntitySettings::default()),
                ticket: Ticket(2),
            },
        ];
        bench.ask(NamespaceId::DEFAULT, recreate.to_vec());
    }
    assert!(bench.node.journal().stats().tail.0 > 1 << 20, "segments were cleaned");
    bench.crash();
    assert_eq!((bench.names(), bench.active(a)), (vec!["default".to_owned(), "team-a".to_owned()], Some(1)));
}

#[test]
fn every_slot_may_be_taken_and_none_is_given_out_twice() {
    let mut bench = Bench::new();
    let first = bench.create("n1", 1);
    let second = bench.create("n2", 2);
    assert_eq!((first.slot, second.slot), (NamespaceSlot(1), NamespaceSlot(2)));
    bench.change(NamespaceCommand::Delete { name: "n1".into() }).unwrap();
    assert_eq!(bench.create("n3", 3).slot, NamespaceSlot(1));
    assert_eq!(bench.create("n4", 4).slot, NamespaceSlot(3));
}

#[test]
fn as_many_namespaces_as_there_are_slots_are_created_and_one_more_is_refused() {
    let mut bench = Bench::new();
    let request = NamespaceRequest { client: ADMIN, ticket: Ticket(5) };
    for number in 1..u16::MAX {
        let name = format!("n{number}");
        let settings =
            NamespaceSettings { hostnames: vec![format!("{name}.test").into()], ..Default::default() };
        bench.node.change_namespace(NOW, request, put(&name, settings, number.into()));
    }
    bench.settle();
    let created = bench.effects_of(NamespaceId::DEFAULT, ADMIN);
    assert_eq!(created.len(), usize::from(u16::MAX) - 1);
    assert!(created.iter().all(|effect| matches!(effect, Effect::NamespaceDone { is_new: true, .. })));
    let last = bench.create("last", 1 << 20);
    assert_eq!(last.slot, NamespaceSlot(u16::MAX));
    let full = NamespaceError::Full { limit: 65_536 };
    assert_eq!(bench.change(put("one-more", NamespaceSettings::default(), 2)), Err(full));
    let taken = NamespaceSettings { hostnames: vec!["n7.test".into()], ..Default::default() };
    let owner = NamespaceError::Hostname { hostname: "n7.test".into(), namespace: "n7".into() };
    assert_eq!(bench.change(put("n8", taken.clone(), 8)), Err(owner));
    // A slot and a host name are free again once the namespace is gone.
    bench.change(NamespaceCommand::Delete { name: "n7".into() }).unwrap();
    bench.settle();
    bench.change(put("n8", taken, 8)).unwrap();
    assert_eq!(bench.create("one-more", 1 << 21).slot, NamespaceSlot(7));
}

#[test]
fn a_flood_of_one_namespace_leaves_the_messages_of_another_in_memory() {
    let mut bench = Bench::new();
    let journal = JournalConfig {
        segment_bytes: 1 << 20,
        cache_bytes: 2 << 20,
        reserve_bytes: 0,
        ..JournalConfig::default()
    };
    bench.node = recover(bench.disk.clone(), journal, CoreConfig::default()).unwrap();
    let (quiet, flood) = (bench.create("quiet", 1), bench.create("flood", 2));
    bench.with_queue(quiet);
    bench.with_queue(flood);
    let connect = |bench: &mut Bench, id| {
        let consumer = LinkId(1);
        let open = Command::OpenConsumer {
            consumer,
            path: orders(),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::Release,
            session: None,
            auto_create: false,
        };
        let budget = Command::ByteBudget { limit: 64 << 20, min_bytes: 0 };
        let effects =
            bench.ask(id, vec![open, budget, Command::Credit { consumer, limit: 20, drain: false }]);
        effects.iter().filter(|effect| matches!(effect, Effect::Delivery(_))).count()
    };
    bench.ask(quiet, (0..20).map(|number| publish_bytes(number, 2_000)).collect());
    for round in 0..20 {
        bench.ask(flood, (0..10).map(|number| publish_bytes(round * 10 + number, 50_000)).collect());
        while bench.node.has_deferred() {
            bench.settle();
        }
    }
    assert_eq!(bench.active(flood), Some(200));
    let figures = |bench: &Bench, id| {
        let view = bench.node.namespace(id).unwrap();
        (view.cached_bytes, view.disk_reads)
    };
    let (cached, _) = figures(&bench, quiet);
    assert!((40_000..100_000).contains(&cached), "{cached}");
    assert!(figures(&bench, flood).0 > 1 << 20);
    assert_eq!(connect(&mut bench, quiet), 20);
    assert_eq!((figures(&bench, quiet).1, bench.node.journal().disk_reads()), (0, 0));
    assert_eq!(connect(&mut bench, flood), 20);
    assert_eq!(figures(&bench, flood).1, 20, "its oldest ones are on the disk alone");
    assert!((1..=20).contains(&bench.node.journal().disk_reads()));
}

#[test]
fn a_namespace_in_a_used_slot_has_figures_and_a_weight_of_its_own() {
    let mut bench = Bench::new();
    let heavy = NamespaceSettings { weight: 9, ..NamespaceSettings::default() };
    let first = NamespaceId::of(&bench.change(put("first", heavy, 1)).unwrap());
    let weight = |bench: &Bench, id: NamespaceId| {
        bench.node.journal().owner_stats(crate::core_output::owner_of(id.slot)).weight
    };
    assert_eq!(weight(&bench, first), 9);
    bench.change(put("first", NamespaceSettings { weight: 7, ..NamespaceSettings::default() }, 1)).unwrap();
    assert_eq!(weight(&bench, first), 7);
    bench.crash();
    assert_eq!(weight(&bench, first), 7);
    bench.change(NamespaceCommand::Delete { name: "first".into() }).unwrap();
    bench.settle();
    assert_eq!(weight(&bench, first), 1);
    let second = bench.create("second", 2);
    assert_eq!((second.slot, weight(&bench, second)), (first.slot, 1));
}
