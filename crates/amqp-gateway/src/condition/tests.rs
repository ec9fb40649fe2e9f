use std::collections::{BTreeMap, BTreeSet};

use broker_core::PartitionKeyError;

use super::*;

#[test]
fn refusals_have_the_names_that_the_sdks_map_to_their_exceptions() {
    let name = || Box::from("orders");
    let cases = [
        (Refusal::Attach(AttachError::NotFound(name())), "amqp:not-found", 404),
        (Refusal::Publish(PublishError::NotFound(name())), "amqp:not-found", 404),
        (Refusal::Entity(EntityError::NotFound(name())), "amqp:not-found", 404),
        (Refusal::Settle(SettleError::LockLost), "com.microsoft:message-lock-lost", 410),
        (Refusal::Settle(SettleError::EntityGone), "amqp:not-found", 404),
        (Refusal::Settle(SettleError::TooMuchAtOnce { limit: 1 }), "amqp:resource-limit-exceeded", 403),
        (Refusal::Attach(AttachError::SubQueueSend(name())), "amqp:not-allowed", 400),
        (Refusal::Publish(QuotaError::Storage.into()), "amqp:resource-limit-exceeded", 403),
        (Refusal::Publish(QuotaError::Memory.into()), "amqp:resource-limit-exceeded", 403),
        (Refusal::Entity(QuotaError::Memory.into()), "amqp:resource-limit-exceeded", 403),
        (
            Refusal::Attach(AttachError::NotCreated(QuotaError::Memory.into())),
            "amqp:resource-limit-exceeded",
            403,
        ),
        (
            Refusal::Publish(PublishError::TooMuchAtOnce { entity: name(), messages: 2, limit: 1 }),
            "amqp:resource-limit-exceeded",
            403,
        ),
        (Refusal::Publish(PartitionKeyError::NotTheSession(name()).into()), "amqp:not-allowed", 400),
        (Refusal::Publish(PartitionKeyError::SeveralKeys(name()).into()), "amqp:not-allowed", 400),
        (Refusal::Publish(PartitionKeyError::Missing(name()).into()), "amqp:not-allowed", 400),
        (Refusal::Entity(EntityError::HasPartitions(name())), "amqp:not-allowed", 400),
        (
            Refusal::Entity(EntityError::NotInProfile { what: "topics", profile: "Basic" }),
            "amqp:not-allowed",
            400,
        ),
        (
            Refusal::Publish(QuotaError::Entity { entity: name(), bytes: 2, limit: 1 }.into()),
            "amqp:resource-limit-exceeded",
            403,
        ),
        (
            Refusal::Publish(PublishError::TooLarge { entity: name(), bytes: 2, limit: 1 }),
            "amqp:link:message-size-exceeded",
            400,
        ),
        (Refusal::Attach(AttachError::Disabled(name())), "com.microsoft:entity-disabled", 403),
        (Refusal::Publish(PublishError::Disabled(name())), "com.microsoft:entity-disabled", 403),
        (Refusal::Entity(EntityError::Disabled(name())), "com.microsoft:entity-disabled", 403),
        (Refusal::Settle(SettleError::EntityDisabled), "com.microsoft:entity-disabled", 403),
        (Refusal::EntityDisabled { entity: "orders".into() }, "com.microsoft:entity-disabled", 403),
        (Refusal::PropertiesTooLarge { bytes: 2, limit: 1 }, "amqp:link:message-size-exceeded", 400),
        (
            Refusal::PropertyTooLarge { name: "p".into(), bytes: 2, limit: 1 },
            "amqp:link:message-size-exceeded",
            400,
        ),
        (
            Refusal::TooLong { field: "group-id", chars: 2, limit: 1 },
            "com.microsoft:argument-out-of-range",
            400,
        ),
        (Refusal::UnreadAnswers { limit: 1 }, "amqp:resource-limit-exceeded", 403),
        (Refusal::UnknownOperation { operation: "x".into() }, "amqp:not-implemented", 501),
        (Refusal::Unauthorized { claim: "Send", resource: "orders".into() }, "amqp:unauthorized-access", 401),
        (Refusal::NoTarget, "amqp:invalid-field", 400),
        (Refusal::NoAddress { terminus: "source" }, "amqp:invalid-field", 400),
        (Refusal::GlobalTransaction, "amqp:not-implemented", 501),
        (Refusal::NoTo, "amqp:precondition-failed", 400),
        (Refusal::ShuttingDown, "amqp:connection:forced", 503),
        (Refusal::Failed, "amqp:internal-error", 500),
        (Refusal::Ended, "amqp:connection:forced", 503),
    ];
    have_the_names(cases);
}

#[test]
fn refused_sessions_have_the_names_that_the_sdks_map_to_their_exceptions() {
    let name = || Box::from("orders");
    have_the_names(
        [
            (QuotaError::Storage.into(), "amqp:resource-limit-exceeded", 403),
            (SessionError::NotFound(name()), "amqp:not-found", 404),
            (SessionError::Disabled(name()), "com.microsoft:entity-disabled", 403),
            (SessionError::StateTooLarge { bytes: 2, limit: 1 }, "amqp:link:message-size-exceeded", 400),
        ]
        .map(|(error, condition, status)| (Refusal::Session(error), condition, status)),
    );
}

fn have_the_names<const N: usize>(cases: [(Refusal, &'static str, i32); N]) {
    for (refusal, condition, status) in cases {
        assert_eq!(refusal.named(), Named { condition, status }, "{refusal:?}");
        let text = refusal.text();
        assert!(text.ends_with('.') && !text.starts_with(char::is_lowercase), "{text}");
    }
}

#[test]
fn a_missing_entity_is_told_in_the_services_words() {
    let text = Refusal::Attach(AttachError::NotFound("orders".into())).text();
    assert!(text.starts_with("The messaging entity 'orders' could not be found."), "{text}");
    assert!(text.contains("--auto-create"), "{text}");
}

/// Conditions with their status codes.
type Listed<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Those that this module's source chooses.
fn chosen() -> Listed<'static> {
    let mut chosen = Listed::new();
    let source = include_str!("../condition.rs");
    let words = source.split('"').zip(source.split('"').skip(1)).skip(1).step_by(2);
    for (name, behind) in words.filter(|(word, _)| word.starts_with("amqp:") || word.starts_with("com.")) {
        let status = behind.strip_prefix(", ").and_then(|rest| rest.split(')').next());
        // The one that stands alone is told beside a status of its own.
        chosen.entry(name).or_default().insert(status.unwrap_or("204"));
    }
    chosen
}

#[test]
fn the_page_lists_every_condition_with_its_status_and_no_other() {
    let page = include_str!("../../../../docs/features/service-bus.md");
    let mut listed = Listed::new();
    let table = page.lines().skip_while(|line| !line.starts_with("| condition |")).skip(2);
    for row in table.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, status, ..] = cells.as_slice() else { panic!("{row}") };
        assert!(
            listed.insert(name.trim_matches('`'), status.split(", ").collect()).is_none(),
            "twice: {row}"
        );
    }
    assert_eq!(listed, chosen());
}
