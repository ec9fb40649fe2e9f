//! Rounds of a node: how much each takes in.
//!
//! Invariant: a run whose rounds take in one batch each draws nothing for them.

use crate::{plan::Plan, rng::Rng};

/// The size of rounds in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundPlan {
    /// Most batches and changes that one round takes in.
    inputs_max: u64,
}

impl RoundPlan {
    /// The rounds of this plan.
    pub(super) fn of(plan: &Plan) -> Self {
        Self { inputs_max: plan.inputs_per_round }
    }

    /// Number of inputs of the next round.
    pub(super) fn inputs(self, rng: &mut Rng) -> u64 {
        if self.inputs_max > 1 { 1 + rng.below(self.inputs_max) } else { 1 }
    }
}
