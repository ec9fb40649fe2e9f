//! The receiving side: all receivers on one thread. Every message is accepted and settled, one disposition for each read.
//!
//! Invariant: a body of the wrong length or content, and a message behind a later one of its sender, is an error.

use std::os::fd::AsFd as _;
use std::thread;

use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::performative::{DeliveryState, Disposition, Flow, Performative, Transfer};
use amqp_codec::types::Role;
use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::latency::Latencies;
use super::progress::Progress;
use super::socket::{self, Socket, refuse};
use super::template::{FILLER, STAMP_BYTES, Stamp};
use super::{Load, Peer, Percentiles, TICK};
use crate::Fallible;

/// All receivers of a run.
#[derive(Debug)]
pub(super) struct Receivers<'a> {
    progress: &'a Progress,
    /// Messages that are acknowledged before anything is received.
    starts_behind: u64,
    all: Vec<Receiver>,
    checks: Checks,
}

/// Expected contents of every message.
#[derive(Debug)]
struct Checks {
    /// All of a body but its stamp.
    filler: Vec<u8>,
    /// Whether stamps are of this run.
    has_senders: bool,
    latencies: Latencies,
}

/// One connection with one receiving link.
#[derive(Debug)]
struct Receiver {
    socket: Socket,
    credit: u32,
    /// Deliveries that came, and frames.
    received: u32,
    frames: u32,
    /// Credit that is left.
    left: u32,
    /// First and last delivery that is not settled yet.
    open: Option<(u32, u32)>,
    /// For each sender the least number that its next message has.
    next: Vec<u64>,
    assembly: Assembly,
    output: BytesMut,
}

impl<'a> Receivers<'a> {
    pub(super) fn connect(load: &'a Load, peer: &Peer, progress: &'a Progress) -> Fallible<Self> {
        let all =
            (0..load.receivers).map(|index| Receiver::connect(index, load, peer)).collect::<Fallible<_>>()?;
        let filler = vec![FILLER; load.size.saturating_sub(STAMP_BYTES)];
        Ok(Self {
            progress,
            starts_behind: load.starts_behind,
            all,
            checks: Checks { filler, has_senders: load.senders > 0, latencies: Latencies::default() },
        })
    }

    /// Percentiles from end to end.
    pub(super) fn latencies(&mut self) -> Option<Percentiles> {
        self.checks.latencies.percentiles()
    }

    /// Receives until the run is over.
    pub(super) fn run(&mut self) -> Fallible<()> {
        while self.progress.counts().acknowledged < self.starts_behind && !self.progress.is_over() {
            thread::sleep(TICK);
        }
        for receiver in &mut self.all {
            receiver.top_up();
            receiver.write()?;
        }
        let tick = Timespec::try_from(TICK)?;
        while !self.all.is_empty() && !self.progress.is_over() {
            let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.all.len());
            for receiver in &self.all {
                let mut wanted = PollFlags::IN;
                wanted.set(PollFlags::OUT, receiver.socket.unwritten() > 0);
                fds.push(PollFd::from_borrowed_fd(receiver.socket.stream.as_fd(), wanted));
            }
            poll(&mut fds, Some(&tick))?;
            let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            drop(fds);
            for (receiver, ready) in self.all.iter_mut().zip(ready) {
                if !ready.is_empty() {
                    let before = receiver.received;
                    receiver.turn(&mut self.checks, self.progress)?;
                    self.progress.received(u64::from(receiver.received.wrapping_sub(before)));
                }
            }
        }
        Ok(())
    }
}

impl Receiver {
    fn connect(index: u32, load: &Load, peer: &Peer) -> Fallible<Self> {
        let mut opened = socket::connect(peer)?;
        let address = peer.address.replace("{}", &(index % load.queues.max(1)).to_string());
        opened.attach_receiver(index, &address)?;
        let (socket, _) = opened.into_socket()?;
        Ok(Self {
            socket,
            credit: load.credit.max(1),
            received: 0,
            frames: 0,
            left: 0,
            open: None,
            next: vec![0; usize::try_from(load.senders)?],
            assembly: Assembly::default(),
            output: BytesMut::new(),
        })
    }

    /// Reads once, checks what came, settles it and asks for more.
    fn turn(&mut self, checks: &mut Checks, progress: &Progress) -> Fallible<()> {
        self.socket.read()?;
        let (now, measured) = (progress.now(), progress.measured().range());
        loop {
            let Some((performative, payload)) = self.socket.next()? else { break };
            match performative {
                Performative::Transfer(transfer) => {
                    self.frames = self.frames.wrapping_add(1);
                    let taken = self.assembly.take(&transfer, payload, &checks.filler)?;
                    let Some((id, stamp)) = taken else { continue };
                    self.received = self.received.wrapping_add(1);
                    self.left = self.left.saturating_sub(1);
                    self.open = Some((self.open.map_or(id, |(first, _)| first), id));
                    check_order(&mut self.next, stamp)?;
                    if checks.has_senders && measured.contains(&stamp.due) {
                        checks.latencies.note(now.saturating_sub(stamp.due));
                    }
                }
                other => refuse(&other)?,
            }
        }
        if let Some((first, last)) = self.open.take() {
            let answer = Performative::Disposition(Disposition {
                role: Role::Receiver,
                first,
                last: Some(last),
                settled: true,
                state: Some(DeliveryState::Accepted),
                batchable: false,
            });
            write_frame(&mut self.output, FrameKind::Amqp, 0, |out| answer.encode(out));
        }
        if self.left <= self.credit / 2 {
            self.top_up();
        }
        self.write()
    }

    fn top_up(&mut self) {
        self.left = self.credit;
        let flow = Performative::Flow(Flow {
            next_incoming_id: Some(self.frames),
            incoming_window: u32::MAX >> 1,
            next_outgoing_id: 0,
            outgoing_window: 1_000,
            handle: Some(0),
            delivery_count: Some(self.received),
            link_credit: Some(self.credit),
            ..Flow::default()
        });
        write_frame(&mut self.output, FrameKind::Amqp, 0, |out| flow.encode(out));
    }

    fn write(&mut self) -> Fallible<()> {
        self.socket.output.extend_from_slice(&self.output);
        self.output.clear();
        self.socket.flush()
    }
}

/// A delivery while it is not whole.
#[derive(Debug, Default)]
struct Assembly {
    /// Its id and the bytes that have come.
    begun: Option<(u32, usize)>,
    /// The last of these bytes.
    tail: [u8; STAMP_BYTES],
}

impl Assembly {
    /// Takes the payload of one frame; the delivery's id and stamp once it is whole.
    fn take(&mut self, transfer: &Transfer, payload: &[u8], filler: &[u8]) -> Fallible<Option<(u32, Stamp)>> {
        let body = filler.len() + STAMP_BYTES;
        if self.begun.is_none() && !transfer.more {
            // The usual case: one frame, compared whole.
            let id = transfer.delivery_id.ok_or("a delivery has no id")?;
            let whole = payload.len().checked_sub(body).and_then(|start| payload.get(start..));
            let (rest, stamp) = whole.and_then(<[u8]>::split_last_chunk).ok_or("a body is too short")?;
            if rest != filler {
                return Err("a body is not as it was sent".into());
            }
            return Ok(Some((id, Stamp::of(stamp))));
        }
        let (id, before) = match self.begun.take() {
            Some(begun) => begun,
            None => (transfer.delivery_id.ok_or("a delivery has no id")?, 0),
        };
        if before > 0 {
            let stamped = if transfer.more { 0 } else { STAMP_BYTES };
            let rest = payload.get(..payload.len().saturating_sub(stamped)).unwrap_or_default();
            if !filler.starts_with(rest) {
                return Err("a body is not as it was sent".into());
            }
        }
        let kept = payload.len().min(STAMP_BYTES);
        self.tail.rotate_left(kept);
        for (place, byte) in self.tail.iter_mut().rev().zip(payload.iter().rev()) {
            *place = *byte;
        }
        let length = before + payload.len();
        if transfer.more {
            self.begun = Some((id, length));
            return Ok(None);
        }
        if length < body {
            return Err("a body is too short".into());
        }
        Ok(Some((id, Stamp::of(&self.tail))))
    }
}

/// Fails where a message comes after a later one of the same sender.
fn check_order(next: &mut [u64], stamp: Stamp) -> Fallible<()> {
    // Without senders of this run the messages are of another one.
    let Some(next) = next.get_mut(stamp.sender as usize) else { return Ok(()) };
    if stamp.number < *next {
        return Err(format!(
            "message {} of sender {} came after number {}",
            stamp.number,
            stamp.sender,
            next.saturating_sub(1)
        )
        .into());
    }
    *next = stamp.number + 1;
    Ok(())
}

#[cfg(test)]
mod tests;
