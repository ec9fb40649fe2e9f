//! One connection of our own client: ordinary, or with the socket of a client for .NET.
//!
//! Invariant: every wait ends, with what was waited for or with an error.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::{DeliveryState, Disposition, Performative};
use amqp_codec::types::ReceiverSettleMode;
use bytes::Bytes;
use socket2::SockRef;
use testkit::{Received, Script, Wire};

use crate::Fallible;

/// Both buffers of the socket of a client for .NET, in bytes.
const SMALL_BUFFER: usize = 8 << 10;
/// Bytes of a message in one frame: less than the broker's largest frame.
const FRAME_PAYLOAD: usize = 60_000;
/// As long as no frame comes.
const PATIENCE: Duration = Duration::from_secs(30);
const SENDER: u32 = 0;
const RECEIVER: u32 = 1;

/// A connection with one session.
pub(super) struct Connection {
    wire: Wire,
    /// Deliveries and frames that were sent.
    next_id: u32,
    /// Deliveries that were received.
    received: u32,
    /// Transfers that came before they were asked for.
    arrived: VecDeque<Received>,
}

/// A message whose body has so many bytes.
pub(super) fn message(bytes: usize) -> Bytes {
    MessageBuilder::new().message_id("id").data(&vec![7; bytes]).build()
}

impl Connection {
    /// Buffers as the system makes them, and each write is sent at once.
    pub(super) fn ordinary(port: u16) -> Fallible<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Self::on(stream)
    }

    /// Buffers of 8 KiB, set after the connect, with Nagle's algorithm on or off.
    pub(super) fn small(port: u16, nagle: bool) -> Fallible<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        SockRef::from(&stream).set_recv_buffer_size(SMALL_BUFFER)?;
        SockRef::from(&stream).set_send_buffer_size(SMALL_BUFFER)?;
        stream.set_nodelay(!nagle)?;
        Self::on(stream)
    }

    fn on(stream: TcpStream) -> Fallible<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut wire = Wire::over(stream);
        wire.script.sasl("ANONYMOUS", None).open("bench").begin(0);
        wire.until(|performative| matches!(performative, Performative::Begin(_)))?;
        Ok(Self { wire, next_id: 0, received: 0, arrived: VecDeque::new() })
    }

    /// Attaches a link to send on.
    pub(super) fn sender(&mut self, queue: &str) -> Fallible<()> {
        self.wire.sender(SENDER, "sender", queue)?;
        Ok(())
    }

    /// Attaches a link to receive on, without credit.
    pub(super) fn receiver(&mut self, queue: &str) -> Fallible<()> {
        self.wire.receiver(RECEIVER, "receiver", queue, Some(ReceiverSettleMode::Second))?;
        Ok(())
    }

    /// Sends a message, and says how long it took until it was accepted.
    pub(super) fn send(&mut self, message: &Bytes) -> Fallible<Duration> {
        let begun = Instant::now();
        let id = self.next_id;
        let mut left = message.clone();
        while !left.is_empty() {
            let payload = left.split_to(left.len().min(FRAME_PAYLOAD));
            let mut transfer = Script::transfer_frame(SENDER, id, false);
            transfer.more = !left.is_empty();
            self.wire.script.transfer_with(0, transfer, &payload);
        }
        self.next_id = id.wrapping_add(1);
        let outcome = self.disposed()?;
        if outcome.state != Some(DeliveryState::Accepted) {
            return Err(format!("not accepted: {:?}", outcome.state).into());
        }
        Ok(begun.elapsed())
    }

    /// Lets so many more messages come.
    pub(super) fn grant(&mut self, credit: u32) -> Fallible<()> {
        self.wire.script.credit(0, RECEIVER, self.received, credit, false);
        Ok(self.wire.flush()?)
    }

    /// Waits for a whole message, and completes it.
    pub(super) fn receive(&mut self) -> Fallible<Duration> {
        let begun = Instant::now();
        let mut delivery = None;
        loop {
            let frame = match self.arrived.pop_front() {
                Some(frame) => frame,
                None => self.wire.transferred()?,
            };
            let Performative::Transfer(transfer) = frame.performative else { continue };
            delivery = delivery.or(transfer.delivery_id);
            if !transfer.more {
                break;
            }
        }
        let took = begun.elapsed();
        self.received = self.received.wrapping_add(1);
        let id = delivery.ok_or("a delivery without an id")?;
        self.wire.script.disposition(0, id, id, false, Some(DeliveryState::Accepted));
        self.disposed()?;
        Ok(took)
    }

    /// Waits for the next disposition. Messages that were prefetched come before it.
    fn disposed(&mut self) -> Fallible<Disposition> {
        loop {
            let frame = self.wire.next_frame()?;
            match frame.performative {
                Performative::Transfer(_) => self.arrived.push_back(frame),
                Performative::Disposition(disposition) => return Ok(disposition),
                _ => {}
            }
        }
    }
}
