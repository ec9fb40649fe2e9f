use proptest::prelude::*;

use super::*;

fn name(text: &str) -> NamespaceName {
    NamespaceName::parse(text).unwrap()
}

fn host(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

/// A table with the namespaces `default`, `team-a` and `shop`.
fn table(strict: bool) -> HostTable<&'static str> {
    let mut table = HostTable::new(name("default"), [host("broker.example")], "default", strict);
    table.insert(name("team-a"), [], "team-a").unwrap();
    let hosts = ["orders.example", "10.0.0.7", "[2001:db8::7]", "Bücher.example", "team-a.lan"];
    table.insert(name("shop"), hosts.map(host), "shop").unwrap();
    table
}

#[test]
fn each_sign_leads_to_the_namespace_that_the_rules_give() {
    use HostLookup::{Default, Found, Unknown};
    let unknown = |text: &str| Unknown(text.into());
    let cases = [
        // host name, namespace, and where it differs the namespace in a strict table
        (None, Default(&"default"), None),
        (Some(""), Default(&"default"), None),
        (Some("vhost:"), Found(&"default"), None),
        (Some("vhost:/"), Found(&"default"), None),
        (Some("vhost:default"), Found(&"default"), None),
        (Some("vhost:team-a"), Found(&"team-a"), None),
        (Some("vhost:Team-A"), Found(&"team-a"), None),
        (Some("vhost:nowhere"), unknown("vhost:nowhere"), None),
        // A virtual host is a name, and no host name.
        (Some("vhost:team-a.example"), unknown("vhost:team-a.example"), None),
        (Some("vhost:team-a:5672"), unknown("vhost:team-a:5672"), None),
        (Some("vhost:%2F"), unknown("vhost:%2F"), None),
        (Some("vhost"), Default(&"default"), Some(unknown("vhost"))),
        (Some("orders.example"), Found(&"shop"), None),
        (Some("ORDERS.example.:5671"), Found(&"shop"), None),
        (Some("bücher.example"), Found(&"shop"), None),
        (Some("xn--bcher-kva.example"), Found(&"shop"), None),
        (Some("10.0.0.7:5672"), Found(&"shop"), None),
        (Some("[2001:DB8::7]:5672"), Found(&"shop"), None),
        (Some("broker.example"), Found(&"default"), None),
        (Some("team-a"), Found(&"team-a"), None),
        (Some("team-a.servicebus.example"), Found(&"team-a"), None),
        (Some("TEAM-A.localhost:5672"), Found(&"team-a"), None),
        // Listed names come before first labels.
        (Some("team-a.lan"), Found(&"shop"), None),
        (Some("shop.example/$servicebus/websocket"), Found(&"shop"), None),
        (Some("default.example"), Found(&"default"), None),
        (Some("localhost"), Default(&"default"), Some(unknown("localhost"))),
        (Some("www.team-a.example"), Default(&"default"), Some(unknown("www.team-a.example"))),
        (Some("10.0.0.8"), Default(&"default"), Some(unknown("10.0.0.8"))),
        (Some("no host"), Default(&"default"), Some(unknown("no host"))),
    ];
    for (text, expected, strict) in cases {
        assert_eq!(table(false).lookup(text), expected, "{text:?}");
        assert_eq!(table(true).lookup(text), strict.unwrap_or(expected), "strict: {text:?}");
    }
}

#[test]
fn with_one_namespace_every_name_leads_to_it_unless_the_table_is_strict() {
    let only = |strict| HostTable::new(name("default"), [], 1, strict);
    for text in
        [None, Some("localhost"), Some("vhost:x"), Some("vhost:a/b"), Some("team-a.example"), Some("::")]
    {
        assert_eq!(only(false).lookup(text), HostLookup::Default(&1), "{text:?}");
        let expected = text.map_or(HostLookup::Default(&1), |text| HostLookup::Unknown(text.into()));
        assert_eq!(only(true).lookup(text), expected, "{text:?}");
    }
    assert_eq!((only(false).only(), table(false).only()), (Some(&1), None));
}

#[test]
fn a_name_of_two_namespaces_is_refused_and_names_both() {
    let conflict = |listed: &str, first: &str, second: &str| {
        Err(NameConflict::Host { host: host(listed), first: name(first), second: name(second) })
    };
    let cases = [
        ("team-a", "", Err(NameConflict::Namespace(name("team-a")))),
        ("DEFAULT", "", Err(NameConflict::Namespace(name("default")))),
        ("new", "orders.EXAMPLE", conflict("orders.example", "shop", "new")),
        ("new", "broker.example", conflict("broker.example", "default", "new")),
        ("new", "xn--bcher-kva.example", conflict("xn--bcher-kva.example", "shop", "new")),
        ("new", "10.0.0.7", conflict("10.0.0.7", "shop", "new")),
        ("new", "team-a", conflict("team-a", "team-a", "new")),
        ("new", "default", conflict("default", "default", "new")),
        // Its own name may be listed, and a host whose first label is another namespace.
        ("new", "new", Ok(())),
        ("new", "team-a.elsewhere", Ok(())),
    ];
    for (namespace, listed, expected) in cases {
        let mut table = table(false);
        let hosts = Some(listed).filter(|it| !it.is_empty()).map(host);
        // The first host is good in each case, and is not left behind by a refusal.
        let hosts = [host("first.example")].into_iter().chain(hosts);
        assert_eq!(table.insert(name(namespace), hosts, "new"), expected, "{namespace} {listed}");
        let first = table.lookup(Some("first.example"));
        assert_eq!(first == HostLookup::Found(&"new"), expected.is_ok(), "{namespace} {listed}");
    }
    let text = conflict("a.example", "shop", "new").unwrap_err().to_string();
    assert_eq!(text, "the host name `a.example` would lead both to the namespace `shop` and to `new`");
    // A namespace may not take the name that another one lists as a host.
    let mut table = table(false);
    table.insert(name("one"), [host("two")], "one").unwrap();
    assert_eq!(table.insert(name("two"), [], "two"), conflict("two", "one", "two"));
}

fn label() -> impl Strategy<Value = String> {
    "[a-c]([a-c0-9_-]{0,4}[a-c0-9])?"
}

fn dotted() -> impl Strategy<Value = String> {
    prop::collection::vec(label(), 1..4).prop_map(|labels| labels.join("."))
}

proptest! {
    #[test]
    fn no_text_of_a_client_panics_and_an_unknown_one_is_told_as_it_was_written(text in any::<String>()) {
        let table = table(true);
        for text in [text.clone(), format!("vhost:{text}"), format!("team-a.{text}")] {
            match table.lookup(Some(&text)) {
                HostLookup::Found(_) => {}
                HostLookup::Default(_) => prop_assert_eq!(text, ""),
                HostLookup::Unknown(told) => prop_assert_eq!(&*told, text),
            }
        }
    }

    #[test]
    fn case_port_path_and_final_dot_change_no_lookup(text in dotted(), port in any::<u16>()) {
        let upper = text.to_ascii_uppercase();
        let table = table(false);
        let expected = table.lookup(Some(&text));
        for same in [upper.clone(), format!("{text}:{port}"), format!("{text}."), format!("{upper}.:{port}/x")] {
            prop_assert_eq!(table.lookup(Some(&same)), expected.clone(), "{}", same);
        }
    }

    /// Whatever is inserted in whatever order, each name that was taken leads to its namespace, and one that was not taken is one
    /// that another namespace has.
    #[test]
    fn each_name_that_is_taken_leads_to_its_namespace(
        namespaces in prop::collection::vec((label(), prop::collection::vec(dotted(), 0..3)), 0..6),
    ) {
        let mut table = HostTable::new(name("zero"), [], "zero".to_owned(), true);
        let mut taken: Vec<(String, Vec<String>)> = Vec::new();
        for (namespace, hosts) in namespaces {
            let listed = hosts.iter().map(|text| host(text));
            let collides = taken.iter().any(|(other, theirs)| {
                other == &namespace
                    || theirs.contains(&namespace)
                    || hosts.iter().any(|host| host == other || theirs.contains(host))
            });
            let inserted = table.insert(name(&namespace), listed, namespace.clone());
            prop_assert_eq!(inserted.is_err(), collides, "{} {:?}", namespace, hosts);
            if inserted.is_ok() {
                taken.push((namespace, hosts));
            }
        }
        for (namespace, hosts) in &taken {
            let virtual_host = format!("vhost:{namespace}");
            for sign in hosts.iter().chain([namespace, &virtual_host]) {
                prop_assert_eq!(table.lookup(Some(sign)), HostLookup::Found(namespace), "{}", sign);
            }
        }
    }
}
