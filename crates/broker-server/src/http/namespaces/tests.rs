use broker_core::QuotaError;

use super::*;

#[test]
fn each_path_is_one_resource_or_none() {
    let one = |name: &str| Some(Resource::One(name.to_owned()));
    let key = |name: &str, key: &str| Some(Resource::Key(name.to_owned(), key.to_owned()));
    let cases = [
        ("/$ferrybus/namespaces", Some(Resource::All)),
        ("/$ferrybus/namespaces/", Some(Resource::All)),
        ("/$ferrybus/namespaces/team-a", one("team-a")),
        ("/$ferrybus/namespaces/team-a/", one("team-a")),
        ("/$ferrybus/namespaces/b%C3%BCcher", one("bücher")),
        ("/$ferrybus/namespaces/team-a/keys", Some(Resource::Keys("team-a".into()))),
        ("/$ferrybus/namespaces/team-a/keys/Root", key("team-a", "Root")),
        ("/$ferrybus/namespaces/team-a/queues/Root", None),
        ("/$ferrybus/namespaces/team-a/keys/Root/more", None),
        ("/$ferrybus/namespaces/%FF", None),
    ];
    for (path, expected) in cases {
        assert_eq!(Resource::of(path), expected, "{path}");
    }
    for (path, expected) in
        [("/$ferrybus/namespaces", true), ("/$ferrybus/namespacesx", false), ("/x", false)]
    {
        assert_eq!(is_path(path), expected, "{path}");
    }
}

fn read(text: &str, before: Option<&NamespaceSettings>) -> Result<NamespaceSettings, String> {
    let body = serde_json::from_str(text).map_err(|error| error.to_string())?;
    settings(body, before).map_err(|refusal| refusal.to_string())
}

#[test]
fn a_body_gives_all_settings_and_keeps_a_hold_that_it_does_not_name() {
    let held = NamespaceSettings { held: true, weight: 9, ..NamespaceSettings::default() };
    assert_eq!(read("{}", None), Ok(NamespaceSettings::default()));
    assert!(read("{}", Some(&held)).unwrap().held);
    assert!(!read(r#"{"held":false}"#, Some(&held)).unwrap().held);
    let all = r#"{"hostnames":["A.Example:5672"],"weight":3,"held":true,
        "limits":{"max_entities":1,"max_bytes":2048,"max_connections":null}}"#;
    let found = read(all, None).unwrap();
    assert_eq!((&*found.hostnames[0], found.weight, found.held), ("a.example", 3, true));
    let limits = NamespaceLimit::ALL.map(|limit| found.limits.get(limit));
    assert_eq!(limits, [Some(1), Some(2_048), None, None, None, None]);
}

#[test]
fn a_body_that_makes_no_sense_is_refused_with_the_reason() {
    let cases = [
        (r#"{"weight":0}"#, "`weight`"),
        (r#"{"hostnames":["a b"]}"#, "no host name"),
        (r#"{"limits":{"max_queues":1}}"#, "`max_queues` is no limit"),
        (r#"{"limits":{"max_bytes":-1}}"#, "`max_bytes` has to be a number"),
        (r#"{"limits":{"max_bytes":"1 GiB"}}"#, "`max_bytes` has to be a number"),
        (r#"{"hold":true}"#, "unknown field `hold`"),
    ];
    for (body, reason) in cases {
        let error = read(body, None).unwrap_err();
        assert!(error.contains(reason), "{body}: {error}");
    }
}

#[test]
fn rights_are_named_in_any_case_and_counted_once() {
    let rights = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        rights_of(&words).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(rights(&["send", "Listen", "send"]), Ok(vec![AccessRight::Send, AccessRight::Listen]));
    assert!(rights(&[]).unwrap_err().contains("at least one"));
    assert!(rights(&["write"]).unwrap_err().contains("`write` is no right"));
}

#[test]
fn each_refusal_of_a_shard_has_its_status_and_keeps_its_text() {
    let name = || -> Box<str> { "team-a".into() };
    let no_name = namespace_key("a/b").unwrap_err();
    let cases = [
        (NamespaceError::Name(no_name), 400),
        (NamespaceError::Default, 400),
        (NamespaceError::AlreadyExists(name()), 412),
        (NamespaceError::Deleting(name()), 409),
        (NamespaceError::Hostname { hostname: "a.test".into(), namespace: name() }, 409),
        (NamespaceError::Full { limit: 65_536 }, 507),
        (NamespaceError::TooManyKeys { namespace: name(), limit: 12 }, 507),
        (NamespaceError::QuotaExceeded(QuotaError::Memory), 507),
    ];
    for (error, status) in cases {
        let text = error.to_string();
        let refusal = refusal(error);
        assert_eq!((refusal.status().as_u16(), refusal.to_string()), (status, text));
    }
    let missing = [
        (NamespaceError::NotFound(name()), "/$ferrybus/namespaces/team-a"),
        (
            NamespaceError::NoKey { namespace: name(), key: "app".into() },
            "/$ferrybus/namespaces/team-a/keys/app",
        ),
    ];
    for (error, path) in missing {
        let refusal = refusal(error);
        assert_eq!(refusal.status().as_u16(), 404);
        assert!(refusal.to_string().contains(&format!("`{path}`")), "{refusal}");
    }
}

#[test]
fn a_connection_string_names_a_host_that_leads_to_the_namespace_and_the_port_of_amqp() {
    let cases = [
        // name, hostname, host of the request, with TLS, expected
        ("team-a", None, "localhost:5672", false, "team-a.localhost"),
        ("team-a", None, "localhost", false, "team-a.localhost"),
        ("team-a", None, "localhost:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "bus.example:5671", true, "team-a.bus.example"),
        ("team-a", None, "bus.example:5672", true, "team-a.bus.example:5672"),
        ("team-a", None, "bus.example:5300", false, "team-a.bus.example"),
        ("team-a", None, "127.0.0.1:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "[::1]:5999", false, "team-a.localhost:5999"),
        ("team-a", None, "10.0.0.7:5999", false, "team-a:5999"),
        ("team-a", Some("orders.example"), "10.0.0.7:5999", false, "orders.example:5999"),
        ("default", None, "bus.example:5999", false, "bus.example:5999"),
        ("default", None, "[::1]", false, "[::1]"),
        ("team-a", None, "", false, "team-a.localhost"),
    ];
    for (name, hostname, host, tls, expected) in cases {
        assert_eq!(endpoint((name, hostname), host, tls), expected, "{name} {hostname:?} {host:?}");
    }
}
