use std::time::Duration;

use broker_auth::Anonymous;
use broker_core::EntitySettings;
use broker_log::Durability;
use broker_server::MissingRight;

use super::*;
use crate::{
    emulator::{EmulatorNamespace, Variables},
    entity_name::{check_name, check_service_bus_name},
};

fn check(text: &str) -> Result<Limits, String> {
    Settings::parse(text, "f").and_then(Settings::check).map_err(|failure| failure.to_string())
}

fn limits(text: &str) -> Limits {
    check(text).unwrap()
}

#[test]
fn the_default_listens_on_loopback_with_the_development_key() {
    let limits = limits("");
    assert_eq!(limits.server.listen[0], "127.0.0.1:5672".parse().unwrap());
    assert!(limits.server.listen.iter().all(|address| address.ip().is_loopback() && address.port() == 5672));
    assert!(limits.server.listen_tls.is_empty() && limits.reloadable.tls.is_none());
    assert!(limits.reloadable.development);
    assert_eq!(limits.reloadable.default_namespace.credentials.keys[0].name, "RootManageSharedAccessKey");
    assert_eq!(limits.reloadable.default_namespace.credentials.anonymous, Anonymous::Deny);
    let server = limits.server;
    assert_eq!(server.missing_right, MissingRight::Forbidden);
    assert_eq!((server.core.max_message_bytes, server.max_frame_bytes), (104_857_600, 65_536));
    assert_eq!(server.journal.durability, Durability::Fsync);
    assert_eq!(server.data_dir, PathBuf::from("ferrybus-data"));
}

#[test]
fn other_machines_are_let_in_only_with_credentials() {
    let key = "[[key]]\nname = \"app\"\nkey = \"secret\"\nrights = [\"send\"]";
    let user = "[[user]]\nname = \"anna\"\npassword = \"secret\"\nrights = [\"listen\"]";
    let certificate = "[[certificate]]\nsubject = \"CN=till\"\nrights = [\"listen\"]";
    let cases = [
        // settings, accepted, with the development key
        ("listen = [\"127.0.0.1\"]".to_owned(), true, true),
        ("listen = [\"127.8.9.1:7\", \"[::1]:8\", \"localhost\"]".to_owned(), true, true),
        ("listen = [\"::ffff:127.0.0.1\"]".to_owned(), true, true),
        ("listen = [\"127.0.0.1\", \"192.0.2.7\"]".to_owned(), false, false),
        ("listen = [\":5672\"]".to_owned(), false, false),
        ("listen = [\"0.0.0.0\"]".to_owned(), false, false),
        ("listen = [\"[::]:5672\"]".to_owned(), false, false),
        ("listen = [\"0.0.0.0\"]\nanonymous = \"deny\"".to_owned(), false, false),
        ("listen = [\"0.0.0.0\"]\nanonymous = \"allow\"".to_owned(), true, false),
        (format!("listen = [\"0.0.0.0\"]\n{key}"), true, false),
        (format!("listen = [\"0.0.0.0\"]\n{user}"), true, false),
        (format!("listen = [\"0.0.0.0\"]\n{certificate}"), true, false),
        // Configured credentials replace the development key on loopback too.
        (key.to_owned(), true, false),
    ];
    for (text, accepted, development) in cases {
        let checked = check(&text);
        assert_eq!(checked.is_ok(), accepted, "{text}: {checked:?}");
        match checked {
            Ok(limits) => assert_eq!(limits.reloadable.development, development, "{text}"),
            Err(text) => assert!(
                text.contains("nobody is configured who may log in") && text.contains("[[key]]"),
                "{text}"
            ),
        }
    }
}

#[test]
fn values_outside_their_bounds_are_named() {
    let cases = [
        (
            "[limits]\nmax_in_flight_bytes = 1048575",
            "`limits.max_in_flight_bytes` is 1048575, expected 1048576 to 17592186044416 bytes",
        ),
        (
            "[limits]\nmax_in_flight_bytes = 17592186044417",
            "`limits.max_in_flight_bytes` is 17592186044417, expected 1048576 to 17592186044416 bytes",
        ),
        (
            "[limits]\nmax_frame_bytes = 256",
            "`limits.max_frame_bytes` is 256, expected 512 to 16777216 bytes",
        ),
        ("[limits]\ntcp_max_segment = 87", "`limits.tcp_max_segment` is 87, expected 88 to 32767 bytes"),
        (
            "[limits]\ntcp_max_segment = 32768",
            "`limits.tcp_max_segment` is 32768, expected 88 to 32767 bytes",
        ),
        ("[limits]\nmax_connections = 0", "`limits.max_connections` is 0, expected 1 to 1000000 connections"),
        (
            "[limits]\nmax_message_bytes = \"101 MiB\"",
            "`limits.max_message_bytes` is 105906176, expected 1024 to 104857600 bytes",
        ),
        ("[limits]\nidle_time_out = \"1s\"", "`limits.idle_time_out` is 1s, expected 5s to 86400s"),
        ("[limits]\nio_threads = 0", "`limits.io_threads` is 0, expected 1 to 1024 threads"),
        (
            "[journal]\nsegment_bytes = 1",
            "`journal.segment_bytes` is 1, expected 1048576 to 1073741824 bytes",
        ),
        (
            "[[queue]]\nname = \"q\"\nlock_duration = \"6m\"",
            "queue `q`: `lock_duration` is 360s, expected 1s to 300s",
        ),
        (
            "[[queue]]\nname = \"q\"\nlock_duration = \"P99999999D\"",
            "queue `q`: `lock_duration` is unlimited, expected 1s to 300s",
        ),
        (
            "[[queue]]\nname = \"q\"\nmax_delivery_count = 0",
            "queue `q`: `max_delivery_count` is 0, expected 1 to 2147483647 deliveries",
        ),
        ("[[queue]]\nname = \"/q\"", "`/q` cannot be the name of a queue"),
        ("[[queue]]\nlock_duration = \"1m\"", "`` cannot be the name of a queue"),
        ("[[queue]]\nname = \"q\"\n[[queue]]\nname = \"Q\"", "entity `q` is configured twice"),
    ];
    are_named(&cases);
}

#[test]
fn addresses_and_credentials_that_cannot_be_are_named() {
    let cases = [
        ("listen = [\"nowhere:x\"]", "cannot listen on `nowhere:x`"),
        ("listen = []", "there is no address to listen on"),
        ("listen_tls = [\"127.0.0.1\"]", "`listen_tls` is set, but there is no certificate"),
        ("[tls]\ncertificate = \"c\"", "`tls.key` is missing"),
        ("[[key]]\nkey = \"k\"\nrights = [\"send\"]", "a `[[key]]` needs a `name`"),
        ("[[key]]\nname = \"k\"\nrights = [\"send\"]", "key `k` needs `key` or `key_file`"),
        ("[[key]]\nname = \"k\"\nkey = \"\"\nrights = [\"send\"]", "key `k` has an empty or unusable `key`"),
        (
            "[[key]]\nname = \"k\"\nkey = \"a\"\nkey_file = \"b\"\nrights = [\"send\"]",
            "key `k` has both `key` and `key_file`, expected one",
        ),
        ("[[key]]\nname = \"k\"\nkey = \"a\"", "key `k` has no rights"),
        (
            "[[key]]\nname = \"k\"\nkey = \"a\"\nrights = [\"sent\"]",
            "key `k` has an unknown right `sent`: expected `send`, `listen`, `manage` or `dynamic`\nhint: did you mean `send`?",
        ),
        ("[[user]]\nname = \"u\"\nrights = [\"send\"]", "user `u` needs `password` or `password_file`"),
        (
            "[[user]]\nname = \"u\"\npassword_file = \"/none\"\nrights = [\"send\"]",
            "cannot read secret `/none`",
        ),
        ("[[certificate]]\nrights = [\"send\"]", "a `[[certificate]]` needs its `subject`"),
        ("emulator_config = \"/none\"", "cannot read emulator configuration `/none`"),
    ];
    are_named(&cases);
}

fn are_named(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = check(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn values_at_their_bounds_are_accepted() {
    for text in [
        "[limits]\nmax_frame_bytes = 512",
        "[limits]\ntcp_max_segment = 88",
        "[limits]\ntcp_max_segment = 32767",
        "[limits]\nmax_frame_bytes = \"16 MiB\"",
        "[limits]\nmax_message_bytes = \"100 MiB\"",
        "[limits]\nidle_time_out = \"5s\"\nshutdown_time_out = \"0s\"",
        "[limits]\nlink_idle_time_out = \"1s\"",
        "[limits]\nlink_idle_time_out = \"1 day\"",
        "[limits]\nmax_in_flight_bytes = \"1 MiB\"",
        "[limits]\nmax_in_flight_bytes = 17592186044416",
        "[[queue]]\nname = \"q\"\nlock_duration = \"5m\"\nmax_delivery_count = 2147483647\nrequires_session = true",
    ] {
        assert!(check(text).is_ok(), "{text}: {:?}", check(text));
    }
    for (longest, check) in [(260, check_service_bus_name as fn(&str) -> _), (1_024, check_name)] {
        let name = "q".repeat(longest);
        assert!(check(&name).is_ok());
        assert!(check(&format!("{name}q")).is_err());
    }
}

#[test]
fn an_idle_link_stays_unless_a_time_is_given() {
    let cases = [("", None), ("\"P10675199D\"", None), ("\"10m\"", Some(Duration::from_secs(600)))];
    for (text, expected) in cases {
        let line = if text.is_empty() { String::new() } else { format!("link_idle_time_out = {text}") };
        assert_eq!(limits(&format!("[limits]\n{line}")).server.link_idle_time_out, expected, "{text}");
    }
    for (text, found) in [("999ms", "999ms"), ("25h", "90000s")] {
        let complaint = check(&format!("[limits]\nlink_idle_time_out = \"{text}\"")).unwrap_err();
        let expected = format!("`limits.link_idle_time_out` is {found}, expected 1s to 86400s");
        assert!(complaint.contains(&expected), "{complaint}");
    }
}

#[test]
fn names_are_those_that_the_broker_takes() {
    for name in ["a", "7", "orders", "a/b", "Orders.eu-1_x", "a..b", "a-", "a_", "a~b"] {
        assert!(check_name(name).is_ok() && check_service_bus_name(name).is_ok(), "{name}");
    }
    for name in ["-a", "a.", "a b", "a$b", "ö", "a@b", "_a", "~a", "a//b", "a::b", "a#b", "注文"] {
        assert!(check_name(name).is_ok() && check_service_bus_name(name).is_err(), "{name}");
    }
    for name in ["", "/", "a/", "a\nb", "a/$b", "t/Subscriptions/s"] {
        assert!(check_name(name).is_err() && check_service_bus_name(name).is_err(), "{name}");
    }
    let complaint = check("[[queue]]\nname = \"a\\nb\"").unwrap_err();
    assert!(
        complaint
            .contains("`a\\nb` cannot be the name of a queue or topic: the name has the character U+000A"),
        "{complaint}"
    );
}

#[test]
fn queues_get_what_is_configured_and_defaults_for_the_rest() {
    let limits =
        limits("[[queue]]\nname = \"q\"\ndefault_time_to_live = \"PT1H\"\nmax_size_bytes = \"1 GiB\"");
    let expected = EntitySettings {
        default_time_to_live: Some(Duration::from_secs(3_600)),
        max_size_bytes: Some(1 << 30),
        ..EntitySettings::default()
    };
    assert_eq!(limits.server.entities, [EntityPlan::queue("q", expected)]);
}

#[test]
fn a_certificate_opens_the_tls_port_of_the_same_hosts() {
    let text = "listen = [\"127.0.0.1:7000\", \"127.0.0.1:7001\"]\n[tls]\ncertificate = \"c\"\nkey = \"k\"";
    assert_eq!(limits(text).server.listen_tls, ["127.0.0.1:5671".parse().unwrap()]);
    // One host stands in several places, as where two ports of `localhost` have two address families each.
    let apart = text.replace("\"127.0.0.1:7001\"", "\"127.0.0.2:7000\", \"127.0.0.1:7001\"");
    let both = ["127.0.0.1:5671", "127.0.0.2:5671"].map(|address| address.parse().unwrap());
    assert_eq!(limits(&apart).server.listen_tls, both);
    let other = limits(&format!("listen_tls = [\"127.0.0.2:7\"]\n{text}"));
    assert_eq!(other.server.listen_tls, ["127.0.0.2:7".parse().unwrap()]);
}

#[test]
fn http_has_port_5300_unless_another_is_asked_for() {
    let cases: [(&str, &[&str]); 8] = [
        ("listen = [\"127.0.0.1\"]", &["127.0.0.1:5300"]),
        ("listen = [\"127.0.0.1\", \"127.0.0.2:5672\"]", &["127.0.0.1:5300", "127.0.0.2:5300"]),
        // Another port for AMQP is that of one of several brokers: each has HTTP there.
        ("listen = [\"127.0.0.1:7000\"]", &[]),
        ("listen_http = []", &[]),
        ("listen_http = [\"127.0.0.1\"]", &["127.0.0.1:5300"]),
        ("listen_http = [\"127.0.0.1:443\"]", &["127.0.0.1:443"]),
        ("listen_http = [\"127.0.0.1:443\", \"127.0.0.1\"]", &["127.0.0.1:443", "127.0.0.1:5300"]),
        ("listen = [\"127.0.0.1:7000\"]\nlisten_http = [\"127.0.0.3:443\"]", &["127.0.0.3:443"]),
    ];
    for (text, expected) in cases {
        let expected: Vec<SocketAddr> = expected.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(limits(text).server.listen_http, expected, "{text}");
    }
    let default = limits("").server.listen_http;
    assert!(default.contains(&"127.0.0.1:5300".parse().unwrap()), "{default:?}");
    assert!(
        default.iter().all(|address| address.ip().is_loopback() && address.port() == 5300),
        "{default:?}"
    );
}

#[test]
fn an_address_given_twice_is_listened_on_once() {
    assert_eq!(limits("listen = [\"127.0.0.1\", \"127.0.0.1:5672\"]").server.listen.len(), 1);
}

#[test]
fn the_emulators_variable_stands_in_for_the_usual_port_of_http() {
    let cases = [
        ("", "127.0.0.1:8080"),
        ("listen_http = [\"127.0.0.2\"]", "127.0.0.2:8080"),
        ("listen_http = [\"127.0.0.1:5300\"]", "127.0.0.1:8080"),
        // One that was chosen stays.
        ("listen_http = [\"127.0.0.1:5301\"]", "127.0.0.1:5301"),
    ];
    for (text, expected) in cases {
        let mut settings = Settings::parse(text, "f").unwrap();
        settings.variables = Variables { http_port: Some(8080), notices: vec!["n".into()] };
        let limits = settings.check().unwrap();
        assert_eq!(limits.server.listen_http[0], expected.parse().unwrap(), "{text}");
        // Nobody brought the emulator's configuration.
        assert!(limits.notices.is_empty(), "{:?}", limits.notices);
    }
}

#[test]
fn notices_of_the_emulators_file_are_told_with_those_of_its_namespaces() {
    let mut settings = Settings::parse("", "f").unwrap();
    settings.emulator_config = Some("Config.json".into());
    let namespace = EmulatorNamespace { notices: vec!["inside".into()], ..Default::default() };
    let emulator = Some(Emulator { namespaces: vec![namespace], notices: vec!["outside".into()] });
    let namespaces = Namespaces::new(&settings, emulator.as_ref()).unwrap();
    assert_eq!(settings.entities_of(&namespaces, emulator).unwrap().notices, ["outside", "inside"]);
}

#[test]
fn a_missing_right_is_answered_as_the_operator_says() {
    for (word, expected) in
        [("forbidden", MissingRight::Forbidden), ("unauthorized", MissingRight::Unauthorized)]
    {
        assert_eq!(limits(&format!("missing_right = \"{word}\"")).server.missing_right, expected);
    }
    let unknown = Settings::parse("missing_right = \"401\"", "f").unwrap_err().to_string();
    assert!(unknown.contains("expected `forbidden` or `unauthorized`"), "{unknown}");
}

#[test]
fn the_brokers_names_are_those_of_hostnames_and_of_its_addresses() {
    let names = |text: &str| limits(text).reloadable.host_names;
    let text = "hostnames = [\"Broker.example.org\", \"*.example.org\"]\nlisten = [\"127.0.0.1:0\", \"localhost:0\"]\n";
    assert_eq!(names(text), ["Broker.example.org", "*.example.org", "127.0.0.1", "localhost"]);
    assert!(names("").is_empty());
    for bad in ["https://broker", "broker:5300", "broker/x", "", "a b", "*"] {
        let settings = Settings::parse(&format!("hostnames = [\"{bad}\"]\n"), "f").unwrap();
        let failure = settings.check().unwrap_err().to_string();
        assert!(failure.contains(&format!("`hostnames` has `{bad}`")), "{failure}");
    }
}
