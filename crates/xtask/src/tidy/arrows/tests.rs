use super::{ARROWS, Findings, check, reachable};
use crate::workspace::{Dependency, Kind, Package};

fn package(name: &str, dependency: &str, kind: Kind, local: bool) -> Package {
    let dependencies = vec![Dependency { name: dependency.to_owned(), kind, local }];
    Package { name: name.to_owned(), folder: "/".into(), dependencies }
}

#[test]
fn only_the_arrows_of_the_table_are_allowed() {
    let cases = [
        // crate, dependency, kind, local, allowed
        ("amqp-engine", "amqp-codec", Kind::Normal, true, true),
        ("amqp-codec", "amqp-engine", Kind::Normal, true, false),
        ("broker-core", "amqp-codec", Kind::Normal, true, false),
        ("broker-core", "broker-log", Kind::Build, true, false),
        ("broker-core", "testkit", Kind::Dev, true, true),
        ("broker-core", "testkit", Kind::Normal, true, false),
        ("broker-core", "tokio", Kind::Normal, false, false),
        ("broker-core", "tokio", Kind::Dev, false, true),
        ("broker-server", "tokio", Kind::Normal, false, true),
        ("broker-server", "anyhow", Kind::Normal, false, false),
        ("ferrybus", "anyhow", Kind::Normal, false, true),
        ("amqp-engine", "bytes", Kind::Normal, false, true),
        ("sim", "broker-node", Kind::Normal, true, true),
        ("ferrybus", "broker-node", Kind::Dev, true, true),
        ("ferrybus", "broker-node", Kind::Normal, true, false),
        ("newcomer", "bytes", Kind::Normal, false, false),
    ];
    for row @ (name, dependency, kind, local, allowed) in cases {
        let mut findings = Findings::default();
        check(&[package(name, dependency, kind, local)], &mut findings);
        assert_eq!(findings.broken.is_empty(), allowed, "{row:?}: {findings:?}");
    }
}

#[test]
fn no_arrow_leads_back() {
    for (name, arrows) in ARROWS {
        assert!(!reachable(arrows, name), "{name} reaches itself");
    }
}
