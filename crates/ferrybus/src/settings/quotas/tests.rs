use broker_core::{EntityStatus, Profile};

use crate::settings::{Limits, Settings};

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
            "[limits]\nmax_subscribers_per_topic = 100001",
            "`limits.max_subscribers_per_topic` is 100001, expected 1 to 100000 subscribers",
        ),
        (
            "[limits]\nmax_selectors_per_entity = 0",
            "`limits.max_selectors_per_entity` is 0, expected 1 to 100000 receivers",
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
            "[limits]\nmax_rewritten_bytes = \"1025 MiB\"",
            "`limits.max_rewritten_bytes` is 1074790400, expected 16777216 to 1073741824 bytes",
        ),
        (
            "[limits]\nmax_transaction_bytes = \"15 MiB\"",
            "`limits.max_transaction_bytes` is 15728640, expected 16777216 to 1073741824 bytes",
        ),
        (
            "[limits]\nmax_copies_per_send = 0",
            "`limits.max_copies_per_send` is 0, expected 1 to 10000000 copies",
        ),
        (
            "[limits]\nmax_copies_per_send = 10000001",
            "`limits.max_copies_per_send` is 10000001, expected 1 to 10000000 copies",
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
        let bounds = limits(text).bounds;
        assert_eq!(bounds.quotas.profile, profile, "{text}");
        let found = (bounds.quotas.max_entities, bounds.max_connections, bounds.max_message_bytes);
        assert_eq!(found, (entities, connections, message_bytes), "{text}");
    }
}

#[test]
fn subscribers_and_receivers_with_selectors_are_limited_as_the_operator_says() {
    let most = |text: &str| {
        let quotas = limits(text).bounds.quotas;
        (quotas.max_subscribers_per_topic, quotas.max_selectors_per_entity)
    };
    assert_eq!(most(""), (1_000, 1_000));
    assert_eq!(
        most("[limits]\nmax_subscribers_per_topic = 1\nmax_selectors_per_entity = 100000"),
        (1, 100_000)
    );
}

#[test]
fn what_is_done_at_once_is_bounded_as_the_operator_says() {
    let most = |text: &str| {
        let quotas = limits(text).bounds.quotas;
        (quotas.max_send_bytes, quotas.max_rewritten_bytes, quotas.max_transaction_bytes)
    };
    assert_eq!(most(""), (128 << 20, 256 << 20, 128 << 20));
    let text = "[limits]\nmax_send_bytes = \"16 MiB\"\nmax_rewritten_bytes = \"1 GiB\"\n\
                max_transaction_bytes = \"17 MiB\"";
    assert_eq!(most(text), (16 << 20, 1 << 30, 17 << 20));
    let copies = |text: &str| limits(text).bounds.quotas.max_copies_per_send;
    assert_eq!(copies(""), 1_000_000);
    assert_eq!(copies("[limits]\nmax_copies_per_send = 10000000"), 10_000_000);
}

/// The parts of a batch that grow with the configuration, each as large as may be.
#[test]
fn a_batch_of_the_journal_holds_the_most_that_can_be_allowed() {
    const MOST: &str = r#"
        [limits]
        max_send_bytes = "1 GiB"
        max_rewritten_bytes = "1 GiB"
        max_transaction_bytes = "1 GiB"
        max_rules_per_topic = 1000000
        max_message_bytes = "100 MiB"
    "#;
    let bounds = limits(MOST).bounds;
    let (round, open_batch, tokens) = (4 << 20, 8 << 20, 4_096);
    let due_at_a_topic =
        bounds.quotas.max_send_bytes + bounds.quotas.max_rules_per_topic * 1_536 + bounds.max_message_bytes;
    let commit =
        bounds.quotas.max_send_bytes + bounds.quotas.max_transaction_bytes + bounds.max_message_bytes;
    let by_tokens = bounds.quotas.max_rewritten_bytes + tokens * 1_536 + bounds.max_message_bytes;
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
        assert_eq!(limits(&queue(line)).queues[0].1.hold, expected, "{line}");
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
        let settings = limits(&text).queues[0].1.clone();
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
