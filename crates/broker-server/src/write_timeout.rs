//! Write time-out: a stream that fails when its peer reads nothing for too long, or reads too slowly.
//!
//! Invariant: while the peer takes what waits for it within the patience and a second for each [`BYTES_A_SECOND`] the stream is
//! as it was; else writing fails.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// A stream, and how long a write may wait.
#[derive(Debug)]
pub(crate) struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Since a write had to wait, until all is taken.
    waiting: Option<Waiting>,
}

/// A peer that has not taken all yet.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// Bytes that it has taken since then.
    taken: u64,
    timer: Pin<Box<Sleep>>,
}

/// Slowest peer, beyond the patience: one that takes a byte now and then would keep its answer in memory for ever.
const BYTES_A_SECOND: u64 = 16 << 10;

impl<S> WriteTimeout<S> {
    /// Writes fail once the peer has taken nothing for `patience`, or less than [`BYTES_A_SECOND`] beyond it.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// The stream alone.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Counts what was written.
    fn count(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some(waiting)) = (&written, &mut self.waiting) {
            waiting.taken += *bytes as u64;
            let time = Duration::from_millis(waiting.taken * 1_000 / BYTES_A_SECOND);
            waiting.timer.as_mut().reset(waiting.since + self.patience + time);
        }
        self.in_time(cx, written)
    }

    /// Everything that was written is taken.
    fn all_taken(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if done.is_ready() {
            self.waiting = None;
        }
        self.in_time(cx, done)
    }

    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting { since, taken: 0, timer: Box::pin(sleep_until(since + patience)) }
        });
        if waiting.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing, or too slowly")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.count(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.all_taken(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.all_taken(cx, ended)
    }
}

#[cfg(test)]
mod tests;
