//! The whole broker in one process, seen through its sockets by scripted clients.
//!
//! Each module says `cfg(test)`, which always holds here: clippy lets code unwrap and index only where it sees that.

#[cfg(test)]
mod absurd_times;
#[cfg(test)]
mod address_texts;
#[cfg(test)]
mod administration;
#[cfg(test)]
mod bad_administration;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod changes_seen;
#[cfg(test)]
mod client;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod descriptions;
#[cfg(test)]
mod dialect;
#[cfg(test)]
mod duplicates;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod entity_keys;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod foreign_pages;
#[cfg(test)]
mod forwarding;
#[cfg(test)]
mod frameworks;
#[cfg(test)]
mod holding;
#[cfg(test)]
mod http;
#[cfg(test)]
mod live_changes;
#[cfg(test)]
mod malformed_http;
#[cfg(test)]
mod management;
#[cfg(test)]
mod message;
#[cfg(test)]
mod namespace_hosts;
#[cfg(test)]
mod namespace_keys;
#[cfg(test)]
mod namespace_limits;
#[cfg(test)]
mod namespace_limits_websocket;
#[cfg(test)]
mod namespace_locks;
#[cfg(test)]
mod namespace_names;
#[cfg(test)]
mod namespace_views;
#[cfg(test)]
mod namespaces;
#[cfg(test)]
mod numbers;
#[cfg(test)]
mod observe;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod plain_cases;
#[cfg(test)]
mod plain_sdks;
#[cfg(test)]
mod played;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod replayed;
#[cfg(test)]
mod sdk_amqpnetlite;
#[cfg(test)]
mod sdk_dotnet;
#[cfg(test)]
mod sdk_go;
#[cfg(test)]
mod sdk_java;
#[cfg(test)]
mod sdk_protonj2;
#[cfg(test)]
mod sdk_qpid_jms;
#[cfg(test)]
mod service_bus;
#[cfg(test)]
mod session_views;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settlement;
#[cfg(test)]
mod shard_failures;
#[cfg(test)]
mod stalls;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod team;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod token_hosts;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod topics;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod websocket;
#[cfg(test)]
mod websocket_sdks;
