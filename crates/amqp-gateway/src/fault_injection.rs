//! Fault injection into one connection.
//!
//! Invariant: without a table of faults nothing here does anything; a settlement that is held up is done later, unless
//! its peer gives the link up first.

pub(crate) mod table;

use std::time::Instant;

use amqp_codec::performative::DeliveryState;
use amqp_engine::IncomingDelivery;
use broker_core::LinkId;

use self::table::FaultKind;
use crate::{
    condition::Refusal,
    cx::Cx,
    disposition::unsettled::UnsettledDelivery,
    endpoints::Endpoints,
    link::{Link, LinkKind, Sender, detach::Detacher},
    transaction::enlisted::SentDelivery,
};

/// Settlements of one connection that may be held up at the same time; more are done at once.
const LATE_MAX: usize = 10_000;

/// Injected faults of one connection: delayed settlements, and whether it is to be dropped.
#[derive(Debug, Default)]
pub(crate) struct InjectedFaults {
    delayed: Vec<DelayedSettlement>,
    dropped: bool,
}

/// A settlement that is held up.
#[derive(Debug)]
pub(crate) struct DelayedSettlement {
    due: Instant,
    pub(crate) delivery: SentDelivery,
    pub(crate) entry: UnsettledDelivery,
    pub(crate) settled: bool,
    pub(crate) state: Option<DeliveryState>,
}

impl InjectedFaults {
    /// Faults may have been ordered: those strike that need not wait for the client.
    pub(crate) fn on_ordered(&mut self, cx: &mut Cx, ends: &mut Endpoints) {
        if strike("", cx, |kind| kind == FaultKind::DropConnection).is_some() {
            self.dropped = true;
        }
        let with_entity = ends.links.iter().filter(|(_, link)| match &link.kind {
            LinkKind::Sender(sender) => sender.path().is_some(),
            LinkKind::Receiver(_) => !link.detached_by_broker,
            _ => false,
        });
        let links: Vec<(LinkId, String)> =
            with_entity.map(|(id, link)| (id, link.entity_name().to_owned())).collect();
        for (id, entity) in links {
            match strike(&entity, cx, is_drop) {
                Some(FaultKind::DropConnection) => self.dropped = true,
                Some(kind) => Detacher::new(cx, ends).detach(id, &Refusal::Fault(kind)),
                None => {}
            }
        }
    }

    /// True if the connection is to end without a word.
    pub(crate) const fn drops_connection(&self) -> bool {
        self.dropped
    }

    /// When the first settlement that is held up is to be done.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.delayed.iter().map(|delayed| delayed.due).min()
    }

    /// Takes the settlements whose time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<DelayedSettlement> {
        self.delayed.extract_if(.., |delayed| delayed.due <= now).collect()
    }

    /// Holds a settlement up.
    pub(crate) fn delay(
        &mut self,
        due: Instant,
        delivery: SentDelivery,
        entry: UnsettledDelivery,
        settled: bool,
        state: Option<DeliveryState>,
    ) {
        self.delayed.push(DelayedSettlement { due, delivery, entry, settled, state });
    }

    /// A link to an entity is about to be attached.
    pub(crate) fn check_attach(&mut self, entity: &str, cx: &Cx) -> Result<(), Refusal> {
        match strike(entity, cx, |kind| is_drop(kind) || kind == FaultKind::ServerBusy) {
            None => Ok(()),
            Some(kind) => {
                self.dropped |= kind == FaultKind::DropConnection;
                Err(Refusal::Fault(kind))
            }
        }
    }

    /// A delivery of an entity is about to be settled: the fault that strikes it, one that can be done.
    pub(crate) fn on_settlement(&self, entity: &str, cx: &Cx) -> Option<FaultKind> {
        let kind = strike(entity, cx, is_about_settlements)?;
        let is_too_many = matches!(kind, FaultKind::DelaySettlement(_)) && self.delayed.len() >= LATE_MAX;
        (!is_too_many).then_some(kind)
    }
}

/// A message has come, for the entity of its link or for the one that it names itself: the refusal of a fault that
/// strikes it.
pub(crate) fn throttle(
    link: &Link,
    sender: &Sender,
    delivery: &IncomingDelivery,
    cx: &Cx,
) -> Option<Refusal> {
    let named =
        if sender.path().is_none() { sender.destination(delivery, link.dialect, cx).ok() } else { None };
    let entity = named.as_ref().map_or_else(|| link.entity_name(), |(path, _)| &path.entity);
    strike(entity, cx, |kind| kind == FaultKind::ServerBusy).map(Refusal::Fault)
}

fn strike(entity: &str, cx: &Cx, wanted: impl Fn(FaultKind) -> bool) -> Option<FaultKind> {
    cx.config.faults.as_ref()?.strike(cx.now.utc, entity, wanted)
}

const fn is_drop(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::DropConnection | FaultKind::DropLink)
}

const fn is_about_settlements(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::LoseLock | FaultKind::RejectSettlement | FaultKind::DelaySettlement(_))
}
