//! A link that sends to one target.
//!
//! Invariant: the model knows a message before the wire does.

use amqp_codec::performative::{Attach, DeliveryState, Source, Target as Terminus};
use amqp_codec::types::Role;

use bytes::Bytes;

use super::wires::{Scene, Waiting, Wires};
use crate::{model::ParcelId, plan::Target};

const UNANSWERED_MAX: usize = 40;

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) handle: u32,
    pub(super) target: Target,
    pub(super) attached: bool,
}

impl Sender {
    /// A link that is being attached.
    pub(super) fn attach(wires: &mut Wires, handle: u32, target: Target, address: &str) -> Self {
        let mut attach = Attach::new(wires.name(handle), handle, Role::Sender);
        attach.source = Some(Source::new("here"));
        attach.target = Some(Terminus::new(address));
        attach.initial_delivery_count = Some(0);
        wires.attach(attach);
        Self { handle, target, attached: false }
    }

    /// Some messages, each by itself.
    pub(super) fn publish(&self, wires: &mut Wires, scene: &mut Scene<'_>) {
        for _ in 0..=scene.rng.below(6) {
            if wires.unanswered.len() >= UNANSWERED_MAX {
                return;
            }
            let (parcel, payload) = self.repeat(scene).unwrap_or_else(|| self.fresh(scene));
            let waiting = (!scene.rng.chance(10)).then_some(Waiting::Sent(parcel));
            wires.transfer(self.handle, None, &payload, waiting);
        }
    }

    fn fresh(&self, scene: &mut Scene<'_>) -> (ParcelId, Bytes) {
        let parcel = scene.model.new_parcel();
        let payload = scene.letter(parcel, self.target, None);
        if scene.places.drops_duplicates(self.target) {
            scene.model.repeats.push((self.target, parcel, payload.clone()));
        }
        (parcel, payload)
    }

    /// Something that was sent before, where that changes nothing.
    fn repeat(&self, scene: &mut Scene<'_>) -> Option<(ParcelId, Bytes)> {
        if !scene.places.drops_duplicates(self.target) || scene.rng.chance(70) {
            return None;
        }
        let place = scene.index(scene.model.repeats.len().max(1));
        let (target, parcel, payload) = scene.model.repeats.get(place)?.clone();
        (target == self.target && scene.model.sending_again(parcel)).then_some((parcel, payload))
    }

    /// A message in a transaction.
    pub(super) fn post(
        &self,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
        parcel: ParcelId,
        state: DeliveryState,
    ) {
        let payload = scene.letter(parcel, self.target, None);
        let waiting = (!scene.rng.chance(10)).then_some(Waiting::Enlisted);
        wires.transfer(self.handle, Some(state), &payload, waiting);
    }
}
