//! End of a run: without further faults every remaining message is received at its entities.
//!
//! Invariant: no fault strikes here, so a message that is missing now is lost.

use std::sync::atomic::Ordering;

use broker_core::{Command, Outcome};

use super::{CoreWorld, HeldMessage, PLACE_LINKS, PendingRequest, Receiver, SESSION_LINKS};

impl CoreWorld<'_> {
    /// Switches the faults off and receives every message at its entities.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.crash();
        self.boot()?;
        self.process.disk_faults.calm.store(true, Ordering::Relaxed);
        // All schedules are due, all locks of the time before are over.
        self.now += 60_000;
        let mut idle_rounds = 0;
        while idle_rounds < 40 {
            let before = self.groups.delivered;
            self.drain_round()?;
            self.now += 100;
            idle_rounds = if self.groups.delivered == before { idle_rounds + 1 } else { 0 };
        }
        self.groups.check_drained().map_err(|broken| broken.to_string())
    }

    fn drain_round(&mut self) -> Result<(), String> {
        while let Some(HeldMessage { id, entity, queue, sequence, lock, .. }) = self.held.pop() {
            self.groups.completing(id, entity);
            let ticket = Some(self.ticket(PendingRequest::Complete(id, entity)));
            let outcome = Outcome::Complete;
            self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
        }
        for link in 0..PLACE_LINKS {
            self.ask(link, 20);
        }
        for link in SESSION_LINKS {
            match self.receivers.get(&link).cloned().unwrap_or_default() {
                Receiver::Closed => self.take_session(),
                Receiver::Open(_) if self.rng.chance(40) => self.close_session(link),
                Receiver::Open(_) => self.ask(link, 20),
                Receiver::Opening => {}
            }
        }
        self.submit();
        for _ in 0..2 {
            self.process.node_step(self.now, &mut self.rng);
            while self.process.is_busy() {
                self.process.node_step(self.now, &mut self.rng);
                self.process.disk_step(&mut self.rng);
            }
        }
        self.read()
    }
}
