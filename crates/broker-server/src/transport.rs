//! Bytes in and out of a socket, through buffers that belong to the thread and not to the connection.
//!
//! Invariant: an idle connection owns no buffer: what it reads lands in the thread's read buffer, what it writes is
//! built in the thread's write buffer, and only what the socket would not take stays with the connection. A large payload
//! is written from where it lies.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use amqp_engine::GatherBuffer;
use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Bytes of one read buffer.
const READ_BUFFER: usize = 256 << 10;
/// A read buffer with less room than this is exchanged.
const READ_MIN: usize = 16 << 10;
/// Buffers that a thread keeps to read into again.
const READ_USED_MAX: usize = 4;
/// Bytes of output built before the socket is offered them; then more is built.
pub(crate) const WRITE_SOFT_LIMIT: usize = 256 << 10;
/// A payload of so many bytes is not copied into the write buffer, where the stream takes several pieces at once: that of
/// a frame of 64 KiB. What waits for a slow reader may keep the memory that a payload is stored in, about four times as much.
const GATHER_FROM: usize = 60 << 10;
/// Pieces offered to the socket at once.
const PIECES: usize = 32;
/// A write buffer that one large message has grown beyond this is given back to the allocator.
const WRITE_KEEP: usize = 1 << 20;

thread_local! {
    static READ: RefCell<ReadMemory> = RefCell::new(ReadMemory::default());
    static WRITE: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The memory that a thread reads into. What was read is a part of it, so some of it may still be held when all of it
/// is used up.
#[derive(Debug, Default)]
struct ReadMemory {
    buffer: BytesMut,
    /// Buffers that are used up, the oldest first. Fresh memory costs a page fault for each 4 KiB.
    used: VecDeque<BytesMut>,
}

impl ReadMemory {
    /// A buffer with room for [`READ_MIN`] bytes at least.
    fn with_room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_MIN && !self.buffer.try_reclaim(READ_BUFFER) {
            self.exchange();
        }
        &mut self.buffer
    }

    #[cold]
    fn exchange(&mut self) {
        let free = (0..self.used.len())
            .find(|at| self.used.get_mut(*at).is_some_and(|used| used.try_reclaim(READ_BUFFER)));
        let next = free.and_then(|at| self.used.remove(at));
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(READ_BUFFER));
        self.used.push_back(std::mem::replace(&mut self.buffer, next));
        if self.used.len() > READ_USED_MAX {
            self.used.pop_front();
        }
    }
}

/// Reads what the socket has. `Ok(None)` is the end of the stream.
pub(crate) fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Option<BytesMut>>> {
    READ.with_borrow_mut(|memory| {
        let buffer = memory.with_room();
        let count = ready!(pin!(stream.read_buf(buffer)).poll(cx))?;
        Poll::Ready(Ok((count > 0).then(|| buffer.split())))
    })
}

/// Longest time to read on from a peer after everything was sent.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;

/// Ends the stream towards the peer, then waits a moment for the peer's own end. A socket that is dropped with input
/// unread is reset, and the peer may lose what it was told last.
pub(crate) async fn close<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let lingering = async {
        poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await?;
        let mut read = 0;
        while read < LINGER_BYTES
            && let Some(input) = poll_fn(|cx| poll_read(stream, cx)).await?
        {
            read += input.len();
        }
        io::Result::Ok(())
    };
    // The connection is over either way.
    drop(tokio::time::timeout(LINGER_TIME, lingering).await);
}

/// Output on its way to the socket.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    rest: GatherBuffer,
    /// The stream has taken everything and still holds some of it: TLS encrypts what it takes, and the socket may
    /// have no room for that yet.
    unflushed: bool,
    /// Bytes the stream has taken in all.
    taken: u64,
}

impl Outgoing {
    /// True when the socket has taken everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty() && !self.unflushed
    }

    /// Number of bytes that the stream has taken: while some are left and this stays, the peer reads nothing.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Has `fill` build output in the thread's buffer and offers it to the socket. What the socket does not take
    /// stays here; call [`Self::poll_flush`] until it is empty before filling again.
    pub(crate) fn fill_and_write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        fill: impl FnOnce(&mut GatherBuffer),
    ) -> io::Result<()> {
        debug_assert!(self.is_empty(), "flush before filling again");
        let mut buffer = WRITE.take();
        if buffer.capacity() == 0 {
            // At once, for what is smaller is not kept, and growing copies.
            buffer.reserve(WRITE_SOFT_LIMIT);
        }
        let gather_from = if stream.is_write_vectored() { GATHER_FROM } else { usize::MAX };
        self.rest = GatherBuffer::new(buffer, gather_from);
        fill(&mut self.rest);
        match self.poll_flush(stream, cx) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                self.keep_only_rest();
                Ok(())
            }
        }
    }

    /// Gives the thread's buffer back where the socket has left little of it, and payloads where little is left at all.
    fn keep_only_rest(&mut self) {
        let left = self.rest.len();
        if left > 0 && left < WRITE_SOFT_LIMIT / 4 && !self.rest.is_contiguous() {
            let mut rest = BytesMut::with_capacity(left);
            rest.put(&mut self.rest);
            self.give_buffer_back();
            self.rest = GatherBuffer::new(rest, usize::MAX);
        } else if left > 0 && self.rest.encoded().len() < WRITE_SOFT_LIMIT / 4 {
            return_buffer(self.rest.move_encoded());
        }
    }

    /// Writes what is left. Once empty, the buffer goes back to the thread.
    pub(crate) fn poll_flush<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let written = ready!(poll_write(stream, cx, &self.rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest.advance(written);
            self.taken += written as u64;
            self.unflushed = true;
        }
        self.give_buffer_back();
        // Flushing a plain socket does nothing, and TLS has nothing to flush if it was given nothing.
        if self.unflushed {
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn give_buffer_back(&mut self) {
        return_buffer(std::mem::take(&mut self.rest).into_encoded());
    }
}

/// Offers the stream what waits: in one piece where it lies so, else in several.
fn poll_write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    rest: &GatherBuffer,
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    if rest.is_contiguous() {
        return stream.poll_write(cx, rest.chunk());
    }
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let count = rest.chunks_vectored(&mut pieces);
    stream.poll_write_vectored(cx, pieces.get(..count).unwrap_or_default())
}

/// The thread has its buffer back.
fn return_buffer(mut buffer: BytesMut) {
    buffer.clear();
    // `advance` moved the start; reserving moves it back to the start of the allocation.
    if buffer.try_reclaim(WRITE_SOFT_LIMIT) && buffer.capacity() <= WRITE_KEEP {
        WRITE.set(buffer);
    }
}

#[cfg(test)]
mod tests;
