use std::{collections::BTreeSet, fs, path::Path};

use broker_core::{EntityStatus, NamespaceLimit, Profile};

use super::*;
use crate::{
    control_group::memory_limit,
    settings::{Limits, Settings},
};

fn check(text: &str) -> Result<Limits, String> {
    Settings::parse(text, "f").and_then(Settings::check).map_err(|failure| failure.to_string())
}

fn limits(text: &str) -> Limits {
    check(text).unwrap()
}

#[test]
fn quotas_and_entities_outside_their_bounds_are_named_with_their_place() {
    let cases = [
        ("[limits]\nmax_entities = 0", "`limits.max_entities` is 0, expected 1 to 1000000 entities"),
        (
            "[limits]\nmax_rules_per_topic = 1000001",
            "`limits.max_rules_per_topic` is 1000001, expected 1 to 1000000 rules",
        ),
        (
            "[limits]\nmax_receivers_per_entity = 0",
            "`limits.max_receivers_per_entity` is 0, expected 1 to 1000000 receivers",
        ),
        (
            "[limits]\nmax_transaction_messages = 10001",
            "`limits.max_transaction_messages` is 10001, expected 1 to 10000 messages",
        ),
        (
            "[limits]\nmax_send_bytes = 16777215",
            "`limits.max_send_bytes` is 16777215, expected 16777216 to 1073741824 bytes",
        ),
        (
            "[limits]\nmax_transaction_bytes = \"15 MiB\"",
            "`limits.max_transaction_bytes` is 15728640, expected 16777216 to 1073741824 bytes",
        ),
        (
            "[limits]\ntransaction_time_out = \"2h\"",
            "`limits.transaction_time_out` is 7200s, expected 1s to 3600s",
        ),
        (
            "[[topic]]\nname = \"t\"\nstatus = \"receive-disabled\"",
            "topic `t`: `status` is `receive-disabled`, expected `active`, `disabled` or `send-disabled`",
        ),
        (
            "[[topic]]\nname = \"t\"\n[[topic.subscription]]\nname = \"s\"\nstatus = \"send-disabled\"",
            "subscription `t/Subscriptions/s`: `status` is `send-disabled`, expected `active`, `disabled` or `receive-disabled`",
        ),
        (
            "[[topic]]\nname = \"t\"\nduplicate_detection_window = \"8d\"",
            "topic `t`: `duplicate_detection_window` is 691200s, expected 20s to 604800s",
        ),
        (
            "[[topic]]\nname = \"t\"\n[[topic.subscription]]\nname = \"s\"\nauto_delete_on_idle = \"1m\"",
            "subscription `t/Subscriptions/s`: `auto_delete_on_idle` is 60s, expected 300s to",
        ),
    ];
    for (text, expected) in cases {
        let found = check(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn each_tier_has_its_profile_and_defaults() {
    let cases = [
        ("", Profile::STANDARD, 10_000, 10_000, 1 << 20),
        ("profile = \"standard\"", Profile::STANDARD, 10_000, 10_000, 1 << 20),
        ("profile = \"standard-only\"", Profile::STANDARD_ONLY, 10_000, 10_000, 256 << 10),
        ("profile = \"basic\"", Profile::BASIC, 10_000, 10_000, 1 << 20),
        ("profile = \"emulator\"", Profile::EMULATOR, 50, 10, 256 << 10),
        ("profile = \"emulator\"\n[limits]\nmax_entities = 60", Profile::EMULATOR, 60, 10, 256 << 10),
    ];
    for (text, profile, entities, connections, message_bytes) in cases {
        let server = limits(text).server;
        assert_eq!(server.core.profile, profile, "{text}");
        let found = (server.core.max_entities, server.max_connections, server.core.tier_message_bytes);
        assert_eq!(found, (entities, connections, message_bytes), "{text}");
        assert_eq!(server.core.max_message_bytes, 100 << 20, "{text}");
    }
}

#[test]
fn the_message_size_of_service_bus_clients_follows_that_of_all_where_only_that_is_given() {
    let cases = [
        // file, largest message of all clients and of those of Service Bus, in KiB
        ("", (100 << 10, 1 << 10)),
        ("[limits]\nmax_message_bytes = \"64 MiB\"", (64 << 10, 64 << 10)),
        ("[limits]\nmax_message_bytes = \"64 KiB\"", (64, 64)),
        ("profile = \"emulator\"\n[limits]\nmax_message_bytes = \"2 MiB\"", (2 << 10, 2 << 10)),
        ("[limits]\nmax_service_bus_message_bytes = \"2 MiB\"", (100 << 10, 2 << 10)),
        (
            "[limits]\nmax_service_bus_message_bytes = \"256 KiB\"\nmax_message_bytes = \"2 MiB\"",
            (2 << 10, 256),
        ),
    ];
    for (text, sizes) in cases {
        let core = limits(text).server.core;
        assert_eq!((core.max_message_bytes >> 10, core.tier_message_bytes >> 10), sizes, "{text}");
    }
}

#[test]
fn what_is_done_at_once_is_bounded_as_the_operator_says() {
    let most = |text: &str| {
        let core = limits(text).server.core;
        (core.max_send_bytes, core.max_transaction_bytes)
    };
    assert_eq!(most(""), (128 << 20, 128 << 20));
    let text = "[limits]\nmax_send_bytes = \"16 MiB\"\nmax_transaction_bytes = \"17 MiB\"";
    assert_eq!(most(text), (16 << 20, 17 << 20));
}

/// The parts of a batch that grow with the configuration, each as large as may be.
#[test]
fn a_batch_of_the_journal_holds_the_most_that_can_be_allowed() {
    const MOST: &str = r#"
        [limits]
        max_send_bytes = "1 GiB"
        max_transaction_bytes = "1 GiB"
        max_rules_per_topic = 1000000
        max_message_bytes = "100 MiB"
    "#;
    let core = limits(MOST).server.core;
    let (round, open_batch, tokens) = (4 << 20, 8 << 20, 4_096);
    let due_at_a_topic = core.max_send_bytes + core.max_rules_per_topic * 1_536 + core.max_message_bytes;
    let commit = core.max_send_bytes + core.max_transaction_bytes + core.max_message_bytes;
    let by_tokens = core.max_rewritten_bytes + tokens * 1_536 + core.max_message_bytes;
    for most in [due_at_a_topic, commit, by_tokens] {
        assert!(open_batch + round + most < u64::from(u32::MAX), "{most}");
    }
}

#[test]
fn a_queue_holds_messages_as_it_is_told_and_by_the_link_unless_told() {
    let queue = |line: &str| format!("[[queue]]\nname = \"q\"\n{line}");
    for (line, expected) in [
        ("", broker_core::LockLifetime::Link),
        ("hold = \"link\"", broker_core::LockLifetime::Link),
        ("hold = \"lock\"", broker_core::LockLifetime::Lock),
    ] {
        assert_eq!(limits(&queue(line)).server.entities[0].settings.hold, expected, "{line}");
    }
    let unknown = Settings::parse(&queue("hold = \"timer\""), "f").unwrap_err().to_string();
    assert!(unknown.contains("line 3: unknown variant `timer`, expected `link` or `lock`"), "{unknown}");
}

#[test]
fn entities_have_the_status_and_note_that_they_are_given() {
    let note = "x".repeat(1_024);
    let all = [
        ("active", EntityStatus::Active),
        ("disabled", EntityStatus::Disabled),
        ("send-disabled", EntityStatus::SendDisabled),
        ("receive-disabled", EntityStatus::ReceiveDisabled),
    ];
    for (word, status) in all {
        let text = format!("[[queue]]\nname = \"q\"\nstatus = \"{word}\"\nuser_metadata = \"{note}\"");
        let settings = limits(&text).server.entities[0].settings.clone();
        assert_eq!(
            (settings.status, settings.user_metadata.as_deref()),
            (status, Some(note.as_str())),
            "{word}"
        );
    }
    let text = format!("[[queue]]\nname = \"q\"\nuser_metadata = \"{note}x\"");
    let found = check(&text).unwrap_err();
    assert!(found.contains("`user_metadata` has 1025 characters, expected at most 1024"), "{found}");
    let unknown = Settings::parse("[[queue]]\nname = \"q\"\nstatus = \"off\"", "f").unwrap_err().to_string();
    assert!(
        unknown.contains("line 3: unknown variant `off`, expected one of `active`, `disabled`"),
        "{unknown}"
    );
}

#[test]
fn each_limit_has_its_own_key_and_a_default_within_its_range() {
    let keys: BTreeSet<&str> = LIMITS.iter().map(|limit| limit.key).collect();
    assert_eq!(keys.len(), LIMITS.len());
    for limit in &LIMITS {
        for profile in [Profile::STANDARD, Profile::STANDARD_ONLY, Profile::BASIC, Profile::EMULATOR] {
            if let Some(number) = limit.default(profile) {
                assert_eq!(limit.checked(number).map_err(|it| it.to_string()), Ok(number), "{}", limit.key);
            }
        }
        assert!(!REMOVED.contains(&limit.key));
    }
}

#[test]
fn each_limit_sets_its_own_field_at_both_ends_of_its_range() {
    for limit in &LIMITS {
        let alone = limit.key == TLS_CHECK_INTERVAL.key;
        for number in [limit.range.0, limit.range.1] {
            let mut config = ServerConfig::default();
            limit.apply(Some(Amount::Number(number)), &mut config).unwrap();
            assert!(alone || (limit.field.get)(&config) == Some(number), "{}", limit.key);
            let others = LIMITS.iter().filter(|other| other.key != limit.key);
            for other in others {
                let default = (other.field.get)(&ServerConfig::default());
                assert_eq!((other.field.get)(&config), default, "{} sets {}", limit.key, other.key);
            }
        }
        let beyond = limit.apply(Some(Amount::Number(limit.range.1 + 1)), &mut ServerConfig::default());
        assert!(beyond.unwrap_err().to_string().contains(limit.key));
    }
}

#[test]
fn each_limit_of_a_namespace_has_one_row_with_its_key_and_unit() {
    let rows: Vec<&str> = NAMESPACE_LIMITS.iter().map(|limit| limit.path().1).collect();
    assert_eq!(rows, NamespaceLimit::ALL.map(NamespaceLimit::key));
    for limit in NamespaceLimit::ALL {
        assert_eq!(namespace_limit(limit).unit == Unit::Bytes, limit.is_bytes(), "{}", limit.key());
    }
}

#[test]
fn the_memory_of_the_process_is_as_given_or_off() {
    let most = |text: &str| check(text).map(|limits| limits.server.memory.limit);
    assert_eq!(most("[limits]\nmax_memory = \"1 GiB\""), Ok(Some(1 << 30)));
    assert_eq!(most("[limits]\nmax_memory = 67108864"), Ok(Some(64 << 20)));
    assert_eq!(most("[limits]\nmax_memory = \"off\""), Ok(None));
    let cases = [
        ("0", "`limits.max_memory` is 0, expected 67108864 to 17592186044416 bytes, or `off`"),
        ("\"none\"", "line 2: `none` is not a size"),
    ];
    for (value, expected) in cases {
        let found = most(&format!("[limits]\nmax_memory = {value}")).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn memory_that_no_file_names_is_four_fifths_of_what_the_control_group_has() {
    let group = memory_limit(Path::new("/sys/fs/cgroup"), Path::new("/proc/self/cgroup"));
    assert_eq!(limits("").server.memory.limit, group.map(|limit| limit / 5 * 4));
}

#[test]
fn a_process_has_one_shard_unless_told() {
    let shards = |text: &str| check(text).map(|limits| limits.server.shards);
    assert_eq!((shards(""), shards("shards = 64")), (Ok(1), Ok(64)));
    for bad in [0, 65] {
        let found = shards(&format!("shards = {bad}")).unwrap_err();
        assert!(found.contains(&format!("`shards` is {bad}, expected 1 to 64 shards")), "{found}");
    }
}

/// The part of the reference file about this table of limits.
fn reference_of(table: &str) -> String {
    let limits = LIMITS.iter().filter(|limit| limit.path().0 == table);
    limits.map(Limit::reference).collect()
}

/// With `FERRYBUS_WRITE_REFERENCE=1` the tables of the file are written anew.
#[test]
fn the_reference_file_has_each_limit_as_the_table_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ferrybus.reference.toml");
    let mut file = fs::read_to_string(&path).unwrap();
    for table in ["limits", "journal"] {
        let (_, text) = file.split_once(&format!("[{table}]\n")).unwrap();
        let text = text.split_once("\n\n").map_or(text, |(text, _)| text).to_owned();
        let expected = reference_of(table);
        if std::env::var_os("FERRYBUS_WRITE_REFERENCE").is_some() {
            file = file.replace(&text, expected.trim_end());
            fs::write(&path, &file).unwrap();
        } else {
            assert_eq!(text.trim_end(), expected.trim_end(), "[{table}]");
        }
    }
    let elsewhere = [REFUSED_ATTEMPTS, REFUSALS, METRICS_ENTITIES, TLS_CHECK_INTERVAL, SHARDS];
    for limit in elsewhere.iter().chain(&NAMESPACE_LIMITS).chain([&NAMESPACE_WEIGHT]) {
        let text = limit.reference();
        assert!(file.contains(&text), "{text}");
    }
}

#[test]
fn keys_of_earlier_versions_are_ignored_with_a_notice_each() {
    let text = "expiry = \"lazy\"\n[limits]\nmax_copies_per_send = 5\nmax_rewritten_bytes = \"1 GiB\"\n\
                max_selectors_per_entity = 0\nmax_subscribers_per_topic = 1\nhttp_write_time_out = \"1s\"\n";
    let notices = limits(text).notices;
    assert_eq!(notices.len(), REMOVED.len(), "{notices:?}");
    let list =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/renamed.md")).unwrap();
    for removed in REMOVED {
        let notice = format!(
            "`{removed}` in the configuration has no effect: it is no setting any more (docs/renamed.md)"
        );
        assert!(notices.contains(&notice), "{removed}: {notices:?}");
        assert!(list.contains(&format!("`{removed}`")), "{removed} is not in the list");
    }
    assert!(limits("").notices.is_empty());
}

/// Each key that was documented before the first one was removed.
#[test]
fn the_configuration_of_0_1_0_is_still_read() {
    const EARLIER: &str = include_str!("ferrybus-0.1.0.toml");
    let settings = Settings::parse(EARLIER, "ferrybus-0.1.0.toml").unwrap();
    let removed: BTreeSet<&str> = settings.removed().collect();
    assert_eq!(removed, BTreeSet::from(REMOVED));
    let mut config = ServerConfig::default();
    settings.limits.apply(&mut config).unwrap();
    settings.journal.apply(&mut config).unwrap();
    settings.observe(&mut config).unwrap();
    let declared = (settings.queue.len(), settings.topic.len(), settings.topic[0].inner.len());
    assert_eq!(declared, (1, 1, 1));
}
