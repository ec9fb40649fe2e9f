//! Subscription rules: filters that select messages, and actions that change the copies.
//!
//! A [`PropertySet`] is what a filter sees of a message. A [`Filter`] is true, false, a comparison of a
//! few properties ([`CorrelationFilter`]) or an expression ([`SqlFilter`]). A [`SqlAction`] changes the
//! properties of a copy. A [`RuleIndex`] finds the rules that match without trying each.
//!
//! Invariant: knows no protocol, queue, clock or chance of its own; the same filter gives the same answer
//! for the same properties, whatever else an index holds.

mod action;
mod arithmetic;
mod correlation;
mod error;
mod filter;
mod fold;
mod index;
pub mod limits;
mod properties;
#[cfg(test)]
mod samples;
mod sql;
mod value;
mod written;

pub use action::{Change, SqlAction};
pub use correlation::CorrelationFilter;
pub use error::{EvalError, ParseError, PatternError, Position, Problem};
pub use filter::Filter;
pub use index::RuleIndex;
pub use properties::{Property, PropertySet, SystemProperty};
pub use sql::{Parameters, SqlFilter};
pub use value::{Kind, Value};
pub use written::{NumberType, Written};

/// Gives 128 random bits; `newid()` makes a version 4 UUID of them.
pub type NewId<'a> = dyn FnMut() -> u128 + 'a;
