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
                    cx.model.messages.deferred((id, entity));
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
