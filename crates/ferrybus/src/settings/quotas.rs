//! The tier, and how many of things there may be in it.
//!
//! Invariant: what the operator sets holds in every tier; a tier only has defaults of its own.

use broker_core::Profile;
use broker_server::Quotas;

use super::{
    LimitSettings, Tier,
    bounds::{time, within},
};
use crate::{failure::Failure, size_and_duration::Bytes};

/// Limits of the broker and of its entities.
pub(super) fn quotas(limits: &LimitSettings, tier: Tier) -> Result<Quotas, Failure> {
    let emulator = tier == Tier::Emulator;
    let count = |key, value, default, most, unit| within(key, value, default, 1, most, unit);
    let at_once = at_once(limits)?;
    Ok(Quotas {
        profile: match tier {
            Tier::Standard => Profile::STANDARD,
            Tier::StandardOnly => Profile::STANDARD_ONLY,
            Tier::Basic => Profile::BASIC,
            Tier::Emulator => Profile::EMULATOR,
        },
        max_entities: count(
            "limits.max_entities",
            limits.max_entities,
            if emulator { 50 } else { 10_000 },
            1_000_000,
            "entities",
        )?,
        max_rules_per_topic: count(
            "limits.max_rules_per_topic",
            limits.max_rules_per_topic,
            if emulator { 1_000 } else { 100_000 },
            1_000_000,
            "rules",
        )?,
        max_receivers_per_entity: count(
            "limits.max_receivers_per_entity",
            limits.max_receivers_per_entity,
            if emulator { 200 } else { 100_000 },
            1_000_000,
            "receivers",
        )?,
        max_subscribers_per_topic: count(
            "limits.max_subscribers_per_topic",
            limits.max_subscribers_per_topic,
            1_000,
            100_000,
            "subscribers",
        )?,
        max_selectors_per_entity: count(
            "limits.max_selectors_per_entity",
            limits.max_selectors_per_entity,
            1_000,
            100_000,
            "receivers",
        )?,
        max_transaction_messages: count(
            "limits.max_transaction_messages",
            limits.max_transaction_messages,
            100,
            10_000,
            "messages",
        )?,
        max_copies_per_send: at_once.copies,
        max_send_bytes: at_once.sent,
        max_rewritten_bytes: at_once.rewritten,
        max_transaction_bytes: at_once.in_transactions,
        transaction_time_out: time(
            "limits.transaction_time_out",
            limits.transaction_time_out,
            120,
            1,
            3_600,
        )?,
    })
}

/// Limits of one command.
struct AtOnce {
    /// Copies of what one send brings.
    copies: u64,
    /// Bytes that one send brings.
    sent: u64,
    /// Bytes that one settlement by tokens writes anew.
    rewritten: u64,
    /// Bytes that the open transactions of one connection hold.
    in_transactions: u64,
}

fn at_once(limits: &LimitSettings) -> Result<AtOnce, Failure> {
    let size = |key, value: Option<Bytes>, default| {
        within(key, value.map(|bytes| bytes.0), default, AT_ONCE_BYTES_MIN, AT_ONCE_BYTES_MAX, "bytes")
    };
    let copies = limits.max_copies_per_send;
    Ok(AtOnce {
        copies: within("limits.max_copies_per_send", copies, 1_000_000, 1, 10_000_000, "copies")?,
        sent: size("limits.max_send_bytes", limits.max_send_bytes, 128 << 20)?,
        rewritten: size("limits.max_rewritten_bytes", limits.max_rewritten_bytes, 256 << 20)?,
        in_transactions: size("limits.max_transaction_bytes", limits.max_transaction_bytes, 128 << 20)?,
    })
}

/// A batch of 1 MiB, as clients make them, fits into a queue whatever the size of its messages.
const AT_ONCE_BYTES_MIN: u64 = 16 << 20;
/// What is done at once lies in one batch of the journal, of less than 4 GiB. What the rules of a topic say of a message
/// that is due, up to 1.5 KiB for each, comes on top.
const AT_ONCE_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests;
