//! Follows the bytes of an HTTP/1 connection from request to request, and finds what RFC 9112 refuses and the HTTP library takes:
//! what an intermediary in front of the broker could read otherwise than the broker does.
//!
//! Invariant: what is found depends on the bytes alone, never on how the network cut them; at most [`LINE_KEPT`] bytes are kept.

use broker_auth::split_authority;

/// The place in the stream, and what is known of the request so far.
#[derive(Debug, Default)]
pub(super) struct Framing {
    expected: Expected,
    line: Line,
    head: Head,
    fault: Option<FramingFault>,
}

/// Malformed request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum FramingFault {
    #[error("a line does not end in CR LF")]
    LineEnd,
    #[error("a line begins with a space")]
    Folded,
    #[error("a header field is longer than {LINE_KEPT} bytes")]
    Long,
    #[error("`Host` is missing")]
    NoHost,
    #[error("`Host` is there twice")]
    TwoHosts,
    #[error("`Host` is not `host` or `host:port`")]
    BadHost,
    #[error("`Content-Length` is there twice")]
    TwoLengths,
    #[error("`Content-Length` is not a number")]
    BadLength,
    #[error("`Content-Length` and `Transfer-Encoding` are both there")]
    LengthAndEncoding,
    #[error("`Transfer-Encoding` is not `chunked`")]
    Encoding,
    #[error("a chunk does not begin with its size")]
    ChunkSize,
    #[error("a chunk is longer than its size")]
    ChunkEnd,
}

/// Next part of the message.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Expected {
    /// The line in front of the header.
    #[default]
    Request,
    /// A header field, or the end of the header.
    Field,
    /// So many bytes of a body, or of a chunk of one.
    Bytes {
        left: u64,
        chunked: bool,
    },
    ChunkEnd,
    ChunkSize,
    /// A field behind the last chunk, or the end of them.
    Trailer,
    /// Another protocol: nothing more is looked at.
    Other,
}

/// The line that is being read.
#[derive(Debug, Default)]
struct Line {
    /// Its first bytes.
    kept: Vec<u8>,
    /// Its last bytes, the latest in the lowest place.
    last: u128,
    length: usize,
}

/// Fields of the header that framing needs.
#[derive(Debug, Default)]
struct Head {
    host: Host,
    length: Option<u64>,
    is_chunked: bool,
    /// The connection may go on in another protocol.
    wants_other: bool,
}

/// State of the field `Host`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Host {
    /// HTTP/1.0 has requests without.
    #[default]
    Optional,
    /// It has to come.
    Wanted,
    /// It is there.
    Given,
}

impl Framing {
    /// Looks at the next bytes. From a fault on they are made unreadable, so that the library refuses the request with 400 and
    /// closes the connection; the byte that ends a line or a header is not passed on before the line was looked at.
    pub(super) fn examine(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() && self.expected != Expected::Other {
            if self.fault.is_some() {
                bytes.fill(UNREADABLE);
                return;
            }
            let done = match &mut self.expected {
                Expected::Bytes { left, chunked } => {
                    let done = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= done as u64;
                    if *left == 0 {
                        self.expected = if *chunked { Expected::ChunkEnd } else { Expected::Request };
                    }
                    done
                }
                _ => self.examine_line(bytes),
            };
            bytes = bytes.get_mut(done..).unwrap_or_default();
        }
    }

    /// The fault, if any.
    pub(super) const fn fault(&self) -> Option<FramingFault> {
        self.fault
    }

    /// Takes bytes up to the end of a line; says how many.
    fn examine_line(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            match self.end_line(&line) {
                Ok(()) => {
                    // The buffer is used for the next line.
                    self.line = line.cleared();
                    return at + 1;
                }
                Err(fault) => {
                    self.fault = Some(fault);
                    return at;
                }
            }
        }
        bytes.len()
    }

    fn end_line(&mut self, line: &Line) -> Result<(), FramingFault> {
        if line.last & 0xff != u128::from(b'\r') {
            return Err(FramingFault::LineEnd);
        }
        let is_empty = line.length == 1;
        match self.expected {
            // Empty lines between requests are passed over (section 2.2).
            Expected::Request if is_empty => {}
            Expected::Request => {
                let host = if line.ends_with(b"HTTP/1.1\r") { Host::Wanted } else { Host::Optional };
                let wants_other = line.kept.starts_with(b"CONNECT ");
                self.head = Head { host, wants_other, ..Head::default() };
                self.expected = Expected::Field;
            }
            Expected::Field if is_empty => self.expected = self.head.body()?,
            Expected::Field => self.head.field(line)?,
            Expected::ChunkSize => self.expected = chunk(line)?,
            Expected::ChunkEnd if is_empty => self.expected = Expected::ChunkSize,
            Expected::ChunkEnd => return Err(FramingFault::ChunkEnd),
            Expected::Trailer if is_empty => self.expected = Expected::Request,
            Expected::Trailer | Expected::Bytes { .. } | Expected::Other => {}
        }
        Ok(())
    }
}

impl Line {
    fn push(&mut self, byte: u8) {
        if self.kept.len() < LINE_KEPT {
            self.kept.push(byte);
        }
        self.last = self.last << 8 | u128::from(byte);
        self.length = self.length.saturating_add(1);
    }

    fn cleared(mut self) -> Self {
        self.kept.clear();
        Self { kept: self.kept, ..Self::default() }
    }

    /// For at most sixteen bytes.
    fn ends_with<const N: usize>(&self, end: &[u8; N]) -> bool {
        let wanted = end.iter().fold(0, |all: u128, byte| all << 8 | u128::from(*byte));
        let mask = u128::MAX >> (128 - 8 * N);
        self.length >= N && self.last & mask == wanted
    }
}

impl Head {
    /// A field that decides where a request ends, or for whom it is.
    fn field(&mut self, line: &Line) -> Result<(), FramingFault> {
        if line.kept.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
            return Err(FramingFault::Folded);
        }
        let Some(colon) = line.kept.iter().position(|byte| *byte == b':') else { return Ok(()) };
        let (name, value) = line.kept.split_at(colon);
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if !["host", "content-length", "transfer-encoding", "upgrade"].into_iter().any(is) {
            return Ok(());
        }
        if line.length > LINE_KEPT {
            return Err(FramingFault::Long);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if is("host") {
            if std::mem::replace(&mut self.host, Host::Given) == Host::Given {
                return Err(FramingFault::TwoHosts);
            }
            let text = std::str::from_utf8(value).unwrap_or(" ");
            // Empty where the target has no host (section 3.2).
            return (text.is_empty() || split_authority(text).is_some())
                .then_some(())
                .ok_or(FramingFault::BadHost);
        }
        if is("content-length") {
            let length = value.iter().try_fold(0_u64, |all, byte| {
                let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
                all.checked_mul(10)?.checked_add(digit)
            });
            let length = length.filter(|_| !value.is_empty()).ok_or(FramingFault::BadLength)?;
            if self.length.replace(length).is_some() {
                return Err(FramingFault::TwoLengths);
            }
        } else if is("transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(FramingFault::Encoding);
            }
            self.is_chunked = true;
        } else {
            self.wants_other = true;
        }
        Ok(())
    }

    /// Part that follows the header.
    fn body(&self) -> Result<Expected, FramingFault> {
        match self {
            Self { host: Host::Wanted, .. } => Err(FramingFault::NoHost),
            Self { length: Some(_), is_chunked: true, .. } => Err(FramingFault::LengthAndEncoding),
            Self { wants_other: true, .. } => Ok(Expected::Other),
            Self { is_chunked: true, .. } => Ok(Expected::ChunkSize),
            Self { length: Some(left @ 1..), .. } => Ok(Expected::Bytes { left: *left, chunked: false }),
            _ => Ok(Expected::Request),
        }
    }
}

/// Part that follows the line with the size of a chunk.
fn chunk(line: &Line) -> Result<Expected, FramingFault> {
    let digits = line.kept.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, rest) = line.kept.split_at(digits);
    let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
    let is_ended = rest.first().is_some_and(|next| matches!(next, b'\r' | b';'));
    match size.filter(|_| is_ended).ok_or(FramingFault::ChunkSize)? {
        0 => Ok(Expected::Trailer),
        left => Ok(Expected::Bytes { left, chunked: true }),
    }
}

/// Bytes of a line that are kept. The name of a host has at most 253 (RFC 1035 section 2.3.4).
const LINE_KEPT: usize = 512;
/// A byte that is nowhere good in a header, nor in the size of a chunk.
const UNREADABLE: u8 = 0;

#[cfg(test)]
mod tests;
