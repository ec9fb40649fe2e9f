//! Requests whose answers bring messages, each of which may be as large as the largest message.
//!
//! Invariant: one such answer of a connection at most is read or on its way from the core, and none is asked for while the
//! client leaves a window of answers unread on the link that it goes on.

use std::collections::VecDeque;

use broker_core::{Command, LinkId, Ticket};

use crate::{
    gateway::Gateway,
    link::LinkRole,
    requests::Pending,
    tickets::{Errand, SessionNumber},
};

/// The lookups of one connection. They are as few as requests with large answers may wait.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Number of the request that the core was asked.
    asked: Option<u64>,
    waiting: VecDeque<Lookup>,
}

#[derive(Debug)]
struct Lookup {
    number: u64,
    session: SessionNumber,
    /// Where the answer goes, as things are now.
    link: Option<LinkId>,
    command: Command,
}

impl Lookups {
    /// A request is answered.
    pub(crate) fn done(&mut self, number: u64) {
        if self.asked == Some(number) {
            self.asked = None;
        }
    }
}

impl Gateway {
    /// Asks for messages when it is this request's turn.
    pub(crate) fn look_up(&mut self, ticket: Ticket, command: Command) {
        let Some(Errand::Request(number)) = Errand::unpack(ticket) else { return };
        let Some(Pending::Request(caller, _)) = self.pending.get(&number) else { return };
        let (session, link) = (caller.session, self.reply_link(caller));
        self.lookups.waiting.push_back(Lookup { number, session, link, command });
        self.look_further();
    }

    /// Asks for the messages of the first request that waits and has room for its answer, when the one before has its own.
    pub(crate) fn look_further(&mut self) {
        if self.lookups.asked.is_some() || self.lookups.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.lookups.waiting);
        // Nobody gets the answers for a session that has ended.
        waiting.retain(|lookup| {
            let lives = self.sessions.get(lookup.session.0).is_some();
            if !lives {
                self.pending.remove(&lookup.number);
            }
            lives
        });
        let next = waiting.iter().position(|lookup| lookup.link.is_none_or(|link| self.has_room(link)));
        if let Some(lookup) = next.and_then(|index| waiting.remove(index)) {
            self.lookups.asked = Some(lookup.number);
            self.commands.push(lookup.command);
        }
        self.lookups.waiting = waiting;
    }

    /// Whether the client has read what it was answered on this link, but for a window. A link that is gone keeps nothing.
    fn has_room(&mut self, link: LinkId) -> bool {
        let Some(link) = self.links.get_mut(link.0) else { return true };
        let LinkRole::Replies(replies) = &mut link.role else { return true };
        let unread = replies.unread.bytes(self.engine.oldest_unsent(link.key.session()));
        unread <= self.config.deliver_window_bytes
    }
}
