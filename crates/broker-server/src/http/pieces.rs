//! The body of an answer, in pieces: between two of them the other connections of the thread have their turn.
//!
//! Invariant: the pieces are the body in its order, none is larger than [`PIECE_BYTES_MAX`], and their length is known
//! beforehand.

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::scrape_queue::AnswerRoom;

/// Bytes that are handed to the socket at once.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Unsent rest of a body.
#[derive(Default)]
pub(super) struct Pieces {
    /// None is empty.
    left: VecDeque<Bytes>,
    /// Others have their turn.
    yielding: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Its place among the answers that are not read yet.
    room: Option<AnswerRoom>,
}

impl Pieces {
    /// These texts, one after the other.
    pub(super) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let left = texts.into_iter().map(Bytes::from).filter(|piece| !piece.is_empty()).collect();
        Self { left, yielding: None, room: None }
    }

    /// The same, with this room until it is gone.
    pub(super) fn holding(mut self, room: AnswerRoom) -> Self {
        self.room = Some(room);
        self
    }

    fn bytes(&self) -> u64 {
        self.left.iter().map(|piece| piece.len() as u64).sum()
    }

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = self.left.pop_front()?;
        if piece.len() > PIECE_BYTES_MAX {
            self.left.push_front(piece.split_off(PIECE_BYTES_MAX));
        }
        if !self.left.is_empty() {
            self.yielding = Some(Box::pin(tokio::task::yield_now()));
        }
        Some(piece)
    }
}

impl From<String> for Pieces {
    fn from(text: String) -> Self {
        Self::of([text])
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(yielding) = &mut self.yielding {
            ready!(yielding.as_mut().poll(cx));
            self.yielding = None;
        }
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes())
    }
}

#[cfg(test)]
mod tests;
