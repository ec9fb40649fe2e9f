//! Scripted client on a socket.
//!
//! Invariant: every wait ends: with what was waited for, with the end of the stream, or with the time-out.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use amqp_codec::performative::{
    Attach, Close, Detach, Disposition, End, Flow, Performative, SaslFrame, SaslOutcome,
};
use amqp_codec::types::ReceiverSettleMode;

use crate::{Incoming, Received, Script};

/// Longest wait for a frame. Far beyond what a broker needs, so that only a broker that never answers meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reason why a wait ended without the awaited frame.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The broker closed the socket.
    #[error("the broker closed the socket")]
    Closed,
    /// Nothing came in time.
    #[error("nothing came within {PATIENCE:?}")]
    TimedOut,
    /// The broker sent something that is not AMQP.
    #[error("the broker sent something that is not AMQP: {0}")]
    NotAmqp(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A scripted client connected to a broker, over TCP unless told otherwise.
#[derive(Debug)]
pub struct Wire<S = TcpStream> {
    stream: S,
    /// Scripted client whose bytes travel over the socket.
    pub script: Script,
}

impl Wire {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self, WireError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream))
    }

    /// Connects, logs in with PLAIN, opens, and begins a session on channel 0.
    pub fn session(address: SocketAddr, user: &str, password: &str) -> Result<Self, WireError> {
        let mut wire = Self::connect(address)?;
        wire.script.sasl_plain(user, password).open("testkit").begin(0);
        wire.flush()?;
        wire.until(|performative| matches!(performative, Performative::Begin(_)))?;
        Ok(wire)
    }
}

impl<S: Read + Write> Wire<S> {
    /// On a stream that is connected already, TLS for example. Reads on it should time out.
    pub fn over(stream: S) -> Self {
        Self { stream, script: Script::new() }
    }

    /// The stream, to do things to it that no client should.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends what the script has collected.
    pub fn flush(&mut self) -> Result<(), WireError> {
        let out = self.script.take_output();
        self.stream.write_all(&out)?;
        self.stream.flush()?;
        Ok(())
    }

    /// Sends, then waits for the next thing the broker says, heartbeats left out: they do not make the wait longer.
    pub fn next_incoming(&mut self) -> Result<Incoming, WireError> {
        self.flush()?;
        let begun = Instant::now();
        loop {
            match self.script.poll() {
                Some(Incoming::Heartbeat) if begun.elapsed() > PATIENCE => return Err(WireError::TimedOut),
                Some(Incoming::Heartbeat) => {}
                Some(incoming) => return Ok(incoming),
                None => self.read()?,
            }
        }
    }

    fn read(&mut self) -> Result<(), WireError> {
        if let Some(reason) = self.script.broken() {
            return Err(WireError::NotAmqp(reason.to_owned()));
        }
        let mut buffer = [0; 16_384];
        let count = match self.stream.read(&mut buffer) {
            Ok(0) => return Err(WireError::Closed),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(WireError::TimedOut);
            }
            // A read with a time-out is not taken up again by the system.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) if is_end(error.kind()) => return Err(WireError::Closed),
            Err(error) => return Err(error.into()),
        };
        self.script.handle_input(buffer.get(..count).unwrap_or_default());
        Ok(())
    }

    /// The next AMQP frame.
    pub fn next_frame(&mut self) -> Result<Received, WireError> {
        loop {
            if let Incoming::Frame(received) = self.next_incoming()? {
                return Ok(received);
            }
        }
    }

    /// Skips frames until one fits.
    pub fn until(&mut self, fits: impl Fn(&Performative) -> bool) -> Result<Received, WireError> {
        loop {
            let received = self.next_frame()?;
            if fits(&received.performative) {
                return Ok(received);
            }
        }
    }

    /// Skips to the SASL outcome.
    pub fn sasl_outcome(&mut self) -> Result<SaslOutcome, WireError> {
        loop {
            if let Incoming::Sasl(SaslFrame::Outcome(outcome)) = self.next_incoming()? {
                return Ok(outcome);
            }
        }
    }

    /// Skips to the next attach.
    pub fn attached(&mut self) -> Result<Attach, WireError> {
        self.pick(|performative| match performative {
            Performative::Attach(attach) => Some(*attach),
            _ => None,
        })
    }

    /// Skips to the next flow.
    pub fn flowed(&mut self) -> Result<Flow, WireError> {
        self.pick(|performative| match performative {
            Performative::Flow(flow) => Some(flow),
            _ => None,
        })
    }

    /// Skips to the next disposition.
    pub fn disposed(&mut self) -> Result<Disposition, WireError> {
        self.pick(|performative| match performative {
            Performative::Disposition(disposition) => Some(disposition),
            _ => None,
        })
    }

    /// Skips to the next transfer.
    pub fn transferred(&mut self) -> Result<Received, WireError> {
        self.until(|performative| matches!(performative, Performative::Transfer(_)))
    }

    /// Skips to the next detach.
    pub fn detached(&mut self) -> Result<Detach, WireError> {
        self.pick(|performative| match performative {
            Performative::Detach(detach) => Some(*detach),
            _ => None,
        })
    }

    /// Skips to the next end.
    pub fn ended(&mut self) -> Result<End, WireError> {
        self.pick(|performative| match performative {
            Performative::End(end) => Some(*end),
            _ => None,
        })
    }

    /// Skips to the close.
    pub fn closed(&mut self) -> Result<Close, WireError> {
        self.pick(|performative| match performative {
            Performative::Close(close) => Some(*close),
            _ => None,
        })
    }

    /// Attaches a sender with handle and name given, and waits for the answer and its credit.
    pub fn sender(&mut self, handle: u32, name: &str, target: &str) -> Result<Attach, WireError> {
        self.script.attach_sender(0, handle, name, Some(target));
        let attach = self.attached()?;
        self.flowed()?;
        Ok(attach)
    }

    /// Attaches a receiver and waits for the answer.
    pub fn receiver(
        &mut self,
        handle: u32,
        name: &str,
        source: &str,
        mode: Option<ReceiverSettleMode>,
    ) -> Result<Attach, WireError> {
        self.script.attach_receiver(0, handle, name, source, mode);
        self.attached()
    }

    /// Everything that comes until the broker closes the socket.
    pub fn rest(&mut self) -> Result<Vec<Incoming>, WireError> {
        let mut rest = Vec::new();
        loop {
            match self.next_incoming() {
                Ok(incoming) => rest.push(incoming),
                Err(WireError::Closed) => return Ok(rest),
                Err(error) => return Err(error),
            }
        }
    }

    fn pick<T>(&mut self, mut choose: impl FnMut(Performative) -> Option<T>) -> Result<T, WireError> {
        loop {
            if let Some(chosen) = choose(self.next_frame()?.performative) {
                return Ok(chosen);
            }
        }
    }
}

/// Whether the error means that the broker has closed the socket. TLS reports an end without `close_notify` as unexpected.
const fn is_end(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
}
