//! A TCP socket with which neither end waits for a timer of TCP.
//!
//! Two timers stall a connection that has work to do. A client that leaves Nagle's algorithm on keeps its next small write back
//! until its last one is acknowledged, and Linux acknowledges after 40 ms where nothing is sent back. A client that gives its
//! socket a small receive buffer after it has connected, as those for .NET do, is sent segments that are larger than its
//! window where the interface has a large MTU, as loopback has: Linux sends a part of such a segment each 200 ms.
//!
//! Invariant: what was read is acknowledged before the connection waits, alone or by an answer that is on its way; and while the peer's window may
//! be smaller than a segment, no segment is larger than [`PIECE_BYTES_MAX`].

use std::{
    cell::Cell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::net::{SendFlags, send};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

/// A socket, and what is known of its peer's receive window.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Something was read, and nothing was written since: the system may have put off the acknowledgement.
    unanswered: bool,
    window: Window,
}

/// The receive window of a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Window {
    /// It may shrink below the size of a segment.
    MayShrink,
    /// It is larger than a segment, now and later.
    Large,
}

impl Window {
    /// Window class that the segment size of a connection shows when it begins.
    ///
    /// Linux makes no segment larger than half of the largest window that the peer has offered. A peer's first window
    /// is 64 KiB at most and normally about that, so the segments of loopback have 32 KiB at first.
    const fn at_first(segment_bytes: u32) -> Self {
        if segment_bytes > SMALL_SEGMENT && segment_bytes <= FIRST_SEGMENT_MAX {
            Self::MayShrink
        } else {
            Self::Large
        }
    }

    /// Window class that the segment size shows later. A peer whose receive buffer is small offers its first window
    /// again and never a larger one. All others offer one after little data, for Linux adapts their buffers.
    const fn later(self, segment_bytes: u32) -> Self {
        if segment_bytes > FIRST_SEGMENT_MAX { Self::Large } else { self }
    }
}

impl Socket {
    /// Takes over a connected socket.
    pub(crate) fn new(stream: TcpStream) -> Self {
        let window = SockRef::from(&stream).tcp_mss().map_or(Window::Large, Window::at_first);
        Self { stream, unanswered: false, window }
    }

    /// Whether the next write is sent in pieces.
    fn needs_pieces(&mut self, bytes: usize) -> bool {
        if self.window == Window::MayShrink
            && bytes > PIECE_BYTES_MAX
            && let Ok(segment_bytes) = SockRef::from(&self.stream).tcp_mss()
        {
            self.window = self.window.later(segment_bytes);
        }
        self.window == Window::MayShrink
    }

    /// Writes as much as the socket takes, so that no two pieces get into one segment.
    fn poll_write_pieces(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for piece in bytes.chunks(PIECE_BYTES_MAX) {
            match self.poll_send_record(cx, piece) {
                Poll::Ready(Ok(count)) if count == piece.len() => written += count,
                Poll::Ready(Ok(count)) => return Poll::Ready(Ok(written + count)),
                // A failure is met again by the next write.
                _ if written > 0 => break,
                not_written => return not_written,
            }
        }
        Poll::Ready(Ok(written))
    }

    /// Writes with the mark that what follows does not belong to the same record.
    fn poll_send_record(&self, cx: &mut Context<'_>, piece: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let sent = self.stream.try_io(Interest::WRITABLE, || {
                Ok(send(&self.stream, piece, SendFlags::EOR | SendFlags::NOSIGNAL)?)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Acknowledges what was read, if nothing that was written since has done so and nothing is about to. The system
    /// forgets the wish.
    fn acknowledge(&mut self) {
        if self.unanswered && !ANSWER_IS_DUE.get() {
            self.unanswered = false;
            // A connection that has failed says so where it is read.
            drop(self.stream.set_quickack(true));
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match &read {
            Poll::Ready(_) => self.unanswered |= buffer.filled().len() > before,
            Poll::Pending => self.acknowledge(),
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = if self.needs_pieces(bytes.len()) {
            self.poll_write_pieces(cx, bytes)
        } else {
            Pin::new(&mut self.stream).poll_write(cx, bytes)
        };
        self.unanswered &= !matches!(written, Poll::Ready(Ok(_)));
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.window == Window::MayShrink && self.needs_pieces(slices.iter().map(|slice| slice.len()).sum())
        {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[], |slice| slice));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.unanswered &= !matches!(written, Poll::Ready(Ok(_)));
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

thread_local! {
    /// Whether the connection that is read from is about to be written to. A socket lies below TLS and WebSocket, through
    /// which its reader cannot tell it.
    static ANSWER_IS_DUE: Cell<bool> = const { Cell::new(false) };
}

/// Reads a stream that is about to be written to, if `due`: what was read from it before needs no acknowledgement of its own.
/// On a busy durable broker those would cost a tenth of the CPU of a message.
pub(crate) fn while_answer_is_due<T>(due: bool, read: impl FnOnce() -> T) -> T {
    ANSWER_IS_DUE.set(due);
    let read = read();
    ANSWER_IS_DUE.set(false);
    read
}

/// Bytes of one segment to a peer whose window may be small. Buffers of 8 KiB make windows of 8 to 16 KiB.
const PIECE_BYTES_MAX: usize = 4 << 10;
/// A segment of so many bytes or fewer fits into the window of such a peer, or comes from an Ethernet, jumbo frames included.
const SMALL_SEGMENT: u32 = 16 << 10;
/// The largest segment that a peer's first window allows: half of 64 KiB.
const FIRST_SEGMENT_MAX: u32 = 32 << 10;

#[cfg(test)]
mod tests;
