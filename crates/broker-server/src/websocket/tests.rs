use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

type Peer = WebSocketStream<DuplexStream>;

/// Both ends of a connection that has been upgraded.
async fn pair(message_bytes_max: usize) -> (ByteStream<DuplexStream>, Peer) {
    let (ours, theirs) = duplex(1 << 20);
    let peer = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
    (ByteStream::new(ours, Bytes::new(), message_bytes_max).await, peer)
}

async fn say(peer: &mut Peer, message: Message) {
    std::future::poll_fn(|cx| Pin::new(&mut *peer).poll_ready(cx)).await.unwrap();
    Pin::new(&mut *peer).start_send(message).unwrap();
    std::future::poll_fn(|cx| Pin::new(&mut *peer).poll_flush(cx)).await.unwrap();
}

async fn hear(peer: &mut Peer) -> Option<Message> {
    std::future::poll_fn(|cx| Pin::new(&mut *peer).poll_next(cx)).await.and_then(Result::ok)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn bytes_arrive_in_order_however_they_are_cut(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..20),
        room in 1usize..5000,
    ) {
        run(async {
            let (mut stream, mut peer) = pair(MESSAGE_BYTES_MAX).await;
            for piece in &pieces {
                say(&mut peer, Message::Binary(piece.clone().into())).await;
            }
            say(&mut peer, Message::Close(None)).await;
            let mut read = Vec::new();
            let mut buffer = vec![0; room];
            loop {
                match stream.read(&mut buffer).await.unwrap() {
                    0 => break,
                    count => read.extend_from_slice(&buffer[..count]),
                }
            }
            assert_eq!(read, pieces.concat());
        });
    }

    #[test]
    fn output_arrives_whole_in_pieces_of_bounded_size(length in 0usize..300_000) {
        run(async {
            let (mut stream, mut peer) = pair(MESSAGE_BYTES_MAX).await;
            let written: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            stream.write_all(&written).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut read = Vec::new();
            while let Some(Message::Binary(piece)) = hear(&mut peer).await {
                assert!(piece.len() <= PIECE_BYTES_MAX);
                read.extend_from_slice(&piece);
            }
            assert_eq!(read, written);
        });
    }

    #[test]
    fn no_bytes_of_a_peer_make_it_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        run(async {
            let (ours, mut theirs) = duplex(1 << 16);
            theirs.write_all(&bytes).await.unwrap();
            drop(theirs);
            let mut stream = ByteStream::new(ours, Bytes::new(), 1000).await;
            let mut read = Vec::new();
            drop(stream.read_to_end(&mut read).await);
            assert!(read.len() <= bytes.len());
        });
    }
}

#[test]
fn a_broken_rule_is_told_by_its_code() {
    let limit = 1000;
    let cases = [
        ("at the limit", Message::Binary(vec![1; limit].into()), None),
        ("one past it", Message::Binary(vec![1; limit + 1].into()), Some(CloseCode::Size)),
        ("text", Message::Text("AMQP".into()), Some(CloseCode::Unsupported)),
    ];
    for (what, message, code) in cases {
        run(async {
            let (mut stream, mut peer) = pair(limit).await;
            say(&mut peer, message).await;
            let read = stream.read(&mut [0; 2000]).await;
            assert_eq!(read.as_ref().ok(), code.is_none().then_some(&limit), "{what}: {read:?}");
            if let Some(code) = code {
                let Some(Message::Close(Some(close))) = hear(&mut peer).await else { panic!("{what}") };
                assert_eq!(close.code, code, "{what}");
            }
        });
    }
}

#[test]
fn pings_are_answered_and_are_no_input() {
    run(async {
        let (mut stream, mut peer) = pair(1000).await;
        say(&mut peer, Message::Ping("here?".into())).await;
        say(&mut peer, Message::Binary("AMQP".into())).await;
        let mut read = [0; 4];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"AMQP");
        stream.flush().await.unwrap();
        assert_eq!(hear(&mut peer).await, Some(Message::Pong("here?".into())));
    });
}

#[test]
fn a_frame_without_a_mask_is_refused() {
    run(async {
        let (ours, mut theirs) = duplex(1000);
        theirs.write_all(&[0x82, 2, 1, 2]).await.unwrap();
        let mut stream = ByteStream::new(ours, Bytes::new(), 1000).await;
        assert_eq!(stream.read(&mut [0; 10]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut said = [0; 4];
        theirs.read_exact(&mut said).await.unwrap();
        assert_eq!((said[0], &said[2..]), (0x88, 1002_u16.to_be_bytes().as_slice()));
    });
}
