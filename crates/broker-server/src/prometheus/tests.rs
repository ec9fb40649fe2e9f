use std::{fs, time::Duration};

use broker_core::{Activity, EntitySettings, EntityVersion, QueueId};

use super::*;
use crate::metrics::{ConnectionGauge, ShardMetrics, Transport};

fn report(name: &str, kind: EntityKind) -> EntityReport {
    EntityReport {
        name: name.into(),
        kind,
        settings: Box::new(EntitySettings::default()),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        accessed_at: Timestamp::default(),
        version: EntityVersion::new(QueueId(1), Timestamp::from_millis(0)),
        active_and_deferred: 7,
        scheduled: 3,
        dead_letter: 4,
        transfer_dead_letter: 5,
        bytes: 6_000,
        max_message_bytes: 1 << 20,
        subscriptions: 0,
        sql_filters: 0,
        correlation_filters: 0,
        activity: Activity {
            deferred: 2,
            locked: 1,
            oldest: Some(Timestamp::from_millis(1_000)),
            held_since: Some(Timestamp::from_millis(1_250)),
            incoming: 11,
            outgoing: 12,
            completed: 13,
            failed: 14,
            late_completions: 17,
            expired: 15,
            dead_lettered: 16,
        },
    }
}

fn snapshot(entities: Vec<EntityReport>) -> MetricsSnapshot {
    let node =
        broker_node::in_memory(broker_log::JournalConfig::default(), broker_core::CoreConfig::default());
    MetricsSnapshot {
        now: Timestamp::from_millis(3_500),
        metrics: Arc::default(),
        sockets: 9,
        memory: (Some(1_000), Some(900)),
        certificate_expires_at: Some(2_000_000_000),
        shards: vec![Some(NodeView {
            namespaces: Vec::new(),
            journal: node.journal().stats(),
            storage_full: false,
            memory_full: true,
            compaction_stopped: false,
        })],
        is_whole: true,
        namespaces: Vec::new(),
        entities: entities.into_iter().map(|report| ShownEntity::new(&"default".into(), report)).collect(),
        all_shown: true,
    }
}

fn rendered(snapshot: MetricsSnapshot) -> String {
    render(snapshot).concat()
}

/// Whether the text has exactly this sample.
fn has(text: &str, sample: &str) -> bool {
    text.lines().any(|line| line == sample)
}

#[test]
fn every_figure_of_an_entity_has_its_name() {
    let text = rendered(snapshot(vec![report("orders", EntityKind::Queue)]));
    let of = "namespace=\"default\",entity=\"orders\",kind=\"queue\"";
    let expected = [
        format!("ferrybus_entity_messages{{{of},state=\"active\"}} 5"),
        format!("ferrybus_entity_messages{{{of},state=\"locked\"}} 1"),
        format!("ferrybus_entity_messages{{{of},state=\"scheduled\"}} 3"),
        format!("ferrybus_entity_messages{{{of},state=\"deferred\"}} 2"),
        format!("ferrybus_entity_messages{{{of},state=\"dead_letter\"}} 4"),
        format!("ferrybus_entity_messages{{{of},state=\"transfer_dead_letter\"}} 5"),
        format!("ferrybus_entity_incoming_messages_total{{{of}}} 11"),
        format!("ferrybus_entity_outgoing_messages_total{{{of}}} 12"),
        format!("ferrybus_entity_completed_messages_total{{{of}}} 13"),
        format!("ferrybus_entity_failed_deliveries_total{{{of}}} 14"),
        format!("ferrybus_entity_late_completions_total{{{of}}} 17"),
        format!("ferrybus_entity_expired_messages_total{{{of}}} 15"),
        format!("ferrybus_entity_dead_lettered_messages_total{{{of}}} 16"),
        format!("ferrybus_entity_size_bytes{{{of}}} 6000"),
        format!("ferrybus_entity_oldest_message_age_seconds{{{of}}} 2.500"),
        format!("ferrybus_entity_oldest_held_message_age_seconds{{{of}}} 2.250"),
    ];
    for sample in expected {
        assert!(has(&text, &sample), "{sample} is not in\n{text}");
    }
}

#[test]
fn measurements_of_the_server_are_shown() {
    let shown = snapshot(Vec::new());
    let metrics = Arc::clone(&shown.metrics);
    let here = "127.0.0.1:1".parse().unwrap();
    let _open = ConnectionGauge::take(Arc::clone(&metrics), Transport::Tls, here);
    drop(ConnectionGauge::take(Arc::clone(&metrics), Transport::WebSocket, here));
    metrics.refuse("connection_limit");
    let shard = ShardMetrics::of(&metrics, 1);
    shard.wrote(1_000, 3, Duration::from_micros(150));
    shard.read(Duration::from_micros(90));
    shard.queue_time.observe(0.0);
    let text = rendered(shown);
    let expected = [
        "ferrybus_connections{transport=\"tls\",authentication=\"none\"} 1",
        "ferrybus_connections_opened_total{transport=\"websocket\"} 1",
        "ferrybus_connections_refused_total{reason=\"connection_limit\"} 1",
        "ferrybus_journal_write_time_seconds_count{shard=\"1\"} 1",
        "ferrybus_journal_write_time_seconds_bucket{le=\"0.00016\",shard=\"1\"} 1",
        "ferrybus_journal_read_time_seconds_count{shard=\"1\"} 1",
        "ferrybus_journal_batch_bytes_sum{shard=\"1\"} 1000.0",
        "ferrybus_journal_batch_records_sum{shard=\"1\"} 3.0",
        "ferrybus_journal_batch_records_bucket{le=\"1.0\",shard=\"1\"} 0",
        "ferrybus_journal_batch_records_bucket{le=\"4.0\",shard=\"1\"} 1",
        "ferrybus_core_queue_time_seconds_bucket{le=\"0.000001\",shard=\"1\"} 1",
        "ferrybus_sockets 9",
        "ferrybus_tls_certificate_expiry_timestamp_seconds 2000000000",
        "ferrybus_entities_left_out 0",
        "ferrybus_disk_full{shard=\"0\"} 0",
        "ferrybus_memory_used_bytes 1000",
        "ferrybus_memory_limit_bytes 900",
        "ferrybus_memory_full 1",
    ];
    for sample in expected {
        assert!(has(&text, sample), "{sample} is not in\n{text}");
    }
    for name in
        ["ferrybus_build_info{version=", "process_start_time_seconds ", "process_resident_memory_bytes "]
    {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in\n{text}");
    }
}

#[test]
fn each_name_is_shown_once_with_all_its_samples_and_the_text_ends() {
    let kinds = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
    let names = ["a", "t", "t/Subscriptions/s"];
    let text =
        rendered(snapshot(names.into_iter().zip(kinds).map(|(name, kind)| report(name, kind)).collect()));
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut once = types.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), types.len(), "{types:?}");
    let family = text.split("# TYPE ").find(|part| part.starts_with("ferrybus_entity_size_bytes")).unwrap();
    for (name, kind) in [("a", "queue"), ("t", "topic"), ("t/Subscriptions/s", "subscription")] {
        let sample = format!(
            "ferrybus_entity_size_bytes{{namespace=\"default\",entity=\"{name}\",kind=\"{kind}\"}} 6000"
        );
        assert!(has(family, &sample), "{sample} is not in\n{family}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn no_name_breaks_out_of_its_label() {
    let text = rendered(snapshot(vec![report("a\"} 1\nferrybus_evil 1\\", EntityKind::Queue)]));
    assert!(!text.lines().any(|line| line.starts_with("ferrybus_evil")), "{text}");
    assert!(text.contains("namespace=\"default\",entity=\"a\\\"} 1\\nferrybus_evil 1\\\\\""), "{text}");
}

#[test]
fn of_a_shard_that_recovers_that_alone_is_shown() {
    let mut shown = snapshot(Vec::new());
    shown.shards.insert(0, None);
    let text = rendered(shown);
    for sample in ["ferrybus_shard_recovering{shard=\"0\"} 1", "ferrybus_shard_recovering{shard=\"1\"} 0"] {
        assert!(has(&text, sample), "{sample} is not in\n{text}");
    }
    for name in ["ferrybus_disk_full", "ferrybus_journal_writes_total", "ferrybus_journal_segments"] {
        let shards: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.split(' ').next())
            .filter(|labels| labels.starts_with('{'))
            .collect();
        assert_eq!(shards, ["{shard=\"1\"}"], "{name}");
    }
    let mut alone = snapshot(Vec::new());
    alone.shards = vec![None];
    let text = rendered(alone);
    assert!(
        has(&text, "ferrybus_shard_recovering{shard=\"0\"} 1") && has(&text, "ferrybus_sockets 9"),
        "{text}"
    );
    assert!(!text.lines().any(|line| line.starts_with("ferrybus_journal_segments{")), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

/// The names are promised to be stable: one that comes, goes or changes is one on the page too.
#[test]
fn the_page_on_metrics_lists_each_name_and_no_other() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/features/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let mut listed: Vec<&str> =
        cells.flat_map(|cell| cell.split('`')).filter(|name| name.starts_with(['f', 'p'])).collect();
    let mut everything = snapshot(vec![report("orders", EntityKind::Queue)]);
    let metrics = Arc::clone(&everything.metrics);
    let _open = ConnectionGauge::take(Arc::clone(&metrics), Transport::Tls, "127.0.0.1:1".parse().unwrap());
    metrics.refuse("connection_limit");
    drop(ShardMetrics::of(&metrics, 0));
    metrics.refuse_login("plain", "wrong_key");
    everything.shards[0].as_mut().unwrap().journal.free_bytes = Some(1);
    let text = rendered(everything);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut shown: Vec<String> = types
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect();
    listed.sort_unstable();
    shown.sort_unstable();
    assert_eq!(shown, listed);
}
