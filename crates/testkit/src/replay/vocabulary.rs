//! Names of AMQP's composite types and message sections, as recordings write them.
//!
//! Invariant: each descriptor stands in one of the two tables.

/// A type whose value is a list of fields.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Composite {
    pub(super) name: &'static str,
    pub(super) code: u64,
    pub(super) fields: &'static [&'static str],
}

const fn composite(code: u64, name: &'static str, fields: &'static [&'static str]) -> Composite {
    Composite { name, code, fields }
}

/// AMQP 1.0, parts 2 to 5.
#[rustfmt::skip] // One row for each type.
static COMPOSITES: [Composite; 29] = [
    composite(0x10, "open", &["container-id", "hostname", "max-frame-size", "channel-max", "idle-time-out", "outgoing-locales", "incoming-locales", "offered-capabilities", "desired-capabilities", "properties"]),
    composite(0x11, "begin", &["remote-channel", "next-outgoing-id", "incoming-window", "outgoing-window", "handle-max", "offered-capabilities", "desired-capabilities", "properties"]),
    composite(0x12, "attach", &["name", "handle", "role", "snd-settle-mode", "rcv-settle-mode", "source", "target", "unsettled", "incomplete-unsettled", "initial-delivery-count", "max-message-size", "offered-capabilities", "desired-capabilities", "properties"]),
    composite(0x13, "flow", &["next-incoming-id", "incoming-window", "next-outgoing-id", "outgoing-window", "handle", "delivery-count", "link-credit", "available", "drain", "echo", "properties"]),
    composite(0x14, "transfer", &["handle", "delivery-id", "delivery-tag", "message-format", "settled", "more", "rcv-settle-mode", "state", "resume", "aborted", "batchable"]),
    composite(0x15, "disposition", &["role", "first", "last", "settled", "state", "batchable"]),
    composite(0x16, "detach", &["handle", "closed", "error"]),
    composite(0x17, "end", &["error"]),
    composite(0x18, "close", &["error"]),
    composite(0x1d, "error", &["condition", "description", "info"]),
    composite(0x23, "received", &["section-number", "section-offset"]),
    composite(0x24, "accepted", &[]),
    composite(0x25, "rejected", &["error"]),
    composite(0x26, "released", &[]),
    composite(0x27, "modified", &["delivery-failed", "undeliverable-here", "message-annotations"]),
    composite(0x28, "source", &["address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "distribution-mode", "filter", "default-outcome", "outcomes", "capabilities"]),
    composite(0x29, "target", &["address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "capabilities"]),
    composite(0x30, "coordinator", &["capabilities"]),
    composite(0x31, "declare", &["global-id"]),
    composite(0x32, "discharge", &["txn-id", "fail"]),
    composite(0x33, "declared", &["txn-id"]),
    composite(0x34, "transactional-state", &["txn-id", "outcome"]),
    composite(0x40, "sasl-mechanisms", &["sasl-server-mechanisms"]),
    composite(0x41, "sasl-init", &["mechanism", "initial-response", "hostname"]),
    composite(0x42, "sasl-challenge", &["challenge"]),
    composite(0x43, "sasl-response", &["response"]),
    composite(0x44, "sasl-outcome", &["code", "additional-data"]),
    composite(0x70, "header", &["durable", "priority", "ttl", "first-acquirer", "delivery-count"]),
    composite(0x73, "properties", &["message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"]),
];

/// Sections of a message whose value is not a list of fields.
const SECTIONS: [(u64, &str); 7] = [
    (0x71, "delivery-annotations"),
    (0x72, "message-annotations"),
    (0x74, "application-properties"),
    (0x75, "data"),
    (0x76, "sequence"),
    (0x77, "value"),
    (0x78, "footer"),
];

pub(super) fn composite_named(name: &str) -> Option<&'static Composite> {
    COMPOSITES.iter().find(|composite| composite.name == name)
}

pub(super) fn composite_of(code: u64) -> Option<&'static Composite> {
    COMPOSITES.iter().find(|composite| composite.code == code)
}

pub(super) fn section_named(name: &str) -> Option<u64> {
    SECTIONS.iter().find(|(_, section)| *section == name).map(|(code, _)| *code)
}

pub(super) fn section_of(code: u64) -> Option<&'static str> {
    SECTIONS.iter().find(|(section, _)| *section == code).map(|(_, name)| *name)
}
