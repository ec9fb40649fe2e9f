//! Role and settle modes of a link.
//!
//! Invariant: only the values that the specification lists can be represented.

/// Which end of a link speaks (transport 2.8.1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Role {
    /// `false` on the wire.
    Sender,
    /// `true` on the wire.
    Receiver,
}

impl Role {
    /// The wire's boolean for this role.
    #[inline]
    pub const fn is_receiver(self) -> bool {
        matches!(self, Self::Receiver)
    }

    /// The role of the other end.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

impl From<bool> for Role {
    #[inline]
    fn from(is_receiver: bool) -> Self {
        if is_receiver { Self::Receiver } else { Self::Sender }
    }
}

/// Settlement policy of a sender (transport 2.8.2).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum SenderSettleMode {
    /// 0: every delivery is sent unsettled.
    Unsettled,
    /// 1: every delivery is sent settled.
    Settled,
    /// 2: either, delivery by delivery. The default.
    #[default]
    Mixed,
}

impl SenderSettleMode {
    /// The wire's number for this mode.
    pub const fn code(self) -> u8 {
        match self {
            Self::Unsettled => 0,
            Self::Settled => 1,
            Self::Mixed => 2,
        }
    }

    /// The mode for a number of the wire.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Unsettled),
            1 => Some(Self::Settled),
            2 => Some(Self::Mixed),
            _ => None,
        }
    }
}

/// Settlement mode of a receiver (transport 2.8.3).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ReceiverSettleMode {
    /// 0: at once. The default.
    #[default]
    First,
    /// 1: after the sender has settled.
    Second,
}

impl ReceiverSettleMode {
    /// The wire's number for this mode.
    pub const fn code(self) -> u8 {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }

    /// The mode for a number of the wire.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::First),
            1 => Some(Self::Second),
            _ => None,
        }
    }
}
