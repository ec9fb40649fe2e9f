use std::task::Waker;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// Takes `room` bytes, and is flushed only when `clear`, as TLS over a socket without room.
#[derive(Default)]
struct Stream {
    taken: Vec<u8>,
    room: usize,
    clear: bool,
    /// Takes several pieces at once.
    vectored: bool,
    /// Pieces that it was offered at once, at most.
    pieces: usize,
    broken: bool,
}

impl Stream {
    fn take(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Poll::Pending;
        }
        self.room -= count;
        self.taken.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pieces = self.pieces.max(1);
        self.take(bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        assert!(self.vectored, "pieces are for streams that take them");
        self.pieces = self.pieces.max(pieces.len());
        let mut bytes = Vec::new();
        for piece in pieces {
            let room = self.room.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        self.take(&bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
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
    outgoing.fill_and_write(stream, cx, |out| out.put(bytes)).expect("the stream does not fail");
}

#[test]
fn bytes_that_the_stream_took_and_did_not_flush_are_flushed_later() {
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
fn bytes_that_the_stream_did_not_take_go_out_later_in_order() {
    let mut stream = Stream { room: 3, clear: true, ..Stream::default() };
    let mut outgoing = Outgoing::default();
    fill(&mut outgoing, &mut stream, b"abcdef");
    assert!(!outgoing.is_empty());
    assert!(
        outgoing.rest.encoded().capacity() < WRITE_SOFT_LIMIT,
        "a slow reader does not keep the thread's buffer"
    );

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
    let mut connection_limit = Vec::new();
    for _ in 0..3 {
        let cx = &mut Context::from_waker(Waker::noop());
        let written = outgoing.fill_and_write(&mut stream, cx, |out| {
            out.put(b"x");
            connection_limit.push(out.encoded().as_ptr());
        });
        written.expect("the stream does not fail");
    }
    assert!(connection_limit.windows(2).all(|two| two[0] == two[1]));
}

/// Output of the broker: copied bytes, and large payloads by reference if the stream takes vectored writes.
fn put_all(out: &mut GatherBuffer, parts: &[Bytes]) {
    for part in parts {
        if out.gathers(part.len()) { out.place(part.clone()) } else { out.put(part) }
    }
}

/// A payload that is just large enough not to be copied, and its front and end.
fn large_parts() -> [Bytes; 3] {
    let large = (0..GATHER_FROM).map(|at| at.to_le_bytes()[0]).collect::<Vec<u8>>();
    [Bytes::from_static(b"front"), Bytes::from(large), Bytes::from_static(b"end")]
}

fn begin(outgoing: &mut Outgoing, stream: &mut Stream, parts: &[Bytes]) -> io::Result<()> {
    let cx = &mut Context::from_waker(Waker::noop());
    outgoing.fill_and_write(stream, cx, |out| put_all(out, parts))
}

#[test]
fn a_large_payload_is_written_from_where_it_lies_if_the_stream_takes_pieces() {
    for (vectored, expected) in [(true, 3), (false, 1)] {
        let mut stream = Stream { room: usize::MAX, clear: true, vectored, ..Stream::default() };
        let (mut outgoing, parts) = (Outgoing::default(), large_parts());
        begin(&mut outgoing, &mut stream, &parts).unwrap();
        assert!(outgoing.is_empty());
        assert_eq!((stream.taken, stream.pieces), (parts.concat(), expected));
        assert!(parts[1].is_unique(), "what is written is not kept");
    }
}

#[test]
fn of_little_that_is_left_nothing_keeps_the_memory_of_its_payload() {
    for (left, kept) in [(WRITE_SOFT_LIMIT / 4 - 1, false), (WRITE_SOFT_LIMIT / 4, true)] {
        let payload = Bytes::from(vec![7; WRITE_SOFT_LIMIT]);
        let mut stream = Stream { room: 5 + WRITE_SOFT_LIMIT - left, vectored: true, ..Stream::default() };
        let mut outgoing = Outgoing::default();
        begin(&mut outgoing, &mut stream, &[Bytes::from_static(b"front"), payload.clone()]).unwrap();
        assert_eq!((outgoing.rest.len(), payload.is_unique()), (left, !kept));
        assert!(
            outgoing.rest.encoded().capacity() < WRITE_SOFT_LIMIT,
            "nor does it keep the thread's buffer"
        );
        (stream.room, stream.clear) = (usize::MAX, true);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(outgoing.poll_flush(&mut stream, cx).is_ready());
        assert_eq!(stream.taken, [&b"front"[..], &payload].concat());
    }
}

#[test]
fn a_stream_that_breaks_amid_a_payload_says_so_and_the_payload_goes_with_the_connection() {
    let mut stream = Stream { room: 100, vectored: true, ..Stream::default() };
    let (mut outgoing, parts) = (Outgoing::default(), [&large_parts()[..], &large_parts()[..]].concat());
    begin(&mut outgoing, &mut stream, &parts).unwrap();
    assert_eq!(outgoing.taken(), 100);
    stream.broken = true;
    let cx = &mut Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = outgoing.poll_flush(&mut stream, cx) else { panic!("it is broken") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    drop(outgoing);
    assert!(parts.iter().all(|part| part.len() < GATHER_FROM || part.is_unique()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn however_little_the_stream_takes_at_once_it_gets_all_in_order(
        parts in prop::collection::vec((any::<u8>(), prop_oneof![0..40usize, GATHER_FROM - 1..GATHER_FROM + 2]), 1..12),
        rooms in prop::collection::vec(1..60usize, 0..20),
        more in 1_000..2 * GATHER_FROM,
        vectored: bool,
    ) {
        let bytes = |(first, length): &(u8, usize)| (0..*length).map(|at| first ^ at.to_le_bytes()[0]).collect();
        let parts: Vec<Bytes> = parts.iter().map(bytes).collect();
        let mut stream = Stream { vectored, clear: true, ..Stream::default() };
        let mut outgoing = Outgoing::default();
        begin(&mut outgoing, &mut stream, &parts).unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        for room in rooms.iter().chain([&more]).cycle() {
            if outgoing.is_empty() {
                break;
            }
            stream.room = *room;
            let flushed = outgoing.poll_flush(&mut stream, cx)?;
            prop_assert_eq!(flushed.is_ready(), outgoing.is_empty());
            prop_assert_eq!(outgoing.taken(), stream.taken.len() as u64);
        }
        prop_assert_eq!(stream.taken, parts.concat());
    }
}

/// Reads until nothing is left of the buffer; what was read.
fn read_all(memory: &mut ReadMemory) -> Bytes {
    let buffer = memory.with_room();
    buffer.resize(buffer.capacity(), 7);
    buffer.split().freeze()
}

#[test]
fn a_read_buffer_is_used_again_once_no_payload_shares_it() {
    let mut memory = ReadMemory::default();
    // Nothing is held: it is the same memory each time.
    let connection_limit = [(); 3].map(|()| read_all(&mut memory).as_ptr());
    assert_eq!(connection_limit, [connection_limit[0]; 3]);
    let [first, second] = [(); 2].map(|()| read_all(&mut memory));
    assert!(!first.is_unique(), "the thread has not given it away");
    let place = first.as_ptr();
    drop(first);
    assert_eq!(read_all(&mut memory).as_ptr(), place);
    drop(second);
    // Of what is held for long, no more than a few buffers are remembered.
    let held: Vec<Bytes> = (0..10).map(|_| read_all(&mut memory)).collect();
    let given_away = held.iter().filter(|read| read.is_unique()).count();
    assert_eq!(given_away, held.len() - READ_USED_MAX - 1);
    assert!(held.iter().all(|read| read.len() == READ_BUFFER));
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
    runtime.block_on(close(&mut peer));
    assert!(peer.ended && peer.left == 0);

    let endless = 1 << 40;
    peer = Peer { left: endless, ended: false, shut_down: false };
    runtime.block_on(close(&mut peer));
    assert!((1 << 20..1_100_000).contains(&(endless - peer.left)));
}
