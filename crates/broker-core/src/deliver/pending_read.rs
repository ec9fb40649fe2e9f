//! Requests to peek or to receive deferred messages that wait for the next `deliver`.
//!
//! Invariant: a request is answered exactly once, in the order in which the requests came.

use std::collections::BTreeMap;

use crate::{ClientId, EntityPath, Peeked, Position, ReadId, SequenceNumber, Stored, Ticket};

/// A request that waits for the next `deliver`, when all records of earlier calls can be read.
#[derive(Debug)]
pub(crate) struct PendingRead {
    pub(crate) client: ClientId,
    pub(crate) ticket: Ticket,
    /// Reads of the disk that it has waited for, one after the other, and that brought it nothing.
    pub(crate) disk_waits: u8,
    pub(crate) request: ReadRequest,
}

/// State of a request after a part of the work.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    Whole(T),
    /// It goes on in the next call.
    Unfinished,
    /// It goes on when this read of the disk is done.
    Disk(ReadId),
}

impl<T> Answer<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Whole(answer) => Answer::Whole(change(answer)),
            Self::Unfinished => Answer::Unfinished,
            Self::Disk(read) => Answer::Disk(read),
        }
    }
}

/// Request that is answered at the next `deliver`.
#[derive(Debug)]
pub(crate) enum ReadRequest {
    Peek(PeekRequest),
    Fetch(FetchRequest),
}

impl ReadRequest {
    /// Messages that earlier calls have read for it.
    pub(crate) fn messages_so_far(&self) -> usize {
        match self {
            Self::Peek(request) => request.found.len(),
            Self::Fetch(request) => request.kept.len(),
        }
    }
}

/// The fields of a `Peek`.
#[derive(Debug)]
pub(crate) struct PeekRequest {
    pub(crate) path: EntityPath,
    pub(crate) session: Option<Box<str>>,
    pub(crate) from: SequenceNumber,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    /// Messages that earlier calls found.
    pub(crate) found: Vec<Peeked>,
}

/// The fields of a `ReceiveDeferred`.
#[derive(Debug)]
pub(crate) struct FetchRequest {
    pub(crate) path: EntityPath,
    pub(crate) session: Option<Box<str>>,
    pub(crate) sequences: Vec<SequenceNumber>,
    pub(crate) delete: bool,
    pub(crate) bytes: u64,
    /// Messages that were read while others still had to be: each as it lies at this position.
    pub(crate) kept: BTreeMap<SequenceNumber, (Position, Stored)>,
}
