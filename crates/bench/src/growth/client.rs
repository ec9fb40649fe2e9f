//! A connection to the broker that is measured, and the broker's CPU.
//!
//! Invariant: every wait ends, with what was waited for or with an error.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use amqp_codec::performative::{Attach, DeliveryState, Performative, Source, Target};
use amqp_codec::raw::RawMap;
use amqp_codec::types::{ReceiverSettleMode, Role, SenderSettleMode};
use testkit::{Script, Wire, WireError};

use super::{Cost, Running};
use crate::Fallible;
use crate::load::refused;
use crate::process_usage::cpu;

/// Most messages that are sent before they are acknowledged: less than the credit and the window that the broker gives.
pub(super) const BATCH: u32 = 500;
/// Credit for everything that a run may bring.
const PLENTY: u32 = 100_000_000;
/// Stands where a delivery-id will be, and is found by its bytes.
const ID: u32 = 0x7fed_cba9;

/// One connection with one session.
pub(crate) struct Client {
    wire: Wire,
    next_id: u32,
    received: u64,
    /// First and last delivery that was received unsettled.
    open: Option<(u32, u32)>,
}

/// One transfer as bytes, of which a part changes from message to message.
pub(crate) struct Template {
    bytes: Vec<u8>,
    id_at: usize,
    tag_at: usize,
    mark_at: usize,
}

impl Template {
    /// A transfer on `handle`; `mark` is found in the message and replaced by what a send brings.
    pub(crate) fn new(handle: u32, message: &[u8], mark: &[u8], state: Option<DeliveryState>) -> Self {
        let mut script = Script::new();
        let mut transfer = Script::transfer_frame(handle, ID, false);
        transfer.state = state;
        let bytes = script.transfer_with(0, transfer, message).take_output().to_vec();
        let find = |part: &[u8]| bytes.windows(part.len().max(1)).position(|window| window == part);
        let behind = |constructor: &[u8]| {
            let place = find(&[constructor, &ID.to_be_bytes()].concat());
            place.map_or(bytes.len(), |place| place + constructor.len())
        };
        let (id_at, tag_at) = (behind(&[0x70]), behind(&[0xa0, 4]));
        let mark_at = find(mark).unwrap_or(bytes.len());
        Self { bytes, id_at, tag_at, mark_at }
    }

    fn append(&self, out: &mut Vec<u8>, id: u32, mark: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let id = id.to_be_bytes();
        for (at, part) in [(self.id_at, &id[..]), (self.tag_at, &id[..]), (self.mark_at, mark)] {
            if let Some(place) = out.get_mut(start + at..start + at + part.len()) {
                place.copy_from_slice(part);
            }
        }
    }
}

impl Client {
    pub(crate) fn connect(port: u16) -> Fallible<Self> {
        let mut wire = Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        wire.script.sasl("ANONYMOUS", None).open("bench").begin(0);
        wire.until(|performative| matches!(performative, Performative::Begin(_)))?;
        Ok(Self { wire, next_id: 0, received: 0, open: None })
    }

    pub(crate) fn sender(&mut self, handle: u32, target: Target) -> Fallible<()> {
        let mut attach = Attach::new(&*format!("sender-{handle}"), handle, Role::Sender);
        attach.initial_delivery_count = Some(0);
        (attach.source, attach.target) = (Some(Source::new("here")), Some(target));
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached()?;
        if answer.target.is_none() {
            return Err(refused(self.wire.detached()?.error.as_ref()));
        }
        self.wire.flowed()?;
        Ok(())
    }

    /// A link that gets all that comes, under a lock (`settled` no) or gone with it.
    pub(super) fn receiver(
        &mut self,
        handle: u32,
        address: &str,
        filter: Option<RawMap>,
        settled: bool,
    ) -> Fallible<()> {
        self.idle_receiver(handle, address, filter, settled)?;
        self.grant(handle, 0, PLENTY)
    }

    /// The same without credit.
    pub(super) fn idle_receiver(
        &mut self,
        handle: u32,
        address: &str,
        filter: Option<RawMap>,
        settled: bool,
    ) -> Fallible<()> {
        let mut attach = Attach::new(&*format!("receiver-{handle}"), handle, Role::Receiver);
        attach.snd_settle_mode =
            Some(if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled });
        attach.rcv_settle_mode = Some(ReceiverSettleMode::First);
        attach.source = Some(Source::new(address).with_filter(filter));
        attach.target = Some(Target::new("here"));
        self.wire.script.attach(0, attach);
        let answer = self.wire.attached()?;
        if answer.source.is_none() {
            return Err(refused(self.wire.detached()?.error.as_ref()));
        }
        Ok(())
    }

    /// Lets so many more messages come, after `count` that came already.
    pub(super) fn grant(&mut self, handle: u32, count: u32, credit: u32) -> Fallible<()> {
        self.wire.script.credit(0, handle, count, credit, false);
        Ok(self.wire.flush()?)
    }

    /// Sends a message for each mark, and waits until all are acknowledged.
    pub(super) fn send<M: AsRef<[u8]>>(
        &mut self,
        template: &Template,
        marks: impl IntoIterator<Item = M>,
    ) -> Fallible<DeliveryState> {
        let mut out = Vec::new();
        let first = self.next_id;
        for mark in marks {
            template.append(&mut out, self.next_id, mark.as_ref());
            self.next_id += 1;
        }
        self.wire.script.raw(&out);
        let mut answered = 0;
        loop {
            let Performative::Disposition(disposition) = self.next()? else { continue };
            answered += disposition.last.unwrap_or(disposition.first) - disposition.first + 1;
            let good = match disposition.state {
                Some(DeliveryState::Transactional { outcome: Some(outcome), .. }) => *outcome,
                Some(state) => state,
                None => DeliveryState::Accepted,
            };
            if !matches!(good, DeliveryState::Accepted | DeliveryState::Declared { .. }) {
                return Err(format!("a message was answered {good:?}").into());
            }
            if answered >= self.next_id - first {
                return Ok(good);
            }
        }
    }

    /// Sends `rate` messages a second for so long, whatever the answers do; says how long each took to be answered.
    pub(crate) fn paced(
        &mut self,
        template: &Template,
        rate: u32,
        spell: Duration,
    ) -> Fallible<Vec<Duration>> {
        let first = self.next_id;
        let count = u32::try_from(spell.as_millis())? / 1_000 * rate;
        self.next_id += count;
        let mut stream = self.wire.stream().try_clone()?;
        let begin = Instant::now();
        let (note, sent) = mpsc::channel();
        thread::scope(|scope| {
            let writing = scope.spawn(move || -> std::io::Result<()> {
                let mut out = Vec::new();
                for number in 0..count {
                    let due = begin + Duration::from_secs(1) / rate * number;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    out.clear();
                    template.append(&mut out, first + number, b"");
                    // Nobody who could not note it would read the answer either.
                    note.send(Instant::now()).ok();
                    stream.write_all(&out)?;
                }
                Ok(())
            });
            let mut times = Vec::new();
            let read = self.answers(count, |answered| {
                let now = Instant::now();
                times.extend(sent.try_iter().take(answered).map(|sent| now.saturating_duration_since(sent)));
            });
            writing.join().map_err(|_| "who sends has panicked")??;
            read.map(|()| times)
        })
    }

    /// Takes the answers to so many messages, in the order in which these were sent.
    fn answers(&mut self, count: u32, mut note: impl FnMut(usize)) -> Fallible<()> {
        let mut answered = 0;
        while answered < count {
            let Performative::Disposition(disposition) = self.next()? else { continue };
            if !matches!(disposition.state, Some(DeliveryState::Accepted)) {
                return Err(format!("a message was answered {:?}", disposition.state).into());
            }
            let these = disposition.last.unwrap_or(disposition.first) - disposition.first + 1;
            answered += these;
            note(usize::try_from(these)?);
        }
        Ok(())
    }

    /// Waits until so many messages have come since the connection began, and completes them.
    pub(super) fn receive(&mut self, total: u64) -> Fallible<()> {
        while self.received < total {
            self.next()?;
        }
        self.complete()
    }

    /// Takes what comes within so long, even if more comes all the time; says how many that were.
    pub(super) fn take_for(&mut self, spell: Duration) -> Fallible<u64> {
        let (before, end) = (self.received, Instant::now() + spell);
        let taken = loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Ok(self.received - before);
            }
            self.wire.stream().set_read_timeout(Some(left))?;
            match self.wire.next_frame() {
                Ok(received) => self.note(&received.performative)?,
                Err(WireError::TimedOut) => {}
                Err(error) => break Err(error.into()),
            }
        };
        self.wire.stream().set_read_timeout(Some(PATIENCE))?;
        taken
    }

    fn complete(&mut self) -> Fallible<()> {
        if let Some((first, last)) = self.open.take() {
            self.wire.script.disposition(0, first, last, true, Some(DeliveryState::Accepted));
            self.wire.flush()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Fallible<Performative> {
        let performative = self.wire.next_frame()?.performative;
        self.note(&performative)?;
        Ok(performative)
    }

    fn note(&mut self, performative: &Performative) -> Fallible<()> {
        match performative {
            Performative::Transfer(transfer) => {
                self.received += 1;
                if let Some(id) = transfer.delivery_id.filter(|_| transfer.settled != Some(true)) {
                    self.open = Some((self.open.map_or(id, |(first, _)| first), id));
                }
                Ok(())
            }
            Performative::Detach(detach) => Err(refused(detach.error.as_ref())),
            Performative::End(end) => Err(refused(end.error.as_ref())),
            Performative::Close(close) => Err(refused(close.error.as_ref())),
            _ => Ok(()),
        }
    }
}

/// The patience that [`Wire::connect`] gives a socket.
const PATIENCE: Duration = Duration::from_secs(20);

/// CPU time that the broker uses while it is measured.
pub(super) struct Meter {
    pid: u32,
    begin: Instant,
    before: Duration,
}

impl Meter {
    pub(super) fn start(running: &Running) -> Fallible<Self> {
        Ok(Self { pid: running.pid, begin: Instant::now(), before: cpu(running.pid)? })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// CPU time since the start, as the cost of so many messages.
    pub(super) fn cost(&self, messages: u64) -> Fallible<Cost> {
        Ok(Cost { messages, cpu: cpu(self.pid)?.saturating_sub(self.before) })
    }
}

#[cfg(test)]
mod tests;
