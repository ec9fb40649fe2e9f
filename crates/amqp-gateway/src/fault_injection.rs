//! Fault injection into one connection.
//!
//! Invariant: without a table of faults nothing here does anything; a settlement that is held up is done later, unless
//! its peer gives the link up first.

use std::time::Instant;

use amqp_codec::performative::DeliveryState;
use amqp_engine::IncomingDelivery;
use broker_core::{Command, LinkId, Outcome, Properties, SettleError};

use crate::{
    condition::Refusal, config::Now, correlation::SessionNumber, fault_table::FaultKind, gateway::Gateway,
    link::LinkRole, outbound::PeerDisposition, settlement_rules::PeerState, unsettled::UnsettledDelivery,
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
struct DelayedSettlement {
    due: Instant,
    session: SessionNumber,
    id: u32,
    entry: UnsettledDelivery,
    settled: bool,
    state: Option<DeliveryState>,
}

impl Gateway {
    /// Faults may have been ordered: those strike that need not wait for the client.
    pub fn handle_faults(&mut self, now: Now) {
        self.now = now;
        if self.strike_fault("", |kind| kind == FaultKind::DropConnection).is_some() {
            self.injected_faults.dropped = true;
        }
        let with_entity = self.links.iter().filter(|(_, link)| match &link.role {
            LinkRole::Producer(producer) => producer.path.is_some(),
            LinkRole::Consumer(_) => !link.detached_by_broker,
            _ => false,
        });
        let links: Vec<(u32, String)> =
            with_entity.map(|(number, link)| (number, link.entity_name().to_owned())).collect();
        for (number, place) in links {
            match self.strike_fault(&place, is_drop) {
                Some(FaultKind::DropConnection) => self.injected_faults.dropped = true,
                Some(kind) => self.detach_link(LinkId(number), &Refusal::Fault(kind)),
                None => {}
            }
        }
    }

    /// True if the connection is to end without a word.
    pub fn is_dropped_by_fault(&self) -> bool {
        self.injected_faults.dropped
    }

    /// When the first settlement that is held up is to be done.
    pub(crate) fn delayed_deadline(&self) -> Option<Instant> {
        self.injected_faults.delayed.iter().map(|delayed| delayed.due).min()
    }

    /// Does the settlements whose time has come.
    pub(crate) fn settle_delayed(&mut self) {
        let now = self.now.instant;
        let due: Vec<DelayedSettlement> =
            self.injected_faults.delayed.extract_if(.., |delayed| delayed.due <= now).collect();
        for DelayedSettlement { session, id, entry, settled, state, .. } in due {
            let state = state.as_ref();
            let said = PeerState::of(state);
            self.settle(session, id, entry, PeerDisposition { settled, said, state, transaction: None });
        }
    }

    /// A link to an entity is about to be attached.
    pub(crate) fn check_attach_fault(&mut self, place: &str) -> Result<(), Refusal> {
        match self.strike_fault(place, |kind| is_drop(kind) || kind == FaultKind::ServerBusy) {
            None => Ok(()),
            Some(kind) => {
                self.injected_faults.dropped |= kind == FaultKind::DropConnection;
                Err(Refusal::Fault(kind))
            }
        }
    }

    /// A message has come, for the entity of its link or for the one that it names itself.
    pub(crate) fn throttle_fault(&self, id: LinkId, delivery: &IncomingDelivery) -> Option<Refusal> {
        let link = self.links.get(id.0)?;
        let LinkRole::Producer(producer) = &link.role else { return None };
        let named = if producer.path.is_none() { self.destination(id, delivery).ok() } else { None };
        let place = named.as_ref().map_or_else(|| link.entity_name(), |(path, _)| &path.entity);
        self.strike_fault(place, |kind| kind == FaultKind::ServerBusy).map(Refusal::Fault)
    }

    /// A delivery is about to be settled; gives it back unless a fault has taken it.
    pub(crate) fn strike_settlement(
        &mut self,
        session: SessionNumber,
        id: u32,
        entry: UnsettledDelivery,
        disposition: &PeerDisposition<'_>,
    ) -> Option<UnsettledDelivery> {
        let Some(lock) = entry.lock else { return Some(entry) };
        let Some(link) = self.links.get(entry.consumer.0) else { return Some(entry) };
        let in_session = matches!(&link.role, LinkRole::Consumer(consumer) if consumer.in_session);
        let refusal = match self.strike_fault(link.entity_name(), is_about_settlements) {
            Some(FaultKind::DelaySettlement(by)) if self.injected_faults.delayed.len() < LATE_MAX => {
                let (due, state) = (self.now.instant + by, disposition.state.cloned());
                self.injected_faults.delayed.push(DelayedSettlement {
                    due,
                    session,
                    id,
                    entry,
                    settled: disposition.settled,
                    state,
                });
                return None;
            }
            Some(FaultKind::LoseLock) => {
                let (queue, sequence) = (entry.queue, entry.sequence);
                let outcome = Outcome::Abandon(Properties::default());
                self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket: None });
                let lost = if in_session { SettleError::SessionLockLost } else { SettleError::LockLost };
                Refusal::Settle(lost)
            }
            Some(kind @ FaultKind::RejectSettlement) => Refusal::Fault(kind),
            _ => return Some(entry),
        };
        self.settled_one(entry.consumer);
        if !disposition.settled {
            let error = self.error(&refusal, "");
            self.settle_sent(session, id, DeliveryState::Rejected(Some(Box::new(error))));
        }
        if refusal == Refusal::Settle(SettleError::SessionLockLost) {
            // A session is lost with all its messages.
            self.on_session_lost(entry.consumer);
        }
        None
    }

    fn strike_fault(&self, place: &str, wanted: impl Fn(FaultKind) -> bool) -> Option<FaultKind> {
        self.config.faults.as_ref()?.strike(self.now.utc, place, wanted)
    }
}

const fn is_drop(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::DropConnection | FaultKind::DropLink)
}

const fn is_about_settlements(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::LoseLock | FaultKind::RejectSettlement | FaultKind::DelaySettlement(_))
}
