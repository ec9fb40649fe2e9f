//! The simulated clients: what each does next is a matter of chance, what it remembers is a matter of record.
//!
//! Invariant: a client tells the model what it sends before it sends it, and what it sees when it sees it.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{Attach, DeliveryState, Modified, Performative, Source, Target},
    raw::{AnnotationValue, RawMap},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use testkit::{Incoming, Received, Script};

use crate::{
    model::{Broken, Id, Model, Seen},
    reader,
    rng::Rng,
};

/// What a client is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// Sends to its queue.
    Publish,
    /// Receives and settles as chance has it.
    Consume(Mode),
    /// Receives and completes everything.
    Drain,
}

/// How a consumer receives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Settles first: `settled=true`.
    First,
    /// Lets the broker settle: `settled=false`, and waits for the answer.
    Second,
    /// Receive-and-delete.
    Delete,
}

/// One link on one connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) script: Script,
    purpose: Purpose,
    queue: usize,
    dead_letter: bool,
    /// Speaks as a Service Bus client does: its locks outlive its connection.
    service_bus: bool,
    /// Names the connection in the model.
    holder: u64,
    attached: bool,
    credit: u32,
    next_delivery: u32,
    unanswered: BTreeMap<u32, Id>,
    received: u32,
    /// Deliveries not yet settled, by delivery-id.
    held: BTreeMap<u32, Id>,
    /// Completions (true) and other settlements sent with `settled=false`, by delivery-id.
    settling: BTreeMap<u32, (Id, bool)>,
    last_first_delivery: u64,
}

/// What `Credentials::development` knows.
const DEVELOPMENT_KEY_NAME: &str = "RootManageSharedAccessKey";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";
const LINK: u32 = 0;
const UNANSWERED_MAX: usize = 40;
const CREDIT_MAX: u64 = 20;

impl Client {
    /// A client that logs in, opens, begins and attaches, all pipelined.
    pub(crate) fn new(
        purpose: Purpose,
        (queue, dead_letter): (usize, bool),
        service_bus: bool,
        holder: u64,
    ) -> Self {
        let mut script = Script::new();
        script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open(&format!("client-{holder}")).begin(0);
        let name = format!("link-{holder}");
        let mut address = format!("q{queue}");
        if dead_letter {
            address.push_str("/$DeadLetterQueue");
        }
        attach(&mut script, purpose, service_bus, &name, &address);
        Self {
            script,
            purpose,
            queue,
            dead_letter,
            service_bus,
            holder,
            attached: false,
            credit: 0,
            next_delivery: 0,
            unanswered: BTreeMap::new(),
            received: 0,
            held: BTreeMap::new(),
            settling: BTreeMap::new(),
            last_first_delivery: 0,
        }
    }

    /// The connection is gone; tells the model what went with it.
    pub(crate) fn lost(&self, model: &mut Model) {
        if self.purpose == Purpose::Consume(Mode::Delete) {
            model.deleter_gone(self.queue, self.credit);
        }
        if !self.service_bus {
            model.holder_gone(self.holder);
        }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    pub(crate) fn place(&self) -> (usize, bool) {
        (self.queue, self.dead_letter)
    }

    /// Takes in everything the broker has sent.
    pub(crate) fn read(&mut self, now: u64, model: &mut Model) -> Result<(), String> {
        while let Some(incoming) = self.script.poll() {
            if let Incoming::Frame(received) = incoming {
                self.frame(received, now, model)?;
            }
        }
        self.script
            .broken()
            .map_or(Ok(()), |reason| Err(format!("the broker sent what is not AMQP: {reason}")))
    }

    fn frame(&mut self, received: Received, now: u64, model: &mut Model) -> Result<(), String> {
        match received.performative {
            Performative::Attach(attach) => self.on_attach(&attach),
            Performative::Transfer(transfer) => {
                let id = transfer.delivery_id.ok_or("a transfer without delivery-id")?;
                self.on_delivery(id, &received.payload, now, model)
            }
            Performative::Disposition(disposition) => {
                let last = disposition.last.unwrap_or(disposition.first);
                for id in disposition.first..=last {
                    self.on_disposition(disposition.role, id, disposition.state.as_ref(), model);
                }
                Ok(())
            }
            Performative::Detach(detach) => Err(format!("the broker detached the link: {:?}", detach.error)),
            Performative::End(end) => Err(format!("the broker ended the session: {:?}", end.error)),
            Performative::Close(close) => Err(format!("the broker closed the connection: {:?}", close.error)),
            _ => Ok(()),
        }
    }

    fn on_attach(&mut self, attach: &Attach) -> Result<(), String> {
        let refused =
            if self.purpose == Purpose::Publish { attach.target.is_none() } else { attach.source.is_none() };
        if refused {
            return Err("the broker refused the link".into());
        }
        self.attached = true;
        Ok(())
    }

    fn on_delivery(
        &mut self,
        delivery: u32,
        payload: &[u8],
        now: u64,
        model: &mut Model,
    ) -> Result<(), String> {
        let read = reader::read(payload)?;
        self.received += 1;
        self.credit = self.credit.saturating_sub(1);
        let settled = self.purpose == Purpose::Consume(Mode::Delete);
        if !settled && read.locked_until.is_none() {
            return Err("a delivery does not say how long its lock lasts".into());
        }
        if read.first_acquirer && !self.dead_letter {
            if read.sequence <= self.last_first_delivery {
                return Err(format!("message {} came before one with a lower number", read.id));
            }
            self.last_first_delivery = read.sequence;
        }
        let seen = Seen {
            id: read.id,
            queue: self.queue,
            sequence: read.sequence,
            delivery_count: read.delivery_count,
            locked_until: read.locked_until.filter(|_| !settled),
            holder: self.holder,
            now,
        };
        let live = model.delivered(seen).map_err(|broken: Broken| broken.to_string())?;
        if live && !settled {
            self.held.insert(delivery, read.id);
        }
        Ok(())
    }

    fn on_disposition(
        &mut self,
        role: Role,
        delivery: u32,
        state: Option<&DeliveryState>,
        model: &mut Model,
    ) {
        if role == Role::Receiver {
            let Some(id) = self.unanswered.remove(&delivery) else { return };
            match state {
                Some(DeliveryState::Accepted) => model.accepted(id),
                _ => model.refused(id),
            }
        } else if let Some((id, complete)) = self.settling.remove(&delivery)
            && complete
            && matches!(state, Some(DeliveryState::Accepted))
        {
            model.completed(id);
        }
    }

    /// Does something, as far as there is something to do.
    pub(crate) fn act(&mut self, rng: &mut Rng, body_max: u64, model: &mut Model) {
        if !self.attached {
            return;
        }
        match self.purpose {
            Purpose::Publish => self.publish(rng, body_max, model),
            Purpose::Consume(mode) => match rng.below(3) {
                0 => self.ask(rng),
                _ if mode == Mode::Delete => self.ask(rng),
                _ => self.settle(rng, mode, model),
            },
            Purpose::Drain => self.drain(model),
        }
    }

    fn publish(&mut self, rng: &mut Rng, body_max: u64, model: &mut Model) {
        for _ in 0..=rng.below(6) {
            if self.unanswered.len() >= UNANSWERED_MAX {
                return;
            }
            let id = model.sending(self.queue);
            let payload = reader::write(id, rng.below(body_max));
            let settled = rng.chance(10);
            self.script.transfer(0, LINK, self.next_delivery, settled, &payload);
            if !settled {
                self.unanswered.insert(self.next_delivery, id);
            }
            self.next_delivery += 1;
        }
    }

    fn ask(&mut self, rng: &mut Rng) {
        if self.credit == 0 {
            self.credit = u32::try_from(1 + rng.below(CREDIT_MAX)).unwrap_or(1);
            self.script.credit(0, LINK, self.received, self.credit, false);
        }
    }

    fn settle(&mut self, rng: &mut Rng, mode: Mode, model: &mut Model) {
        let Some((&delivery, &id)) = pick(&self.held, rng) else { return self.ask(rng) };
        let state = match rng.below(10) {
            0..=5 => DeliveryState::Accepted,
            6 => DeliveryState::Released,
            7 => DeliveryState::Rejected(None),
            8 => DeliveryState::Modified(Box::new(Modified {
                delivery_failed: Some(true),
                undeliverable_here: None,
                message_annotations: None,
            })),
            // Say nothing, and let the lock run out.
            _ => return,
        };
        self.dispose(delivery, id, mode == Mode::First, state, model);
    }

    fn dispose(&mut self, delivery: u32, id: Id, settled: bool, state: DeliveryState, model: &mut Model) {
        let complete = matches!(state, DeliveryState::Accepted);
        self.held.remove(&delivery);
        model.settling(id, self.holder, complete);
        if !settled {
            self.settling.insert(delivery, (id, complete));
        }
        self.script.disposition(0, delivery, delivery, settled, Some(state));
    }

    fn drain(&mut self, model: &mut Model) {
        while let Some((delivery, id)) = self.held.first_key_value().map(|(&delivery, &id)| (delivery, id)) {
            self.dispose(delivery, id, false, DeliveryState::Accepted, model);
        }
        if self.credit == 0 {
            self.credit = 50;
            self.script.credit(0, LINK, self.received, self.credit, false);
        }
    }
}

fn attach(script: &mut Script, purpose: Purpose, service_bus: bool, name: &str, address: &str) {
    let mut attach =
        Attach::new(name, LINK, if purpose == Purpose::Publish { Role::Sender } else { Role::Receiver });
    attach.source = Some(Source::new(if purpose == Purpose::Publish { "here" } else { address }));
    attach.target = Some(Target::new(if purpose == Purpose::Publish { address } else { "here" }));
    attach.initial_delivery_count = (purpose == Purpose::Publish).then_some(0);
    let deletes = purpose == Purpose::Consume(Mode::Delete);
    let second = matches!(purpose, Purpose::Consume(Mode::Second) | Purpose::Drain);
    attach.snd_settle_mode = deletes.then_some(SenderSettleMode::Settled);
    attach.rcv_settle_mode = second.then_some(ReceiverSettleMode::Second);
    if service_bus {
        let name = [("com.microsoft:receiver-name", AnnotationValue::Str("sim"))];
        attach.properties = Some(RawMap::with_symbol_keys(&name));
    }
    script.attach(0, attach);
}

fn pick<'a, K: Ord, V>(map: &'a BTreeMap<K, V>, rng: &mut Rng) -> Option<(&'a K, &'a V)> {
    let count = u64::try_from(map.len()).ok().filter(|&count| count > 0)?;
    map.iter().nth(usize::try_from(rng.below(count)).ok()?)
}
