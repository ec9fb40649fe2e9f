use std::task::Waker;

use super::*;

/// Takes `room` bytes, and is flushed only when `clear`, as TLS over a socket without room.
#[derive(Default)]
struct Stream {
    taken: Vec<u8>,
    room: usize,
    clear: bool,
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Poll::Pending;
        }
        self.room -= count;
        self.taken.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.clear { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn fill(outgoing: &mut Outgoing, stream: &mut Stream, bytes: &[u8]) {
    let cx = &mut Context::from_waker(Waker::noop());
    outgoing
        .fill_and_write(stream, cx, |out| out.extend_from_slice(bytes))
        .expect("the stream does not fail");
}

#[test]
fn what_the_stream_took_and_did_not_flush_is_not_forgotten() {
    let mut stream = Stream { room: 100, ..Stream::default() };
    let mut outgoing = Outgoing::default();
    fill(&mut outgoing, &mut stream, b"the last deliveries");
    assert_eq!(stream.taken, b"the last deliveries");
    assert!(!outgoing.is_empty(), "TLS still holds them");

    let cx = &mut Context::from_waker(Waker::noop());
    assert!(outgoing.poll_flush(&mut stream, cx).is_pending());
    stream.clear = true;
    assert!(outgoing.poll_flush(&mut stream, cx).is_ready());
    assert!(outgoing.is_empty());
}

#[test]
fn what_the_stream_did_not_take_goes_out_later_in_order() {
    let mut stream = Stream { room: 3, clear: true, ..Stream::default() };
    let mut outgoing = Outgoing::default();
    fill(&mut outgoing, &mut stream, b"abcdef");
    assert!(!outgoing.is_empty());
    assert!(outgoing.rest.capacity() < WRITE_SOFT_LIMIT, "a slow reader does not keep the thread's buffer");

    stream.room = 100;
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(outgoing.poll_flush(&mut stream, cx).is_ready());
    assert_eq!(stream.taken, b"abcdef");
    assert!(outgoing.is_empty());
}

#[test]
fn the_buffer_of_a_thread_is_used_again() {
    let mut stream = Stream { room: usize::MAX, clear: true, ..Stream::default() };
    let mut outgoing = Outgoing::default();
    let mut places = Vec::new();
    for _ in 0..3 {
        let cx = &mut Context::from_waker(Waker::noop());
        let written = outgoing.fill_and_write(&mut stream, cx, |out| {
            out.extend_from_slice(b"x");
            places.push(out.as_ptr());
        });
        written.expect("the stream does not fail");
    }
    assert!(places.windows(2).all(|two| two[0] == two[1]));
}

/// A peer that sends on without end, or ends its stream after some bytes.
struct Peer {
    left: usize,
    ended: bool,
    shut_down: bool,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(self.shut_down, "first our end, then theirs");
        let count = self.left.min(buffer.remaining()).min(10_000);
        self.left -= count;
        self.ended = count == 0;
        buffer.put_slice(&vec![0; count]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down = true;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_peer_is_read_to_its_end_within_bounds() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut peer = Peer { left: 50_000, ended: false, shut_down: false };
    runtime.block_on(hang_up(&mut peer));
    assert!(peer.ended && peer.left == 0);

    let endless = 1 << 40;
    peer = Peer { left: endless, ended: false, shut_down: false };
    runtime.block_on(hang_up(&mut peer));
    assert!((1 << 20..1_100_000).contains(&(endless - peer.left)));
}
