//! A link to the coordinator, and the transaction that is open over it.
//!
//! Invariant: a transaction that was not told to commit is one that must not happen.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Declare, DeliveryState, Discharge, Source, Target, TxnId},
    raw::RawValue,
    types::{Role, Symbol},
};
use bytes::BytesMut;

use super::{
    receiver::Receiver,
    sender::Sender,
    wires::{Scene, Waiting, Wires},
};
use crate::model::{Model, ParcelId};

#[derive(Debug)]
enum Standing {
    Closed,
    Attaching,
    Idle,
    Declaring,
    Open(TxnId, ParcelId),
    Ending,
    Detaching,
}

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) handle: u32,
    standing: Standing,
}

impl Coordinator {
    pub(super) const fn new(handle: u32) -> Self {
        Self { handle, standing: Standing::Closed }
    }

    /// One step of a transaction over these links.
    pub(super) fn act(
        &mut self,
        wires: &mut Wires,
        (senders, receivers): (&[Sender], &mut [Receiver]),
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        match &self.standing {
            Standing::Closed => self.attach(wires),
            Standing::Idle => {
                self.control(wires, |body| Declare::default().encode(body), Waiting::Declared);
                self.standing = Standing::Declaring;
            }
            Standing::Open(name, parcel) => {
                let (name, parcel) = (name.clone(), *parcel);
                match scene.rng.below(12) {
                    0..=2 => post(&name, parcel, wires, senders, scene),
                    3..=6 => return complete(&name, parcel, wires, receivers, scene),
                    7..=9 => self.commit(name, parcel, wires, scene),
                    _ => return self.give_up(name, parcel, wires, scene),
                }
            }
            Standing::Attaching | Standing::Declaring | Standing::Ending | Standing::Detaching => {}
        }
        Ok(())
    }

    fn attach(&mut self, wires: &mut Wires) {
        let mut attach = Attach::new(wires.name(self.handle), self.handle, Role::Sender);
        attach.source = Some(Source::new("here"));
        let capabilities = vec![Symbol::from("amqp:local-transactions")];
        attach.target = Some(Target::Coordinator { capabilities });
        attach.initial_delivery_count = Some(0);
        wires.attach(attach);
        self.standing = Standing::Attaching;
    }

    fn control(&self, wires: &mut Wires, body: impl FnOnce(&mut BytesMut), waiting: Waiting) {
        let mut bytes = BytesMut::new();
        body(&mut bytes);
        if let Ok(value) = RawValue::first(&bytes) {
            let payload = MessageBuilder::new().body_raw(value).build();
            wires.transfer(self.handle, None, &payload, Some(waiting));
        }
    }

    fn commit(&mut self, txn_id: TxnId, parcel: ParcelId, wires: &mut Wires, scene: &mut Scene<'_>) {
        scene.model.ending(parcel);
        let discharge = Discharge { txn_id, fail: false };
        self.control(wires, |body| discharge.encode(body), Waiting::Discharged(parcel));
        self.standing = Standing::Ending;
    }

    /// Rolls back, or detaches, which is the same.
    fn give_up(
        &mut self,
        txn_id: TxnId,
        parcel: ParcelId,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        scene.model.ending(parcel);
        scene.model.undone(parcel).map_err(|broken| broken.to_string())?;
        if scene.rng.chance(60) {
            let discharge = Discharge { txn_id, fail: true };
            self.control(wires, |body| discharge.encode(body), Waiting::RolledBack);
            self.standing = Standing::Ending;
        } else {
            scene.model.count("transactions left behind");
            wires.script.detach(0, self.handle, true);
            self.standing = Standing::Detaching;
        }
        Ok(())
    }

    pub(super) fn on_attach(&mut self) {
        self.standing = Standing::Idle;
    }

    pub(super) fn on_detach(&mut self) -> Result<(), String> {
        if !matches!(self.standing, Standing::Detaching) {
            return Err("the broker detached the coordinator".into());
        }
        self.standing = Standing::Closed;
        Ok(())
    }

    /// The answer to a declare or a discharge.
    pub(super) fn on_answer(
        &mut self,
        waiting: Waiting,
        state: Option<&DeliveryState>,
        model: &mut Model,
    ) -> Result<(), String> {
        let accepted = matches!(state, Some(DeliveryState::Accepted));
        self.standing = match (waiting, state) {
            (Waiting::Declared, Some(DeliveryState::Declared { txn_id })) => {
                Standing::Open(txn_id.clone(), model.new_parcel())
            }
            (Waiting::Discharged(parcel), _) if accepted => {
                model.count("transactions committed");
                model.accepted(parcel).map_err(|broken| broken.to_string())?;
                Standing::Idle
            }
            (Waiting::Discharged(parcel), _) => {
                model.count("commits refused");
                if model.is_spoilt(parcel) {
                    model.count("commits that a deletion has spoilt");
                }
                model.undone(parcel).map_err(|broken| broken.to_string())?;
                Standing::Idle
            }
            (Waiting::RolledBack, _) if accepted => {
                model.count("transactions rolled back");
                Standing::Idle
            }
            _ => return Err(format!("the coordinator answered {waiting:?} with {state:?}")),
        };
        Ok(())
    }

    /// The connection is gone, and what was open with it.
    pub(super) fn lost(&self, model: &mut Model) {
        if let Standing::Open(_, parcel) = &self.standing {
            model.ending(*parcel);
            // Nothing of it can have been seen, so there is nothing to find wrong.
            drop(model.undone(*parcel));
        }
    }
}

fn post(name: &TxnId, parcel: ParcelId, wires: &mut Wires, senders: &[Sender], scene: &mut Scene<'_>) {
    let place = scene.index(senders.len().max(1));
    if let Some(sender) = senders.get(place).filter(|sender| sender.is_open()) {
        let state = DeliveryState::Transactional { txn_id: name.clone(), outcome: None };
        sender.post(wires, scene, parcel, state);
    }
}

fn complete(
    name: &TxnId,
    parcel: ParcelId,
    wires: &mut Wires,
    receivers: &mut [Receiver],
    scene: &mut Scene<'_>,
) -> Result<(), String> {
    let in_session = receivers.iter().position(|receiver| receiver.session.is_some() && receiver.has_held());
    let any = scene.index(receivers.len().max(1));
    let place = in_session.filter(|_| scene.rng.chance(80)).unwrap_or(any);
    let Some(receiver) = receivers.get_mut(place).filter(|receiver| receiver.is_open()) else {
        return Ok(());
    };
    let Some((delivery, copy)) = receiver.pick(scene) else {
        receiver.ask(wires, scene);
        return Ok(());
    };
    receiver.hand_over(delivery);
    if receiver.session.is_some() {
        scene.model.count("session messages completed in transactions");
    }
    let enlisted = scene.model.enlisting(parcel, copy, wires.holder, !wires.service_bus);
    enlisted.map_err(|broken| broken.to_string())?;
    let outcome = Some(Box::new(DeliveryState::Accepted));
    let state = DeliveryState::Transactional { txn_id: name.clone(), outcome };
    let settled = scene.rng.chance(50);
    wires.script.disposition(0, delivery, delivery, settled, Some(state));
    // A session that is given up under its transaction takes that along.
    if receiver.session.is_some() && scene.rng.chance(40) { receiver.detach(wires, scene) } else { Ok(()) }
}
