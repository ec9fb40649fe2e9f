use std::future::poll_fn;

use super::*;

/// A peer that takes so many bytes, then nothing until it is asked again.
struct Slow {
    bytes: usize,
    rests: bool,
}

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.rests = !self.rests;
        if self.rests {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Writes until that fails, or for `time`; whether it failed.
fn fails(bytes: usize, flushes: bool, time: Duration) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut stream = WriteTimeout::new(Slow { bytes, rests: false }, Duration::from_millis(1));
        let end = Instant::now() + time;
        while Instant::now() < end {
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"x")).await;
            if let Err(error) = written {
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                return true;
            }
            if flushes {
                poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.unwrap();
            }
            // A thousand writes in a second.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    })
}

#[test]
fn a_peer_that_takes_a_byte_now_and_then_is_too_slow() {
    assert!(fails(1, false, Duration::from_secs(30)));
}

#[test]
fn a_peer_that_takes_all_of_it_or_much_has_its_time() {
    // So many bytes stand for hours.
    assert!(!fails(1 << 30, false, Duration::from_millis(20)));
    assert!(!fails(1, true, Duration::from_millis(20)));
}
