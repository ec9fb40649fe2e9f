//! The entities of this world: one of each kind.
//!
//! Invariant: creating them again changes nothing.

use std::time::Duration;

use broker_core::{Command, EntityKind, EntityPath, EntitySettings, EntityStatus, Rule, SubQueue, Ticket};
use broker_filter::{Filter, Parameters, SqlFilter};

/// The main store of an entity, or its transfer dead letters.
pub(super) fn path(name: &str) -> EntityPath {
    match name.strip_suffix("/$Transfer") {
        Some(name) => EntityPath { entity: name.into(), sub_queue: SubQueue::TransferDeadLetter },
        None => EntityPath { entity: name.into(), sub_queue: SubQueue::Main },
    }
}

fn create(name: &str, kind: EntityKind, settings: EntitySettings) -> Command {
    let settings = EntitySettings {
        lock_duration: Duration::from_secs(20),
        max_delivery_count: i32::MAX.unsigned_abs(),
        ..settings
    };
    Command::CreateEntity { name: name.into(), kind, settings: Box::new(settings), ticket: Ticket(0) }
}

fn forwarding() -> EntitySettings {
    EntitySettings { forward_to: Some("end".into()), ..EntitySettings::default() }
}

/// All entities, created where they are missing. Some have partitions in every other world.
pub(super) fn entities(seed: u64) -> Vec<Command> {
    let default = EntitySettings::default;
    let enable_partitioning = seed.is_multiple_of(2);
    let partitioned = || EntitySettings { enable_partitioning, ..default() };
    let mut commands = vec![
        Command::Connect,
        create("plain", EntityKind::Queue, default()),
        create("once", EntityKind::Queue, EntitySettings { requires_duplicate_detection: true, ..default() }),
        create("end", EntityKind::Queue, partitioned()),
        create("way", EntityKind::Queue, forwarding()),
        create(
            "closed",
            EntityKind::Queue,
            EntitySettings { status: EntityStatus::SendDisabled, ..default() },
        ),
        create("steps", EntityKind::Queue, EntitySettings { requires_session: true, ..partitioned() }),
        create("news", EntityKind::Topic, partitioned()),
        create("news/Subscriptions/all", EntityKind::Subscription, default()),
        create("news/Subscriptions/on", EntityKind::Subscription, forwarding()),
    ];
    let filter = SqlFilter::parse("number % 2 = 1", Parameters::new());
    let rules = filter.into_iter().map(|filter| Rule {
        name: "odd".into(),
        filter: Filter::Sql(filter),
        action: None,
    });
    commands.push(Command::CreateSubscription {
        name: "news/Subscriptions/odd".into(),
        settings: Box::new(EntitySettings {
            lock_duration: Duration::from_secs(20),
            max_delivery_count: i32::MAX.unsigned_abs(),
            ..default()
        }),
        rules: rules.collect(),
        ticket: Ticket(0),
    });
    commands.push(Command::Disconnect);
    commands
}
