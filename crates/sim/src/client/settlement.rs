//! Answers to what a client has sent, settled or committed.
//!
//! Invariant: the model hears of every outcome that the broker has told.

use amqp_codec::{performative::DeliveryState, types::Role};

use super::{
    Client,
    amqp_session::{ClientContext, PendingDelivery},
    receiver::Receiver,
};
use crate::model::SettlementKind;

impl Client {
    pub(super) fn on_disposition(
        &mut self,
        role: Role,
        delivery: u32,
        state: Option<&DeliveryState>,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        let accepted = matches!(state, Some(DeliveryState::Accepted));
        if role == Role::Sender {
            match (self.amqp.settling.remove(&delivery), state) {
                (Some((id, entity, SettlementKind::Complete)), _) if accepted => {
                    cx.model.messages.completed((id, entity));
                }
                (None, _) | (_, Some(DeliveryState::Rejected(_))) => {}
                (Some((id, entity, SettlementKind::Defer)), _) => {
                    cx.model.count("messages deferred");
                    cx.model.messages.deferred((id, entity), self.amqp.holder);
                }
                _ => {}
            }
            return Ok(());
        }
        match self.amqp.unanswered.remove(&delivery).map(|(_, waiting)| waiting) {
            Some(PendingDelivery::Sent(group)) if accepted => {
                cx.model.accepted(group).map_err(|broken| broken.to_string())
            }
            Some(PendingDelivery::Sent(group)) => {
                check_refusal(state, cx.model.may_be_full)?;
                cx.model.refused(group).map_err(|broken| broken.to_string())
            }
            None | Some(PendingDelivery::Enlisted) => Ok(()),
            Some(waiting) => match &mut self.coordinator {
                Some(coordinator) => {
                    coordinator.on_answer(waiting, state, cx.model)?;
                    self.end_transaction(waiting, accepted)
                }
                None => Ok(()),
            },
        }
    }

    /// The broker has answered for the end of a transaction.
    fn end_transaction(&mut self, waiting: PendingDelivery, accepted: bool) -> Result<(), String> {
        match waiting {
            PendingDelivery::Discharged(_) if accepted => {
                self.receivers.iter().try_for_each(Receiver::check_committed)
            }
            PendingDelivery::Discharged(_) | PendingDelivery::RolledBack => {
                self.receivers.iter_mut().for_each(Receiver::roll_back);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A send is refused for want of room only where there may be none.
fn check_refusal(state: Option<&DeliveryState>, may_be_full: bool) -> Result<(), String> {
    let Some(DeliveryState::Rejected(Some(error))) = state else { return Ok(()) };
    match error.condition.as_str() {
        "amqp:resource-limit-exceeded" | "com.microsoft:server-busy" if !may_be_full => {
            Err(format!("nothing is refused below the limits: {error:?}"))
        }
        "amqp:resource-limit-exceeded" | "com.microsoft:server-busy" => Ok(()),
        other => Err(format!("a send is refused with the error of a limit, not with {other}")),
    }
}
