use std::{
    io::{Read, Write},
    net::{self, TcpListener},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime,
};

use super::*;

#[test]
fn a_window_is_large_unless_the_segments_are_those_of_a_first_window_on_loopback() {
    let cases = [
        // segment size, what it says at first, what it says later of a window that might shrink
        (88, Window::Large, Window::MayShrink),
        (1_448, Window::Large, Window::MayShrink),
        (8_948, Window::Large, Window::MayShrink),
        (16_384, Window::Large, Window::MayShrink),
        (16_385, Window::MayShrink, Window::MayShrink),
        (32_741, Window::MayShrink, Window::MayShrink),
        (32_768, Window::MayShrink, Window::MayShrink),
        (32_769, Window::Large, Window::Large),
        (65_483, Window::Large, Window::Large),
    ];
    for (segment_bytes, at_first, later) in cases {
        assert_eq!(Window::at_first(segment_bytes), at_first, "{segment_bytes}");
        assert_eq!(Window::MayShrink.later(segment_bytes), later, "{segment_bytes}");
        assert_eq!(Window::Large.later(segment_bytes), Window::Large, "{segment_bytes}");
    }
}

/// Connects this peer, on a thread of its own, and serves it.
fn with_peer<T: Send + 'static, F: Future>(
    peer: impl FnOnce(net::TcpStream) -> T + Send + 'static,
    serve: impl FnOnce(Socket) -> F,
) -> (F::Output, T) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer: JoinHandle<T> = thread::spawn(move || peer(net::TcpStream::connect(address).unwrap()));
    let runtime = runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let served = runtime.block_on(async {
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        serve(Socket::new(TcpStream::from_std(stream).unwrap())).await
    });
    (served, peer.join().unwrap())
}

/// The bytes of a long output, each of which depends on its place.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// As the clients for .NET do.
fn make_buffers_small(stream: &net::TcpStream) {
    SockRef::from(stream).set_recv_buffer_size(8 << 10).unwrap();
    SockRef::from(stream).set_send_buffer_size(8 << 10).unwrap();
}

#[test]
fn two_mebibytes_reach_a_peer_with_a_small_receive_buffer_without_a_stall() {
    // In segments larger than the window each 14 KiB would take 200 ms: half a minute.
    let peer = |mut stream: net::TcpStream| {
        make_buffers_small(&stream);
        stream.write_all(b"ready").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    };
    let begun = Instant::now();
    let (window, received) = with_peer(peer, |mut socket| async move {
        socket.read_exact(&mut [0; 5]).await.unwrap();
        let output = pattern(2 << 20);
        let (front, back) = output.split_at(1 << 20);
        socket.write_all(front).await.unwrap();
        // TLS and large payloads write several slices.
        let (mut left, mut slices) = (back, 0);
        while !left.is_empty() {
            let (one, two) = left.split_at(left.len() / 2);
            left = &left[socket.write_vectored(&[IoSlice::new(one), IoSlice::new(two)]).await.unwrap()..];
            slices += 1;
        }
        assert!(slices > 1);
        socket.shutdown().await.unwrap();
        socket.window
    });
    assert_eq!(window, Window::MayShrink);
    assert!(received == pattern(2 << 20), "{} bytes", received.len());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn an_ordinary_peer_is_soon_written_to_without_pieces() {
    let peer = |mut stream: net::TcpStream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    };
    let (window, received) = with_peer(peer, |mut socket| async move {
        assert_eq!(socket.window, Window::MayShrink);
        let output = pattern(4 << 20);
        socket.write_all(&output).await.unwrap();
        socket.shutdown().await.unwrap();
        socket.window
    });
    assert_eq!(window, Window::Large);
    assert!(received == pattern(4 << 20), "{} bytes", received.len());
}

/// Whether this socket would acknowledge by itself what it has read.
async fn acknowledges(socket: &mut Socket, answer_is_due: bool) -> bool {
    let mut rest = [0; 8];
    let mut rest = ReadBuf::new(&mut rest);
    std::future::poll_fn(|cx| {
        let read = while_answer_is_due(answer_is_due, || Pin::new(&mut *socket).poll_read(cx, &mut rest));
        assert!(read.is_pending());
        Poll::Ready(())
    })
    .await;
    !socket.unanswered
}

#[test]
fn the_acknowledgement_of_read_bytes_is_left_to_an_answer_that_is_due() {
    let peer = |mut stream: net::TcpStream| {
        for _ in 0..2 {
            stream.write_all(b"1").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
    };
    let ((), ()) = with_peer(peer, |mut socket| async move {
        socket.read_exact(&mut [0]).await.unwrap();
        assert!(!acknowledges(&mut socket, true).await);
        // Nothing was said after all.
        assert!(acknowledges(&mut socket, false).await);
        socket.write_all(b"2").await.unwrap();
        socket.read_exact(&mut [0]).await.unwrap();
        assert!(!acknowledges(&mut socket, true).await);
        socket.write_all(b"2").await.unwrap();
        assert!(!socket.unanswered);
    });
}

#[test]
fn read_bytes_are_acknowledged_at_once_where_no_answer_is_due() {
    // The peer keeps its second byte back until the first is acknowledged. 40 ms each time would be 8 seconds.
    const ROUNDS: usize = 200;
    let peer = |mut stream: net::TcpStream| {
        for _ in 0..ROUNDS {
            stream.write_all(b"1").unwrap();
            stream.write_all(b"2").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
    };
    let begun = Instant::now();
    let ((), ()) = with_peer(peer, |mut socket| async move {
        for _ in 0..ROUNDS {
            socket.read_exact(&mut [0; 2]).await.unwrap();
            socket.write_all(b"3").await.unwrap();
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
