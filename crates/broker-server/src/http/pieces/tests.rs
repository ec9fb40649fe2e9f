use std::task::Waker;

use super::*;

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

async fn next(pieces: &mut Pieces) -> Option<Bytes> {
    let frame = std::future::poll_fn(|cx| Pin::new(&mut *pieces).poll_frame(cx)).await?;
    frame.unwrap().into_data().ok()
}

#[test]
fn pieces_are_the_whole_in_order_and_none_is_too_large() {
    let letters = |letter: &str, count: usize| letter.repeat(count);
    let max = PIECE_BYTES_MAX;
    let cases: [(&[usize], &[usize]); 6] = [
        (&[], &[]),
        (&[0], &[]),
        (&[5, 0, 7], &[5, 7]),
        (&[max], &[max]),
        (&[max + 1], &[max, 1]),
        (&[2 * max + 3, 4], &[max, max, 3, 4]),
    ];
    for (texts, expected) in cases {
        let texts: Vec<String> =
            texts.iter().zip(["a", "b", "c"]).map(|(count, letter)| letters(letter, *count)).collect();
        let whole = texts.concat();
        let mut pieces = Pieces::of(texts);
        assert_eq!(pieces.size_hint().exact(), Some(whole.len() as u64));
        let mut got = Vec::new();
        run(async {
            while let Some(piece) = next(&mut pieces).await {
                got.push(piece);
            }
        });
        assert!(pieces.is_end_stream());
        assert_eq!(got.iter().map(Bytes::len).collect::<Vec<_>>(), expected);
        assert_eq!(got.concat(), whole.as_bytes());
    }
}

#[test]
fn others_have_their_turn_between_two_pieces_and_need_not_wait_for_the_first() {
    let mut pieces = Pieces::of(["a".to_owned(), "b".to_owned()]);
    run(async {
        std::future::poll_fn(|_| {
            let mut cx = Context::from_waker(Waker::noop());
            let mut poll = || Pin::new(&mut pieces).poll_frame(&mut cx);
            assert!(poll().is_ready(), "the first");
            assert!(poll().is_pending(), "others first");
            assert!(poll().is_ready(), "the second");
            assert!(matches!(poll(), Poll::Ready(None)), "the end is no piece");
            Poll::Ready(())
        })
        .await;
    });
}
