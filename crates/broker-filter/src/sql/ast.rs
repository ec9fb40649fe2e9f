//! Syntax tree of an expression.
//!
//! Invariant: chains of one operator are flat, so a tree is only as deep as its text is nested.

use crate::arithmetic::Arithmetic;
use crate::properties::Property;
use crate::sql::pattern::Pattern;
use crate::value::{Compare, Value};

/// Something that has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    /// A constant or a parameter.
    Constant(Value),
    Property(Named),
    /// `newid()`
    NewId,
    /// `property(name)`, `p(name)`
    Lookup(Box<Self>),
    Sign {
        negative: bool,
        of: Box<Self>,
    },
    /// From left to right, whatever the operators: `(a + b) * c`.
    Chain {
        first: Box<Self>,
        rest: Vec<(Arithmetic, Self)>,
    },
}

impl Expr {
    pub(crate) const fn as_constant(&self) -> Option<&Value> {
        if let Self::Constant(value) = self { Some(value) } else { None }
    }

    /// The text of a constant string.
    pub(crate) const fn as_text(&self) -> Option<&str> {
        if let Self::Constant(value) = self { value.as_text() } else { None }
    }
}

/// A property as the text names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Known(Property),
    /// `sys.` and a name that is none: an error when it is evaluated, not before.
    Unknown(Box<str>),
}

/// Something that is true, false or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Predicate {
    Compare {
        compare: Compare,
        left: Expr,
        right: Expr,
    },
    IsNull {
        property: Named,
        negated: bool,
    },
    Exists(Named),
    In {
        value: Expr,
        list: Vec<Expr>,
        negated: bool,
    },
    Like {
        value: Expr,
        pattern: Expr,
        escape: Option<Expr>,
        /// The pattern, when it is a constant.
        fixed: Option<Pattern>,
        negated: bool,
    },
    /// Something with one answer for the kinds of values: it never fails, as a selector of JMS does not.
    Lenient(Box<Self>),
    Not(Box<Self>),
    /// At least two.
    And(Vec<Self>),
    /// At least two.
    Or(Vec<Self>),
}

impl Predicate {
    /// The same where no kind of value is a failure.
    pub(crate) fn lenient(self) -> Self {
        let each = |parts: Vec<Self>| parts.into_iter().map(Self::lenient).collect();
        match self {
            Self::And(parts) => Self::And(each(parts)),
            Self::Or(parts) => Self::Or(each(parts)),
            Self::Not(predicate) => Self::Not(Box::new(predicate.lenient())),
            leaf => Self::Lenient(Box::new(leaf)),
        }
    }
}
