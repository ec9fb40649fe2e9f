//! Ordered faults, as they strike one connection.
//!
//! Invariant: without a table of faults nothing here does anything; a settlement that is held up is done later, unless
//! its peer gives the link up first.

use std::time::Instant;

use amqp_codec::performative::DeliveryState;
use amqp_engine::IncomingDelivery;
use broker_core::{Command, LinkId, Outcome, Properties, SettleError};

use crate::{
    condition::Refusal, config::Now, faults::FaultKind, gateway::Gateway, link::LinkRole, locks::Held,
    outbound::Word, settlement::Said, tickets::SessionNumber,
};

/// Settlements of one connection that may be held up at the same time; more are done at once.
const LATE_MAX: usize = 10_000;

/// What ordered faults have left of one connection.
#[derive(Debug, Default)]
pub(crate) struct Mischief {
    late: Vec<Late>,
    cut: bool,
}

/// A settlement that is held up.
#[derive(Debug)]
struct Late {
    due: Instant,
    session: SessionNumber,
    id: u32,
    held: Held,
    settled: bool,
    state: Option<DeliveryState>,
}

impl Gateway {
    /// Faults may have been ordered: those strike that need not wait for the client.
    pub fn handle_faults(&mut self, now: Now) {
        self.now = now;
        if self.strikes("", |kind| kind == FaultKind::DropConnection).is_some() {
            self.mischief.cut = true;
        }
        let with_entity = self.links.iter().filter(|(_, link)| match &link.role {
            LinkRole::Producer(producer) => producer.path.is_some(),
            LinkRole::Consumer(_) => !link.departed,
            _ => false,
        });
        let links: Vec<(u32, String)> =
            with_entity.map(|(number, link)| (number, link.place().to_owned())).collect();
        for (number, place) in links {
            match self.strikes(&place, is_drop) {
                Some(FaultKind::DropConnection) => self.mischief.cut = true,
                Some(kind) => self.detach_link(LinkId(number), &Refusal::Fault(kind)),
                None => {}
            }
        }
    }

    /// True if the connection is to end without a word.
    pub fn is_cut(&self) -> bool {
        self.mischief.cut
    }

    /// When the first settlement that is held up is to be done.
    pub(crate) fn late_deadline(&self) -> Option<Instant> {
        self.mischief.late.iter().map(|late| late.due).min()
    }

    /// Does the settlements whose time has come.
    pub(crate) fn do_late(&mut self) {
        let now = self.now.instant;
        let due: Vec<Late> = self.mischief.late.extract_if(.., |late| late.due <= now).collect();
        for Late { session, id, held, settled, state, .. } in due {
            let state = state.as_ref();
            let said = Said::of(state);
            self.settle(session, id, held, Word { settled, said, state, transaction: None });
        }
    }

    /// A link to an entity is about to be attached.
    pub(crate) fn obstruct(&mut self, place: &str) -> Result<(), Refusal> {
        match self.strikes(place, |kind| is_drop(kind) || kind == FaultKind::ServerBusy) {
            None => Ok(()),
            Some(kind) => {
                self.mischief.cut |= kind == FaultKind::DropConnection;
                Err(Refusal::Fault(kind))
            }
        }
    }

    /// A message has come, for the entity of its link or for the one that it names itself.
    pub(crate) fn throttle(&self, id: LinkId, delivery: &IncomingDelivery) -> Option<Refusal> {
        let link = self.links.get(id.0)?;
        let LinkRole::Producer(producer) = &link.role else { return None };
        let named = if producer.path.is_none() { self.destination(id, delivery).ok() } else { None };
        let place = named.as_ref().map_or_else(|| link.place(), |(path, _)| &path.entity);
        self.strikes(place, |kind| kind == FaultKind::ServerBusy).map(Refusal::Fault)
    }

    /// A delivery is about to be settled; gives it back unless a fault has taken it.
    pub(crate) fn trip(
        &mut self,
        session: SessionNumber,
        id: u32,
        held: Held,
        word: &Word<'_>,
    ) -> Option<Held> {
        let Some(lock) = held.lock else { return Some(held) };
        let Some(link) = self.links.get(held.consumer.0) else { return Some(held) };
        let in_session = matches!(&link.role, LinkRole::Consumer(consumer) if consumer.in_session);
        let refusal = match self.strikes(link.place(), is_about_settlements) {
            Some(FaultKind::DelaySettlement(by)) if self.mischief.late.len() < LATE_MAX => {
                let (due, state) = (self.now.instant + by, word.state.cloned());
                self.mischief.late.push(Late { due, session, id, held, settled: word.settled, state });
                return None;
            }
            Some(FaultKind::LoseLock) => {
                let (queue, sequence) = (held.queue, held.sequence);
                let outcome = Outcome::Abandon(Properties::default());
                self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket: None });
                let lost = if in_session { SettleError::SessionLockLost } else { SettleError::LockLost };
                Refusal::Settle(lost)
            }
            Some(kind @ FaultKind::RejectSettlement) => Refusal::Fault(kind),
            _ => return Some(held),
        };
        self.settled_one(held.consumer);
        if !word.settled {
            let error = self.error(&refusal, "");
            self.settle_sent(session, id, DeliveryState::Rejected(Some(Box::new(error))));
        }
        if refusal == Refusal::Settle(SettleError::SessionLockLost) {
            // A session is lost with all its messages.
            self.on_session_lost(held.consumer);
        }
        None
    }

    fn strikes(&self, place: &str, wanted: impl Fn(FaultKind) -> bool) -> Option<FaultKind> {
        self.config.faults.as_ref()?.strike(self.now.utc, place, wanted)
    }
}

const fn is_drop(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::DropConnection | FaultKind::DropLink)
}

const fn is_about_settlements(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::LoseLock | FaultKind::RejectSettlement | FaultKind::DelaySettlement(_))
}
