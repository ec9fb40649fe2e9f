//! Loopback TCP one way in large writes.
//!
//! Invariant: bytes count when they were read.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;

const WRITE_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 256 << 10;

/// Bytes a second through one connection.
pub(super) fn measure(spell: Duration) -> Fallible<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    let begin = Instant::now();
    let writing = thread::spawn(move || -> std::io::Result<()> {
        let bytes = vec![b'x'; WRITE_BYTES];
        while begin.elapsed() < spell {
            writer.write_all(&bytes)?;
        }
        Ok(())
    });
    let (mut buffer, mut read) = (vec![0; READ_BYTES], 0);
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            count => read += count,
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    writing.join().map_err(|_| "the thread that writes has panicked")??;
    #[expect(clippy::cast_precision_loss, reason = "nobody moves 2^52 bytes in seconds")]
    Ok(read as f64 / seconds)
}
