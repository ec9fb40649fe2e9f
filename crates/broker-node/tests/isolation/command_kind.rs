//! Kinds of commands, by number.

use broker_core::Command;

/// Number of the kinds of commands.
pub(crate) const KINDS: usize = 48;

/// Number of a command's kind. A new kind belongs into `any_command`, too.
pub(crate) fn kind(command: &Command) -> usize {
    match command {
        Command::Connect => 0,
        Command::Disconnect => 1,
        Command::OpenProducer { .. } => 2,
        Command::OpenProducerVia { .. } => 3,
        Command::OfKind(..) => 4,
        Command::OpenDynamicNode { .. } => 5,
        Command::ReleaseDynamicNode { .. } => 6,
        Command::CloseProducer { .. } => 7,
        Command::OpenConsumer { .. } => 8,
        Command::OpenSubscriber { .. } => 9,
        Command::FindSubscriber { .. } => 10,
        Command::Unsubscribe { .. } => 11,
        Command::CloseConsumer { .. } => 12,
        Command::LeaveConsumer { .. } => 13,
        Command::Credit { .. } => 14,
        Command::ByteBudget { .. } => 15,
        Command::Publish { .. } => 16,
        Command::PublishBatch { .. } => 17,
        Command::PublishTo { .. } => 18,
        Command::PublishVia { .. } => 19,
        Command::Settle { .. } => 20,
        Command::SettleByToken { .. } => 21,
        Command::Declare { .. } => 22,
        Command::Enlist { .. } => 23,
        Command::FailTransaction { .. } => 24,
        Command::Discharge { .. } => 25,
        Command::RenewLocks { .. } => 26,
        Command::Peek { .. } => 27,
        Command::Schedule { .. } => 28,
        Command::CancelScheduled { .. } => 29,
        Command::ReceiveDeferred { .. } => 30,
        Command::DeleteMessages { .. } => 31,
        Command::RenewSession { .. } => 32,
        Command::SetSessionState { .. } => 33,
        Command::GetSessionState { .. } => 34,
        Command::ListSessions { .. } => 35,
        Command::CreateEntity { .. } => 36,
        Command::CreateSubscription { .. } => 37,
        Command::AddRule { .. } => 38,
        Command::UpdateRule { .. } => 39,
        Command::RemoveRule { .. } => 40,
        Command::ShowRule { .. } => 41,
        Command::ListRules { .. } => 42,
        Command::UpdateEntity { .. } => 43,
        Command::FindEntity { .. } => 44,
        Command::WatchKeys => 45,
        Command::Describe { .. } => 46,
        Command::DeleteEntity { .. } => 47,
    }
}
