//! Transactions: sends, schedules and sends through other entities, and a completion, all or none of them.
//!
//! Invariant: a transaction is one parcel; one that is not told to commit is refused before it begins.

use broker_core::{Command, Operation, Outcome, PublishTarget, Ticket, TransactionId};

use super::{
    Asked, Held, PLAIN, Post,
    entities::path,
    send::{SCHEDULES, THROUGH},
};

impl Post<'_> {
    pub(super) fn transact(&mut self) {
        let transaction = TransactionId(self.next_transaction);
        self.next_transaction += 1;
        let parcel = self.parcels.new_parcel();
        let commits = self.rng.chance(70);
        if !commits {
            self.parcels.refused(parcel);
        }
        self.commands.push(Command::Declare { transaction, ticket: Ticket(0) });
        for _ in 0..=self.rng.below(3) {
            let operation = Box::new(self.operation(parcel, commits));
            self.commands.push(Command::Enlist { transaction, operation });
        }
        if commits {
            self.complete_within(transaction, parcel);
            let ticket = Some(self.ticket(Asked::Commit(parcel)));
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
    fn operation(&mut self, parcel: u64, commits: bool) -> Operation {
        let ticket = None;
        match self.rng.below(4) {
            0 => {
                let (name, fixed) = self.one_of(&THROUGH);
                let messages = self.letters(parcel, fixed, 1, None, None);
                let target = PublishTarget::Through { path: path(name), through: path("plain") };
                Operation::Publish { target, messages, ticket }
            }
            1 => {
                let due = Some(self.now + 1 + self.rng.below(4_000));
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.letters(parcel, fixed, 1, due, None);
                let is_void = !commits && fixed == [PLAIN];
                let ticket = if is_void { self.ticket(Asked::Void) } else { Ticket(0) };
                Operation::Schedule { path: path(name), messages, ticket }
            }
            _ => {
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.letters(parcel, fixed, 1, None, None);
                let target = PublishTarget::Path { path: path(name), auto_create: false };
                Operation::Publish { target, messages, ticket }
            }
        }
    }

    fn complete_within(&mut self, transaction: TransactionId, parcel: u64) {
        let completes = self.rng.chance(60);
        let Some(held) = completes.then(|| self.pick_held()).flatten() else { return };
        let Held { id, place, queue, sequence, lock, .. } = held;
        let outcome = Outcome::Complete;
        let settled = true;
        let operation = Operation::Settle { queue, sequence, lock, outcome, settled, ticket: None };
        let operation = Box::new(operation);
        self.commands.push(Command::Enlist { transaction, operation });
        self.parcels.completes(parcel, id, place);
    }
}
