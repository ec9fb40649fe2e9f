//! The broker while a shard recovers: the test keeps the recovery waiting for as long as it likes.

use std::{
    fs,
    sync::{Arc, Condvar, Mutex},
};

use broker_core::NamespaceSettings;
use broker_server::{NamespacePlan, RecoveryGate, ReloadableConfig};
use serde_json::Value;

use super::*;
use crate::{
    broker::{authority, copy},
    http::ask_host,
    team::{basic, until},
};
use broker_auth::{Anonymous, Authority, Credentials};

const NAMESPACES: &str = "/$ferrybus/namespaces";
const NAMES_UNKNOWN: &str =
    r#"{"error":"a shard recovers from a failure, and the names that it has are not known: try again"}"#;

#[derive(Debug, Default)]
struct Passage {
    has_come: bool,
    is_open: bool,
}

/// A gate of recoveries that is shut until the test opens it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Passage>, Condvar)>);

impl Gate {
    /// The gate, for the settings of a broker.
    fn of_broker(&self) -> RecoveryGate {
        let gate = self.clone();
        RecoveryGate::new(move |_| {
            let (passage, changed) = &*gate.0;
            let mut passage = passage.lock().unwrap();
            passage.has_come = true;
            changed.notify_all();
            drop(changed.wait_while(passage, |passage| !passage.is_open).unwrap());
        })
    }

    /// Has the shard of this namespace panic, and waits until it is about to recover.
    fn hold(&self, broker: &Broker, namespace: &str) -> Held {
        poison(broker.address, namespace);
        let (passage, changed) = &*self.0;
        let passage = passage.lock().unwrap();
        let (passage, waited) =
            changed.wait_timeout_while(passage, PATIENCE, |passage| !passage.has_come).unwrap();
        drop(passage);
        assert!(!waited.timed_out(), "the shard does not recover");
        Held(self.clone())
    }
}

/// A shard that waits; dropped, it recovers, also where the test fails.
struct Held(Gate);

impl Drop for Held {
    fn drop(&mut self) {
        let (passage, changed) = &*self.0.0;
        passage.lock().unwrap().is_open = true;
        changed.notify_all();
    }
}

/// A broker whose recoveries wait at the gate.
fn broker_at(gate: &Gate, dir: &Path, shards: u16, namespaces: &[&str]) -> Broker {
    Broker::of(&ServerConfig { recovery_gate: gate.of_broker(), ..fragile(dir, shards, namespaces) })
}

fn put(broker: &Broker, namespace: &str, body: &str) -> (u16, String) {
    ask(broker.address, &format!("PUT {NAMESPACES}/{namespace}"), body)
}

/// The namespaces of the list, by name.
fn listed(broker: &Broker) -> Vec<Value> {
    let (status, text) = ask(broker.address, &format!("GET {NAMESPACES}"), "");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["namespaces"].as_array().unwrap().clone()
}

fn names(broker: &Broker) -> Vec<String> {
    listed(broker).iter().map(|shown| shown["name"].as_str().unwrap().to_owned()).collect()
}

/// Files of a broker with two shards, of which the second has `team-a`. A copy of them goes on and is changed: that is what the second
/// shard has made durable without a word to anybody when it fails.
struct Ahead {
    files: Folder,
    ahead: Folder,
}

impl Ahead {
    fn new(before: impl FnOnce(&Broker), after: impl FnOnce(&Broker)) -> Self {
        let files = Folder::new();
        let broker = Broker::of(&fragile(&files.0, 2, &["team-a"]));
        assert_eq!(shard_of(&broker, "team-a"), Some(1));
        before(&broker);
        assert_eq!(broker.stop(), Outcome::Stopped);
        let ahead = files.image();
        let broker = Broker::of(&fragile(&ahead.0, 2, &["team-a"]));
        after(&broker);
        assert_eq!(broker.stop(), Outcome::Stopped);
        Self { files, ahead }
    }

    /// The second shard, which is shut, has the files that are ahead.
    fn overtake(&self) {
        let [shard, ahead] = [&self.files, &self.ahead].map(|folder| folder.0.join("shard-1"));
        fs::remove_dir_all(&shard).unwrap();
        fs::create_dir(&shard).unwrap();
        copy(&ahead, &shard);
    }
}

#[test]
fn no_name_is_given_that_a_shard_has_which_recovers() {
    let gate = Gate::default();
    let files = Ahead::new(
        |broker| {
            let near = r#"{"shard":0,"hostnames":["near.example","old.example"]}"#;
            assert_eq!(put(broker, "near", near).0, 201);
        },
        |broker| {
            let far = r#"{"shard":1,"weight":7,"hostnames":["far.example"]}"#;
            assert_eq!(put(broker, "far", far).0, 201);
        },
    );
    let broker = broker_at(&gate, &files.files.0, 2, &["team-a"]);
    let held = gate.hold(&broker, "team-a");
    files.overtake();
    let refused = [
        ("FAR", r#"{"shard":0}"#),
        ("far", "{}"),
        ("far", r#"{"shard":1}"#),
        ("other", "{}"),
        ("near", r#"{"hostnames":["near.example","far.example"]}"#),
        ("default", r#"{"hostnames":["far.example"]}"#),
    ];
    for (name, body) in refused {
        assert_eq!(put(&broker, name, body), (503, NAMES_UNKNOWN.to_owned()), "{name} {body}");
    }
    // What needs no new name goes on in the other shard, and nothing in this one.
    let changes = [
        ("near", r#"{"weight":2,"hostnames":["near.example"]}"#, 200),
        ("near", r#"{"weight":2,"held":true,"hostnames":["near.example"]}"#, 200),
        ("near", r#"{"weight":2,"hostnames":["near.example"]}"#, 200),
        ("team-a", r#"{"held":true}"#, 503),
    ];
    for (name, body, status) in changes {
        let (told, text) = put(&broker, name, body);
        assert_eq!(told, status, "{name} {body}: {text}");
    }
    assert_eq!(names(&broker), ["default", "near", "team-a"]);
    drop(held);
    enter_again(broker.address, "team-a").close();
    assert_eq!(names(&broker), ["default", "far", "near", "team-a"]);
    assert_eq!(shard_of(&broker, "far"), Some(1));
    // It is there, so it is changed and not created.
    let (status, text) = put(&broker, "far", r#"{"weight":9,"hostnames":["far.example"]}"#);
    assert_eq!(status, 200, "{text}");
    let (status, text) = put(&broker, "near", r#"{"hostnames":["far.example"]}"#);
    assert!(status == 409 && text.contains("`far`"), "{status} {text}");
    assert_eq!(put(&broker, "other", r#"{"hostnames":["old.example"]}"#).0, 201);
    assert_eq!(broker.stop(), Outcome::Stopped);
}

#[test]
fn a_namespace_whose_deletion_nobody_was_told_of_is_gone_when_its_shard_has_recovered() {
    let gate = Gate::default();
    let files = Ahead::new(
        |broker| {
            let left = r#"{"shard":1,"hostnames":["left.example"]}"#;
            assert_eq!(put(broker, "left", left).0, 201);
        },
        |broker| {
            assert_eq!(ask(broker.address, &format!("DELETE {NAMESPACES}/left"), "").0, 202);
            until(|| names(broker) == ["default", "team-a"]);
        },
    );
    let broker = broker_at(&gate, &files.files.0, 2, &["team-a"]);
    let held = gate.hold(&broker, "team-a");
    files.overtake();
    assert_eq!(names(&broker), ["default", "left", "team-a"]);
    drop(held);
    enter_again(broker.address, "team-a").close();
    assert_eq!(names(&broker), ["default", "team-a"]);
    assert_eq!(ask(broker.address, &format!("GET {NAMESPACES}/left"), "").0, 404);
    let again = r#"{"shard":0,"hostnames":["left.example"]}"#;
    assert_eq!(put(&broker, "left", again).0, 201);
    assert_eq!(shard_of(&broker, "left"), Some(0));
    assert_eq!(broker.stop(), Outcome::Stopped);
}

/// The same rights as at the start, and these namespaces.
fn reloaded(namespaces: Vec<NamespacePlan>) -> ReloadableConfig {
    let authority = Authority::new(Credentials::development(Anonymous::Deny));
    ReloadableConfig { namespaces, ..ReloadableConfig::new(authority) }
}

fn weighing(name: &str, weight: u16) -> NamespacePlan {
    let settings = NamespaceSettings { weight, ..NamespaceSettings::default() };
    NamespacePlan { settings, authority: authority(Anonymous::Deny), ..plan(name) }
}

#[test]
fn a_reload_while_a_shard_recovers_says_what_it_left_out_and_the_next_one_does_it() {
    keep_log();
    let gate = Gate::default();
    let folder = Folder::new();
    let mut broker = broker_at(&gate, &folder.0, 2, &["team-a", "reload-near"]);
    assert_eq!(["team-a", "reload-near"].map(|name| shard_of(&broker, name)), [Some(1), Some(0)]);
    let weight = |broker: &Broker, name: &str| {
        let shown = listed(broker).into_iter().find(|shown| shown["name"] == name)?;
        shown["weight"].as_u64()
    };
    let left_out = |namespace: &str, reason: &str| {
        let namespace = format!("namespace=\"{namespace}\"");
        lines_with(&["ERROR", "a namespace is as it was", &namespace, reason])
    };
    let wanted = || vec![weighing("team-a", 3), weighing("reload-near", 3), weighing("reload-new", 3)];
    let held = gate.hold(&broker, "team-a");
    broker.reload(reloaded(wanted()));
    let reason = "the names that it has are not known: try again";
    until(|| ["team-a", "reload-new"].iter().all(|name| left_out(name, reason) == 1));
    assert_eq!(weight(&broker, "reload-near"), Some(3));
    assert_eq!((weight(&broker, "reload-new"), weight(&broker, "team-a")), (None, Some(1)));
    // The reload is over: requests are answered as before.
    assert_eq!(put(&broker, "other", "{}"), (503, NAMES_UNKNOWN.to_owned()));
    drop(held);
    enter_again(broker.address, "team-a").close();
    broker.reload(reloaded(wanted()));
    until(|| ["team-a", "reload-new"].iter().all(|name| weight(&broker, name) == Some(3)));
    assert_eq!(put(&broker, "other", "{}").0, 201);
    assert_eq!(broker.stop(), Outcome::Stopped);
}

/// Samples of a family in a scrape: what is behind its name.
fn samples<'t>(text: &'t str, family: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(family)).filter(|rest| rest.starts_with('{')).collect()
}

/// The log-in of a new key of `team-a`.
fn key_of_team(broker: &Broker) -> String {
    let request = format!("PUT {NAMESPACES}/team-a/keys/app");
    let (status, text) = ask(broker.address, &request, r#"{"rights":["listen"]}"#);
    assert_eq!(status, 201, "{text}");
    let key: Value = serde_json::from_str(&text).unwrap();
    basic("app", key["primary"].as_str().unwrap())
}

/// A scrape of the whole broker, and one at the host of `team-a` with this log-in of its own.
fn scrapes(broker: &Broker, own: &str) -> [String; 2] {
    let whole = ask_over(&mut connect(broker.http_address()), "GET /metrics", Some(&root()), "");
    let one =
        ask_host(&mut connect(broker.http_address()), "team-a.localhost", "GET /metrics", Some(own), "");
    [whole, one].map(|(status, text)| {
        assert_eq!(status, 200, "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        text
    })
}

#[test]
fn scrapes_and_the_list_show_what_the_other_shards_have_while_one_recovers() {
    for shards in [1, 2] {
        let gate = Gate::default();
        let folder = Folder::new();
        let broker = broker_at(&gate, &folder.0, shards, &["team-a"]);
        let (own, last) = (key_of_team(&broker), shards - 1);
        let recovering = |recovers: bool| -> Vec<String> {
            let of = |shard| format!("{{shard=\"{shard}\"}} {}", u8::from(recovers && shard == last));
            (0..shards).map(of).collect()
        };
        let all = ["default", "team-a"].as_slice();
        // Without a shard of its own, the default namespace is away, too.
        let there = if shards == 1 { &[] } else { &["default"][..] };
        let check = |recovers: bool| {
            let [whole, one] = scrapes(&broker, &own);
            assert_eq!(samples(&whole, "ferrybus_shard_recovering"), recovering(recovers), "{shards}");
            let shown = if recovers { there } else { all };
            let labels = |rest: &str| -> Vec<String> {
                shown.iter().map(|name| format!("{{namespace=\"{name}\"{rest}")).collect()
            };
            for family in ["ferrybus_namespace_entities", "ferrybus_namespace_live_bytes"] {
                let found = samples(&whole, family);
                let expected = labels("} ");
                assert_eq!(found.len(), expected.len(), "{family} {found:?}");
                assert!(
                    found.iter().zip(&expected).all(|(found, head)| found.starts_with(&**head)),
                    "{found:?}"
                );
                assert_eq!(samples(&one, family).len(), usize::from(!recovers), "{family}");
            }
            let entity = format!(",entity=\"{QUEUE}\",kind=\"queue\"}} 0");
            assert_eq!(samples(&whole, "ferrybus_entity_incoming_messages_total"), {
                let mut expected = labels(&entity);
                // The default namespace has a queue more.
                if shown.contains(&"default") {
                    expected.insert(0, entity_of("default", "innocent"));
                }
                expected
            });
            // The server itself knows these.
            for family in ["ferrybus_namespace_connections", "ferrybus_namespace_handshakes_total"] {
                assert_eq!(samples(&whole, family).len(), all.len(), "{family}");
                assert_eq!(samples(&one, family).len(), 1, "{family}");
            }
            let segments = samples(&whole, "ferrybus_journal_segments").len();
            assert_eq!(segments, usize::from(shards) - usize::from(recovers));
            let usage: Vec<(Value, bool)> = listed(&broker)
                .into_iter()
                .map(|shown| (shown["name"].clone(), shown["usage"]["entities"].is_u64()))
                .collect();
            let expected = all.iter().map(|name| (Value::from(*name), shown.contains(name)));
            assert_eq!(usage, expected.collect::<Vec<_>>());
            let (status, text) = ask(broker.address, &format!("GET {NAMESPACES}/team-a"), "");
            assert_eq!(status, 200, "{text}");
            let one: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(one["usage"]["bytes"].is_u64(), !recovers, "{text}");
            assert_eq!((&one["state"], &one["shard"]), (&"active".into(), &last.into()), "{text}");
        };
        check(false);
        let held = gate.hold(&broker, "team-a");
        check(true);
        let told = enter(broker.address, "team-a").err().expect("it is not let in");
        says_recovers(&told, "team-a");
        drop(held);
        enter_again(broker.address, "team-a").close();
        check(false);
        assert_eq!(broker.stop(), Outcome::Stopped);
    }
}

fn entity_of(namespace: &str, entity: &str) -> String {
    format!("{{namespace=\"{namespace}\",entity=\"{entity}\",kind=\"queue\"}} 0")
}
