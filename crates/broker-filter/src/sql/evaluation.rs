//! One evaluation of a filter: its random numbers, and the steps that its `LIKE` conditions take together.
//!
//! Invariant: at most [`MAX_LIKE_STEPS`] steps are taken; the next one fails.

use crate::NewId;
use crate::error::EvalError;
use crate::limits::MAX_LIKE_STEPS;

/// An evaluation that is under way.
pub(crate) struct Evaluation<'a> {
    pub(crate) new_id: &'a mut NewId<'a>,
    pub(crate) steps: LikeSteps,
}

/// Letters that were compared with a pattern that has `_`, and searches through texts.
#[derive(Debug, Default)]
pub(crate) struct LikeSteps(u64);

impl<'a> Evaluation<'a> {
    pub(crate) fn new(new_id: &'a mut NewId<'a>) -> Self {
        Self { new_id, steps: LikeSteps::default() }
    }
}

impl LikeSteps {
    /// Counts a letter that is compared.
    pub(crate) const fn take(&mut self) -> Result<(), EvalError> {
        if self.0 == MAX_LIKE_STEPS {
            return Err(EvalError::TooManySteps);
        }
        self.0 += 1;
        Ok(())
    }

    /// Counts a search for a text without holes through so many bytes, which is faster.
    pub(crate) fn take_search(&mut self, bytes: usize) -> Result<(), EvalError> {
        let steps = u64::try_from(bytes / SEARCH_BYTES).unwrap_or(u64::MAX);
        let taken = self.0.saturating_add(steps);
        self.0 = taken.min(MAX_LIKE_STEPS);
        if taken > MAX_LIKE_STEPS { Err(EvalError::TooManySteps) } else { Ok(()) }
    }

    /// Number of those that were taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.0
    }
}

/// Bytes that a search for a text without holes goes through in the time of a step.
const SEARCH_BYTES: usize = 8;
