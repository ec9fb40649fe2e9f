//! Path by which a client names a message store.
//!
//! Invariant: a path names one store at most, however its letters are written.

/// The place of a message store by name. Names compare without regard to ASCII case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntityPath {
    /// Name of a queue or topic, or `topic/Subscriptions/name`, as the client wrote it.
    pub entity: Box<str>,
    pub sub_queue: SubQueue,
}

/// The stores of one entity.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SubQueue {
    /// The entity's own messages.
    Main,
    /// `$DeadLetterQueue`.
    DeadLetter,
    /// `$Transfer/$DeadLetterQueue`.
    TransferDeadLetter,
}
