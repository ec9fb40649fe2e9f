//! Changes of namespaces while the disk is full: the real process with two shards, on a file system of its own that is really full.
//!
//! With a reserve, sends are refused and changes are made. Without one, the change for which the journal needs a new file ends the
//! process: it is there as a whole after the next start, or not at all.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use amqp_codec::performative::{Open, Performative};
use serde_json::{Value, json};
use testkit::Wire;

use crate::{
    full_disk::{SmallDisk, is_accepted},
    memory::address,
    support::{Broker, Folder, until},
};

pub(crate) const ROOT: &str = "/$ferrybus/namespaces";
/// The development key.
const KEY: (&str, &str) = ("RootManageSharedAccessKey", "SAS_KEY_VALUE");
const BASIC: &str = "Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF";
/// More messages than the file system has room for.
const MOST: u32 = 400;
/// Number of attempts of a client to send again.
const ATTEMPTS: u32 = 20_000;
/// More changes than the files of the journal have room for.
const CHANGES_MAX: u64 = 2_000;

fn configuration(reserve: &str) -> String {
    format!(
        "durability = \"fsync\"\nlisten = [\"127.0.0.1:0\"]\nshards = 2\nauto_create = true\n\
         [limits]\nshutdown_time_out = \"1s\"\n\
         [journal]\nsegment_bytes = \"1 MiB\"\ncache_bytes = \"1 MiB\"\ndisk_reserve_bytes = \"{reserve}\"\n"
    )
}

/// Status and body of the answer to an administrator; `None`: the broker has hung up without one.
fn try_ask(broker: &Broker, request: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address(broker)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let written = write!(
        stream,
        "{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {BASIC}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    written.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null)))
}

pub(crate) fn ask(broker: &Broker, request: &str, body: &Value) -> (u16, Value) {
    try_ask(broker, request, body).expect("an answer")
}

/// The namespace as an administrator sees it; `None`: there is none.
pub(crate) fn shown(broker: &Broker, namespace: &str) -> Option<Value> {
    let (status, found) = ask(broker, &format!("GET {ROOT}/{namespace}"), &Value::Null);
    assert!(matches!(status, 200 | 404), "{status} {found}");
    (status == 200).then_some(found)
}

fn names_of_keys(broker: &Broker, namespace: &str) -> Vec<String> {
    let (status, found) = ask(broker, &format!("GET {ROOT}/{namespace}/keys"), &Value::Null);
    assert_eq!(status, 200, "{found}");
    found["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
}

/// Whether a client with this key is let into the namespace.
pub(crate) fn lets_in(broker: &Broker, namespace: &str, (name, text): (&str, &str)) -> bool {
    let mut wire = Wire::connect(address(broker)).unwrap();
    let open = Open { hostname: Some(format!("vhost:{namespace}")), ..Open::new("client") };
    wire.script.sasl_plain(name, text).open_with(open).begin(0);
    let told = |frame: &Performative| matches!(frame, Performative::Begin(_) | Performative::Close(_));
    wire.until(told).is_ok_and(|frame| matches!(frame.performative, Performative::Begin(_)))
}

/// A client that sends to the queue of a namespace.
pub(crate) fn sender(broker: &Broker, namespace: &str) -> Wire {
    let mut wire = Wire::connect(address(broker)).unwrap();
    let open = Open { hostname: Some(format!("vhost:{namespace}")), ..Open::new("client") };
    wire.script.sasl_plain(KEY.0, KEY.1).open_with(open).begin(0);
    wire.until(|frame| matches!(frame, Performative::Begin(_))).unwrap();
    wire.sender(1, "in", "orders").unwrap();
    wire
}

/// Messages in the queue of a namespace.
pub(crate) fn stored(broker: &Broker, namespace: &str) -> u64 {
    let mut stream = TcpStream::connect(address(broker)).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {BASIC}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let name = format!(
        "ferrybus_entity_messages{{namespace=\"{namespace}\",entity=\"orders\",kind=\"queue\",state=\"active\"}} "
    );
    let found = text.lines().find_map(|line| line.strip_prefix(&name));
    found.map_or(0, |number| number.parse().unwrap())
}

/// Waits until the namespace is gone with all that it held.
pub(crate) fn until_gone(broker: &Broker, namespace: &str) {
    until(|| shown(broker, namespace).is_none());
}

#[test]
fn while_sends_are_refused_for_want_of_space_each_change_of_a_namespace_is_made_and_kept() {
    let folder = Folder::new("full-namespaces");
    folder.write("ferrybus.toml", &configuration("3 MiB"));
    let disk = SmallDisk::new(&folder);
    let broker = disk.broker(&folder);
    for name in ["team", "leaving"] {
        let (status, found) = ask(&broker, &format!("PUT {ROOT}/{name}"), &json!({ "shard": 1 }));
        assert_eq!((status, found["shard"].as_u64()), (201, Some(1)), "{found}");
    }
    assert_eq!(ask(&broker, &format!("PUT {ROOT}/team/keys/old"), &json!({ "rights": ["send"] })).0, 201);
    assert!(is_accepted(&mut sender(&broker, "leaving"), 0, 0));
    let mut wire = sender(&broker, "team");
    let count = (0..MOST).find(|number| !is_accepted(&mut wire, *number, *number)).unwrap();
    assert!(count > 50, "{count} messages fit");
    disk.fill();
    let settings = json!({ "hostnames": ["orders.test"], "weight": 3, "limits": { "max_entities": 5 } });
    let held =
        json!({ "hostnames": ["orders.test"], "weight": 3, "limits": { "max_entities": 5 }, "held": true });
    let open =
        json!({ "hostnames": ["orders.test"], "weight": 3, "limits": { "max_entities": 5 }, "held": false });
    let none = Value::Null;
    let changes = [
        (format!("PUT {ROOT}/new"), json!({ "shard": 1, "limits": { "max_bytes": 4096 } }), 201),
        (format!("PUT {ROOT}/near"), json!({ "shard": 0 }), 201),
        (format!("PUT {ROOT}/team"), settings, 200),
        (format!("PUT {ROOT}/team"), held, 200),
        (format!("PUT {ROOT}/team"), open, 200),
        (format!("PUT {ROOT}/team/keys/app"), json!({ "rights": ["send", "listen"] }), 201),
        (format!("DELETE {ROOT}/team/keys/old"), none.clone(), 200),
        (format!("DELETE {ROOT}/leaving"), none, 202),
    ];
    let mut primary = String::new();
    for (request, body, expected) in changes {
        let (status, found) = ask(&broker, &request, &body);
        assert_eq!(status, expected, "{request} {body}: {found}");
        if let Some(text) = found["primary"].as_str() {
            primary = text.to_owned();
        }
    }
    until_gone(&broker, "leaving");
    let check = |broker: &Broker| {
        assert_eq!(shown(broker, "new").unwrap()["limits"]["max_bytes"], 4096);
        assert_eq!(shown(broker, "near").unwrap()["shard"], 0);
        let team = shown(broker, "team").unwrap();
        assert_eq!((&team["hostnames"], &team["weight"]), (&json!(["orders.test"]), &json!(3)));
        assert_eq!((&team["limits"]["max_entities"], &team["held"]), (&json!(5), &json!(false)));
        assert_eq!(names_of_keys(broker, "team"), ["app"]);
        assert!(lets_in(broker, "team", ("app", &primary)) && !lets_in(broker, "team", ("app", "wrong")));
        assert_eq!(shown(broker, "leaving"), None);
        assert_eq!(stored(broker, "team"), u64::from(count));
    };
    check(&broker);
    // It is full still. The hold has closed the connection.
    assert!(!is_accepted(&mut sender(&broker, "team"), 0, count));
    broker.kill();
    let broker = disk.broker(&folder);
    check(&broker);
    assert!(!is_accepted(&mut sender(&broker, "near"), 0, 0));
    // The deletion of what holds the messages makes room, though the other file is still there.
    assert_eq!(ask(&broker, &format!("DELETE {ROOT}/team"), &Value::Null).0, 202);
    until_gone(&broker, "team");
    let mut wire = sender(&broker, "near");
    (0..ATTEMPTS).find(|id| is_accepted(&mut wire, *id, 0)).expect("sends are taken again");
    broker.kill();
    let broker = disk.broker(&folder);
    assert_eq!((shown(&broker, "team"), stored(&broker, "near")), (None, 1));
    assert_eq!(shown(&broker, "new").unwrap()["limits"]["max_bytes"], 4096);
    assert!(broker.stop().success());
}

/// Host names that make the record of a namespace long; those of each number are others.
fn hostnames(number: u64) -> Vec<String> {
    (0..100).map(|index| format!("{}.n{number}-{index}.test", "x".repeat(60))).collect()
}

/// Settings in which each part has the same number.
fn settings(number: u64) -> Value {
    json!({ "hostnames": hostnames(number), "weight": number % 1000 + 1, "limits": { "max_entities": number + 1 } })
}

/// Demands that a namespace has the settings of one number as a whole, and says which.
fn number_of(shown: &Value) -> u64 {
    let number = shown["limits"]["max_entities"].as_u64().unwrap() - 1;
    let expected = settings(number);
    for part in ["hostnames", "weight"] {
        assert_eq!(shown[part], expected[part], "of number {number}");
    }
    number
}

/// One kind of change, which is made again and again.
struct Kind {
    name: &'static str,
    /// Makes ready before the disk is full.
    prepare: fn(&Broker),
    /// The change with this number: request, body and status.
    change: fn(u64) -> (String, Value, u16),
    /// Demands that the changes with the numbers below this one are there, and says whether that with this number is.
    check: fn(&Broker, u64, &BTreeMap<u64, Value>) -> bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "limits",
        prepare: |_| {},
        change: |number| (format!("PUT {ROOT}/team"), settings(number + 1), 200),
        check: |broker, done, _| match number_of(&shown(broker, "team").unwrap()) {
            number if number == done => false,
            number if number == done + 1 => true,
            number => panic!("the settings of change {number} of {done}"),
        },
    },
    Kind {
        name: "keys",
        prepare: |_| {},
        change: |number| match number % 2 {
            0 => (format!("PUT {ROOT}/team/keys/k{number}"), json!({ "rights": ["send"] }), 201),
            _ => (format!("DELETE {ROOT}/team/keys/k{}", number - 1), Value::Null, 200),
        },
        check: |broker, done, answers| {
            // With an even number there is no key, and with an odd one that of the change before.
            let keys_with = |count: u64| match count % 2 {
                0 => Vec::new(),
                _ => vec![format!("k{}", count - 1)],
            };
            let found = names_of_keys(broker, "team");
            assert!(found == keys_with(done) || found == keys_with(done + 1), "{found:?} after {done}");
            if let Some(before) = done.checked_sub(1).and_then(|number| answers.get(&number))
                && let Some(text) = before["primary"].as_str()
            {
                let name = format!("k{}", done - 1);
                assert_eq!(lets_in(broker, "team", (&name, text)), found.contains(&name));
            }
            assert_eq!(number_of(&shown(broker, "team").unwrap()), 0);
            found == keys_with(done + 1)
        },
    },
    Kind {
        name: "creation",
        prepare: |_| {},
        change: |number| {
            let mut body = settings(number + 1);
            body["shard"] = 1.into();
            (format!("PUT {ROOT}/n{number}"), body, 201)
        },
        check: |broker, done, _| {
            for number in 0..done {
                assert_eq!(number_of(&shown(broker, &format!("n{number}")).unwrap()), number + 1);
            }
            assert_eq!(shown(broker, &format!("n{}", done + 1)), None);
            shown(broker, &format!("n{done}")).is_some_and(|found| number_of(&found) == done + 1)
        },
    },
    Kind {
        name: "deletion",
        prepare: |broker| {
            for number in 0..DELETIONS {
                let mut body = settings(number + 1);
                body["shard"] = 1.into();
                assert_eq!(ask(broker, &format!("PUT {ROOT}/n{number}"), &body).0, 201);
            }
        },
        change: |number| (format!("DELETE {ROOT}/n{number}"), Value::Null, 202),
        check: |broker, done, _| {
            for number in 0..done {
                until_gone(broker, &format!("n{number}"));
            }
            for number in done + 1..DELETIONS {
                assert_eq!(number_of(&shown(broker, &format!("n{number}")).unwrap()), number + 1);
            }
            let last = shown(broker, &format!("n{done}")).filter(|found| found["state"] != "deleting");
            last.is_none_or(|found| {
                assert_eq!(number_of(&found), done + 1);
                false
            })
        },
    },
];

/// Namespaces that may be deleted.
const DELETIONS: u64 = 300;

#[test]
fn a_change_for_which_there_is_no_space_is_there_as_a_whole_after_the_next_start_or_not_at_all() {
    for Kind { name, prepare, change, check } in KINDS {
        let folder = Folder::new(&format!("full-{name}"));
        folder.write("ferrybus.toml", &configuration("0"));
        let disk = SmallDisk::new(&folder);
        let broker = disk.broker(&folder);
        let mut team = settings(0);
        team["shard"] = 1.into();
        assert_eq!(ask(&broker, &format!("PUT {ROOT}/team"), &team).0, 201);
        // Records that are alive keep the journal from using its files again.
        let mut wires = ["team", "default"].map(|namespace| sender(&broker, namespace));
        for number in 0..60 {
            assert!(is_accepted(&mut wires[0], number, number));
        }
        assert!(is_accepted(&mut wires[1], 0, 0));
        prepare(&broker);
        disk.fill();
        let mut answers = BTreeMap::new();
        let done = (0..CHANGES_MAX).find(|number| {
            let (request, body, expected) = change(*number);
            match try_ask(&broker, &request, &body) {
                Some((status, found)) if status == expected => {
                    answers.insert(*number, found);
                    false
                }
                refused => {
                    assert!(
                        refused.as_ref().is_none_or(|(status, _)| *status == 503),
                        "{request}: {refused:?}"
                    );
                    true
                }
            }
        });
        let done = done.expect("the disk has room for fewer changes");
        assert_eq!(broker.end().code(), Some(1), "{name}");
        let log = fs::read_to_string(folder.0.join("log")).unwrap();
        assert!(log.contains("no space left on its disk"), "{log}");
        disk.relieve();
        let broker = disk.broker(&folder);
        let is_there = check(&broker, done, &answers);
        let (of_team, of_default) = (stored(&broker, "team"), stored(&broker, "default"));
        assert_eq!((of_team, of_default), (60, 1), "{name}");
        // With room the change is made, where it was not.
        let last = if is_there {
            done
        } else {
            let (request, body, expected) = change(done);
            let (status, found) = ask(&broker, &request, &body);
            assert_eq!(status, expected, "{request}: {found}");
            answers.insert(done, found);
            done + 1
        };
        if !is_there {
            assert!(!check(&broker, last, &answers), "{name}");
        }
        broker.kill();
        let broker = disk.broker(&folder);
        check(&broker, last, &answers);
        assert!(broker.stop().success());
    }
}
