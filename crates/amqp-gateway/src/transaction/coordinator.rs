//! Coordinator links: declarations and discharges of transactions, and their answers (transactions 4.2, 4.3).
//!
//! Invariant: a client that reads that a transaction has ended has read what became of its deliveries.

use amqp_codec::{
    performative::{Declare, DeliveryState, Discharge},
    raw::RawValue,
    sections::Sections,
};
use amqp_engine::IncomingDelivery;
use broker_core::{Command, CommitError, LinkId, Ticket};

use super::wire_name;
use crate::{
    condition::Refusal,
    cx::Cx,
    disposition::settle::Settlements,
    endpoints::Endpoints,
    fault_injection::InjectedFaults,
    link::{LinkKind, attach::REQUEST_CREDIT, detach::Detacher},
    pending::{Control, Pending},
};

/// Handles the messages to the coordinator of one connection.
#[derive(Debug)]
pub(crate) struct Coordinator<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
    faults: &'a mut InjectedFaults,
}

impl<'a> Coordinator<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints, faults: &'a mut InjectedFaults) -> Self {
        Self { cx, ends, faults }
    }

    /// The peer declares or discharges a transaction.
    pub(crate) fn on_transfer(&mut self, id: LinkId, delivery: &IncomingDelivery) {
        let Some(link) = self.ends.links.get(id) else { return };
        self.cx.top_up(link.key, REQUEST_CREDIT);
        let session = link.session;
        let control =
            Control { link: id, session, delivery: delivery.delivery_id.0, settled: delivery.settled };
        let body = match body(&delivery.payload) {
            Ok(body) => body,
            Err(refusal) => return self.refuse(&control, &refusal),
        };
        if let Ok(declare) = Declare::decode(body) {
            self.declare(&control, &declare);
        } else if let Ok(discharge) = Discharge::decode(body) {
            self.discharge(control, &discharge);
        } else {
            let what = "a coordinator takes declare and discharge, in a body that is a value".to_owned();
            self.refuse(&control, &Refusal::Malformed(what));
        }
    }

    fn declare(&mut self, control: &Control, declare: &Declare) {
        if declare.global_id.is_some() {
            return self.refuse(control, &Refusal::GlobalTransaction);
        }
        if control.settled {
            // Nobody would learn the name.
            let refusal = Refusal::SettledDeclare;
            return Detacher::new(self.cx, self.ends).detach(control.link, &refusal);
        }
        if let Some(session) = self.ends.sessions.get_mut(control.session) {
            session.via_entity.on_declare();
        }
        let name = self.cx.tracking.next_id();
        let transaction = self.ends.transactions.declare(name, control.link, control.session);
        let ticket = self.ends.pending.add(Pending::Declare(*control, name));
        self.cx.commands.push(Command::Declare { transaction, ticket });
    }

    fn discharge(&mut self, control: Control, discharge: &Discharge) {
        let Some((name, transaction)) = self.ends.transactions.discharge(&discharge.txn_id) else {
            return self.refuse(&control, &Refusal::NoTransaction);
        };
        let fail = discharge.fail;
        let ticket = Some(self.ends.pending.add(Pending::Discharge(control, name, fail)));
        self.cx.commands.push(Command::Discharge { transaction, fail, ticket });
    }

    /// The core has declared or discharged a transaction.
    pub(crate) fn on_done(&mut self, ticket: Ticket) {
        match self.ends.pending.take_of(ticket) {
            Some(Pending::Declare(control, name)) => {
                let state = DeliveryState::Declared { txn_id: wire_name(name) };
                self.ends.sessions.settle_received(self.cx, control.session, control.delivery, state);
            }
            Some(Pending::Discharge(control, name, fail)) => {
                let mut settlements = Settlements::new(self.cx, self.ends, self.faults);
                if fail {
                    settlements.leave_enlisted(name);
                } else {
                    settlements.settle_enlisted(name);
                }
                if !control.settled {
                    let state = DeliveryState::Accepted;
                    self.ends.sessions.settle_received(self.cx, control.session, control.delivery, state);
                }
            }
            _ => {}
        }
    }

    /// The core has not declared a transaction, or not committed it.
    pub(crate) fn on_refused(&mut self, ticket: Ticket, error: CommitError) {
        let control = match self.ends.pending.take_of(ticket) {
            Some(Pending::Declare(control, name)) => {
                self.ends.transactions.on_declaration_refused(name);
                control
            }
            Some(Pending::Discharge(control, name, _)) => {
                Settlements::new(self.cx, self.ends, self.faults).leave_enlisted(name);
                control
            }
            _ => return,
        };
        self.refuse(&control, &Refusal::Commit(error));
    }

    /// Rejects a message to the coordinator, or detaches its link where `rejected` cannot be said.
    fn refuse(&mut self, control: &Control, refusal: &Refusal) {
        let Some(link) = self.ends.links.get(control.link) else { return };
        let LinkKind::Coordinator { takes_rejected } = link.kind else { return };
        if control.settled || !takes_rejected {
            return Detacher::new(self.cx, self.ends).detach(control.link, refusal);
        }
        let error = self.cx.error(refusal, "");
        let state = DeliveryState::Rejected(Some(Box::new(error)));
        self.ends.sessions.settle_received(self.cx, control.session, control.delivery, state);
    }
}

/// The value in the body of a message, encoded with its descriptor.
fn body(payload: &[u8]) -> Result<&[u8], Refusal> {
    let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
    let sections = Sections::scan_tolerant(payload).map_err(|error| malformed(&error))?;
    let body = RawValue::first(sections.body.of(payload)).map_err(|error| malformed(&error))?;
    Ok(body.described().map_or(&[][..], |(_, value)| value.bytes()))
}
