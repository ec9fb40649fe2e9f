//! The way of a message into stores: checks, sequence numbers, duplicate detection, fan-out, scheduling and forwarding.
//!
//! Invariant: all messages of one send are stored, or none.

pub(crate) mod checks;
pub(crate) mod duplicates;
pub(crate) mod error;
pub(crate) mod fan_out;
pub(crate) mod fan_out_plan;
pub(crate) mod forward;
pub(crate) mod message;
pub(crate) mod partition_keys;
pub(crate) mod property_list;
pub(crate) mod publisher;
pub(crate) mod quota_error;
pub(crate) mod schedule;
pub(crate) mod send_size;
pub(crate) mod send_via;
pub(crate) mod sequence_sink;
pub(crate) mod store_message;
pub(crate) mod topic_message;
