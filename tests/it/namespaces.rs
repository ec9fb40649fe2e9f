//! The JSON interface of namespaces: what it refuses, versions and pages.

use std::io::Write as _;

use amqp_codec::performative::Performative;
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};
use broker_core::EntitySettings;
use broker_server::{EntityPlan, NamespacePlan, ServerConfig};
use serde_json::{Value, json};

use crate::{
    broker::{Broker, Folder, QUEUE, config, durable},
    http::{ask, ask_host, connect, root, whole_answer},
    message::message,
    team::{self, Team},
    token_hosts::plan,
};

const ROOT: &str = "/$ferrybus/namespaces";

fn put(broker: &Broker, name: &str, body: &Value) -> (u16, String) {
    ask(broker.address, &format!("PUT {ROOT}/{name}"), &body.to_string())
}

/// Status and `ETag` of a request with this line more in its head.
fn tagged(broker: &Broker, request: &str, header: &str, body: &str) -> (u16, String) {
    let mut stream = connect(broker.address);
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n{header}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}",
        root()
    )
    .unwrap();
    let (status, head, _) = whole_answer(&mut stream);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default();
    (status, tag.to_owned())
}

#[test]
fn a_host_name_that_leads_to_another_namespace_is_refused_with_both() {
    // Names are unique among shards, too.
    for shards in [1, 2] {
        let broker = Broker::of(&ServerConfig { shards, ..config() });
        let hosts = |hosts: &[&str]| json!({ "hostnames": hosts });
        assert_eq!(put(&broker, "team-a", &hosts(&["a.example", "alpha"])).0, 201);
        assert_eq!(put(&broker, "team-b", &hosts(&["b.example"])).0, 201);
        let cases = [
            // name, its hosts, and what is refused: host, the namespace that has it
            ("team-c", vec!["A.Example:5671"], Some(("a.example", "team-a"))),
            ("team-b", vec!["b.example", "a.example"], Some(("a.example", "team-a"))),
            ("team-b", vec!["team-a"], Some(("team-a", "team-a"))),
            ("team-c", vec!["Team-B"], Some(("team-b", "team-b"))),
            ("default", vec!["team-b"], Some(("team-b", "team-b"))),
            ("alpha", vec![], Some(("alpha", "team-a"))),
            ("team-a", vec!["a.example", "alpha", "team-a"], None),
            ("team-b", vec!["team-a.lan"], None),
            ("team-c", vec!["b.example"], None),
        ];
        for (name, names, refused) in cases {
            let (status, text) = put(&broker, name, &hosts(&names));
            match refused {
                None => assert!(matches!(status, 200 | 201), "{name} {names:?}: {status} {text}"),
                Some((host, other)) => {
                    assert_eq!(status, 409, "{name} {names:?}: {text}");
                    for part in [host, other, name] {
                        assert!(text.contains(&format!("`{part}`")), "{part}: {text}");
                    }
                }
            }
        }
    }
}

#[test]
fn limits_that_no_file_may_have_are_refused() {
    let broker = Broker::start();
    for body in [
        json!({ "limits": { "max_connections": 0 } }),
        json!({ "limits": { "max_entities": 0 } }),
        json!({ "limits": { "max_bytes": 1023 } }),
        json!({ "limits": { "max_in_flight_bytes": 0 } }),
        json!({ "limits": { "max_sends_per_second": 0 } }),
        json!({ "weight": 0 }),
        json!({ "weight": 1001 }),
    ] {
        let (status, text) = put(&broker, "team-a", &body);
        assert!(status == 400 && text.contains("expected"), "{body}: {status} {text}");
    }
    assert_eq!(ask(broker.address, &format!("GET {ROOT}/team-a"), "").0, 404);
    // Without ids nothing is detected, which somebody may want.
    assert_eq!(put(&broker, "team-a", &json!({ "limits": { "max_remembered_ids": 0 } })).0, 201);
}

#[test]
fn of_two_changes_of_the_same_state_one_is_refused() {
    let broker = Broker::start();
    let path = format!("{ROOT}/team-a");
    let (status, first) = tagged(&broker, &format!("PUT {path}"), "", "{}");
    assert_eq!((status, first.len()), (201, 18), "{first}");
    assert_eq!(tagged(&broker, &format!("GET {path}"), "", ""), (200, first.clone()));
    let condition = format!("If-Match: {first}\r\n");
    let (status, second) = tagged(&broker, &format!("PUT {path}"), &condition, r#"{"weight":2}"#);
    assert_eq!(status, 200);
    assert_ne!(first, second);
    // Somebody else who has read the first state.
    assert_eq!(tagged(&broker, &format!("PUT {path}"), &condition, r#"{"weight":3}"#).0, 412);
    assert_eq!(tagged(&broker, &format!("GET {path}"), "", ""), (200, second));
    assert_eq!(tagged(&broker, &format!("PUT {path}"), "If-Match: *\r\n", r#"{"weight":3}"#).0, 200);
    assert_eq!(tagged(&broker, &format!("PUT {ROOT}/team-b"), "If-Match: *\r\n", "{}").0, 412);
}

#[test]
fn pages_have_each_namespace_once_in_the_order_of_names() {
    let broker = Broker::start();
    let names = ["a", "B", "c", "d-1", "D-2", "e"];
    for name in names.iter().rev() {
        assert_eq!(put(&broker, name, &json!({})).0, 201);
    }
    let (mut after, mut found, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let (status, text) = ask(broker.address, &format!("GET {ROOT}?top=2&after={after}"), "");
        assert_eq!(status, 200);
        let page: Value = serde_json::from_str(&text).unwrap();
        for namespace in page["namespaces"].as_array().unwrap() {
            assert_eq!(
                namespace["usage"]["entities"].as_u64().map(|count| count < 3),
                Some(true),
                "{namespace}"
            );
            found.push(namespace["name"].as_str().unwrap().to_owned());
        }
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(found, ["a", "B", "c", "d-1", "D-2", "default", "e"]);
    assert_eq!(pages, 4);
}

#[test]
fn a_start_creates_the_entities_of_every_configured_namespace_that_do_not_exist() {
    let folder = Folder::new();
    let planned = |names: &[&str]| {
        let queue = |name: &&str| EntityPlan::queue(*name, EntitySettings::default());
        let namespaces = ["team-a", "team-b"].map(|namespace| NamespacePlan {
            entities: names.iter().map(queue).collect(),
            ..plan(namespace)
        });
        let start =
            ServerConfig { auto_create: false, namespaces: namespaces.to_vec(), ..durable(&folder.0) };
        let broker = Broker::of(&start);
        for namespace in ["team-a", "team-b"] {
            let (_, text) = ask(broker.address, &format!("GET {ROOT}/{namespace}"), "");
            let entities = serde_json::from_str::<Value>(&text).unwrap()["usage"]["entities"].as_u64();
            assert_eq!(entities, Some(names.len() as u64), "{namespace}");
        }
        broker.stop();
    };
    planned(&["first"]);
    planned(&["first", "second"]);
}

#[test]
fn nothing_is_accepted_any_more_once_the_answer_says_that_a_namespace_is_held_or_deleted() {
    let broker = team::broker();
    // Often, for the word to leave reaches a connection a moment after the answer.
    for round in 0..150 {
        let team = Team::create(&broker, "team-a");
        let mut client = team.plain();
        client.sender(1, QUEUE);
        client.accepted(1, &["before"]);
        let delete = || assert_eq!(ask(broker.address, &format!("DELETE {ROOT}/team-a"), "").0, 202);
        let is_held = round % 2 == 0;
        if is_held {
            assert_eq!(put(&broker, "team-a", &json!({ "held": true })).0, 200);
        } else {
            delete();
        }
        client.send(1, false, &message("never"));
        let last =
            |frame: &Performative| matches!(frame, Performative::Disposition(_) | Performative::Close(_));
        let told = client.wire.until(last).unwrap().performative;
        let Performative::Close(close) = told else { panic!("accepted in round {round}: {told:?}") };
        let text = close.error.unwrap().description.unwrap();
        let reason = if is_held { "is held for maintenance" } else { "the namespace has been deleted" };
        assert!(text.contains(reason), "{text}");
        if is_held {
            delete();
        }
    }
}

#[test]
fn log_ins_over_http_count_as_work_of_the_namespace_whose_host_is_asked() {
    let broker = team::broker();
    let teams = ["team-a", "team-b"].map(|name| Team::create(&broker, name));
    let work = |team: &Team<'_>| team.metric("gateway_work_units_total").unwrap();
    let good = team::basic(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
    let root = root();
    let key = Secret::new(DEVELOPMENT_KEY);
    let token = sign_token("http://team-a.localhost/", DEVELOPMENT_KEY_NAME, &key, u64::from(u32::MAX));
    let cases = [
        ("a password", Some(&*good), 404, 45),
        ("a wrong password", Some("Basic eDp5"), 401, 45),
        ("a token", Some(&*token), 404, 15),
        ("a token for another host", Some(&*root), 401, 15),
        ("a token of nobody", Some("SharedAccessSignature sr=a&sig=YQ%3d%3d&se=1&skn=nobody"), 401, 0),
        ("no log-in", None, 401, 45),
    ];
    for (case, login, status, cost) in cases {
        let before = teams.each_ref().map(work);
        let mut stream = connect(broker.address);
        let (told, text) = ask_host(&mut stream, &teams[0].host(), "DELETE /nothing", login, "");
        assert_eq!(told, status, "{case}: {text}");
        let after = teams.each_ref().map(work);
        assert_eq!([after[0] - before[0], after[1] - before[1]], [cost, 0], "{case}");
    }
}
