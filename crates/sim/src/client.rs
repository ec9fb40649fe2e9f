//! The simulated clients: what each does next is a matter of chance, what it remembers is a matter of record.
//!
//! Invariant: a client tells the model what it sends before it sends it, and what it sees when it sees it.

mod coordinator;
mod receiver;
mod requests;
mod sender;
mod wires;

use amqp_codec::{
    performative::{Attach, DeliveryState, Detach, Performative},
    types::Role,
};
use bytes::Bytes;
use testkit::{Incoming, Received, Script};

use crate::{
    model::{Deed, Model, Place, Shelf},
    plan::Target,
};
use coordinator::Coordinator;
use receiver::Receiver;
use requests::Requests;
use sender::Sender;
pub(crate) use wires::Scene;
use wires::{Waiting, Wires};

/// What a client is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// Sends.
    Publish(Target),
    /// Receives from a place, or from its dead letters, and settles as chance has it.
    Consume(Place, bool, Mode),
    /// Takes sessions of a place.
    TakeSessions(Place),
    /// Sends to and receives from all places, in transactions.
    Transact,
    /// The same with one place, and what stands first.
    TransactWith(Place),
    /// Schedules and cancels; where it can receive, it defers, and receives by number.
    Desk(Target),
    /// Receives from a place, or from its dead letters, and completes everything.
    Drain(Place, bool),
    /// The same of where messages of the place are kept that could not be forwarded.
    Collect(Shelf, Place),
    /// Looks whether anything is left.
    Look(Target),
    /// The same of the dead letters of a place, which are forwarded.
    LookDead(Place),
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

/// One connection with the links of its purpose.
#[derive(Debug)]
pub(crate) struct Client {
    purpose: Purpose,
    wires: Wires,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    coordinator: Option<Coordinator>,
    requests: Option<Requests>,
}

/// What `Credentials::development` knows.
const DEVELOPMENT_KEY_NAME: &str = "RootManageSharedAccessKey";
const DEVELOPMENT_KEY: &str = "SAS_KEY_VALUE";
/// The first handles of each kind of link.
const SENDERS: u32 = 0;
const RECEIVERS: u32 = 20;
const COORDINATOR: u32 = 40;
const REQUESTS: u32 = 50;

impl Client {
    /// A client that logs in, opens, begins and attaches, all pipelined.
    pub(crate) fn new(purpose: Purpose, service_bus: bool, holder: u64, scene: &mut Scene<'_>) -> Self {
        let mut script = Script::new();
        script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open(&format!("client-{holder}")).begin(0);
        let takes_sessions = matches!(purpose, Purpose::TakeSessions(_));
        let service_bus = service_bus || takes_sessions || matches!(purpose, Purpose::Desk(_));
        let mut client = Self {
            purpose,
            wires: Wires::new(script, holder, service_bus),
            senders: Vec::new(),
            receivers: Vec::new(),
            coordinator: None,
            requests: None,
        };
        match purpose {
            Purpose::Publish(target) => client.add_sender(target, scene),
            Purpose::Consume(place, dead_letter, mode) => {
                client.add_receiver(place, dead_letter, mode, scene);
            }
            Purpose::Drain(place, dead_letter) => {
                client.add_receiver(place, dead_letter, Mode::Second, scene);
                if !dead_letter && !scene.places.has_sessions(place) {
                    client.add_requests(&scene.places.address(place));
                }
            }
            Purpose::Collect(shelf, place) => client.add_keeper(shelf, place, scene),
            Purpose::TakeSessions(place) => {
                client.add_receiver(place, false, Mode::Second, scene);
                client.add_requests(&scene.places.address(place));
            }
            Purpose::Desk(target) => {
                if let Some(place) = scene.places.plain(target) {
                    client.add_receiver(place, false, Mode::Second, scene);
                }
                client.add_requests(&scene.places.target_address(target));
            }
            Purpose::Look(target) => client.add_requests(&scene.places.target_address(target)),
            Purpose::LookDead(place) => {
                client.add_requests(&format!("{}/$DeadLetterQueue", scene.places.address(place)));
            }
            Purpose::Transact => {
                for target in scene.places.targets() {
                    client.add_sender(target, scene);
                }
                for place in 0..scene.places.count() {
                    client.add_receiver(place, false, Mode::Second, scene);
                }
                client.coordinator = Some(Coordinator::new(COORDINATOR));
            }
            Purpose::TransactWith(place) => {
                for target in [Target::Queue(place), Target::Queue(0)] {
                    if scene.places.targets().contains(&target) {
                        client.add_sender(target, scene);
                    }
                }
                client.add_receiver(place, false, Mode::Second, scene);
                client.coordinator = Some(Coordinator::new(COORDINATOR));
            }
        }
        client
    }

    fn add_sender(&mut self, target: Target, scene: &Scene<'_>) {
        let handle = SENDERS + u32::try_from(self.senders.len()).unwrap_or(0);
        self.senders.push(Sender::new(&mut self.wires, handle, target, scene));
    }

    fn add_requests(&mut self, address: &str) {
        self.requests = Some(Requests::attach(&mut self.wires, REQUESTS, address));
    }

    fn add_receiver(&mut self, place: Place, dead_letter: bool, mode: Mode, scene: &Scene<'_>) {
        let handle = RECEIVERS + u32::try_from(self.receivers.len()).unwrap_or(0);
        let takes_sessions = scene.places.has_sessions(place) && !dead_letter;
        let address = scene.places.address(place);
        let mut receiver = Receiver::new(handle, (place, address), dead_letter, mode, takes_sessions);
        if !takes_sessions {
            receiver.attach(&mut self.wires, scene.model, None);
        }
        self.receivers.push(receiver);
    }

    fn add_keeper(&mut self, kept: Shelf, place: Place, scene: &Scene<'_>) {
        let mut receiver = Receiver::kept(RECEIVERS, kept, place, scene.places);
        receiver.attach(&mut self.wires, scene.model, None);
        self.receivers.push(receiver);
    }

    /// The connection is gone; tells the model what went with it.
    pub(crate) fn lost(&self, model: &mut Model) {
        if let (Purpose::Consume(place, _, Mode::Delete), Some(receiver)) =
            (self.purpose, self.receivers.first())
        {
            model.deleter_gone(place, receiver.credit);
        }
        if let Some(coordinator) = &self.coordinator {
            coordinator.lost(model);
        }
        if !self.wires.service_bus {
            model.holder_gone(self.wires.holder);
        }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Takes what is to be sent.
    pub(crate) fn take_output(&mut self) -> Bytes {
        self.wires.script.take_output()
    }

    /// Takes in what the broker has sent.
    pub(crate) fn read(&mut self, bytes: &[u8], scene: &mut Scene<'_>) -> Result<(), String> {
        self.wires.script.handle_input(bytes);
        while let Some(incoming) = self.wires.script.poll() {
            if let Incoming::Frame(received) = incoming {
                self.frame(received, scene)?;
            }
        }
        let broken = self.wires.script.broken();
        broken.map_or(Ok(()), |reason| Err(format!("the broker sent what is not AMQP: {reason}")))
    }

    fn frame(&mut self, received: Received, scene: &mut Scene<'_>) -> Result<(), String> {
        match received.performative {
            Performative::Attach(attach) => self.on_attach(&attach, scene),
            Performative::Transfer(transfer) => {
                let id = transfer.delivery_id.ok_or("a transfer without delivery-id")?;
                self.on_transfer(transfer.handle, id, &received.payload, scene)
            }
            Performative::Disposition(disposition) => {
                let last = disposition.last.unwrap_or(disposition.first);
                (disposition.first..=last).try_for_each(|id| {
                    self.on_disposition(disposition.role, id, disposition.state.as_ref(), scene)
                })
            }
            Performative::Detach(detach) => self.on_detach(&detach, scene),
            Performative::End(end) => Err(format!("the broker ended the session: {:?}", end.error)),
            Performative::Close(close) => Err(format!("the broker closed the connection: {:?}", close.error)),
            _ => Ok(()),
        }
    }

    fn on_attach(&mut self, attach: &Attach, scene: &mut Scene<'_>) -> Result<(), String> {
        let handle = self.wires.attached(attach).ok_or("an attach that nobody asked for")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_attach(attach, &self.wires, scene);
        }
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.handle == handle) {
            return sender.on_attach(attach, scene);
        }
        if attach.target.is_none() {
            return Err("the broker refused the link".into());
        }
        if handle == COORDINATOR
            && let Some(coordinator) = &mut self.coordinator
        {
            coordinator.on_attach();
        } else if let Some(requests) = &mut self.requests {
            requests.on_attach(handle, &mut self.wires);
        }
        Ok(())
    }

    fn on_transfer(
        &mut self,
        remote: u32,
        delivery: u32,
        payload: &Bytes,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        let handle = self.wires.local(remote).ok_or("a transfer on no link")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_delivery(delivery, payload, &self.wires, scene);
        }
        let requests = self.requests.as_mut().ok_or("a transfer on a link that sends")?;
        requests.on_answer(payload, &mut self.wires, scene)
    }

    fn on_detach(&mut self, detach: &Detach, scene: &mut Scene<'_>) -> Result<(), String> {
        let handle = self.wires.detached(detach).ok_or("a detach of no link")?;
        if let Some(receiver) = self.receivers.iter_mut().find(|receiver| receiver.handle == handle) {
            return receiver.on_detach(detach, &mut self.wires, scene);
        }
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.handle == handle) {
            return sender.on_detach(detach, &mut self.wires, scene);
        }
        match &mut self.coordinator {
            Some(coordinator) if handle == COORDINATOR => coordinator.on_detach(),
            _ => Err(format!("the broker detached the link: {:?}", detach.error)),
        }
    }

    fn on_disposition(
        &mut self,
        role: Role,
        delivery: u32,
        state: Option<&DeliveryState>,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        let accepted = matches!(state, Some(DeliveryState::Accepted));
        if role == Role::Sender {
            match (self.wires.settling.remove(&delivery), state) {
                (Some((id, place, Deed::Complete)), _) if accepted => scene.model.completed(id, place),
                (None, _) | (_, Some(DeliveryState::Rejected(_))) => {}
                (Some((id, place, Deed::Defer)), _) => scene.model.deferred(id, place),
                _ => {}
            }
            return Ok(());
        }
        match self.wires.unanswered.remove(&delivery).map(|(_, waiting)| waiting) {
            Some(Waiting::Sent(parcel)) if accepted => {
                scene.model.accepted(parcel).map_err(|broken| broken.to_string())
            }
            Some(Waiting::Sent(parcel)) => scene.model.refused(parcel).map_err(|broken| broken.to_string()),
            None | Some(Waiting::Enlisted) => Ok(()),
            Some(waiting) => match &mut self.coordinator {
                Some(coordinator) => coordinator.on_answer(waiting, state, scene.model),
                None => Ok(()),
            },
        }
    }

    /// Does something, as far as there is something to do.
    pub(crate) fn act(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        match self.purpose {
            Purpose::Publish(_) => {
                self.restore(scene);
                if let Some(sender) = self.senders.first().filter(|sender| sender.is_open()) {
                    sender.publish(&mut self.wires, scene);
                }
            }
            Purpose::Consume(..) => {
                self.restore(scene);
                if let Some(receiver) = self.receivers.first_mut().filter(|receiver| receiver.is_open()) {
                    receiver.consume(&mut self.wires, scene);
                }
            }
            // Much has to happen before the next crash.
            Purpose::Transact | Purpose::TransactWith(_) => {
                return (0..=scene.rng.below(4)).try_for_each(|_| self.transact(scene));
            }
            Purpose::TakeSessions(place) => {
                return (0..=scene.rng.below(4)).try_for_each(|_| self.take_sessions(place, scene));
            }
            Purpose::Desk(target) => {
                self.restore(scene);
                for _ in 0..=scene.rng.below(4) {
                    self.serve(target, scene);
                }
            }
            Purpose::Drain(place, _) | Purpose::Collect(_, place) => return self.drain(place, scene),
            Purpose::Look(_) | Purpose::LookDead(_) => {
                if let Some(requests) = self.requests.as_mut().filter(|requests| requests.is_free()) {
                    requests.peek(&mut self.wires);
                }
            }
        }
        Ok(())
    }

    /// Asks anew for the links that went with their entities.
    fn restore(&mut self, scene: &Scene<'_>) {
        self.senders.iter_mut().for_each(|sender| sender.attach(&mut self.wires, scene));
        for receiver in &mut self.receivers {
            if receiver.is_closed() && !receiver.takes_sessions {
                receiver.attach(&mut self.wires, scene.model, None);
            }
        }
    }

    /// Whether no link has outlived its entity.
    pub(crate) fn check_links(&self, scene: &Scene<'_>) -> Result<(), String> {
        self.senders.iter().try_for_each(|sender| sender.check(scene))?;
        self.receivers.iter().try_for_each(|receiver| receiver.check(scene))
    }

    fn drain(&mut self, place: Place, scene: &mut Scene<'_>) -> Result<(), String> {
        let Self { wires, receivers, requests, .. } = self;
        if let Some(requests) = requests.as_mut().filter(|requests| requests.is_free()) {
            requests.drain(place, wires, scene);
        }
        match receivers.first_mut() {
            Some(receiver) if receiver.is_open() => return receiver.drain(wires, scene),
            // Only sessions are left and taken again.
            Some(receiver) if receiver.is_closed() => receiver.attach(wires, scene.model, None),
            _ => {}
        }
        Ok(())
    }

    fn serve(&mut self, target: Target, scene: &mut Scene<'_>) {
        let Self { wires, receivers, requests, .. } = self;
        let Some(requests) = requests else { return };
        let receiver = receivers.first_mut().filter(|receiver| receiver.is_open());
        match (scene.rng.below(10), receiver) {
            (0..=2, Some(receiver)) => receiver.defer(wires, scene),
            (3, Some(receiver)) => receiver.consume(wires, scene),
            _ if !requests.is_free() => {}
            (4, Some(receiver)) => match receiver.pick_lock(scene) {
                Some(lock) => requests.renew(lock, wires),
                None => receiver.ask(wires, scene),
            },
            (5..=6, Some(receiver)) => requests.use_deferred(receiver.place, wires, scene),
            // Under its number another schedule may stand by then.
            (7 | 8, _) if !scene.places.is_fleeting_target(target) => requests.cancel(target, wires, scene),
            _ => requests.schedule(target, wires, scene),
        }
    }

    fn take_sessions(&mut self, place: Place, scene: &mut Scene<'_>) -> Result<(), String> {
        let Self { wires, receivers, requests, .. } = self;
        let Some(receiver) = receivers.first_mut() else { return Ok(()) };
        if receiver.is_closed() {
            receiver.take_session(wires, scene);
            return Ok(());
        }
        if !receiver.is_open() {
            return Ok(());
        }
        match (scene.rng.below(20), requests, receiver.session) {
            (0, ..) => return receiver.detach(wires, scene),
            (1..=5, Some(requests), Some(session)) if requests.is_free() => {
                requests.use_state((place, session), wires, scene);
            }
            (6..=7, Some(requests), Some(session)) if requests.is_free() => {
                requests.renew_session((place, session), wires);
            }
            _ => receiver.consume(wires, scene),
        }
        Ok(())
    }

    fn transact(&mut self, scene: &mut Scene<'_>) -> Result<(), String> {
        self.restore(scene);
        let Self { wires, senders, receivers, coordinator, .. } = self;
        // Those that take sessions are never without one for long.
        if let Some(receiver) = receivers.iter_mut().find(|receiver| receiver.is_closed()) {
            receiver.take_session(wires, scene);
        }
        for receiver in receivers.iter_mut().filter(|receiver| receiver.session.is_some()) {
            receiver.ask(wires, scene);
        }
        let other = scene.index(receivers.len() * 3 + 1);
        match receivers.get_mut(other) {
            // A session is kept until much of it is done.
            Some(receiver) if receiver.session.is_some() && scene.rng.chance(5) => {
                receiver.detach(wires, scene)?;
            }
            Some(receiver) if receiver.is_open() => receiver.consume(wires, scene),
            _ => {}
        }
        coordinator.as_mut().map_or(Ok(()), |coordinator| coordinator.act(wires, (senders, receivers), scene))
    }
}
