//! A play notices what a broker does wrong: one of its frames is changed on the way, or is lost.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::{Scene, broker_with, play_over};
use crate::http::connect;

/// What becomes of a frame of the broker.
type Change = fn(&[u8]) -> Option<Vec<u8>>;

/// A connection on which the broker's frames are changed.
struct Tampered {
    stream: TcpStream,
    change: Change,
    /// Bytes of a frame that is not whole.
    arrived: Vec<u8>,
    changed: Vec<u8>,
}

impl Tampered {
    fn frame(&mut self) -> Option<Vec<u8>> {
        let head: [u8; 4] = self.arrived.get(..4)?.try_into().unwrap();
        let size = if &head == b"AMQP" { 8 } else { usize::try_from(u32::from_be_bytes(head)).unwrap() };
        (self.arrived.len() >= size).then(|| self.arrived.drain(..size).collect())
    }
}

impl Read for Tampered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.changed.is_empty() {
            if let Some(frame) = self.frame() {
                self.changed.extend((self.change)(&frame).unwrap_or_default());
                continue;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                return Ok(0);
            }
            self.arrived.extend_from_slice(&bytes[..count]);
        }
        let count = buffer.len().min(self.changed.len());
        buffer[..count].copy_from_slice(&self.changed[..count]);
        self.changed.drain(..count);
        Ok(count)
    }
}

impl Write for Tampered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The frame with one text in place of another of the same length.
fn replaced(frame: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut frame = frame.to_vec();
    let places: Vec<usize> =
        (0..frame.len().saturating_sub(old.len())).filter(|at| frame[*at..].starts_with(old)).collect();
    for at in places {
        frame[at..at + old.len()].copy_from_slice(new);
    }
    frame
}

/// Whether the frame is this performative.
fn is(frame: &[u8], code: u8) -> bool {
    frame.get(8..11) == Some(&[0, 0x53, code])
}

const DISPOSITION: u8 = 0x15;
const FLOW: u8 = 0x13;

#[test]
fn a_play_fails_where_an_answer_of_the_broker_is_changed_or_lost() {
    let rows: [(&str, &str, Change, &[&str]); 6] = [
        (
            include_str!("01-send-one.replay"),
            "q01",
            |frame| (!is(frame, DISPOSITION)).then(|| frame.to_vec()),
            &["the client waits for `< 1 disposition(role: true, first: 0, last: 0", "nothing came within"],
        ),
        (
            include_str!("01-send-one.replay"),
            "q01",
            |frame| (!is(frame, FLOW)).then(|| frame.to_vec()),
            &["the client waits for `< 0 flow(handle: 0, link-credit: ?positive)`"],
        ),
        (
            include_str!("04-settle.replay"),
            "q04",
            |frame| {
                let settles = is(frame, DISPOSITION) && frame.get(8 + 3 + 3) == Some(&0x42);
                Some(if settles { replaced(frame, &[0x53, 0x24], &[0x53, 0x26]) } else { frame.to_vec() })
            },
            &["demanded accepted, found released()"],
        ),
        (
            include_str!("02-send-batch.replay"),
            "q02",
            |frame| Some(replaced(frame, b"\x03two", b"\x03owt")),
            &["exactly data b\"two\"", "demanded \"two\", found \"owt\""],
        ),
        (
            include_str!("07-schedule-cancel.replay"),
            "q07",
            |frame| Some(replaced(frame, b"statusCodeq\0\0\0\xc8", b"statusCodeq\0\0\x01\xf4")),
            &["\"statusCode\": demanded 200i32, found 500i32"],
        ),
        (
            include_str!("05-receive-delete.replay"),
            "q05",
            |frame| Some([frame, if frame.ends_with(b"\x02m3") { frame } else { b"" }].concat()),
            &["m4", "demanded 5i64, found 4i64"],
        ),
    ];
    for (number, (text, path, change, expected)) in rows.into_iter().enumerate() {
        let broker = broker_with(&[path]);
        let stream = connect(broker.address);
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let tampered = Tampered { stream, change, arrived: Vec::new(), changed: Vec::new() };
        let error = play_over(tampered, &mut Scene::of(&broker), text).expect_err(path).to_string();
        for text in expected {
            assert!(error.contains(text), "row {number}: `{text}` is not in: {error}");
        }
    }
}
