use std::sync::Arc;

use broker_auth::{Anonymous, Authority, Credentials};
use broker_log::{Durability, JournalConfig};
use broker_server::{Server, ServerConfig};

use super::*;

#[test]
fn every_combination_is_measured_messages_that_come_before_they_are_asked_for_among_them() {
    let server = Server::start(&ServerConfig {
        listen: vec![(std::net::Ipv4Addr::LOCALHOST, 0).into()],
        journal: JournalConfig { durability: Durability::None, reserve_bytes: 0, ..JournalConfig::default() },
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Allow))),
        auto_create: true,
        ..ServerConfig::default()
    });
    let server = server.unwrap();
    let steps = measure(server.addresses()[0].port(), 3).unwrap();
    server.stop();
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps.len(), 2 * SIZES_KIB.len() * (PREFETCHES.len() + 1), "{names:?}");
    for expected in ["receive 200 KiB, prefetch 1000, Nagle on", "send 1 KiB, Nagle off"] {
        assert!(names.contains(&expected), "{names:?}");
    }
}
