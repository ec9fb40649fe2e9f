//! Reads of the disk that a command needs before it is done.
//!
//! Invariant: to ask for them changes nothing. A command is not begun before all that it reads is in memory, unless so much was
//! read for it in vain that it waits for the disk.

use crate::{
    Batch, Command, LockRef, Outcome, Output, ReadId,
    call::Cx,
    namespace::Namespace,
    settle::disposer::Disposer,
    store::{load_message::ask_for_record, reads_in_vain::READS_IN_VAIN_MAX},
    transaction::open::{Settlement, Work},
};

/// The commands of a batch that a call did not handle.
#[derive(Debug)]
pub struct BatchRest {
    pub batch: Batch,
    /// The first command needs these reads: it is to be handled when [`crate::Core::handle_read_done`] was told of all of them.
    /// Empty: it is to be handled in the next call.
    pub reads: Vec<ReadId>,
}

/// Finds what commands read.
#[derive(Debug)]
pub(crate) struct CommandReads<'a> {
    state: &'a mut Namespace,
}

impl<'a> CommandReads<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl CommandReads<'_> {
    /// Whether a command may read something. Sends and completions do not.
    #[inline]
    pub(crate) fn may_read(command: &Command) -> bool {
        match command {
            Command::Settle { outcome, .. } | Command::SettleByToken { outcome, .. } => {
                *outcome != Outcome::Complete
            }
            Command::Discharge { fail, .. } => !fail,
            Command::GetSessionState { .. } => true,
            _ => false,
        }
    }

    /// The reads for which a command has to wait, and some of those that the ones behind it need. None: it can be done.
    pub(crate) fn missing(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        command: &Command,
        behind: &[Command],
    ) -> Vec<ReadId> {
        let mut reads = Vec::new();
        self.ask(cx, command, &mut reads);
        let waits =
            !reads.is_empty() && self.state.messages.disk_waits.put_off(cx.client) < READS_IN_VAIN_MAX;
        if !waits {
            self.state.messages.disk_waits.no_longer_put_off(cx.client);
            return Vec::new();
        }
        for command in behind.iter().filter(|command| Self::may_read(command)) {
            if reads.len() >= READS_MAX {
                break;
            }
            self.ask(cx, command, &mut reads);
        }
        reads
    }

    /// Asks for what a command reads.
    fn ask(&mut self, cx: &mut Cx<'_, impl Output>, command: &Command, reads: &mut Vec<ReadId>) {
        match command {
            Command::Settle { queue, sequence, lock, outcome, .. } => {
                let lock = LockRef { queue: *queue, sequence: sequence.0, lock: *lock };
                self.ask_for_settlement(cx, lock, outcome, reads);
            }
            Command::SettleByToken { tokens, outcome, .. } => {
                for token in tokens {
                    let (queue, lock, sequence) = self.state.messages.tokens.open(*token);
                    let lock = LockRef { queue, sequence: sequence.0, lock };
                    self.ask_for_settlement(cx, lock, outcome, reads);
                }
            }
            Command::Discharge { transaction, .. } => {
                let settlements: Vec<(LockRef, Outcome)> = self
                    .state
                    .transactions
                    .work((cx.client, *transaction))
                    .iter()
                    .filter_map(|work| match work {
                        Work::Settle(Settlement { lock, outcome, .. }) => Some((*lock, outcome.clone())),
                        _ => None,
                    })
                    .filter(|(_, outcome)| *outcome != Outcome::Complete)
                    .collect();
                for (lock, outcome) in settlements {
                    self.ask_for_settlement(cx, lock, &outcome, reads);
                }
            }
            Command::GetSessionState { path, session, .. } => {
                let queue = self.state.resolve(path);
                let sessions = queue.and_then(|queue| self.state.store(queue)?.sessions.as_deref());
                let found = sessions.and_then(|sessions| sessions.get(sessions.find(session)?)?.state());
                let place = found.map(|state| (state.position, state.length));
                Self::add(place.and_then(|place| ask_for_record(place, cx.out)), reads);
            }
            _ => {}
        }
    }

    /// Asks for a message under its lock. A settlement that will be refused needs none.
    fn ask_for_settlement(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        LockRef { queue, sequence, lock }: LockRef,
        outcome: &Outcome,
        reads: &mut Vec<ReadId>,
    ) {
        if reads.len() >= READS_MAX {
            return;
        }
        let Some(store) = self.state.store(queue) else { return };
        if store.check_lock(sequence, lock, cx.now).is_ok()
            && Disposer::of(&mut self.state.messages).reads(cx.now, queue, sequence, outcome)
        {
            Self::add(self.state.messages.entities.ask_for_message(queue, sequence, cx.out), reads);
        }
    }

    fn add(read: Option<ReadId>, reads: &mut Vec<ReadId>) {
        if let Some(read) = read.filter(|read| !reads.contains(read)) {
            reads.push(read);
        }
    }
}

/// Reads of the disk that one client asks for at once; more would not find room.
const READS_MAX: usize = 16;
