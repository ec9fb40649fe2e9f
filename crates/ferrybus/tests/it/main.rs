//! The real binary, from outside.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

mod broker;
mod cli;
mod config;
#[cfg(target_os = "linux")]
mod deleted_namespace;
mod documented;
mod entities;
#[cfg(target_os = "linux")]
mod failing_disk;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(target_os = "linux")]
mod full_memory;
#[cfg(target_os = "linux")]
mod full_namespaces;
mod journal;
#[cfg(target_os = "linux")]
mod large;
mod letters;
mod log;
mod log_lines;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod memory_http;
#[cfg(target_os = "linux")]
mod memory_sparse;
#[cfg(target_os = "linux")]
mod memory_tls;
mod migrate;
mod namespaces;
mod observe;
mod permissions;
mod provision;
#[cfg(target_os = "linux")]
mod reload;
#[cfg(target_os = "linux")]
mod settled;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod testing;
mod tls_server_name;
mod two_operators;
