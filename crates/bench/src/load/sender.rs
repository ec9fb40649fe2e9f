//! The sending side: all senders on one thread.
//!
//! Invariant: no sender exceeds the link credit or the session window that the broker has granted.

use std::ops::Range;
use std::os::fd::AsFd as _;
use std::time::Duration;

use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::performative::{Attach, DeliveryState, Disposition, Flow, Performative, Source, Target};
use amqp_codec::types::Role;
use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::latency::Latencies;
use super::progress::Progress;
use super::socket::{self, Socket, WRITE_BYTES, refuse};
use super::template::{Stamp, Template};
use super::{Extent, Load, Loop, Peer, Percentiles};
use crate::Fallible;

/// Times at which unacknowledged messages were due, by delivery-id. A power of two, more than any window or credit that is used.
const TIMES: usize = 1 << 17;
/// Longest wait: a backlog that has shrunk and the end of the run wake nobody.
const PATIENCE: Duration = Duration::from_micros(500);

/// All senders of a run.
#[derive(Debug)]
pub(super) struct Senders<'a> {
    load: &'a Load,
    progress: &'a Progress,
    all: Vec<Sender>,
    latencies: Latencies,
    /// Delays between the time at which a message was due and that at which it was handed to the socket.
    delays: Latencies,
    /// Messages that were begun, of all senders.
    begun: u64,
    /// Start of an open loop, in nanoseconds since the epoch.
    began_at: u64,
}

/// One connection with one sending link.
#[derive(Debug)]
struct Sender {
    index: u32,
    socket: Socket,
    template: Template,
    /// Messages sent, which is the link's delivery-count as well.
    sent: u32,
    acknowledged: u32,
    /// Delivery-count at which the link's credit ends.
    credit_ends: u32,
    /// Transfer-id of the next frame, and the one at which the session's window ends.
    next_frame: u32,
    window_ends: u32,
    times: Vec<u64>,
}

impl<'a> Senders<'a> {
    pub(super) fn connect(load: &'a Load, peer: &Peer, progress: &'a Progress) -> Fallible<Self> {
        let all =
            (0..load.senders).map(|index| Sender::connect(index, load, peer)).collect::<Fallible<_>>()?;
        Ok(Self {
            load,
            progress,
            all,
            latencies: Latencies::default(),
            delays: Latencies::default(),
            begun: 0,
            began_at: progress.now(),
        })
    }

    /// Percentiles of the acknowledgement.
    pub(super) fn latencies(&mut self) -> Option<Percentiles> {
        self.latencies.percentiles()
    }

    /// The slowest acknowledgement, in microseconds.
    pub(super) fn slowest(&self) -> Option<f64> {
        self.latencies.slowest()
    }

    /// Percentiles of the delay of an open loop's generator.
    pub(super) fn delays(&mut self) -> Option<Percentiles> {
        self.delays.percentiles()
    }

    /// Sends until the run is over, and reads the answers.
    pub(super) fn run(&mut self) -> Fallible<()> {
        self.began_at = self.progress.now();
        while !self.all.is_empty() && !self.progress.is_over() {
            let wait = self.send()?;
            let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.all.len());
            for sender in &self.all {
                let mut wanted = PollFlags::IN;
                wanted.set(PollFlags::OUT, sender.socket.unwritten() > 0);
                fds.push(PollFd::from_borrowed_fd(sender.socket.stream.as_fd(), wanted));
            }
            poll(&mut fds, Some(&Timespec::try_from(wait)?))?;
            let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
            drop(fds);
            let (now, measured) = (self.progress.now(), self.progress.measured().range());
            for (sender, ready) in self.all.iter_mut().zip(ready) {
                if ready.intersects(!PollFlags::OUT) {
                    let before = sender.acknowledged;
                    sender.read(now, &measured, &mut self.latencies)?;
                    self.progress.acknowledged(u64::from(sender.acknowledged.wrapping_sub(before)));
                }
            }
        }
        Ok(())
    }

    /// Sends what may be sent now; how long to wait for something else.
    fn send(&mut self) -> Fallible<Duration> {
        match self.load.pace {
            Loop::Closed { window, max_backlog } => self.send_closed(window, max_backlog),
            Loop::Open { rate } => self.send_open(rate),
        }
    }

    fn send_closed(&mut self, window: u32, max_backlog: Option<u64>) -> Fallible<Duration> {
        let counts = self.progress.counts();
        let room = max_backlog.map_or(u64::MAX, |max| (counts.received + max).saturating_sub(counts.sent));
        let wanted = match self.load.extent {
            Extent::Messages(messages) => messages.saturating_sub(self.begun),
            Extent::Time { .. } if self.progress.may_send() => u64::MAX,
            Extent::Time { .. } => 0,
        };
        let mut left = room.min(wanted);
        for sender in &mut self.all {
            let now = self.progress.now();
            let mut count = 0;
            while left > 0 && sender.may_send(window) {
                sender.append(now);
                left -= 1;
                count += 1;
            }
            self.progress.sent(count);
            self.begun += count;
            sender.socket.flush()?;
        }
        Ok(PATIENCE)
    }

    fn send_open(&mut self, rate: u32) -> Fallible<Duration> {
        let senders = u64::from(self.load.senders);
        let interval = |number: u64| number.saturating_mul(1_000_000_000) / u64::from(rate.max(1));
        let (now, measured) = (self.progress.now(), self.progress.measured().range());
        let mut due = self.began_at + interval(self.begun);
        while due <= now && self.progress.may_send() {
            let index = usize::try_from(self.begun % senders)?;
            // The broker may grant less than is due: what cannot be sent yet keeps the time at which it was.
            let Some(sender) = self.all.get_mut(index).filter(|sender| sender.may_send(u32::MAX)) else {
                break;
            };
            sender.append(due);
            if measured.contains(&due) {
                self.delays.note(now - due);
            }
            self.progress.sent(1);
            self.begun += 1;
            due = self.began_at + interval(self.begun);
        }
        for sender in &mut self.all {
            sender.socket.flush()?;
        }
        Ok(Duration::from_nanos(due.saturating_sub(self.progress.now())).min(PATIENCE))
    }
}

impl Sender {
    fn connect(index: u32, load: &Load, peer: &Peer) -> Fallible<Self> {
        let mut opened = socket::connect(peer)?;
        let address = peer.address.replace("{}", &(index % load.queues.max(1)).to_string());
        let mut attach = Attach::new(&*format!("sender-{index}"), 0, Role::Sender);
        attach.initial_delivery_count = Some(0);
        (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(&*address)));
        opened.attach(attach)?;
        let max_frame = usize::try_from(opened.open.max_frame_size)?.min(1 << 20);
        let template = Template::new(load.size, load.durable, max_frame)?;
        let window_ends = opened.begin.incoming_window;
        let (socket, early) = opened.into_socket()?;
        let mut sender = Self {
            index,
            socket,
            template,
            sent: 0,
            acknowledged: 0,
            credit_ends: 0,
            next_frame: 0,
            window_ends,
            times: vec![0; TIMES],
        };
        for performative in early {
            match performative {
                Performative::Flow(flow) => sender.granted(&flow),
                other => refuse(&other)?,
            }
        }
        Ok(sender)
    }

    /// Whether window, credit, session and buffers allow one more message.
    fn may_send(&self, window: u32) -> bool {
        let unacknowledged = self.sent.wrapping_sub(self.acknowledged);
        let frames = self.window_ends.wrapping_sub(self.next_frame);
        unacknowledged < window
            && (unacknowledged as usize) < TIMES
            && within(self.credit_ends.wrapping_sub(self.sent), 1)
            && within(frames, self.template.frames)
            && self.socket.unwritten() + self.template.len() <= WRITE_BYTES
    }

    fn append(&mut self, due: u64) {
        let id = self.sent;
        let stamp = Stamp { sender: self.index, number: u64::from(id), due };
        self.template.append(&mut self.socket.output, id, stamp);
        if let Some(time) = self.times.get_mut(id as usize % TIMES) {
            *time = due;
        }
        self.sent = id.wrapping_add(1);
        self.next_frame = self.next_frame.wrapping_add(self.template.frames);
    }

    /// Reads once. Times of messages that were due in the `measured` part are noted.
    fn read(&mut self, now: u64, measured: &Range<u64>, latencies: &mut Latencies) -> Fallible<()> {
        self.socket.read()?;
        while let Some((performative, _)) = self.socket.next()? {
            match performative {
                Performative::Disposition(answer) => self.answered(&answer, now, measured, latencies)?,
                Performative::Flow(flow) => self.granted(&flow),
                other => refuse(&other)?,
            }
        }
        Ok(())
    }

    fn answered(
        &mut self,
        answer: &Disposition,
        now: u64,
        measured: &Range<u64>,
        latencies: &mut Latencies,
    ) -> Fallible<()> {
        if !matches!(answer.state, Some(DeliveryState::Accepted)) {
            return Err(format!("a message was answered {:?}", answer.state).into());
        }
        let count = answer.last.unwrap_or(answer.first).wrapping_sub(answer.first).wrapping_add(1);
        self.acknowledged = self.acknowledged.wrapping_add(count);
        for id in (0..count).map(|step| answer.first.wrapping_add(step)) {
            let due = self.times.get(id as usize % TIMES).copied().unwrap_or(now);
            if measured.contains(&due) {
                latencies.note(now.saturating_sub(due));
            }
        }
        Ok(())
    }

    fn granted(&mut self, flow: &Flow) {
        self.window_ends = flow.next_incoming_id.unwrap_or(0).wrapping_add(flow.incoming_window);
        if let Some(credit) = flow.link_credit {
            self.credit_ends = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
        }
        if flow.echo {
            let answer = Performative::Flow(Flow {
                next_incoming_id: Some(0),
                incoming_window: 1_000,
                next_outgoing_id: self.next_frame,
                outgoing_window: u32::MAX >> 1,
                handle: Some(0),
                delivery_count: Some(self.sent),
                link_credit: Some(self.credit_ends.wrapping_sub(self.sent)),
                ..Flow::default()
            });
            let mut out = BytesMut::new();
            write_frame(&mut out, FrameKind::Amqp, 0, |out| answer.encode(out));
            self.socket.output.extend_from_slice(&out);
        }
    }
}

/// Whether a serial number that is `left` ahead leaves room for `needed` steps: one that is behind is far ahead modulo 2^32.
fn within(left: u32, needed: u32) -> bool {
    left >= needed && left <= u32::MAX >> 1
}
