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
        self.matches_counted(properties, new_id).0
    }

    /// The same, and the steps of [`SqlFilter::matches_counted`].
    pub fn matches_counted(
        &self,
        properties: &PropertySet,
        new_id: &mut NewId<'_>,
    ) -> (Result<bool, EvalError>, u64) {
        match self {
            Self::True => (Ok(true), 0),
            Self::False => (Ok(false), 0),
            Self::Sql(filter) => filter.matches_counted(properties, new_id),
            Self::Correlation(filter) => (Ok(filter.matches(properties)), 0),
        }
    }
}
