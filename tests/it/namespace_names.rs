//! Names of namespaces: those that may be given, and the hosts that lead to them.

use std::{io::Write as _, sync::Arc};

use amqp_codec::{
    performative::{DeliveryState, Open},
    types::ReceiverSettleMode,
};
use broker_auth::{Authority, Credentials, NamedKey, Secret};
use broker_server::ServerConfig;
use serde_json::{Value, json};

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    client::Client,
    http::{answer, ask, ask_host, connect, root},
    team::{ROOT, Team, basic, broker, description, enter, plain_response, until},
};

/// The key of the default namespace and of each that is created. It is a secret: with one that everybody knows, HTTP takes no host
/// that somebody could have registered.
const KEY: (&str, &str) = ("root", "a secret of its own");

/// A broker with that key.
fn guarded(change: impl FnOnce(&mut ServerConfig)) -> Broker {
    let key = NamedKey { name: KEY.0.into(), primary: Secret::new(KEY.1), ..NamedKey::development() };
    let credentials = Credentials { keys: vec![key], ..Credentials::default() };
    Broker::with(|config| {
        config.authority = Arc::new(Authority::new(credentials.clone()));
        config.created_namespace = credentials;
        change(config);
    })
}

/// Asks at this host with that key.
fn ask_at(broker: &Broker, host: &str, request: &str, body: &str) -> (u16, String) {
    ask_host(&mut connect(broker.address), host, request, Some(&basic(KEY.0, KEY.1)), body)
}

/// The names of all namespaces.
fn names(broker: &Broker) -> Vec<String> {
    let (status, text) = ask(broker.address, &format!("GET {ROOT}"), "");
    assert_eq!(status, 200, "{text}");
    let list: Value = serde_json::from_str(&text).unwrap();
    let all = list["namespaces"].as_array().unwrap().iter();
    all.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// The error of a refusal.
fn told(text: &str) -> String {
    let refusal: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text:?}"));
    refusal["error"].as_str().unwrap().to_owned()
}

const HYPHEN: &str = "a namespace name does not begin or end with `-`";

/// Names that are refused as a path has them, with the status and a part of the error.
const BAD_NAMES: [(&str, u16, &str); 55] = [
    // the name as the path has it, status, and a part of the error
    ("", 405, ""),
    ("team.a", 400, "this one has '.'"),
    ("team-a.localhost", 400, "this one has '.'"),
    (".", 400, "has ASCII letters"),
    ("..", 400, "has ASCII letters"),
    ("...", 400, "has ASCII letters"),
    ("%2e%2e", 400, "has ASCII letters"),
    ("-team", 400, HYPHEN),
    ("team-", 400, HYPHEN),
    ("-", 400, HYPHEN),
    ("xn--", 400, HYPHEN),
    ("%2Dteam", 400, HYPHEN),
    ("b%C3%BCcher", 400, "this one has 'ü'"),
    ("%E5%8C%97%E4%BA%AC", 400, "this one has '北'"),
    // Letters that look like others, or become ASCII when their case is changed.
    ("te%D0%B0m", 400, "this one has 'а'"),
    ("%E2%84%AAelvin", 400, "this one has '\u{212a}'"),
    ("%C4%B1d", 400, "this one has 'ı'"),
    ("%EF%BC%A1", 400, "this one has 'Ａ'"),
    ("team%E2%80%8Ba", 400, r"'\u{200b}'"),
    ("team%E2%80%AEa", 400, r"'\u{202e}'"),
    ("%F0%9F%8D%B5", 400, "this one has '🍵'"),
    ("team%00", 400, r"'\0'"),
    ("%00", 400, r"'\0'"),
    ("team%0D%0AX-Injected:%20yes", 400, r"'\r'"),
    ("team%09a", 400, r"'\t'"),
    ("team%1B%5B31m", 400, r"'\u{1b}'"),
    ("team%7F", 400, r"'\u{7f}'"),
    ("team%20a", 400, "' '"),
    ("%20", 400, "' '"),
    ("team+a", 400, "'+'"),
    ("team%2541", 400, "'%'"),
    ("team%", 400, "'%'"),
    ("team%zz", 400, "'%'"),
    ("team%3Fa", 400, "'?'"),
    ("team%23a", 400, "'#'"),
    ("team:5672", 400, "':'"),
    ("team@b", 400, "'@'"),
    ("team%22a", 400, r#"'"'"#),
    ("team%3Ba", 400, "';'"),
    ("team=a", 400, "'='"),
    ("*", 400, "'*'"),
    ("$cbs", 400, "'$'"),
    ("$management", 400, "'$'"),
    ("vhost:team", 400, "':'"),
    ("%5B::1%5D", 400, "'['"),
    ("127.0.0.1", 400, "'.'"),
    ("team%5Ca", 400, r"'\\'"),
    // No resource of the interface.
    ("team%2Fa", 404, ""),
    ("team/a", 404, ""),
    ("..%2Fteam", 404, ""),
    ("%FF%FE", 404, ""),
    ("team%C3", 404, ""),
    ("%ED%A0%80", 404, ""),
    ("team/keys/a/b", 404, ""),
    ("team/keys", 405, ""),
];

/// Demands that this name is refused, whatever is asked for it.
fn is_refused(broker: &Broker, (name, expected, part): (&str, u16, &str)) {
    for body in ["", r#"{"hostnames":["kept.example"],"limits":{"max_entities":1}}"#] {
        let (status, text) = ask(broker.address, &format!("PUT {ROOT}/{name}"), body);
        assert_eq!(status, expected, "{name:.80}: {text}");
        let error = told(&text);
        assert!(error.contains(part) && !error.is_empty(), "{name:.80}: {error}");
    }
    // To ask for it, to delete it and to give it a key find nothing.
    let mut requests = vec![(format!("GET {ROOT}/{name}/keys/app"), "")];
    if expected == 400 {
        requests.push((format!("GET {ROOT}/{name}"), ""));
        requests.push((format!("DELETE {ROOT}/{name}"), ""));
        requests.push((format!("PUT {ROOT}/{name}/keys/app"), r#"{"rights":["send"]}"#));
    }
    for (request, body) in requests {
        let (status, text) = ask(broker.address, &request, body);
        assert!(status == 404 || status == 400 && expected == 400, "{request:.80}: {status} {text}");
        assert!(!told(&text).is_empty(), "{request:.80}");
    }
    assert_eq!(names(broker), ["default"], "{name:.80}");
}

#[test]
fn a_name_that_no_host_begins_with_is_refused_with_the_reason_and_leaves_nothing() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    assert_eq!(names(&broker), ["default"]);
    for case in BAD_NAMES {
        is_refused(&broker, case);
    }
    let length = |count: usize| format!("a namespace name has 1 to 63 characters, this one has {count}");
    for (letter, count) in [("n", 64), ("n", 7_000), ("%C3%BC", 64), (".", 64), ("-", 64)] {
        is_refused(&broker, (&letter.repeat(count), 400, &length(count)));
    }
    // Nor do those who were refused keep the host name.
    let (status, text) =
        ask(broker.address, &format!("PUT {ROOT}/other"), r#"{"hostnames":["kept.example"]}"#);
    assert_eq!(status, 201, "{text}");
    broker.stop();
    let broker = Broker::of(&durable(&folder.0));
    assert_eq!(names(&broker), ["default", "other"]);
}

#[test]
fn a_request_line_with_characters_that_no_path_has_is_refused() {
    let broker = broker();
    for name in ["team a", "te\0am", "te\u{1b}am", "te\u{7f}am", "te\nam", "te\ram", "te\tam"] {
        let mut stream = connect(broker.address);
        let request = format!(
            "PUT {ROOT}/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nConnection: close\r\n\
             Content-Length: 0\r\n\r\n",
            root()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (status, text) = answer(&mut stream);
        assert_eq!(status, 400, "{name:?}: {text}");
    }
    // Letters of other scripts that are not escaped are none, either.
    let (status, text) = ask(broker.address, &format!("PUT {ROOT}/bücher"), "");
    assert_eq!(status, 400, "{text}");
    assert_eq!(names(&broker), ["default"]);
}

#[test]
fn a_name_of_one_label_is_taken_in_any_case_and_its_host_leads_there() {
    let longest = "n".repeat(63);
    let cases = [
        // as the path has it, the name
        ("a", "a"),
        ("7", "7"),
        ("127", "127"),
        (&*longest, &*longest),
        ("Team-A", "Team-A"),
        ("TEAM_B", "TEAM_B"),
        ("_", "_"),
        ("_dmarc", "_dmarc"),
        ("team--a", "team--a"),
        ("xn--bcher-kva", "xn--bcher-kva"),
        ("XN--Bcher-KVA", "XN--Bcher-KVA"),
        // Not the A-label of any name.
        ("xn--a", "xn--a"),
        ("xn--x", "xn--x"),
        ("t%65am", "team"),
        ("team/", "team"),
        // Words that mean something elsewhere.
        ("localhost", "localhost"),
        ("keys", "keys"),
        ("namespaces", "namespaces"),
        ("vhost", "vhost"),
        ("null", "null"),
        ("con", "con"),
        ("shard-1", "shard-1"),
        ("sbemulatorns", "sbemulatorns"),
    ];
    let broker = guarded(|_| {});
    for (path, name) in cases {
        let created = format!("PUT {ROOT}/{path}");
        let (status, text) = ask_at(&broker, "bus.example", &created, "");
        assert_eq!(status, 201, "{path}: {text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["name"], name, "{path}");
        for other in [name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
            let (status, text) = ask_at(&broker, "bus.example", &format!("GET {ROOT}/{other}"), "");
            assert_eq!(status, 200, "{other}: {text}");
            let put = format!("PUT {ROOT}/{other}");
            let (status, text) = ask_at(&broker, "bus.example", &put, r#"{"weight":2}"#);
            assert_eq!(status, 200, "{other}: a name in another case is the same one: {text}");
            let put = "PUT /orders?api-version=2021-05";
            let body = description("QueueDescription");
            let (status, text) = ask_at(&broker, &format!("{other}.example"), put, &body);
            assert!(matches!(status, 201 | 409), "{other}: {text}");
        }
        let (_, text) = ask_at(&broker, "bus.example", &format!("GET {ROOT}/{name}"), "");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&shown["name"], &shown["usage"]["entities"]), (&json!(name), &json!(1)), "{path}");
        let deleted = format!("DELETE {ROOT}/{name}");
        assert_eq!(ask_at(&broker, "bus.example", &deleted, "").0, 202, "{path}");
        until(|| ask_at(&broker, "bus.example", &format!("GET {ROOT}/{name}"), "").0 == 404);
    }
}

#[test]
fn the_default_namespace_is_there_by_its_name_and_cannot_be_deleted() {
    let broker = broker();
    for name in ["default", "DEFAULT", "d%65fault"] {
        assert_eq!(ask(broker.address, &format!("PUT {ROOT}/{name}"), "").0, 200, "{name}");
        let (status, text) = ask(broker.address, &format!("DELETE {ROOT}/{name}"), "");
        assert_eq!(
            (status, told(&text).as_str()),
            (400, "the default namespace cannot be deleted"),
            "{name}"
        );
    }
    assert_eq!(names(&broker), ["default"]);
}

/// Hosts, and the namespaces to which they lead: `None` is a host that leads nowhere, and so to the default one where that may be.
const HOSTS: [(&str, Option<&str>); 32] = [
    ("team-a", Some("team-a")),
    ("TEAM-A", Some("team-a")),
    ("Team-A.LocalHost", Some("team-a")),
    ("team-a.localhost:5672", Some("team-a")),
    ("team-a.localhost:", Some("team-a")),
    ("team-a.localhost.", Some("team-a")),
    ("TEAM-A.Bus.Example.ORG.:5671", Some("team-a")),
    ("team-a.xn--bcher-kva.example", Some("team-a")),
    ("team_b.example", Some("team_b")),
    ("default", Some("default")),
    ("DEFAULT.example.", Some("default")),
    // A name with an A-label, and letters that become it.
    ("xn--bcher-kva", Some("xn--bcher-kva")),
    ("XN--Bcher-KVA.example.org:5672", Some("xn--bcher-kva")),
    // Host names that are listed count before the first label.
    ("b.example", Some("team_b")),
    ("B.Example.:80", Some("team_b")),
    ("xn--bcher-kva.example", Some("team_b")),
    ("XN--BCHER-KVA.EXAMPLE.:5671", Some("team_b")),
    ("team-a.listed.example", Some("team_b")),
    ("127.0.0.9", Some("team_b")),
    ("127.0.0.9:5672", Some("team_b")),
    ("[::9]", Some("team_b")),
    ("[0:0::0009]:5672", Some("team_b")),
    ("localhost", None),
    ("localhost:5672", None),
    ("127.0.0.1", None),
    ("[::1]:5672", None),
    ("team-c.example", None),
    ("x.team-a.example", None),
    ("bus.example.", None),
    // No host names.
    ("team-a.localhost..", None),
    ("team-a..localhost", None),
    (".team-a", None),
];

/// Texts that only AMQP can bring.
const AMQP_HOSTS: [(&str, Option<&str>); 12] = [
    ("bücher.example.org", Some("xn--bcher-kva")),
    ("BÜCHER.example.org.:5672", Some("xn--bcher-kva")),
    ("bücher", Some("xn--bcher-kva")),
    ("bücher.example", Some("team_b")),
    ("Bücher。EXAMPLE", Some("team_b")),
    ("vhost:team-a", Some("team-a")),
    ("vhost:TEAM-A", Some("team-a")),
    ("vhost:/", Some("default")),
    ("team a.localhost", None),
    ("team-a.localhost:99999", None),
    ("team-a.localhost:x", None),
    ("team-a.local\0host", None),
];

/// Headers with which a request is malformed.
const BAD_HTTP_HOSTS: [&str; 6] = [
    "team-a.localhost:99999",
    "team-a.localhost:x",
    "team a.localhost",
    "bücher.example",
    "team-a/x",
    "a@team-a",
];

/// Three namespaces beside the default one. Each has a queue with a message that says its name, and a queue of its name.
fn served(strict: bool) -> Broker {
    let broker = guarded(|config| config.strict_hostnames = strict);
    let hosts = ["b.example", "bücher.example", "team-a.listed.example", "127.0.0.9", "[::9]"];
    for (name, hosts) in [("team-a", &[][..]), ("team_b", &hosts), ("xn--bcher-kva", &[]), ("default", &[])] {
        let body = json!({ "hostnames": hosts }).to_string();
        let request = format!("PUT {ROOT}/{name}");
        let (status, text) = ask_at(&broker, "default", &request, &body);
        assert!(matches!(status, 200 | 201), "{name}: {text}");
        let mut client = entered(&broker, &format!("vhost:{name}")).unwrap();
        client.sender(1, QUEUE);
        client.accepted(1, &[name]);
        client.sender(2, &format!("of-{name}"));
        client.close();
    }
    broker
}

/// A client whose open names this host, or the condition of the close.
fn entered(broker: &Broker, host: &str) -> Result<Client, String> {
    let open = Open { hostname: Some(host.to_owned()), ..Open::new("client") };
    let entered = enter(broker, ("PLAIN", Some(&plain_response(KEY.0, KEY.1))), open);
    entered.map_err(|error| error.condition.to_string())
}

/// The namespace to which a host leads over AMQP, or the condition of the refusal.
fn over_amqp(broker: &Broker, host: &str) -> Result<String, String> {
    let mut client = entered(broker, host)?;
    client.receiver(3, QUEUE, Some(ReceiverSettleMode::First));
    let delivery = client.receive(3, 1).remove(0);
    assert_eq!(
        client.outcome(0, delivery.id(), DeliveryState::Released).state,
        Some(DeliveryState::Released)
    );
    client.close();
    Ok(delivery.text())
}

/// The namespace to which a host leads over HTTP, or the status of the refusal.
fn over_http(broker: &Broker, request: &str, host: &str) -> Result<String, u16> {
    let (status, text) = ask_at(broker, host, request, "");
    if status != 200 {
        return Err(status);
    }
    let (_, rest) = text.split_once(">of-").unwrap_or_else(|| panic!("{host}: {text}"));
    Ok(rest.split_once('<').unwrap().0.to_owned())
}

const LIST: &str = "GET /$Resources/queues?api-version=2021-05";

#[test]
fn hosts_in_any_case_with_port_final_dot_or_punycode_lead_to_their_namespace() {
    let broker = served(false);
    for (host, expected) in HOSTS {
        let expected = expected.unwrap_or("default").to_owned();
        assert_eq!(over_amqp(&broker, host), Ok(expected.clone()), "AMQP: {host}");
        assert_eq!(over_http(&broker, LIST, host), Ok(expected.clone()), "HTTP: {host}");
    }
    for (host, expected) in AMQP_HOSTS {
        assert_eq!(over_amqp(&broker, host), Ok(expected.unwrap_or("default").to_owned()), "AMQP: {host}");
    }
    for host in ["vhost:team-c", "vhost:bücher", "vhost:team-a.localhost", "vhost:team-a/", "vhost://team-a"]
    {
        assert_eq!(over_amqp(&broker, host), Err("amqp:not-found".to_owned()), "{host}");
    }
    for host in BAD_HTTP_HOSTS {
        assert_eq!(over_http(&broker, LIST, host), Err(400), "HTTP: {host:?}");
    }
    // The target of a request counts before its header.
    let absolute = "GET http://TEAM-A.localhost.:5672/$Resources/queues?api-version=2021-05";
    assert_eq!(over_http(&broker, absolute, "b.example"), Ok("team-a".to_owned()));
}

#[test]
fn with_strict_host_names_a_host_that_leads_nowhere_is_refused() {
    let broker = served(true);
    for (host, expected) in HOSTS {
        let amqp = expected.map(str::to_owned).ok_or_else(|| "amqp:not-found".to_owned());
        assert_eq!(over_amqp(&broker, host), amqp, "AMQP: {host}");
        assert_eq!(over_http(&broker, LIST, host), expected.map(str::to_owned).ok_or(404), "HTTP: {host}");
    }
    for (host, expected) in AMQP_HOSTS {
        let amqp = expected.map(str::to_owned).ok_or_else(|| "amqp:not-found".to_owned());
        assert_eq!(over_amqp(&broker, host), amqp, "AMQP: {host}");
    }
    for host in BAD_HTTP_HOSTS {
        assert_eq!(over_http(&broker, LIST, host), Err(400), "HTTP: {host:?}");
    }
}

#[test]
fn a_name_that_was_deleted_may_be_given_again_and_finds_nothing_of_the_first() {
    let broker = broker();
    for round in 0..3 {
        let name = if round % 2 == 0 { "team-a" } else { "TEAM-A" };
        let team = Team::create(&broker, name);
        assert_eq!(team.usage("entities"), 0, "{round}");
        assert_eq!(team.create_entity(QUEUE, "QueueDescription").0, 201, "{round}");
        assert_eq!(ask(broker.address, &format!("DELETE {ROOT}/team-a"), "").0, 202);
        until(|| names(&broker) == ["default"]);
    }
}

#[test]
fn a_key_has_a_name_that_needs_no_escapes_in_tokens_and_connection_strings() {
    let broker = broker();
    let team = Team::create(&broker, "team-a");
    let keys = format!("{ROOT}/{}/keys", team.name);
    let put = |name: &str| ask(broker.address, &format!("PUT {keys}/{name}"), r#"{"rights":["send"]}"#);
    let listed = || {
        let (status, text) = ask(broker.address, &format!("GET {keys}"), "");
        assert_eq!(status, 200, "{text}");
        let list: Value = serde_json::from_str(&text).unwrap();
        list["keys"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let (longest, long) = ("k".repeat(256), "k".repeat(257));
    for (name, expected) in [
        ("a", 201),
        ("App.1_-~", 201),
        ("app.1_-~", 201),
        (&*longest, 201),
        (&*long, 400),
        ("a%3Bb", 400),
        ("a%3Db", 400),
        ("a%20b", 400),
        ("a%0D%0Ab", 400),
        ("a%00", 400),
        ("a%22b", 400),
        ("a%26b", 400),
        ("%C3%BC", 400),
        ("a%3A", 400),
        ("a%2Fb", 404),
        ("%FF", 404),
    ] {
        let before: Vec<String> = listed();
        let (status, text) = put(name);
        assert_eq!(status, expected, "{name:.80}: {text}");
        let mut after = before.clone();
        if expected == 201 {
            let shown: Value = serde_json::from_str(&text).unwrap();
            let string = shown["connection_string"].as_str().unwrap();
            assert!(string.contains(&format!(";SharedAccessKeyName={name};SharedAccessKey=")), "{string}");
            after.push(name.to_owned());
        } else {
            assert!(!told(&text).is_empty(), "{name:.80}");
        }
        let mut found = listed();
        found.sort();
        after.sort();
        assert_eq!(found, after, "{name:.80}");
    }
}
