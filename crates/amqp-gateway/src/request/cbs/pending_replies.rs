//! Replies of `$cbs` that wait for an answer of the core, and those behind them.
//!
//! Invariant: answers leave in the order of their requests.

use std::collections::VecDeque;

use broker_auth::Grant;

use crate::{condition::Refusal, request::Caller};

/// The answers of one connection that have not left. Empty unless a token waits for the core.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies(VecDeque<(Caller, PendingReply)>);

/// The answer to one request.
#[derive(Debug)]
enum PendingReply {
    /// The core is asked whether the entity of a good token is there.
    Asked {
        number: u64,
        grant: Box<Grant>,
    },
    Known(Result<(), Refusal>),
}

impl PendingReplies {
    /// Number of pending replies.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A good token waits for the answer to request `number` of the core.
    pub(crate) fn ask(&mut self, caller: Caller, number: u64, grant: Grant) {
        self.0.push_back((caller, PendingReply::Asked { number, grant: Box::new(grant) }));
    }

    /// An answer is known. It leaves behind all those that wait.
    pub(crate) fn know(&mut self, caller: Caller, answer: Result<(), Refusal>) {
        self.0.push_back((caller, PendingReply::Known(answer)));
    }

    /// Whether a token waits for the answer to this request of the core.
    pub(crate) fn waits_for(&self, number: u64) -> bool {
        self.position(number).is_some()
    }

    /// The core has answered: the answer to the token is what `decide` makes of its grant.
    pub(crate) fn decide(&mut self, number: u64, decide: impl FnOnce(Grant) -> Result<(), Refusal>) {
        let Some((_, answer)) = self.position(number).and_then(|index| self.0.get_mut(index)) else { return };
        if let PendingReply::Asked { grant, .. } = std::mem::replace(answer, PendingReply::Known(Ok(()))) {
            *answer = PendingReply::Known(decide(*grant));
        }
    }

    /// The next answer that may leave.
    pub(crate) fn pop(&mut self) -> Option<(Caller, Result<(), Refusal>)> {
        match self.0.pop_front()? {
            (caller, PendingReply::Known(answer)) => Some((caller, answer)),
            waiting @ (_, PendingReply::Asked { .. }) => {
                self.0.push_front(waiting);
                None
            }
        }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.0
            .iter()
            .position(|(_, answer)| matches!(answer, PendingReply::Asked { number: it, .. } if *it == number))
    }
}
