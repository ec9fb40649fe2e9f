//! Limits of the size and cost of a rule.
//!
//! Invariant: each limit is tested at its value and one past it, where it is enforced.

/// Longest text of an SQL filter, in characters (Service Bus quotas).
pub const MAX_FILTER_CHARS: usize = 1024;

/// Longest text of an SQL action, in characters (Service Bus quotas).
pub const MAX_ACTION_CHARS: usize = 1024;

/// Most statements of an action (Service Bus quotas: expressions per rule action).
pub const MAX_ACTION_STATEMENTS: usize = 32;

/// Deepest nesting of parentheses, `NOT` and signs in an expression. It bounds the stack that reading,
/// evaluating and dropping take. No service documents one.
pub const MAX_NESTING: usize = 64;

/// Longest string that `+` makes, in bytes. Actions could double a property 32 times otherwise.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Most letters that the `LIKE` conditions of one evaluation compare with patterns that have `_`; a search for a text without
/// `_` counts for each eighth byte. Without it a message
/// could bring a long text and patterns for which each place of the text costs the length of a pattern. A search in a
/// text of [`MAX_TEXT_BYTES`] takes little more than one comparison for each letter, so a filter can make 32 of them.
pub const MAX_LIKE_STEPS: u64 = 32 * MAX_TEXT_BYTES as u64;

/// Longest pattern of `LIKE`, in characters, when it comes from a message and not from the filter.
pub const MAX_PATTERN_CHARS: usize = 1024;
