//! Large replies: requests whose replies hold messages, each up to the largest message size.
//!
//! Invariant: one such answer of a connection at most is read or on its way from the core, and none is asked for while the
//! client leaves a window of answers unread on the link that it goes on.

use std::collections::VecDeque;

use broker_core::{Command, LinkId, Ticket};

use crate::{
    correlation::{Correlation, SessionNumber},
    gateway::Gateway,
    link::LinkRole,
    requests::Pending,
};

/// The lookups of one connection. They are as few as requests with large answers may wait.
#[derive(Debug, Default)]
pub(crate) struct LargeReplies {
    /// Number of the request that the core was asked.
    asked: Option<u64>,
    waiting: VecDeque<PendingLargeReply>,
}

#[derive(Debug)]
struct PendingLargeReply {
    number: u64,
    session: SessionNumber,
    /// Link for the reply.
    link: Option<LinkId>,
    command: Command,
}

impl LargeReplies {
    /// A request is answered.
    pub(crate) fn done(&mut self, number: u64) {
        if self.asked == Some(number) {
            self.asked = None;
        }
    }
}

impl Gateway {
    /// Asks for messages when it is this request's turn.
    pub(crate) fn request_large_reply(&mut self, ticket: Ticket, command: Command) {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return };
        let Some(Pending::Request(caller, _)) = self.pending.get(&number) else { return };
        let (session, link) = (caller.session, self.reply_link(caller));
        self.large_replies.waiting.push_back(PendingLargeReply { number, session, link, command });
        self.request_next_large_reply();
    }

    /// Asks for the messages of the first request that waits and has room for its answer, when the one before has its own.
    pub(crate) fn request_next_large_reply(&mut self) {
        if self.large_replies.asked.is_some() || self.large_replies.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.large_replies.waiting);
        // Nobody gets the answers for a session that has ended.
        waiting.retain(|pending| {
            let lives = self.sessions.get(pending.session.0).is_some();
            if !lives {
                self.pending.remove(&pending.number);
            }
            lives
        });
        let next = waiting.iter().position(|pending| pending.link.is_none_or(|link| self.has_room(link)));
        if let Some(pending) = next.and_then(|index| waiting.remove(index)) {
            self.large_replies.asked = Some(pending.number);
            self.commands.push(pending.command);
        }
        self.large_replies.waiting = waiting;
    }

    /// Whether the client has read what it was answered on this link, but for a window. A link that is gone keeps nothing.
    fn has_room(&mut self, link: LinkId) -> bool {
        let Some(link) = self.links.get_mut(link.0) else { return true };
        let LinkRole::Replies(replies) = &mut link.role else { return true };
        let unread = replies.unread.bytes(self.engine.oldest_unsent(link.key.session()));
        unread <= self.config.deliver_window_bytes
    }
}
