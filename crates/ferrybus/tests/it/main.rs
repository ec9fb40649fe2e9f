//! The real binary, from outside.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

mod broker;
mod cli;
mod entities;
mod journal;
mod support;
mod testing;
