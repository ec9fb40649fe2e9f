//! A connection with one session: the handshake by a scripted client, then frames as fast as they come.
//!
//! Invariant: no frame is lost between handshake and run, and none is copied on its way in.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use amqp_codec::frame::{FrameHeader, HEADER_LEN};
use amqp_codec::performative::{Attach, Begin, Error, Open, Performative, Source, Target, decode_prefix};
use amqp_codec::types::{ReceiverSettleMode, Role, SenderSettleMode};
use testkit::{Incoming, Wire};

use super::Peer;
use crate::Fallible;

/// The largest frame that we take: that of Ferrybus, so that every broker cuts a large message alike.
const MAX_FRAME: u32 = 64 << 10;
/// Bytes that one read takes.
const READ_BYTES: usize = 256 << 10;
/// Output that is collected for one write.
pub(super) const WRITE_BYTES: usize = 256 << 10;

/// A connection whose session has begun, still to be spoken to step by step.
pub(crate) struct Opened {
    pub(super) wire: Wire,
    pub(super) open: Open,
    pub(super) begin: Begin,
}

/// Opens a connection and begins a session.
pub(crate) fn connect(peer: &Peer) -> Fallible<Opened> {
    let mut wire = Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, peer.port)))?;
    match &peer.user {
        Some((user, password)) => wire.script.sasl_plain(user, password),
        None => wire.script.sasl("ANONYMOUS", None),
    };
    let hostname = peer.namespace.as_ref().map(|namespace| format!("vhost:{namespace}"));
    wire.script.open_with(Open { hostname, max_frame_size: MAX_FRAME, ..Open::new("bench") }).begin(0);
    let (mut open, mut begin) = (None, None);
    while begin.is_none() {
        match wire.next_frame()?.performative {
            Performative::Open(found) => open = Some(*found),
            Performative::Begin(found) => begin = Some(*found),
            other => refuse(&other)?,
        }
    }
    let open = open.ok_or("a begin came before the open")?;
    Ok(Opened { wire, open, begin: begin.ok_or("the session has not begun")? })
}

impl Opened {
    /// Attaches a link, and fails where the broker refuses it.
    pub(crate) fn attach(&mut self, attach: Attach) -> Fallible<()> {
        let role = attach.role;
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached()?;
        let is_there = if role == Role::Sender { answer.target.is_some() } else { answer.source.is_some() };
        if is_there { Ok(()) } else { Err(refused(self.wire.detached()?.error.as_ref())) }
    }

    /// Attaches a receiver without credit.
    pub(crate) fn attach_receiver(&mut self, index: u32, address: &str) -> Fallible<()> {
        let mut attach = Attach::new(&*format!("receiver-{index}"), 0, Role::Receiver);
        attach.snd_settle_mode = Some(SenderSettleMode::Unsettled);
        attach.rcv_settle_mode = Some(ReceiverSettleMode::First);
        (attach.source, attach.target) = (Some(Source::new(address)), Some(Target::new("here")));
        self.attach(attach)
    }

    /// Ends the scripted part. The performatives that were read already come first.
    pub(super) fn into_socket(mut self) -> Fallible<(Socket, Vec<Performative>)> {
        self.wire.flush()?;
        let stream = self.wire.stream().try_clone()?;
        stream.set_nonblocking(true)?;
        let mut early = Vec::new();
        while let Some(incoming) = self.wire.script.poll() {
            if let Incoming::Frame(received) = incoming {
                early.push(received.performative);
            }
        }
        let mut input = Input::default();
        input.begin_with(self.wire.script.unread());
        Ok((Socket { stream, input, output: Vec::new(), written: 0 }, early))
    }
}

/// Received bytes; frames are read where they lie.
#[derive(Debug, Default)]
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn begin_with(&mut self, bytes: &[u8]) {
        self.buffer = bytes.to_vec();
        self.end = bytes.len();
    }

    /// Buffer space of the next read: a part of a frame is moved to the front first.
    fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let needed = self.end + READ_BYTES;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// The body of the next whole frame.
    fn frame(&mut self) -> Fallible<Option<&[u8]>> {
        let whole = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(first) = whole.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let header = FrameHeader::parse(first, MAX_FRAME)?;
        let size = usize::try_from(header.size)?;
        if whole.len() < size {
            return Ok(None);
        }
        self.start += size;
        Ok(whole.get(header.body_offset()..size))
    }
}

/// A non-blocking connection.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    input: Input,
    /// To be written; the first `written` bytes are.
    pub(super) output: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Reads what is there, once.
    pub(super) fn read(&mut self) -> Fallible<()> {
        match self.stream.read(self.input.space()) {
            Ok(0) => Err("the broker closed the connection".into()),
            Ok(count) => {
                self.input.end += count;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next performative, with its payload.
    pub(super) fn next(&mut self) -> Fallible<Option<(Performative, &[u8])>> {
        // A loop that borrows the input for its result only when it ends.
        while let Some(length) = self.input.frame()?.map(<[u8]>::len) {
            // A heartbeat has no body.
            if length == 0 {
                continue;
            }
            let end = self.input.start;
            let body = self.input.buffer.get(end - length..end).unwrap_or_default();
            let (performative, used) = decode_prefix(body)?;
            return Ok(Some((performative, body.get(used..).unwrap_or_default())));
        }
        Ok(None)
    }

    /// Bytes that wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.output.len() - self.written
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> Fallible<()> {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

/// Fails where the broker ends a link, the session or the connection.
pub(super) fn refuse(performative: &Performative) -> Fallible<()> {
    match performative {
        Performative::Detach(detach) => Err(refused(detach.error.as_ref())),
        Performative::End(end) => Err(refused(end.error.as_ref())),
        Performative::Close(close) => Err(refused(close.error.as_ref())),
        _ => Ok(()),
    }
}

pub(crate) fn refused(error: Option<&Error>) -> Box<dyn std::error::Error + Send + Sync> {
    format!("the broker refused: {error:?}").into()
}
