use super::{ARROWS, Findings, check, reachable};
use crate::workspace::{Dependency, DependencyKind, Package};

fn package(name: &str, dependency: &str, kind: DependencyKind, local: bool) -> Package {
    let dependencies = vec![Dependency { name: dependency.to_owned(), kind, local }];
    Package { name: name.to_owned(), folder: "/".into(), dependencies }
}

#[test]
fn only_the_arrows_of_the_table_are_allowed() {
    let cases = [
        // crate, dependency, kind, local, allowed
        ("amqp-engine", "amqp-codec", DependencyKind::Normal, true, true),
        ("amqp-codec", "amqp-engine", DependencyKind::Normal, true, false),
        ("broker-core", "amqp-codec", DependencyKind::Normal, true, false),
        ("broker-core", "broker-log", DependencyKind::Build, true, false),
        ("broker-core", "testkit", DependencyKind::Dev, true, true),
        ("broker-core", "testkit", DependencyKind::Normal, true, false),
        ("broker-core", "tokio", DependencyKind::Normal, false, false),
        ("broker-core", "tokio", DependencyKind::Dev, false, true),
        ("broker-server", "tokio", DependencyKind::Normal, false, true),
        ("broker-server", "anyhow", DependencyKind::Normal, false, false),
        ("ferrybus", "anyhow", DependencyKind::Normal, false, true),
        ("amqp-engine", "bytes", DependencyKind::Normal, false, true),
        ("sim", "broker-node", DependencyKind::Normal, true, true),
        ("ferrybus", "broker-node", DependencyKind::Dev, true, true),
        ("ferrybus", "broker-node", DependencyKind::Normal, true, false),
        ("newcomer", "bytes", DependencyKind::Normal, false, false),
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
