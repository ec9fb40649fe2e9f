use std::{io::ErrorKind, net::TcpStream};

use broker_core::{EntityKind, EntitySettings};

use super::*;
use crate::server::tests::config;

fn queue(name: &str) -> EntityPlan {
    EntityPlan::queue(name, EntitySettings::default())
}

#[test]
fn a_port_is_taken_at_once_and_refuses_connections_until_the_broker_is_ready() {
    let mut prepared = Server::prepare(&config()).unwrap();
    let address = prepared.server.addresses()[0];
    // Entities are made meanwhile: that does not open it either.
    for _ in 0..3 {
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        prepared.create(&[queue("orders")]).unwrap();
    }
    let server = prepared.listen().unwrap();
    assert_eq!(server.addresses(), [address]);
    TcpStream::connect(address).unwrap();
    // Another broker learns of it before it reads its journal.
    let mut other = config();
    other.listen = vec![address];
    other.journal.durability = broker_log::Durability::Fsync;
    // Not a folder: reading the journal would fail, with another error.
    other.data_dir = "/dev/null".into();
    let error = Server::prepare(&other).unwrap_err();
    assert!(matches!(error, StartError::Listen { address: taken, .. } if taken == address), "{error}");
}

#[test]
fn two_that_start_at_the_same_time_do_not_both_listen() {
    let first = Server::prepare(&config()).unwrap();
    let address = first.server.addresses()[0];
    let mut other = config();
    other.listen = vec![address];
    let server = first.listen().unwrap();
    let taken = Server::prepare(&other).and_then(Prepared::listen).map(drop);
    assert!(matches!(taken, Err(StartError::Listen { .. })), "{taken:?}");
    drop(server);
}

#[test]
fn entities_and_rules_are_seen_made_and_changed_before_anybody_connects() {
    let mut prepared = Server::prepare(&config()).unwrap();
    assert!(prepared.entities().unwrap().is_empty());
    let many: Vec<EntityPlan> = (0..PAGE + 10).map(|number| queue(&format!("q{number:04}"))).collect();
    prepared.create(&many).unwrap();
    let plan = |name: &str, kind| EntityPlan { kind, ..queue(name) };
    let plans = [plan("T", EntityKind::Topic), plan("T/Subscriptions/s", EntityKind::Subscription)];
    prepared.create(&plans).unwrap();
    // Once more: what exists stays.
    prepared.create(&plans).unwrap();
    let names: Vec<_> = prepared.entities().unwrap().into_iter().map(|entity| entity.name).collect();
    assert_eq!(names.len(), many.len() + 2);
    assert!(names.contains(&"T/Subscriptions/s".into()));
    let subscription = "T/Subscriptions/s";
    assert_eq!(prepared.rules(subscription).unwrap(), [Rule::default_rule()]);
    let rule = |name: &str| Rule { name: name.into(), ..Rule::default_rule() };
    let entity = || subscription.to_owned();
    let settings = Box::new(EntitySettings { max_delivery_count: 7, ..EntitySettings::default() });
    prepared
        .change(vec![
            EntityChange::AddRule { entity: entity(), rule: rule("more") },
            EntityChange::ReplaceRule { entity: entity(), rule: Rule::default_rule() },
            EntityChange::Settings { entity: "q0003".into(), settings },
        ])
        .unwrap();
    assert_eq!(prepared.rules(subscription).unwrap(), [Rule::default_rule(), rule("more")]);
    prepared.change(vec![EntityChange::RemoveRule { entity: entity(), rule: "more".into() }]).unwrap();
    assert_eq!(prepared.rules(subscription).unwrap(), [Rule::default_rule()]);
    let found = prepared.entities().unwrap();
    assert_eq!(found.iter().find(|it| &*it.name == "q0003").unwrap().settings.max_delivery_count, 7);
    let missing = EntityChange::RemoveRule { entity: entity(), rule: "more".into() };
    let error = prepared.change(vec![missing]).unwrap_err();
    assert!(matches!(&error, StartError::Entity { name, .. } if name == subscription), "{error}");
}
