use super::{SERVING, fault, uses};
use crate::workspace::{Dependency, DependencyKind, Package};

fn packages(kind: DependencyKind) -> Vec<Package> {
    let dependencies = vec![Dependency { name: "tokio-rustls".to_owned(), kind, local: false }];
    vec![Package { name: "broker-server".to_owned(), folder: "/".into(), dependencies }]
}

#[test]
fn a_library_that_is_only_listed_or_only_tested_with_is_found() {
    let (used, unused) = ("use tokio_rustls::TlsAcceptor;\n", "use std::fmt;\n");
    let cases = [
        // how it is listed, the crate's code, found
        (DependencyKind::Normal, used, false),
        (DependencyKind::Normal, unused, true),
        (DependencyKind::Dev, used, true),
        (DependencyKind::Build, used, true),
    ];
    for row @ (kind, text, found) in cases {
        let texts = [text.to_owned()];
        let fault = fault(&packages(kind), "tokio-rustls", "broker-server", &texts);
        assert_eq!(fault.is_some(), found, "{row:?}: {fault:?}");
    }
    assert!(
        fault(&packages(DependencyKind::Normal), "tokio-rustls", "ferrybus", &[used.to_owned()]).is_some()
    );
}

#[test]
fn a_name_counts_in_code_and_as_a_whole() {
    let cases = [
        ("use rustls::ServerConfig;", true),
        ("    let x = rustls::version();", true),
        ("fn f(x: &rustls::Error) {}", true),
        ("use tokio_rustls::TlsAcceptor;", false),
        ("// rustls::ServerConfig", false),
        ("//! [`rustls::ServerConfig`]", false),
        ("use crate::rustls::Own;", false),
        ("let rustls = 1;", false),
    ];
    for (text, expected) in cases {
        assert_eq!(uses(text, "rustls"), expected, "{text}");
    }
}

#[test]
fn every_library_that_was_asked_for_is_looked_for() {
    let mut names: Vec<&str> = SERVING.iter().map(|(library, _)| *library).collect();
    names.sort_unstable();
    let asked = ["anyhow", "fe2o3-amqp", "rustls", "serde_amqp", "tokio", "tokio-rustls", "tracing"];
    assert_eq!(names, asked);
    assert!(SERVING.iter().all(|(_, crates)| !crates.is_empty()));
}
