use std::{fs, path::Path};

use broker_auth::{Authority, Credentials};
use broker_log::Durability;

use super::*;
use crate::{Server, ServerConfig, namespaces::directory::Meant, server::tests::config};

fn settings(hostnames: &[&str]) -> NamespaceSettings {
    let hostnames = hostnames.iter().map(|hostname| (*hostname).into()).collect();
    NamespaceSettings { hostnames, ..NamespaceSettings::default() }
}

fn plan(name: &str, hostnames: &[&str]) -> NamespacePlan {
    NamespacePlan {
        name: name.to_owned(),
        settings: settings(hostnames),
        authority: Arc::new(Authority::new(Credentials::default())),
        key_sources: Vec::new(),
        entities: Vec::new(),
    }
}

/// A broker with two shards: of two namespaces that are created together, each gets one.
fn two_shards(data_dir: Option<&Path>, namespaces: Vec<NamespacePlan>) -> ServerConfig {
    let mut config = ServerConfig { shards: 2, namespaces, ..config() };
    if let Some(data_dir) = data_dir {
        config.journal.durability = Durability::Os;
        config.data_dir = data_dir.to_owned();
    }
    config
}

fn refusal(hostname: &str, namespace: &str, by: &str) -> String {
    format!("namespace `{namespace}`: the host name `{hostname}` leads to the namespace `{by}` already")
}

/// The answers about these namespaces, whose settings are put together.
fn put(server: &mut Server, wanted: &[(&str, &[&str])]) -> Vec<Result<bool, String>> {
    let setup = server.reloader().setup.clone();
    let wanted: Vec<_> = wanted.iter().map(|(name, hostnames)| (*name, settings(hostnames))).collect();
    let wanted: Vec<_> = wanted.iter().map(|(name, settings)| (*name, settings)).collect();
    let answers = server.unless_node_ends(setup.put(&wanted)).unwrap().unwrap();
    answers.into_iter().map(|answer| answer.map_err(|error| error.to_string())).collect()
}

fn name_of(server: &mut Server, hostname: &str) -> String {
    match server.reloader().setup.directory.lookup(Some(hostname)) {
        Meant::Named(namespace) | Meant::Default(namespace) => namespace.name.to_string(),
        Meant::Unknown(_) => "none".to_owned(),
    }
}

#[test]
fn a_start_refuses_a_host_name_that_namespaces_of_two_shards_list() {
    let error =
        Server::start(&two_shards(None, vec![plan("a", &["x.test"]), plan("b", &["x.test"])])).unwrap_err();
    assert_eq!(error.to_string(), refusal("x.test", "b", "a"));
}

#[test]
fn a_start_refuses_a_host_name_that_a_namespace_in_the_journal_of_another_shard_lists() {
    let folder = std::env::temp_dir().join(format!("ferrybus-host-names-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    let both = vec![plan("a", &["x.test"]), plan("b", &[])];
    let mut server = Server::start(&two_shards(Some(&folder), both)).unwrap();
    let shard = |server: &mut Server, name: &str| {
        server.reloader().setup.directory.named(name).unwrap().executor.shard()
    };
    assert_ne!(shard(&mut server, "a"), shard(&mut server, "b"));
    server.stop();
    let error = Server::start(&two_shards(Some(&folder), vec![plan("b", &["x.test"])])).unwrap_err();
    assert_eq!(error.to_string(), refusal("x.test", "b", "a"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_reload_compares_host_names_with_those_of_all_shards() {
    let mut server =
        Server::start(&two_shards(None, vec![plan("a", &["x.test"]), plan("b", &["y.test"])])).unwrap();
    // The namespace that is refused stays as it was, and the others change.
    let answers = put(&mut server, &[("b", &["x.test"]), ("c", &["z.test"])]);
    assert_eq!(answers, [Err(refusal("x.test", "b", "a")), Ok(true)]);
    assert_eq!(name_of(&mut server, "x.test"), "a");
    assert_eq!(name_of(&mut server, "y.test"), "b");
    // A name of one label is also that of a namespace.
    assert_eq!(put(&mut server, &[("b", &["c"])]), [Err(refusal("c", "b", "c"))]);
    assert_eq!(put(&mut server, &[("d", &["n"]), ("e", &["n"])]), [Ok(true), Err(refusal("n", "e", "d"))]);
    server.stop();
}

#[test]
fn a_host_name_goes_from_one_namespace_to_another_in_one_reload() {
    let mut server = Server::start(&two_shards(None, vec![plan("a", &["x.test"]), plan("b", &[])])).unwrap();
    // The order in the file does not matter.
    assert_eq!(put(&mut server, &[("b", &["x.test"]), ("a", &[])]), [Ok(false), Ok(false)]);
    assert_eq!(name_of(&mut server, "x.test"), "b");
    assert_eq!(put(&mut server, &[("b", &[]), ("a", &["x.test"])]), [Ok(false), Ok(false)]);
    assert_eq!(name_of(&mut server, "x.test"), "a");
    server.stop();
}

#[test]
fn namespaces_that_are_created_together_share_the_syncs_of_the_disk() {
    let folder = std::env::temp_dir().join(format!("ferrybus-syncs-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    let mut config = two_shards(Some(&folder), vec![plan("a", &[]), plan("b", &[])]);
    config.journal.durability = Durability::Fsync;
    let mut server = Server::start(&config).unwrap();
    let syncs = |server: &mut Server| {
        ["a", "b"].map(|name| {
            let named = server.reloader().setup.directory.named(name).unwrap();
            let (answer, view) = tokio::sync::oneshot::channel();
            named.executor.push(ExecutorItem::View(answer));
            server.unless_node_ends(view).unwrap().unwrap().journal.syncs
        })
    };
    let before = syncs(&mut server);
    let names: Vec<String> = (0..640).map(|number| format!("team{number}")).collect();
    let wanted: Vec<(&str, &[&str])> = names.iter().map(|name| (&**name, &[][..])).collect();
    assert!(put(&mut server, &wanted).iter().all(|answer| *answer == Ok(true)));
    for (now, before) in syncs(&mut server).into_iter().zip(before) {
        // Of 320 namespaces in each shard, 32 in each step.
        let syncs = now - before;
        assert!((1..=20).contains(&syncs), "{syncs} syncs");
    }
    server.stop();
    fs::remove_dir_all(&folder).unwrap();
}
