//! The simulated clients: what each does next is a matter of chance, what it remembers is a matter of record.
//!
//! Invariant: a client tells the model what it sends before it sends it, and what it sees when it sees it.

mod amqp_session;
mod coordinator;
mod purpose;
mod receiver;
mod requests;
mod sender;
mod settlement;

use amqp_codec::{
    performative::{Attach, Detach, Open, Performative},
    types::Role,
};
use bytes::Bytes;
use testkit::{Incoming, Received, Script};

use crate::{
    model::{EntityIndex, Location, Model},
    plan::SendTarget,
};
use amqp_session::AmqpSession;
pub(crate) use amqp_session::ClientContext;
use coordinator::Coordinator;
pub(crate) use purpose::{Mode, Purpose};
use receiver::Receiver;
use requests::Requests;
use sender::Sender;

/// One connection with the links of its purpose.
#[derive(Debug)]
pub(crate) struct Client {
    purpose: Purpose,
    amqp: AmqpSession,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    coordinator: Option<Coordinator>,
    requests: Option<Requests>,
    closing: Closing,
}

/// Whether the broker may close the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Closing {
    No,
    Expected,
    Closed,
}

/// Key of `Credentials::development`.
const DEVELOPMENT_KEY_NAME: &str = "RootManageSharedAccessKey";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";
/// The first handles of each kind of link.
const SENDERS: u32 = 0;
const RECEIVERS: u32 = 20;
const COORDINATOR: u32 = 40;
const REQUESTS: u32 = 50;

impl Client {
    /// A client that logs in, opens, begins and attaches, all pipelined.
    pub(crate) fn new(
        purpose: Purpose,
        service_bus: bool,
        (holder, hostname): (u64, Option<String>),
        cx: &mut ClientContext<'_>,
    ) -> Self {
        let mut script = Script::new();
        script
            .sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY)
            .open_with(Open { hostname, ..Open::new(format!("client-{holder}")) })
            .begin(0);
        let takes_sessions = matches!(purpose, Purpose::TakeSessions(_));
        let service_bus = service_bus || takes_sessions || matches!(purpose, Purpose::Manage(_));
        let mut client = Self {
            purpose,
            amqp: AmqpSession::new(script, holder, service_bus),
            senders: Vec::new(),
            receivers: Vec::new(),
            coordinator: None,
            requests: None,
            closing: Closing::No,
        };
        match purpose {
            Purpose::Publish(target) => client.add_sender(target, cx),
            Purpose::Consume(entity, dead_letter, mode) => {
                client.add_receiver(entity, dead_letter, mode, cx);
            }
            Purpose::Drain(entity, dead_letter) => {
                client.add_receiver(entity, dead_letter, Mode::Second, cx);
                if !dead_letter && !cx.topology.has_sessions(entity) {
                    client.add_requests(&cx.topology.address(entity));
                }
            }
            Purpose::Collect(location, entity) => client.add_dead_letter_receiver(location, entity, cx),
            Purpose::TakeSessions(entity) => {
                client.add_receiver(entity, false, Mode::Second, cx);
                client.add_requests(&cx.topology.address(entity));
            }
            Purpose::Manage(target) => {
                if let Some(entity) = cx.topology.plain(target) {
                    client.add_receiver(entity, false, Mode::Second, cx);
                }
                client.add_requests(&cx.topology.target_address(target));
            }
            Purpose::PeekForwarder(target) => client.add_requests(&cx.topology.target_address(target)),
            Purpose::PeekDeadLetters(entity) => {
                client.add_requests(&format!("{}/$DeadLetterQueue", cx.topology.address(entity)));
            }
            Purpose::Transact => {
                for target in cx.topology.targets() {
                    client.add_sender(target, cx);
                }
                for entity in 0..cx.topology.count() {
                    client.add_receiver(entity, false, Mode::Second, cx);
                }
                client.coordinator = Some(Coordinator::new(COORDINATOR));
            }
            Purpose::TransactWith(entity) => {
                for target in [SendTarget::Queue(entity), SendTarget::Queue(0)] {
                    if cx.topology.targets().contains(&target) {
                        client.add_sender(target, cx);
                    }
                }
                client.add_receiver(entity, false, Mode::Second, cx);
                client.coordinator = Some(Coordinator::new(COORDINATOR));
            }
        }
        client
    }

    fn add_sender(&mut self, target: SendTarget, cx: &ClientContext<'_>) {
        let handle = SENDERS + u32::try_from(self.senders.len()).unwrap_or(0);
        self.senders.push(Sender::new(&mut self.amqp, handle, target, cx));
    }

    fn add_requests(&mut self, address: &str) {
        self.requests = Some(Requests::attach(&mut self.amqp, REQUESTS, address));
    }

    fn add_receiver(&mut self, entity: EntityIndex, dead_letter: bool, mode: Mode, cx: &ClientContext<'_>) {
        let handle = RECEIVERS + u32::try_from(self.receivers.len()).unwrap_or(0);
        let takes_sessions = cx.topology.has_sessions(entity) && !dead_letter;
        let address = cx.topology.address(entity);
        let mut receiver = Receiver::new(handle, (entity, address), dead_letter, mode, takes_sessions);
        if !takes_sessions {
            receiver.attach(&mut self.amqp, cx.model, None);
        }
        self.receivers.push(receiver);
    }

    fn add_dead_letter_receiver(&mut self, location: Location, entity: EntityIndex, cx: &ClientContext<'_>) {
        let mut receiver = Receiver::for_failed_forwards(RECEIVERS, location, entity, cx.topology);
        receiver.attach(&mut self.amqp, cx.model, None);
        self.receivers.push(receiver);
    }

    /// The connection is gone; tells the model what went with it.
    pub(crate) fn lost(&self, model: &mut Model) {
        if let (Purpose::Consume(entity, _, Mode::Delete), Some(receiver)) =
            (self.purpose, self.receivers.first())
        {
            model.deleter_gone(entity, receiver.credit);
        }
        if let Some(coordinator) = &self.coordinator {
            coordinator.lost(model);
        }
        if !self.amqp.service_bus {
            model.messages.holder_gone(self.amqp.holder);
        }
    }

    /// The broker is to close the connection, and say why.
    pub(crate) fn expect_close(&mut self) {
        self.closing = Closing::Expected;
    }

    /// Whether it has.
    pub(crate) fn was_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Takes what is to be sent.
    pub(crate) fn take_output(&mut self) -> Bytes {
        self.amqp.script.take_output()
    }

    /// Takes in what the broker has sent.
    pub(crate) fn read(&mut self, bytes: &[u8], cx: &mut ClientContext<'_>) -> Result<(), String> {
        self.amqp.script.handle_input(bytes);
        while let Some(incoming) = self.amqp.script.poll() {
            if let Incoming::Frame(received) = incoming {
                self.frame(received, cx)?;
            }
        }
        let broken = self.amqp.script.broken();
        broken.map_or(Ok(()), |reason| Err(format!("the broker sent what is not AMQP: {reason}")))
    }

    fn frame(&mut self, received: Received, cx: &mut ClientContext<'_>) -> Result<(), String> {
        match received.performative {
            Performative::Attach(attach) => self.on_attach(&attach, cx),
            Performative::Transfer(transfer) => {
                let id = transfer.delivery_id.ok_or("a transfer without delivery-id")?;
                self.on_transfer(transfer.handle, id, &received.payload, cx)
            }
            Performative::Disposition(disposition) => {
                let last = disposition.last.unwrap_or(disposition.first);
                (disposition.first..=last).try_for_each(|id| {
                    if disposition.role == Role::Sender && disposition.settled {
                        self.receivers.iter_mut().for_each(|receiver| receiver.on_settled(id));
                    }
                    self.on_disposition(disposition.role, id, disposition.state.as_ref(), cx)
                })
            }
            Performative::Detach(detach) => self.on_detach(&detach, cx),
            Performative::End(end) => Err(format!("the broker ended the session: {:?}", end.error)),
            Performative::Close(close) if self.closing == Closing::Expected && close.error.is_some() => {
                self.closing = Closing::Closed;
                Ok(())
            }
            Performative::Close(close) => Err(format!("the broker closed the connection: {:?}", close.error)),
            _ => Ok(()),
        }
    }

    fn on_attach(&mut self, attach: &Attach, cx: &mut ClientContext<'_>) -> Result<(), String> {
        let handle = self.amqp.attached(attach).ok_or("an attach that nobody asked for")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_attach(attach, &self.amqp, cx);
        }
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.handle == handle) {
            return sender.on_attach(attach, cx);
        }
        if attach.target.is_none() {
            return Err("the broker refused the link".into());
        }
        if handle == COORDINATOR
            && let Some(coordinator) = &mut self.coordinator
        {
            coordinator.on_attach();
        } else if let Some(requests) = &mut self.requests {
            requests.on_attach(handle, &mut self.amqp);
        }
        Ok(())
    }

    fn on_transfer(
        &mut self,
        remote: u32,
        delivery: u32,
        payload: &Bytes,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        let handle = self.amqp.local(remote).ok_or("a transfer on no link")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_delivery(delivery, payload, &self.amqp, cx);
        }
        let requests = self.requests.as_mut().ok_or("a transfer on a link that sends")?;
        requests.on_answer(payload, &mut self.amqp, cx)
    }

    fn on_detach(&mut self, detach: &Detach, cx: &mut ClientContext<'_>) -> Result<(), String> {
        let handle = self.amqp.detached(detach).ok_or("a detach of no link")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_detach(detach, &mut self.amqp, cx);
        }
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.handle == handle) {
            return sender.on_detach(detach, &mut self.amqp, cx);
        }
        match &mut self.coordinator {
            Some(coordinator) if handle == COORDINATOR => coordinator.on_detach(),
            _ => Err(format!("the broker detached the link: {:?}", detach.error)),
        }
    }

    /// Does something, as far as there is something to do.
    pub(crate) fn act(&mut self, cx: &mut ClientContext<'_>) -> Result<(), String> {
        match self.purpose {
            Purpose::Publish(_) => {
                self.restore(cx);
                if let Some(sender) = self.senders.first().filter(|sender| sender.is_open()) {
                    sender.publish(&mut self.amqp, cx);
                }
            }
            Purpose::Consume(..) => {
                self.restore(cx);
                if let Some(receiver) = self.receivers.first_mut().filter(|receiver| receiver.is_open()) {
                    receiver.consume(&mut self.amqp, cx);
                }
            }
            // Much has to happen before the next crash.
            Purpose::Transact | Purpose::TransactWith(_) => {
                return (0..=cx.rng.below(4)).try_for_each(|_| self.transact(cx));
            }
            Purpose::TakeSessions(entity) => {
                return (0..=cx.rng.below(4)).try_for_each(|_| self.take_sessions(entity, cx));
            }
            Purpose::Manage(target) => {
                self.restore(cx);
                for _ in 0..=cx.rng.below(4) {
                    self.serve(target, cx);
                }
            }
            Purpose::Drain(entity, _) | Purpose::Collect(_, entity) => return self.drain(entity, cx),
            Purpose::PeekForwarder(_) | Purpose::PeekDeadLetters(_) => {
                if let Some(requests) = self.requests.as_mut().filter(|requests| requests.is_free()) {
                    requests.peek(&mut self.amqp);
                }
            }
        }
        Ok(())
    }

    /// Asks anew for the links that went with their entities.
    fn restore(&mut self, cx: &ClientContext<'_>) {
        self.senders.iter_mut().for_each(|sender| sender.attach(&mut self.amqp, cx));
        for receiver in &mut self.receivers {
            if receiver.is_closed() && !receiver.takes_sessions {
                receiver.attach(&mut self.amqp, cx.model, None);
            }
        }
    }

    /// Whether no link has outlived its entity.
    pub(crate) fn check_links(&self, cx: &ClientContext<'_>) -> Result<(), String> {
        self.senders.iter().try_for_each(|sender| sender.check(cx))?;
        self.receivers.iter().try_for_each(|receiver| receiver.check(cx))
    }

    fn drain(&mut self, entity: EntityIndex, cx: &mut ClientContext<'_>) -> Result<(), String> {
        let Self { amqp, receivers, requests, .. } = self;
        if let Some(requests) = requests.as_mut().filter(|requests| requests.is_free()) {
            requests.drain(entity, amqp, cx);
        }
        match receivers.first_mut() {
            Some(receiver) if receiver.is_open() => return receiver.drain(amqp, cx),
            // Only sessions are left and taken again.
            Some(receiver) if receiver.is_closed() => receiver.attach(amqp, cx.model, None),
            _ => {}
        }
        Ok(())
    }

    fn serve(&mut self, target: SendTarget, cx: &mut ClientContext<'_>) {
        let Self { amqp, receivers, requests, .. } = self;
        let Some(requests) = requests else { return };
        let receiver = receivers.first_mut().filter(|receiver| receiver.is_open());
        match (cx.rng.below(10), receiver) {
            (0..=2, Some(receiver)) => receiver.defer(amqp, cx),
            (3, Some(receiver)) => receiver.consume(amqp, cx),
            _ if !requests.is_free() => {}
            (4, Some(receiver)) => match receiver.pick_lock(cx) {
                Some(lock) => requests.renew(lock, amqp),
                None => receiver.ask(amqp, cx),
            },
            (5..=6, Some(receiver)) => requests.use_deferred(receiver.entity, amqp, cx),
            // Under its number another schedule may stand by then.
            (7 | 8, _) if !cx.topology.is_recreated_target(target) => {
                requests.cancel(target, amqp, cx);
            }
            _ => requests.schedule(target, amqp, cx),
        }
    }

    fn take_sessions(&mut self, entity: EntityIndex, cx: &mut ClientContext<'_>) -> Result<(), String> {
        let Self { amqp, receivers, requests, .. } = self;
        let Some(receiver) = receivers.first_mut() else { return Ok(()) };
        if receiver.is_closed() {
            receiver.take_session(amqp, cx);
            return Ok(());
        }
        if !receiver.is_open() {
            return Ok(());
        }
        match (cx.rng.below(20), requests, receiver.session) {
            (0, ..) => return receiver.detach(amqp, cx),
            (1..=5, Some(requests), Some(session)) if requests.is_free() => {
                requests.use_state((entity, session), amqp, cx);
            }
            (6..=7, Some(requests), Some(session)) if requests.is_free() => {
                requests.renew_session((entity, session), amqp);
            }
            _ => receiver.consume(amqp, cx),
        }
        Ok(())
    }

    fn transact(&mut self, cx: &mut ClientContext<'_>) -> Result<(), String> {
        self.restore(cx);
        let Self { amqp, senders, receivers, coordinator, .. } = self;
        // Those that take sessions are never without one for long.
        if let Some(receiver) = receivers.iter_mut().find(|receiver| receiver.is_closed()) {
            receiver.take_session(amqp, cx);
        }
        for receiver in receivers.iter_mut().filter(|receiver| receiver.session.is_some()) {
            receiver.ask(amqp, cx);
        }
        let other = cx.index(receivers.len() * 3 + 1);
        match receivers.get_mut(other) {
            // A session is kept until much of it is done.
            Some(receiver) if receiver.session.is_some() && cx.rng.chance(5) => {
                receiver.detach(amqp, cx)?;
            }
            Some(receiver) if receiver.is_open() => receiver.consume(amqp, cx),
            _ => {}
        }
        coordinator.as_mut().map_or(Ok(()), |coordinator| coordinator.act(amqp, (senders, receivers), cx))
    }
}
