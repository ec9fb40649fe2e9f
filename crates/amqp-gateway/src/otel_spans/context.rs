//! The trace that a message belongs to (W3C Trace Context, `traceparent` and `tracestate`).
//!
//! Invariant: only a header that is well-formed to the last digit names a trace.

use std::fmt;

/// Longest `tracestate` that is passed on, in bytes (W3C Trace Context 3.3.1.5).
const STATE_BYTES_MAX: usize = 512;

/// The id of a span; never zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanId(u64);

impl SpanId {
    /// One of these bits.
    pub fn new(bits: u128) -> Self {
        let low = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(1);
        Self(low.max(1))
    }
}

impl fmt::Display for SpanId {
    /// 16 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A span of somebody else's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceContext {
    /// 128 bits, not zero.
    trace: u128,
    /// 64 bits, not zero.
    span: u64,
    /// Whether the trace is recorded.
    pub(crate) sampled: bool,
    state: Option<Box<str>>,
}

impl TraceContext {
    /// Reads `00-<32 digits>-<16 digits>-<2 digits>`. A later version may have more behind that.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let span = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let is_known = version == 0 && parts.next().is_none();
        let is_later = version != 0 && version != 0xFF;
        if trace == 0 || span == 0 || !(is_known || is_later) {
            return None;
        }
        Some(Self { trace, span, sampled: flags & 1 == 1, state: None })
    }

    /// The same with what the vendors of tracing tools keep in it.
    pub(crate) fn with_state(self, state: Option<&str>) -> Self {
        let fits = |state: &&str| {
            !state.is_empty()
                && state.len() <= STATE_BYTES_MAX
                && state.bytes().all(|byte| (0x20..0x7F).contains(&byte))
        };
        Self { state: state.filter(fits).map(Box::from), ..self }
    }

    /// The trace, in 32 digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The span, in 16 digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// `tracestate`, as it came.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// So many hexadecimal digits in lower case, and nothing else.
fn hex(digits: &str, count: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != count || !digits.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
