//! The four kinds of filters.
//!
//! Invariant: only an SQL filter can fail.

use crate::NewId;
use crate::correlation::CorrelationFilter;
use crate::error::EvalError;
use crate::properties::PropertySet;
use crate::sql::SqlFilter;

/// Decides which messages a rule takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Every message.
    True,
    /// No message.
    False,
    /// Those for which an expression is true.
    Sql(SqlFilter),
    /// Those that have the same values.
    Correlation(CorrelationFilter),
}

impl Filter {
    /// Whether a message with these properties matches.
    pub fn matches(&self, properties: &PropertySet, new_id: &mut NewId<'_>) -> Result<bool, EvalError> {
        match self {
            Self::True => Ok(true),
            Self::False => Ok(false),
            Self::Sql(filter) => filter.matches(properties, new_id),
            Self::Correlation(filter) => Ok(filter.matches(properties)),
        }
    }
}
