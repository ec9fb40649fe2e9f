//! Operations of management nodes.
//!
//! Invariant: each operation needs one right, and joins a transaction or does not.

use broker_auth::Right;

/// Operation of a request, which its reply needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// `com.microsoft:peek-message`.
    Peek,
    /// The same with `omit-message-body`.
    PeekWithoutBody,
    /// `com.microsoft:renew-lock`.
    RenewLocks,
    /// `com.microsoft:update-disposition`.
    UpdateDisposition,
    /// `com.microsoft:schedule-message`.
    Schedule,
    /// `com.microsoft:cancel-scheduled-message`.
    CancelScheduled,
    /// `com.microsoft:receive-by-sequence-number`.
    ReceiveDeferred,
    /// `com.microsoft:batch-delete-messages`.
    BatchDelete,
    /// `com.microsoft:renew-session-lock`.
    RenewSession,
    /// `com.microsoft:get-session-state`.
    GetSessionState,
    /// `com.microsoft:set-session-state`.
    SetSessionState,
    /// `com.microsoft:get-message-sessions`.
    ListSessions,
    /// `com.microsoft:add-rule`.
    AddRule,
    /// `com.microsoft:remove-rule`.
    RemoveRule,
    /// `com.microsoft:enumerate-rules`.
    ListRules,
}

impl Operation {
    /// The operation of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("com.microsoft:")? {
            "peek-message" => Self::Peek,
            "renew-lock" => Self::RenewLocks,
            "update-disposition" => Self::UpdateDisposition,
            "schedule-message" => Self::Schedule,
            "cancel-scheduled-message" => Self::CancelScheduled,
            "receive-by-sequence-number" => Self::ReceiveDeferred,
            "batch-delete-messages" => Self::BatchDelete,
            "renew-session-lock" => Self::RenewSession,
            "get-session-state" => Self::GetSessionState,
            "set-session-state" => Self::SetSessionState,
            "get-message-sessions" => Self::ListSessions,
            "add-rule" => Self::AddRule,
            "remove-rule" => Self::RemoveRule,
            "enumerate-rules" => Self::ListRules,
            _ => return None,
        })
    }

    /// The right that it needs.
    pub(crate) const fn right(self) -> Right {
        match self {
            Self::Schedule | Self::CancelScheduled => Right::Send,
            Self::Peek
            | Self::PeekWithoutBody
            | Self::RenewLocks
            | Self::UpdateDisposition
            | Self::ReceiveDeferred
            | Self::BatchDelete
            | Self::RenewSession
            | Self::GetSessionState
            | Self::SetSessionState
            | Self::ListSessions
            | Self::AddRule
            | Self::RemoveRule
            | Self::ListRules => Right::Listen,
        }
    }

    /// Whether it can be part of a transaction. What cannot is done at once, or refused for itself alone.
    pub(crate) const fn joins_transactions(self) -> bool {
        matches!(
            self,
            Self::UpdateDisposition | Self::Schedule | Self::CancelScheduled | Self::SetSessionState
        )
    }

    /// Whether it is about the messages, the lock or the state of a session, where the entity has sessions.
    pub(crate) const fn is_of_session(self) -> bool {
        match self {
            Self::Peek
            | Self::PeekWithoutBody
            | Self::UpdateDisposition
            | Self::ReceiveDeferred
            | Self::BatchDelete
            | Self::RenewSession
            | Self::GetSessionState
            | Self::SetSessionState => true,
            Self::RenewLocks
            | Self::Schedule
            | Self::CancelScheduled
            | Self::ListSessions
            | Self::AddRule
            | Self::RemoveRule
            | Self::ListRules => false,
        }
    }

    /// Whether its answer may be as large as a message, or larger.
    pub(crate) const fn has_large_answer(self) -> bool {
        matches!(self, Self::Peek | Self::PeekWithoutBody | Self::ReceiveDeferred | Self::GetSessionState)
    }
}
