use broker_core::{EntityPath, LinkId, Message, SubQueue, Ticket};
use broker_log::{Durability, JournalConfig};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn publish(ticket: u64) -> Command {
    let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
    let messages = vec![Message::default()];
    Command::PublishTo { path, messages, auto_create: true, ticket: Some(Ticket(ticket)) }
}

/// Takes effects until so many messages are accepted.
fn accepted(client: &InProcessClient, count: u64) {
    let mut accepted = 0;
    while accepted < count {
        let effects = client.take(PATIENCE);
        assert!(!effects.is_empty(), "{accepted} of {count} are accepted");
        for effect in effects {
            let Effect::Published { first, last } = effect else { panic!("{effect:?}") };
            accepted += last.0 - first.0 + 1;
        }
    }
    assert_eq!(accepted, count);
}

#[test]
fn clients_of_every_shard_are_answered_and_find_after_a_restart_what_they_stored() {
    let data_dir = std::env::temp_dir().join(format!("ferrybus-in-process-{}", std::process::id()));
    std::fs::remove_dir_all(&data_dir).ok();
    let journal = JournalConfig {
        durability: Durability::Fsync,
        segment_bytes: 1 << 20,
        reserve_bytes: 0,
        ..JournalConfig::default()
    };
    let config = ServerConfig { data_dir: data_dir.clone(), journal, shards: 2, ..ServerConfig::default() };
    let shards = InProcessShards::start(&config).unwrap();
    assert!(shards.client(2).is_none() && shards.journal(2).is_none());
    for shard in 0..2 {
        let client = shards.client(shard).unwrap();
        client.submit([Command::Connect].into_iter().chain((1..=100).map(publish)).collect());
        accepted(&client, 100);
        assert!(shards.journal(shard).unwrap().syncs > 0);
    }
    assert!(shards.stop());
    let shards = InProcessShards::start(&config).unwrap();
    for shard in 0..2 {
        let client = shards.client(shard).unwrap();
        let path = EntityPath { entity: "q".into(), sub_queue: SubQueue::Main };
        client.submit(vec![
            Command::Connect,
            Command::OpenProducer { producer: LinkId(1), path, auto_create: false },
        ]);
        let effects = client.take(PATIENCE);
        assert!(matches!(effects[..], [Effect::ProducerOpened { .. }]), "{effects:?}");
    }
    assert!(shards.stop());
    std::fs::remove_dir_all(data_dir).unwrap();
}

#[test]
fn a_client_without_effects_waits_no_longer_than_its_patience() {
    let journal = JournalConfig { durability: Durability::None, ..JournalConfig::default() };
    let shards = InProcessShards::start(&ServerConfig { journal, ..ServerConfig::default() }).unwrap();
    let client = shards.client(0).unwrap();
    assert!(client.take(Duration::from_millis(1)).is_empty());
    assert!(shards.stop());
    // Nobody answers any more, and nobody is waited for.
    assert!(client.take(Duration::from_secs(3_600)).is_empty());
}
