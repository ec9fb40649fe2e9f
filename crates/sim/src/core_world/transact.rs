//! Transactions: sends, schedules and sends through other entities, and a completion, all or none of them.
//!
//! Invariant: a transaction is one send group; one that is not told to commit is refused before it begins.

use broker_core::{Command, Operation, Outcome, PublishTarget, Ticket, TransactionId};

use super::{
    CoreWorld, HeldMessage, PLAIN, PendingRequest,
    entities::path,
    send::{SCHEDULES, VIA},
};

impl CoreWorld<'_> {
    pub(super) fn transact(&mut self) {
        let transaction = TransactionId(self.next_transaction);
        self.next_transaction += 1;
        let group = self.groups.new_send_group();
        let commits = self.rng.chance(70);
        if !commits {
            self.groups.refused(group);
        }
        self.commands.push(Command::Declare { transaction, ticket: Ticket(0) });
        for _ in 0..=self.rng.below(3) {
            let operation = Box::new(self.operation(group, commits));
            self.commands.push(Command::Enlist { transaction, operation });
        }
        if commits {
            self.complete_within(transaction, group);
            let ticket = Some(self.ticket(PendingRequest::Commit(group)));
            self.commands.push(Command::Discharge { transaction, fail: false, ticket });
        } else {
            // Left open it ends with the client.
            let fails = self.rng.chance(50);
            if fails {
                self.commands.push(Command::Discharge { transaction, fail: true, ticket: None });
            }
        }
    }

    /// Something that is sent in a transaction.
    fn operation(&mut self, group: u64, commits: bool) -> Operation {
        let ticket = None;
        match self.rng.below(4) {
            0 => {
                let (name, fixed) = self.one_of(&VIA);
                let messages = self.new_messages(group, fixed, 1, None, None);
                let target = PublishTarget::Via { path: path(name), via: path("plain") };
                Operation::Publish { target, messages, ticket }
            }
            1 => {
                let due = Some(self.now + 1 + self.rng.below(4_000));
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.new_messages(group, fixed, 1, due, None);
                let is_void = !commits && fixed == [PLAIN];
                let ticket = if is_void { self.ticket(PendingRequest::Void) } else { Ticket(0) };
                Operation::Schedule { path: path(name), messages, ticket }
            }
            _ => {
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.new_messages(group, fixed, 1, None, None);
                let target = PublishTarget::Path { path: path(name), auto_create: false };
                Operation::Publish { target, messages, ticket }
            }
        }
    }

    fn complete_within(&mut self, transaction: TransactionId, group: u64) {
        let completes = self.rng.chance(60);
        let Some(held) = completes.then(|| self.pick_held()).flatten() else { return };
        let HeldMessage { id, entity, queue, sequence, lock, .. } = held;
        let outcome = Outcome::Complete;
        let settled = true;
        let operation = Operation::Settle { queue, sequence, lock, outcome, settled, ticket: None };
        let operation = Box::new(operation);
        self.commands.push(Command::Enlist { transaction, operation });
        self.groups.completes(group, id, entity);
    }
}
