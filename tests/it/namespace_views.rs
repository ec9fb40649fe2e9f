//! Views of the broker over HTTP: the key of a namespace shows and changes what that namespace has, an administrator sees all.

use std::{collections::BTreeSet, sync::Arc};

use amqp_codec::{frame::ProtocolHeader, performative::Open};
use broker_auth::{Access, Authority, Credentials, NamedKey, Rights, Secret, User};
use broker_server::NamespacePlan;
use serde_json::Value;
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    http::{ask_host, connect},
    team::{self, ROOT, basic, description, plain_response, until},
    token_hosts::plan,
};

/// Each namespace, with the host that leads to it.
const NAMESPACES: [(&str, &str); 3] =
    [("default", "localhost"), ("team-a", "team-a.localhost"), ("team-b", "team-b.localhost")];

/// The text of the key `app`, of which each namespace has its own.
fn key_of(namespace: &str) -> String {
    format!("key of {namespace}")
}

fn login_of(namespace: &str) -> String {
    basic("app", &key_of(namespace))
}

/// The queue that the namespace alone has.
fn queue_of(namespace: &str) -> String {
    format!("of-{namespace}")
}

/// A broker, and who administers it.
struct World {
    case: &'static str,
    broker: Broker,
    /// Log-in of the administrator.
    administrator: String,
    /// The namespaces whose key is not that of an administrator.
    teams: &'static [(&'static str, &'static str)],
}

impl World {
    fn start(case: &'static str, shards: u16, names_administrator: bool) -> Self {
        let authority = |namespace: &str| {
            let mut credentials = Credentials::default();
            credentials.keys.push(NamedKey {
                name: "app".into(),
                primary: Secret::new(key_of(namespace)),
                secondary: None,
                access: Access::namespace(Rights::ALL),
            });
            Arc::new(Authority::new(credentials))
        };
        let broker = Broker::with(|config| {
            config.shards = shards;
            config.authority = authority("default");
            let teams = NAMESPACES[1..].iter().map(|(name, _)| *name);
            config.namespaces =
                teams.map(|name| NamespacePlan { authority: authority(name), ..plan(name) }).collect();
            if names_administrator {
                let mut credentials = Credentials::default();
                credentials.users.push(User {
                    name: "operator".into(),
                    password: Secret::new("password of operator"),
                    access: Access::namespace(Rights::ALL),
                });
                config.administrators = Arc::new(Authority::new(credentials));
            }
        });
        let (administrator, teams) = if names_administrator {
            (basic("operator", "password of operator"), &NAMESPACES[..])
        } else {
            (login_of("default"), &NAMESPACES[1..])
        };
        let world = Self { case, broker, administrator, teams };
        for (name, host) in NAMESPACES {
            let put = format!("PUT /{}?api-version=2021-05", queue_of(name));
            let (status, text) = world.ask(host, &login_of(name), &put, &description("QueueDescription"));
            assert_eq!(status, 201, "{name}: {text}");
        }
        world
    }

    /// With namespaces in one shard and in two; and without an administrator in the configuration, where the key of the default
    /// namespace is one.
    fn all() -> [Self; 3] {
        [
            Self::start("an administrator, one shard", 1, true),
            Self::start("an administrator, two shards", 2, true),
            Self::start("no administrator", 1, false),
        ]
    }

    fn ask(&self, host: &str, login: &str, request: &str, body: &str) -> (u16, String) {
        ask_host(&mut connect(self.broker.address), host, request, Some(login), body)
    }

    /// A client of a namespace, with a sender to the queue.
    fn client(&self, (name, host): (&'static str, &str)) -> Client {
        let open = Open { hostname: Some(host.to_owned()), ..Open::new(name) };
        let response = plain_response("app", &key_of(name));
        let mut client = team::enter(&self.broker, ("PLAIN", Some(&response)), open).unwrap();
        client.sender(1, QUEUE);
        client
    }

    /// The text of a scrape, or the status with which it is refused.
    fn scrape(&self, host: &str, login: &str) -> Result<Scrape, u16> {
        match self.ask(host, login, "GET /metrics", "") {
            (200, text) => Ok(Scrape(text)),
            (status, _) => Err(status),
        }
    }

    /// Id and namespace of each listed connection.
    fn connections(&self, host: &str, login: &str) -> Vec<(u64, String)> {
        let (status, text) = self.ask(host, login, "GET /$ferrybus/connections", "");
        assert_eq!(status, 200, "{}: {text}", self.case);
        let listed: Value = serde_json::from_str(&text).unwrap();
        let listed = listed["connections"].as_array().unwrap().iter();
        let entry = |it: &Value| {
            (it["id"].as_u64().unwrap(), it["namespace"].as_str().unwrap_or_default().to_owned())
        };
        listed.map(entry).collect()
    }

    fn end(&self, host: &str, login: &str, id: u64) -> u16 {
        self.ask(host, login, &format!("DELETE /$ferrybus/connections/{id}"), "").0
    }
}

/// The text of `/metrics`.
struct Scrape(String);

impl Scrape {
    /// The values of a label.
    fn values(&self, label: &str) -> BTreeSet<&str> {
        let head = format!("{label}=\"");
        self.0.split(&*head).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    /// A sample that is of no namespace.
    fn of_the_broker(&self) -> Option<&str> {
        self.0.lines().find(|line| !line.starts_with('#') && !line.contains("namespace=\""))
    }
}

#[test]
fn the_key_of_a_namespace_shows_the_figures_of_that_one_and_an_administrator_sees_all() {
    for world in World::all() {
        for (own, _) in world.teams {
            for (asked, host) in NAMESPACES {
                let case = format!("{}: {own} at {host}", world.case);
                let shown = world.scrape(host, &login_of(own));
                if asked != *own {
                    assert_eq!(shown.err(), Some(401), "{case}");
                    continue;
                }
                let shown = shown.unwrap_or_else(|status| panic!("{case}: {status}"));
                assert_eq!(shown.values("namespace"), BTreeSet::from([*own]), "{case}");
                for (name, _) in NAMESPACES {
                    assert_eq!(shown.values("entity").contains(&*queue_of(name)), name == *own, "{case}");
                }
                assert_eq!(shown.of_the_broker(), None, "{case}");
            }
        }
        for (_, host) in NAMESPACES {
            let shown = world.scrape(host, &world.administrator).unwrap();
            let expected = BTreeSet::from(NAMESPACES.map(|(name, _)| name));
            assert_eq!(shown.values("namespace"), expected, "{} at {host}", world.case);
            for (name, _) in NAMESPACES {
                assert!(shown.values("entity").contains(&*queue_of(name)), "{} at {host}", world.case);
            }
            assert!(shown.of_the_broker().is_some(), "{} at {host}", world.case);
        }
    }
}

#[test]
fn the_key_of_a_namespace_lists_and_changes_no_entities_of_another_one() {
    for world in World::all() {
        for (own, own_host) in NAMESPACES {
            for (asked, host) in NAMESPACES.into_iter().filter(|(name, _)| *name != own) {
                let queue = queue_of(asked);
                let update = format!("PUT /{queue}?api-version=2021-05 HTTP/1.1\r\nIf-Match: *\r\nX-Rest:");
                for request in [
                    "GET /$Resources/Queues?api-version=2021-05",
                    "GET /$Resources/Topics?api-version=2021-05",
                    "GET /$namespaceinfo?api-version=2021-05",
                    "GET /$ferrybus/limits",
                    &format!("GET /{queue}?api-version=2021-05"),
                    "PUT /foreign?api-version=2021-05",
                    &update,
                    &format!("DELETE /{queue}?api-version=2021-05"),
                ] {
                    let is_put = request.starts_with("PUT");
                    let body = if is_put { description("QueueDescription") } else { String::new() };
                    let (status, text) = world.ask(host, &login_of(own), request, &body);
                    assert_eq!(status, 401, "{}: {own} at {host}: {request}: {text}", world.case);
                }
            }
            // A queue of the other's name is one more queue of its own.
            let other = queue_of(if own == "team-a" { "team-b" } else { "team-a" });
            let put = format!("PUT /{other}?api-version=2021-05");
            let login = login_of(own);
            assert_eq!(world.ask(own_host, &login, &put, &description("QueueDescription")).0, 201, "{own}");
            assert_eq!(world.ask(own_host, &login, &format!("DELETE /{other}"), "").0, 200, "{own}");
        }
        for (name, host) in NAMESPACES {
            let get = "GET /$Resources/Queues?api-version=2021-05";
            let (status, text) = world.ask(host, &login_of(name), get, "");
            assert_eq!(status, 200, "{}: {text}", world.case);
            assert!(!text.contains("foreign"), "{}: {name}: {text}", world.case);
            for (other, _) in NAMESPACES {
                let is_there = text.contains(&format!(">{}<", queue_of(other)));
                assert_eq!(is_there, other == name, "{}: {other} in {name}: {text}", world.case);
            }
        }
    }
}

#[test]
fn the_key_of_a_namespace_shows_and_changes_no_namespaces_and_none_of_their_keys() {
    for world in World::all() {
        for (own, _) in world.teams {
            for (_, host) in NAMESPACES {
                for (request, body) in [
                    (format!("GET {ROOT}"), ""),
                    (format!("GET {ROOT}/{own}"), ""),
                    (format!("GET {ROOT}/team-b"), ""),
                    (format!("PUT {ROOT}/team-b"), r#"{"held":true}"#),
                    (format!("PUT {ROOT}/new"), "{}"),
                    (format!("DELETE {ROOT}/team-b"), ""),
                    (format!("GET {ROOT}/{own}/keys"), ""),
                    (format!("GET {ROOT}/team-b/keys"), ""),
                    (format!("PUT {ROOT}/team-b/keys/new"), r#"{"rights":["manage"]}"#),
                    (format!("DELETE {ROOT}/team-b/keys/app"), ""),
                ] {
                    let (status, text) = world.ask(host, &login_of(own), &request, body);
                    assert_eq!(status, 401, "{}: {own} at {host}: {request}: {text}", world.case);
                }
            }
        }
        for (_, host) in NAMESPACES {
            let (status, text) = world.ask(host, &world.administrator, &format!("GET {ROOT}"), "");
            assert_eq!(status, 200, "{}: {text}", world.case);
            let listed: Value = serde_json::from_str(&text).unwrap();
            let listed = listed["namespaces"].as_array().unwrap().iter();
            let listed: Vec<_> = listed.map(|it| (it["name"].as_str(), it["held"].as_bool())).collect();
            assert_eq!(listed, NAMESPACES.map(|(name, _)| (Some(name), Some(false))), "{}", world.case);
            let keys = format!("GET {ROOT}/team-b/keys");
            let (status, text) = world.ask(host, &world.administrator, &keys, "");
            assert_eq!((status, &*text), (200, r#"{"keys":[]}"#), "{}", world.case);
        }
    }
}

#[test]
fn the_key_of_a_namespace_lists_and_ends_the_connections_of_that_one() {
    for world in World::all() {
        let case = world.case;
        let mut clients = NAMESPACES.map(|namespace| world.client(namespace));
        // A connection whose namespace nobody knows yet.
        let mut nowhere = Wire::connect(world.broker.address).unwrap();
        nowhere.script.header(ProtocolHeader::Sasl);
        nowhere.flush().unwrap();
        let everything = |host| world.connections(host, &world.administrator);
        until(|| everything("localhost").len() == 4);
        let all = everything("localhost");
        for (own, own_host) in world.teams {
            let login = login_of(own);
            let listed = world.connections(own_host, &login);
            let expected: Vec<_> = all.iter().filter(|(_, namespace)| namespace == own).cloned().collect();
            assert_eq!((listed.len(), &listed), (1, &expected), "{case}: {own}");
            for (id, namespace) in &all {
                for (asked, host) in NAMESPACES {
                    if asked != *own {
                        assert_eq!(world.end(host, &login, *id), 401, "{case}: {own} at {host}");
                        let (status, text) = world.ask(host, &login, "GET /$ferrybus/connections", "");
                        assert_eq!(status, 401, "{case}: {own} at {host}: {text}");
                    } else if namespace != own {
                        assert_eq!(world.end(host, &login, *id), 404, "{case}: {own} ends {namespace:?}");
                    }
                }
            }
        }
        for client in &mut clients {
            client.accepted(1, &["still here"]);
        }
        for (_, host) in NAMESPACES {
            assert_eq!(everything(host), all, "{case}: an administrator at {host}");
        }
        // Its own connection is ended by a namespace, one of another namespace by an administrator.
        let [default, of_a, of_b] = clients;
        let id_in = |name: &str| all.iter().find(|(_, namespace)| namespace == name).unwrap().0;
        let ends = [
            ("team-a", login_of("team-a"), of_a),
            ("team-b", world.administrator.clone(), of_b),
            ("default", world.administrator.clone(), default),
        ];
        for (name, login, mut client) in ends {
            client.accepted(1, &["before"]);
            assert_eq!(world.end("team-a.localhost", &login, id_in(name)), 200, "{case}: {name}");
            let error = client.wire.closed().unwrap().error.unwrap();
            assert_eq!(error.condition, "amqp:connection:forced", "{case}: {name}");
        }
    }
}

/// Requests about the clock and the faults, which concern all namespaces.
const STEERING: [(&str, &str); 6] = [
    ("GET /$ferrybus/clock", ""),
    ("POST /$ferrybus/clock/advance", r#"{"by_ms":86400000}"#),
    ("GET /$ferrybus/faults", ""),
    ("POST /$ferrybus/faults", r#"{"kind":"server-busy","count":1}"#),
    ("DELETE /$ferrybus/faults/1", ""),
    ("DELETE /$ferrybus/faults", ""),
];

#[test]
fn the_key_of_a_namespace_moves_no_clock_and_orders_no_faults() {
    for world in World::all() {
        let case = world.case;
        let steer = |host, (request, body): (&str, &str)| {
            let (status, text) = world.ask(host, &world.administrator, request, body);
            assert!(matches!(status, 200 | 201), "{case}: {request}: {text}");
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let ordered = (STEERING[3].0, r#"{"kind":"drop-link","entity":"elsewhere","count":7}"#);
        assert_eq!(steer("localhost", ordered)["id"], 1, "{case}");
        for (own, _) in world.teams {
            for (_, host) in NAMESPACES {
                for (request, body) in STEERING {
                    let (status, text) = world.ask(host, &login_of(own), request, body);
                    assert_eq!(status, 401, "{case}: {own} at {host}: {request}: {text}");
                }
            }
        }
        assert_eq!(steer("localhost", STEERING[0])["ahead_ms"], 0, "{case}");
        let listed = steer("localhost", STEERING[2]);
        let kinds: Vec<_> =
            listed["faults"].as_array().unwrap().iter().map(|fault| fault["kind"].as_str()).collect();
        assert_eq!(kinds, [Some("drop-link")], "{case}");
        for (_, host) in NAMESPACES {
            steer(host, STEERING[1]);
            assert_eq!(steer(host, STEERING[5])["cleared"], u64::from(host == "localhost"), "{case}");
        }
        let days = NAMESPACES.len() as u64;
        assert_eq!(steer("localhost", STEERING[0])["ahead_ms"], days * 86_400_000, "{case}");
    }
}
