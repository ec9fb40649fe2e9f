//! Errors of parsing a filter or action, and of evaluating one.
//!
//! Invariant: an error of reading names a place inside of the text or just behind its end.

use std::fmt;

use crate::limits::{MAX_LIKE_STEPS, MAX_NESTING, MAX_PATTERN_CHARS, MAX_TEXT_BYTES};
use crate::properties::SystemProperty;
use crate::value::{Kind, Value};

/// A place in the text of a filter or an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

/// Syntax error of a filter or action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct ParseError {
    /// Position of the error.
    pub at: Position,
    pub problem: Problem,
}

/// Kind of a syntax error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something else belongs here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// Description of the tokens allowed here.
        expected: &'static str,
        /// Token found here: the text in backticks, or `the end`.
        found: Box<str>,
    },
    /// A quote or bracket that nothing closes.
    #[error("this {0} has no end")]
    Open(&'static str),
    /// A delimited name of no letters.
    #[error("a name has at least one character")]
    EmptyName,
    /// An integer that 64 bits cannot hold, or a double that is infinite.
    #[error("this number is too large")]
    NumberTooLarge,
    /// A parameter that was not given a value.
    #[error("parameter `{0}` has no value")]
    UnknownParameter(Box<str>),
    /// A function that does not exist.
    #[error("there is no function `{0}`")]
    UnknownFunction(Box<str>),
    /// An escape that is not one character, or a pattern that ends in one.
    #[error("{0}")]
    BadPattern(PatternError),
    /// Nested deeper than [`MAX_NESTING`].
    #[error("nested deeper than {MAX_NESTING} levels")]
    TooDeep,
    /// The text has more characters than allowed.
    #[error("the text has more than {limit} characters")]
    TooLong {
        /// The most characters there may be.
        limit: usize,
    },
    /// The action has more statements than allowed.
    #[error("the action has more than {limit} statements")]
    TooManyStatements {
        /// The most statements there may be.
        limit: usize,
    },
}

/// Reason why a text is no pattern of `LIKE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `ESCAPE` wants exactly one character.
    #[error("the escape of a pattern is one character")]
    Escape,
    /// Nothing follows the escape character.
    #[error("the pattern ends in its escape character")]
    Unfinished,
    /// A pattern that a message brings is longer than [`MAX_PATTERN_CHARS`].
    #[error("the pattern has more than {MAX_PATTERN_CHARS} characters")]
    TooLong,
}

/// Reason why a filter or an action cannot be evaluated for a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The scope `sys` has no such name.
    #[error("there is no system property `{0}`")]
    UnknownSystemProperty(Box<str>),
    /// An operator between kinds that do not go together.
    #[error("`{operator}` is not defined between {left} and {right}")]
    Incompatible {
        operator: &'static str,
        /// The left operand's kind.
        left: Kind,
        /// The right operand's kind.
        right: Kind,
    },
    /// An operand of a kind that is not taken there.
    #[error("{part} cannot be {kind}")]
    WrongKind { part: &'static str, kind: Kind },
    /// A pattern that comes from the message cannot be used.
    #[error("{0}")]
    BadPattern(PatternError),
    /// The result does not fit 64 bits.
    #[error("the result is too large for an integer of 64 bits")]
    Overflow,
    /// An integer divided by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A string that is too long.
    #[error("the result has more than {MAX_TEXT_BYTES} bytes")]
    TextTooLong,
    /// The conditions with `LIKE` and `_` compare too many letters.
    #[error("the patterns take more than {MAX_LIKE_STEPS} comparisons")]
    TooManySteps,
    /// A system property that the broker alone sets.
    #[error("`sys.{0}` cannot be changed")]
    ReadOnly(SystemProperty),
    /// A system property that takes other kinds.
    #[error("`sys.{property}` cannot be {kind}")]
    NotFor {
        /// The property that an action sets.
        property: SystemProperty,
        /// The kind of what it would be set to.
        kind: Kind,
    },
}

impl EvalError {
    pub(crate) const fn incompatible(operator: &'static str, left: &Value, right: &Value) -> Self {
        Self::Incompatible { operator, left: left.kind(), right: right.kind() }
    }
}

impl Position {
    /// The place of the byte at `offset` of `text`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            offset,
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: before.chars().count() - before.get(..line_start).unwrap_or("").chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
