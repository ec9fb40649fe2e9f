use broker_auth::Anonymous;
use broker_server::ServerConfig;

use super::*;
use crate::settings::Limits;

fn check(text: &str) -> Result<Limits, String> {
    Settings::parse(text, "f").and_then(Settings::check).map_err(|failure| failure.to_string())
}

fn config(text: &str) -> ServerConfig {
    check(text).unwrap().into_config()
}

const TEAMS: &str = "[[namespace]]\nname = \"Team-A\"\n[[namespace]]\nname = \"team-b\"\n";

#[test]
fn a_namespace_has_the_hostnames_weight_and_limits_that_it_is_given() {
    let text = r#"
        [[namespace]]
        name = "Team-A"
        hostnames = ["Bus.Example.org.", "10.0.0.7", "[::1]", "bus.example.org", "bücher.example"]
        weight = 3
        max_entities = 1000
        max_bytes = "10 GiB"
        max_connections = 500
        max_in_flight_bytes = "64 MiB"
        max_remembered_ids = 0
        max_sends_per_second = 5000
        [[namespace]]
        name = "b"
    "#;
    let config = config(text);
    let names: Vec<&str> = config.namespaces.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["Team-A", "b"]);
    let settings = &config.namespaces[0].settings;
    let hostnames: Vec<&str> = settings.hostnames.iter().map(|name| &**name).collect();
    assert_eq!(hostnames, ["bus.example.org", "10.0.0.7", "::1", "xn--bcher-kva.example"]);
    assert_eq!((settings.weight, settings.held), (3, false));
    let limits = NamespaceLimit::ALL.map(|limit| settings.limits.get(limit));
    assert_eq!(limits, [1_000, 10 << 30, 500, 64 << 20, 0, 5_000].map(Some));
    assert_eq!(config.namespaces[1].settings, NamespaceSettings::default());
    assert_eq!(config.default_namespace, None, "the file does not name it");
    // A token may name the broker by a hostname of the namespace.
    let names = config.namespaces[0].authority.host_names();
    assert!(names.contains("bus.example.org"));
    assert!(!config.authority.host_names().contains("bus.example.org"));
}

#[test]
fn the_default_namespace_gets_hostnames_and_limits_by_its_name() {
    let config =
        config("[[namespace]]\nname = \"Default\"\nhostnames = [\"bus.local\"]\nmax_connections = 7\n");
    assert!(config.namespaces.is_empty());
    let default = config.default_namespace.unwrap();
    assert_eq!(default.limits.get(NamespaceLimit::Connections), Some(7));
    assert_eq!(default.hostnames, ["bus.local".into()]);
}

#[test]
fn a_default_namespace_that_is_named_without_settings_has_the_usual_ones() {
    // Else limits that an earlier file gave it would stay.
    let named = config("[[namespace]]\nname = \"default\"\n");
    assert_eq!(named.default_namespace, Some(NamespaceSettings::default()));
    assert_eq!(config("").default_namespace, None);
}

#[test]
fn entities_belong_to_the_namespace_that_they_name() {
    let text = format!(
        "{TEAMS}[[queue]]\nname = \"q\"\n[[queue]]\nname = \"Q\"\nnamespace = \"team-a\"\nmax_delivery_count = 7\n\
         [[queue]]\nname = \"p\"\nforward_to = \"q\"\nnamespace = \"team-a\"\n\
         [[topic]]\nname = \"t\"\nnamespace = \"TEAM-B\"\n[[topic.subscription]]\nname = \"s\"\n"
    );
    let config = config(&text);
    let names = |plans: &[broker_server::EntityPlan]| -> Vec<String> {
        plans.iter().map(|plan| plan.name.clone()).collect()
    };
    assert_eq!(names(&config.entities), ["q"]);
    assert_eq!(names(&config.namespaces[0].entities), ["Q", "p"]);
    assert_eq!(config.namespaces[0].entities[0].settings.max_delivery_count, 7);
    assert_eq!(names(&config.namespaces[1].entities), ["t", "t/Subscriptions/s"]);
}

/// Names of the keys, users and certificates of the default namespace and of the two others.
fn credentials(text: &str) -> Vec<Vec<String>> {
    let limits = check(&format!("{TEAMS}{text}")).unwrap();
    let reloadable = limits.reloadable;
    let all = [&reloadable.default_namespace].into_iter().chain(&reloadable.namespaces);
    let names = all.map(|namespace| {
        let credentials = &namespace.credentials;
        let keys = credentials.keys.iter().map(|key| key.name.clone());
        let users = credentials.users.iter().map(|user| user.name.clone());
        let certificates = credentials.certificates.iter().map(|it| it.subject.clone());
        let issuers = namespace.issuers.issuers.iter().map(|it| it.config().issuer.clone());
        keys.chain(users).chain(certificates).chain(issuers).collect()
    });
    names.collect()
}

#[test]
fn credentials_belong_to_the_namespaces_that_they_name() {
    let key = "[[key]]\nname = \"k\"\nkey = \"s\"\nrights = [\"send\"]\n";
    let user = "[[user]]\nname = \"u\"\npassword = \"s\"\nrights = [\"send\"]\n";
    let certificate = "[[certificate]]\nsubject = \"CN=c\"\nrights = [\"send\"]\n";
    let grant = "[[issuer.grant]]\nclaim = \"roles\"\nrights = [\"send\"]\n";
    let issuer = "[[issuer]]\nname = \"i\"\naudiences = [\"a\"]\nkeys_url = \"http://localhost/keys\"\n";
    let both = "namespaces = [\"team-b\", \"team-a\", \"TEAM-B\"]\n";
    let cases: [(String, [&[&str]; 3]); 8] = [
        (format!("{key}{user}{certificate}"), [&["k", "u", "CN=c"], &[], &[]]),
        (format!("{key}namespace = \"team-a\"\n{key}"), [&["k"], &["k"], &[]]),
        (format!("{key}{user}namespace = \"team-b\"\n"), [&["k"], &[], &["u"]]),
        (format!("{user}{both}"), [&[], &["u"], &["u"]]),
        (format!("{certificate}{both}"), [&[], &["CN=c"], &["CN=c"]]),
        (format!("{issuer}{both}{grant}"), [&[], &["i"], &["i"]]),
        (format!("{issuer}namespace = \"default\"\n{grant}"), [&["i"], &[], &[]]),
        ("[[admin]]\nname = \"root\"\npassword = \"s\"\n".into(), [&[], &[], &[]]),
    ];
    for (text, expected) in cases {
        assert_eq!(credentials(&text), expected, "{text}");
    }
    // Tables inside of a namespace mean the same.
    let inside =
        key.replace("[[key]]", "[[namespace.key]]") + &user.replace("[[user]]", "[[namespace.user]]");
    assert_eq!(credentials(&inside), [vec![], vec![], vec!["k".to_owned(), "u".to_owned()]]);
}

#[test]
fn an_issuer_of_two_namespaces_has_its_keys_renewed_in_each() {
    let text = format!(
        "{TEAMS}[[issuer]]\nname = \"other\"\nnamespace = \"team-b\"\naudiences = [\"a\"]\nkeys_url = \"http://localhost/1\"\n\
         [[issuer.grant]]\nclaim = \"roles\"\nrights = [\"send\"]\n\
         [[issuer]]\nname = \"i\"\nnamespaces = [\"team-a\", \"team-b\"]\naudiences = [\"a\"]\nkeys_url = \"http://localhost/2\"\n\
         [[issuer.grant]]\nclaim = \"roles\"\nrights = [\"send\"]\n"
    );
    let config = config(&text);
    let sources = |at: usize| -> Vec<(usize, String)> {
        config.namespaces[at].key_sources.iter().map(|source| (source.issuer, source.url.clone())).collect()
    };
    assert_eq!(sources(0), [(0, "http://localhost/2".to_owned())]);
    assert_eq!(sources(1), [(0, "http://localhost/1".to_owned()), (1, "http://localhost/2".to_owned())]);
    assert!(config.key_sources.is_empty());
}

#[test]
fn without_any_credential_the_development_key_opens_each_namespace_and_administers_them() {
    let limits = check(TEAMS).unwrap().reloadable;
    assert!(limits.development);
    let all = limits.namespaces.iter().map(|namespace| &namespace.credentials);
    for credentials in all.chain([&limits.created_namespace, &limits.administrators]) {
        assert!(credentials.keys[0].is_public());
    }
    // One credential anywhere is a decision of the operator's.
    for text in [
        "[[admin]]\nname = \"a\"\npassword = \"s\"\n",
        "[[admin]]\ncertificate = \"CN=a\"\n",
        "[[key]]\nname = \"k\"\nkey = \"s\"\nrights = [\"send\"]\nnamespace = \"team-b\"\n",
    ] {
        let limits = check(&format!("listen = [\"0.0.0.0\"]\n{TEAMS}{text}")).unwrap().reloadable;
        assert!(!limits.development && limits.administrators.keys.is_empty(), "{text}");
        assert!(limits.created_namespace.is_empty(), "{text}");
    }
}

#[test]
fn clients_without_credentials_are_let_in_where_their_namespace_says_so() {
    let key = "[[key]]\nname = \"k\"\nkey = \"s\"\nrights = [\"send\"]\n";
    let anonymous = |text: &str| -> Vec<Anonymous> {
        let limits = check(&format!("{text}{key}")).unwrap().reloadable;
        let all = [limits.default_namespace].into_iter().chain(limits.namespaces);
        all.map(|namespace| namespace.credentials.anonymous).collect()
    };
    let (allow, deny) = (Anonymous::Allow, Anonymous::Deny);
    assert_eq!(anonymous(&format!("anonymous = \"allow\"\n{TEAMS}")), [allow, deny, deny]);
    assert_eq!(anonymous(&format!("{TEAMS}anonymous = \"allow\"\n")), [deny, deny, allow]);
    let default = "[[namespace]]\nname = \"default\"\n";
    assert_eq!(anonymous(&format!("anonymous = \"allow\"\n{default}")), [allow]);
    assert_eq!(anonymous(&format!("anonymous = \"allow\"\n{default}anonymous = \"deny\"\n")), [deny]);
}

#[test]
fn faults_of_a_namespace_are_named_with_their_place() {
    let named = |text: &str| format!("[[namespace]]\nname = \"a\"\n{text}\n");
    let cases = [
        ("[[namespace]]\n".to_owned(), "a `[[namespace]]` needs a `name`"),
        ("[[namespace]]\nname = \"a b\"\n".into(), "namespace `a b`: a namespace name has ASCII letters"),
        ("[[namespace]]\nname = \"a.b\"\n".into(), "this one has '.'"),
        ("[[namespace]]\nname = \"-a\"\n".into(), "does not begin or end with `-`"),
        (named("[[namespace]]\nname = \"A\""), "namespace `A` is configured twice"),
        (
            named("[[namespace]]\nname = \"default\"\n[[namespace]]\nname = \"default\""),
            "`default` is configured twice",
        ),
        (named("weight = 0"), "namespace `a`: `weight` is 0, expected 1 to 1000 shares"),
        (named("max_entities = 0"), "namespace `a`: `max_entities` is 0, expected 1 to 1000000 entities"),
        (named("max_connections = 0"), "namespace `a`: `max_connections` is 0, expected 1 to"),
        (named("max_bytes = \"1 B\""), "namespace `a`: `max_bytes` is 1, expected 1024 to"),
        (named("max_sends_per_second = 0"), "namespace `a`: `max_sends_per_second` is 0, expected 1 to"),
        (named("max_bytes = \"lots\""), "line 3: `lots` is not a size"),
        (named("max_byte = 7"), "line 3: unknown key `max_byte`\nhint: did you mean `max_bytes`?"),
        (
            named("held = true"),
            "line 3: unknown key `held`\nhint: the keys known here are `name`, `hostnames`",
        ),
        (
            named("hostnames = [\"https://a\"]"),
            "namespace `a`: `hostnames` has `https://a`, expected the name",
        ),
        (named("hostnames = [\"a:5672\"]"), "`hostnames` has `a:5672`"),
        (named("hostnames = [\"\"]"), "`hostnames` has ``"),
        (named("hostnames = [\"a..b\"]"), "`hostnames` has `a..b`"),
        (named("hostnames = [\"[::1]:5672\"]"), "`hostnames` has `[::1]:5672`"),
        (named("hostnames = [\"a/b\"]"), "`hostnames` has `a/b`"),
        (
            named("hostnames = [\"h\"]\n[[namespace]]\nname = \"b\"\nhostnames = [\"H\"]"),
            "the hostname `h` is given to the namespaces `a` and `b`",
        ),
        (
            named("hostnames = [\"B.example\"]\n[[namespace]]\nname = \"b\""),
            "namespace `a`: the hostname `b.example` begins with the name of the namespace `b`",
        ),
        (named("hostnames = [\"default.example\"]"), "begins with the name of the namespace `default`"),
    ];
    refuses(&cases);
}

#[test]
fn entries_of_a_namespace_that_is_not_declared_or_not_one_are_named() {
    let named = |text: &str| format!("[[namespace]]\nname = \"a\"\n{text}\n");
    let key = "[[key]]\nname = \"k\"\nkey = \"s\"\nrights = [\"send\"]\n";
    let user = "[[user]]\nname = \"u\"\npassword = \"s\"\nrights = [\"send\"]\n";
    let cases = [
        (
            format!("{TEAMS}[[queue]]\nname = \"q\"\nnamespace = \"teem-a\"\n"),
            "queue `q`: there is no namespace `teem-a`\nhint: did you mean `Team-A`?",
        ),
        (
            format!("{TEAMS}[[topic]]\nname = \"t\"\nnamespace = \"other\"\n"),
            "topic `t`: there is no namespace `other`\nhint: add a `[[namespace]]` with `name = \"other\"`",
        ),
        (format!("{key}namespace = \"x\"\n"), "key `k`: there is no namespace `x`"),
        (format!("{user}namespaces = [\"x\"]\n"), "user `u`: there is no namespace `x`"),
        (format!("{user}namespaces = []\n"), "user `u`: `namespaces` names none"),
        (
            format!("{TEAMS}{user}namespace = \"team-a\"\nnamespaces = [\"team-b\"]\n"),
            "user `u` has both `namespace` and `namespaces`, expected one",
        ),
        (
            named("[[namespace.key]]\nname = \"k\"\nnamespace = \"b\""),
            "namespace `a`: `[[namespace.key]]` `k` names a namespace itself",
        ),
        (
            format!(
                "{TEAMS}[[queue]]\nname = \"q\"\nnamespace = \"team-a\"\n[[queue]]\nname = \"Q\"\nnamespace = \"Team-A\"\n"
            ),
            "namespace `Team-A`: entity `q` is configured twice",
        ),
        (
            "[[topic]]\nname = \"t\"\n[[topic.subscription]]\nname = \"s\"\nnamespace = \"a\"\n".into(),
            "unknown key `namespace`",
        ),
        ("[[admin]]\n".into(), "an `[[admin]]` needs either `name` and a password, or `certificate`"),
        ("[[admin]]\nname = \"a\"\n".into(), "admin `a` needs `password` or `password_file`"),
        ("[[admin]]\nname = \"a:b\"\npassword = \"p\"\n".into(), "admin `a:b` has a `:` in its name"),
        ("[[admin]]\nname = \"a\"\ncertificate = \"CN=a\"\n".into(), "needs either `name`"),
        ("[[admin]]\ncertificate = \"CN=a\"\npassword = \"p\"\n".into(), "needs either `name`"),
    ];
    refuses(&cases);
}

/// Each text is refused with what is expected in the error.
fn refuses(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let found = check(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

/// Settings with an emulator's file of namespaces with these names, each with one queue of its number.
fn with_emulator(toml: &str, names: &[&str]) -> Result<Namespaces, String> {
    let namespaces = names.iter().map(|name| crate::emulator::EmulatorNamespace {
        name: (!name.is_empty()).then(|| (*name).to_owned()),
        ..Default::default()
    });
    let emulator = Emulator { namespaces: namespaces.collect(), ..Emulator::default() };
    let mut settings = Settings::parse(toml, "f").unwrap();
    settings.emulator_config = Some("Config.json".into());
    Namespaces::new(&settings, Some(&emulator)).map_err(|failure| failure.to_string())
}

#[test]
fn the_first_namespace_of_the_emulators_file_is_the_default_one_unless_declared_and_each_other_its_own() {
    type Names = &'static [&'static str];
    let cases: [(&str, Names, &[usize], Names); 8] = [
        ("", &["sbemulatorns"], &[0], &["default"]),
        ("", &[""], &[0], &["default"]),
        ("", &["team-a"], &[0], &["default"]),
        ("", &["no name"], &[0], &["default"]),
        ("", &["sbemulatorns", "b"], &[0, 1], &["default", "b"]),
        (TEAMS, &["team-a"], &[1], &["default", "Team-A", "team-b"]),
        (TEAMS, &["x", "TEAM-B", "c"], &[0, 2, 3], &["default", "Team-A", "team-b", "c"]),
        ("", &["default", "b"], &[0, 1], &["default", "b"]),
    ];
    for (toml, names, places, expected) in cases {
        let namespaces = with_emulator(toml, names).unwrap();
        let found: Vec<usize> = namespaces.of_emulator().iter().map(|place| place.0).collect();
        assert_eq!(found, places, "{names:?}");
        let found: Vec<&str> = namespaces.iter().map(|(_, namespace)| namespace.name.as_str()).collect();
        assert_eq!(found, expected, "{names:?}");
    }
    // With others beside it the default one is reached by its name in the file, too.
    let hostnames = |names: &[&str]| {
        let namespaces = with_emulator("", names).unwrap();
        namespaces.all[0].settings.hostnames.clone()
    };
    assert_eq!(hostnames(&["sbemulatorns", "b"]), ["sbemulatorns".into()]);
    assert!(hostnames(&["sbemulatorns"]).is_empty());
    let faults: [(&[&str], &str); 4] = [
        (
            &["a", ""],
            "bad emulator configuration in `Config.json`: `Namespaces[1].Name` is missing or not a text",
        ),
        (&["a", "b c"], "namespace `b c`: a namespace name has"),
        (&["a", "default"], "namespace `default` is the same as one before"),
        (&["a", "b", "B"], "namespace `B` is the same as one before"),
    ];
    for (names, expected) in faults {
        let found = with_emulator("", names).unwrap_err();
        assert!(found.contains(expected), "{names:?}: {found}");
    }
}
