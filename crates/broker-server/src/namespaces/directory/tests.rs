use broker_auth::{Access, NamedKey, Right, Rights, Scope, Secret, sign_token};
use broker_core::{NamespaceLimit, NamespaceLimits, NamespaceSettings, NamespaceSlot};

use super::*;
use crate::{connection_limit::ConnectionLimit, namespaces::served::AdmitError};

fn directory(strict: bool, authorities: &[(&str, &Arc<Authority>)]) -> (NamespaceDirectory, Arc<Executor>) {
    directory_of(strict, Arc::new(Authority::new(Credentials::default())), authorities)
}

fn directory_of(
    strict: bool,
    default_authority: Arc<Authority>,
    authorities: &[(&str, &Arc<Authority>)],
) -> (NamespaceDirectory, Arc<Executor>) {
    let executor = Arc::<Executor>::default();
    let config = DirectoryConfig {
        gateway: Arc::default(),
        in_flight_limit: Arc::new(InFlightLimit::new(usize::MAX)),
        lost_keys: watch::Sender::new(()),
        default_authority,
        authorities: authorities
            .iter()
            .map(|(key, authority)| ((*key).into(), Arc::clone(authority)))
            .collect(),
        created: Credentials::default(),
        strict,
    };
    (NamespaceDirectory::new(config, Arc::clone(&executor)), executor)
}

fn definition(slot: u16, name: &str, hostnames: &[&str]) -> NamespaceDefinition {
    NamespaceDefinition {
        uid: u128::from(slot) + 100,
        settings: NamespaceSettings {
            hostnames: hostnames.iter().map(|host| (*host).into()).collect(),
            ..NamespaceSettings::default()
        },
        ..NamespaceDefinition::unknown(NamespaceSlot(slot), name.into())
    }
}

fn key(name: &str, text: &str) -> Credentials {
    let access = Access::namespace(Rights::ALL);
    let key = NamedKey { name: name.into(), primary: Secret::new(text), secondary: None, access };
    Credentials { keys: vec![key], ..Credentials::default() }
}

fn name_of(meant: Meant) -> String {
    meant.found().map_or_else(|| "none".to_owned(), |namespace| namespace.name.to_string())
}

#[test]
fn a_namespace_is_found_from_its_definition_to_its_deletion() {
    let (directory, executor) = directory(false, &[]);
    assert!(directory.is_single());
    let new = directory.apply(definition(1, "team-a", &["bus.example"]), &executor);
    assert!(new.is_some() && !directory.is_single());
    for host in ["team-a.localhost", "bus.example:5671", "vhost:TEAM-A"] {
        assert_eq!(name_of(directory.lookup(Some(host))), "team-a", "{host}");
    }
    assert_eq!(name_of(directory.lookup(Some("other.example"))), "default");
    // Another list of host names replaces the first.
    assert!(directory.apply(definition(1, "team-a", &["new.example"]), &executor).is_none());
    assert_eq!(name_of(directory.lookup(Some("bus.example"))), "default");
    assert_eq!(name_of(directory.lookup(Some("new.example"))), "team-a");
    let deleting = NamespaceDefinition { state: NamespaceState::Deleting, ..definition(1, "team-a", &[]) };
    directory.apply(deleting.clone(), &executor);
    assert_eq!(name_of(directory.lookup(Some("team-a.localhost"))), "default");
    // Its shard has the name until it is gone.
    assert!(directory.named("team-a").is_none() && directory.holding("TEAM-a").is_some());
    directory.apply(NamespaceDefinition { state: NamespaceState::Deleted, ..deleting }, &executor);
    assert!(directory.is_single() && directory.holding("team-a").is_none());
    // One of the same name in the same slot is another one.
    let again = NamespaceDefinition { uid: 9, ..definition(1, "team-a", &[]) };
    assert!(directory.apply(again, &executor).is_some());
}

/// The refusal of a token for this host in this namespace.
fn refused(served: &ServedNamespace, host: &str) -> Option<String> {
    let token = sign_token(&format!("sb://{host}/q"), "k", &Secret::new("same"), 100);
    let verified = served.authority.verify_token(&token, "", "q", 1);
    verified.err().map(|error| error.to_string())
}

#[test]
fn the_host_of_a_token_leads_where_that_of_a_connection_does() {
    let authorities = ["team-a", "team-b"].map(|name| (name, Arc::new(Authority::new(key("k", "same")))));
    let given: Vec<_> = authorities.iter().map(|(name, authority)| (*name, authority)).collect();
    for strict in [false, true] {
        let (directory, executor) = directory(strict, &given);
        let a =
            directory.apply(definition(1, "team-a", &["bus.example", "münchen.example"]), &executor).unwrap();
        let b = directory.apply(definition(2, "Team-B", &["127.0.0.2", "::2"]), &executor).unwrap();
        let nowhere = (!strict).then_some("default");
        let cases = [
            // host, the namespace that it leads to
            ("team-a.localhost", Some("team-a")),
            ("TEAM-A", Some("team-a")),
            ("bus.example:5671", Some("team-a")),
            ("Bus.Example.", Some("team-a")),
            ("xn--mnchen-3ya.example", Some("team-a")),
            ("XN--MNCHEN-3YA.example:5671", Some("team-a")),
            ("team-b.bus.example", Some("Team-B")),
            ("127.0.0.2:5672", Some("Team-B")),
            ("[::2]:5672", Some("Team-B")),
            ("default", Some("default")),
            ("localhost", nowhere),
            ("127.0.0.1", nowhere),
            ("team-c.localhost", nowhere),
            ("_~", nowhere),
        ];
        for (host, leads_to) in cases {
            for served in [&a, &b] {
                let here = &*served.name;
                let text = refused(served, host);
                if leads_to == Some(here) {
                    assert_eq!(text, None, "{host} in {here}");
                    continue;
                }
                let text = text.unwrap_or_else(|| panic!("{host} was taken in {here}"));
                let to = leads_to.map_or("no namespace".to_owned(), |to| format!("`{to}`"));
                let names_both =
                    text.contains(&to) && text.contains(&format!("this is the namespace `{here}`"));
                assert!(names_both, "{text}");
            }
        }
    }
}

#[test]
fn a_namespace_alone_takes_tokens_for_every_host_until_there_is_another() {
    let default = Arc::new(Authority::new(key("k", "same")));
    let (directory, executor) = directory_of(true, default, &[]);
    let served = directory.of_default();
    assert_eq!(refused(&served, "anything.example"), None);
    assert_eq!(refused(&served, "team-a.example"), None);
    directory.apply(definition(1, "team-a", &[]), &executor);
    assert!(refused(&served, "anything.example").is_some() && refused(&served, "team-a.example").is_some());
    let gone = NamespaceDefinition { state: NamespaceState::Deleted, ..definition(1, "team-a", &[]) };
    directory.apply(gone, &executor);
    assert_eq!(refused(&served, "team-a.example"), None);
}

#[test]
fn a_strict_directory_knows_no_namespace_for_an_unknown_host() {
    let (directory, executor) = directory(true, &[]);
    directory.apply(definition(1, "team-a", &[]), &executor);
    assert!(matches!(directory.lookup(Some("x.example")), Meant::Unknown(host) if &*host == "x.example"));
    assert!(matches!(directory.lookup(None), Meant::Default(_)));
    assert!(matches!(directory.lookup(Some("vhost:nobody")), Meant::Unknown(_)));
}

#[test]
fn a_namespace_has_the_credentials_that_the_configuration_gives_it_and_loses_them_with_its_name_there() {
    let configured = Arc::new(Authority::new(key("k", "secret of a")));
    let (directory, executor) = directory(false, &[("team-a", &configured)]);
    let served = directory.apply(definition(1, "Team-A", &[]), &executor).unwrap();
    let other = directory.apply(definition(2, "team-b", &[]), &executor).unwrap();
    let peer = broker_auth::PeerFacts { loopback: true, ..broker_auth::PeerFacts::default() };
    let may = |served: &ServedNamespace, text: &str| {
        let response = format!("\0k\0{text}");
        let identity = served.authority.sasl(&peer, "PLAIN", Some(response.as_bytes()), 0);
        identity.is_ok_and(|identity| identity.allows(&Scope::namespace(), Right::Send))
    };
    assert!(may(&served, "secret of a") && !may(&other, "secret of a"));
    assert!(directory.is_configured("TEAM-A") && !directory.is_configured("team-b"));
    let lost = directory.lost_keys.subscribe();
    let next = Arc::new(Authority::new(key("k", "secret of b")));
    directory.reconfigure(BTreeMap::from([("team-b".into(), next)]), Credentials::default());
    assert!(lost.has_changed().unwrap(), "links have to be looked at");
    assert!(!may(&served, "secret of a") && may(&other, "secret of b"));
}

#[test]
fn a_namespace_that_the_configuration_never_named_loses_the_development_key_by_a_reload() {
    let (directory, executor) = directory(false, &[]);
    directory.reconfigure(BTreeMap::new(), Credentials::development(broker_auth::Anonymous::Deny));
    let served = directory.apply(definition(1, "team-a", &[]), &executor).unwrap();
    let peer = broker_auth::PeerFacts { loopback: true, ..broker_auth::PeerFacts::default() };
    let response = format!("\0{}\0{}", broker_auth::DEVELOPMENT_KEY_NAME, broker_auth::DEVELOPMENT_KEY);
    let opens = || served.authority.sasl(&peer, "PLAIN", Some(response.as_bytes()), 0).is_ok();
    assert!(opens());
    let lost = directory.lost_keys.subscribe();
    directory.reconfigure(BTreeMap::new(), Credentials::default());
    assert!(!opens() && lost.has_changed().unwrap());
}

#[test]
fn a_namespace_knows_its_host_names_and_those_of_the_certificate_that_is_shown_now() {
    let of_broker = Arc::new(Authority::new(Credentials::default()));
    let configured = Arc::new(Authority::new(Credentials::default()));
    let (directory, executor) = directory_of(false, Arc::clone(&of_broker), &[("team-b", &configured)]);
    of_broker.set_certified_names(["old.example"].into_iter().collect());
    let a = directory.apply(definition(1, "team-a", &["a.example"]), &executor).unwrap();
    let b = directory.apply(definition(2, "team-b", &["b.example"]), &executor).unwrap();
    let known = |served: &ServedNamespace| {
        let names = served.authority.host_names();
        ["old.example", "new.example", "a.example", "b.example", "c.example"].map(|name| names.contains(name))
    };
    assert_eq!(known(&a), [true, false, true, false, false]);
    assert_eq!(known(&b), [true, false, false, true, false]);
    of_broker.set_certified_names(["new.example"].into_iter().collect());
    directory.share_names();
    assert_eq!(known(&a), [false, true, true, false, false]);
    assert_eq!(known(&b), [false, true, false, true, false]);
    directory.apply(definition(1, "team-a", &["c.example"]), &executor);
    assert_eq!(known(&a), [false, true, false, false, true]);
    // A reload of the configuration keeps both.
    directory.reconfigure(BTreeMap::new(), Credentials::default());
    assert_eq!(known(&a), [false, true, false, false, true]);
    assert_eq!(known(&b), [false, true, false, true, false]);
}

#[test]
fn a_held_namespace_has_its_connections_leave_and_takes_none() {
    let (directory, executor) = directory(false, &[]);
    let served = directory.apply(definition(1, "team-a", &[]), &executor).unwrap();
    let mut left = directory.watch_left();
    assert!(served.is_open() && !left.has_changed().unwrap());
    let mut held = definition(1, "team-a", &[]);
    held.settings.held = true;
    directory.apply(held, &executor);
    assert!(!served.is_open() && left.has_changed().unwrap());
    assert_eq!(reason_to_leave(&served), Some(CloseReason::NamespaceHeld));
    left.mark_unchanged();
    directory.apply(definition(1, "team-a", &[]), &executor);
    assert!(served.is_open() && !left.has_changed().unwrap());
}

#[test]
fn as_many_connections_are_admitted_as_the_limit_says_at_the_moment() {
    let (directory, executor) = directory(false, &[]);
    let served = directory.apply(definition(1, "team-a", &[]), &executor).unwrap();
    let limited = |number| NamespaceDefinition {
        settings: NamespaceSettings {
            limits: NamespaceLimits::default().with(NamespaceLimit::Connections, Some(number)),
            ..NamespaceSettings::default()
        },
        ..definition(1, "team-a", &[])
    };
    let first = served.admit(None).unwrap();
    directory.apply(limited(1), &executor);
    assert_eq!(served.admit(None).unwrap_err(), AdmitError::Limit(1));
    directory.apply(limited(2), &executor);
    let second = served.admit(None).unwrap();
    assert_eq!((served.connections(), served.refused_connections()), (2, 1));
    drop((first, second));
    assert_eq!(served.connections(), 0);
}

#[test]
fn the_last_connections_are_shared_by_weight_where_there_is_more_than_one_namespace() {
    let connection_limit = ConnectionLimit::new(20);
    let (directory, executor) = directory(false, &[]);
    let default = directory.of_default();
    // Each connection has a slot before its namespace is known.
    let connect = |namespace: &ServedNamespace| {
        let slot = connection_limit.take().unwrap();
        connection_limit.admit(namespace, directory.is_single()).map(|place| (slot, place))
    };
    let alone: Vec<_> = (0..20).map(|_| connect(&default).unwrap()).collect();
    assert_eq!((default.connections(), default.refused_for_share()), (20, 0));
    drop(alone);
    let first = directory.apply(definition(1, "team-a", &[]), &executor).unwrap();
    let second = directory.apply(definition(2, "team-b", &[]), &executor).unwrap();
    let _most: Vec<_> = (0..18).map(|_| connect(&default).unwrap()).collect();
    assert_eq!(connect(&default).unwrap_err(), AdmitError::BeyondShare { connections: 18 });
    let _one = connect(&first).unwrap();
    // The last one is for a namespace that has none, or has a larger weight.
    assert_eq!(connect(&first).unwrap_err(), AdmitError::BeyondShare { connections: 1 });
    let last = connect(&second).unwrap();
    drop(last);
    let mut heavy = definition(1, "team-a", &[]);
    heavy.settings.weight = 2;
    directory.apply(heavy, &executor);
    let _last = connect(&first).unwrap();
    let refused = [&default, &first, &second].map(|namespace| namespace.refused_for_share());
    assert_eq!((refused, default.refused_connections()), ([1, 1, 0], 0));
}

/// Shards with these numbers of connections and namespaces.
fn shard_loads(loads: &[(usize, usize)]) -> ShardLoads {
    let executor = |shard| Arc::new(Executor::new(shard, Arc::default(), Arc::default()));
    let loads: Vec<_> = (0..).zip(loads).map(|(shard, load)| (*load, executor(shard))).collect();
    ShardLoads { first: Arc::clone(&loads[0].1), loads }
}

#[test]
fn a_new_namespace_goes_to_the_shard_with_the_fewest_connections_and_among_those_the_fewest_namespaces() {
    let taken = |loads: &[(usize, usize)], count| {
        let mut loads = shard_loads(loads);
        (0..count).map(|_| loads.take_least().shard()).collect::<Vec<_>>()
    };
    // Each that was given counts as a namespace more, and where two shards have the same, the lower number is taken.
    assert_eq!(taken(&[(5, 1), (0, 9), (0, 2)], 10), [2, 2, 2, 2, 2, 2, 2, 1, 2, 1]);
    assert_eq!(taken(&[(0, 3), (0, 3), (0, 3)], 4), [0, 1, 2, 0]);
    assert_eq!(taken(&[(1, 0), (0, 7)], 2), [1, 1]);
    assert_eq!(taken(&[(9, 9)], 2), [0, 0]);
}

#[test]
fn the_loads_of_the_shards_are_the_connections_and_namespaces_that_live_in_them() {
    let (directory, first) = directory(false, &[]);
    let second = Arc::new(Executor::new(1, Arc::default(), Arc::default()));
    let shards = Shards::new([Arc::clone(&first), Arc::clone(&second)]);
    let next = || directory.loads(&shards).take_least().shard();
    // The default namespace lives in the first.
    assert_eq!(next(), 1);
    let in_second = directory.apply(definition(1, "team-a", &[]), &second).unwrap();
    assert_eq!(next(), 0);
    let _of_default = directory.of_default().admit(None).unwrap();
    assert_eq!(next(), 1, "connections come before namespaces");
    let _of_second = [in_second.admit(None).unwrap(), in_second.admit(None).unwrap()];
    assert_eq!(next(), 0);
}
