//! Large replies: requests whose replies hold messages, each up to the largest message size.
//!
//! Invariant: one such answer of a connection at most is read or on its way from the core, and none is asked for while the
//! client leaves a window of answers unread on the link that it goes on.

use std::collections::VecDeque;

use broker_core::{Command, LinkId, Ticket};

use super::reply::reply_link;
use crate::{
    correlation::{Correlation, SessionNumber},
    cx::Cx,
    endpoints::Endpoints,
    link::LinkKind,
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
    pub(super) fn on_answered(&mut self, ticket: Ticket) {
        if let Some(Correlation::Request(number)) = Correlation::unpack(ticket)
            && self.asked == Some(number)
        {
            self.asked = None;
        }
    }

    /// Asks for messages when it is this request's turn.
    pub(super) fn ask(&mut self, ticket: Ticket, command: Command, cx: &mut Cx, ends: &mut Endpoints) {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return };
        let Some(caller) = ends.pending.caller(number) else { return };
        let (session, link) = (caller.session, reply_link(&ends.links, caller));
        self.waiting.push_back(PendingLargeReply { number, session, link, command });
        self.ask_next(cx, ends);
    }

    /// Asks for the messages of the first request that waits and has room for its answer, when the one before has its own.
    pub(super) fn ask_next(&mut self, cx: &mut Cx, ends: &mut Endpoints) {
        if self.asked.is_some() || self.waiting.is_empty() {
            return;
        }
        // Nobody gets the answers for a session that has ended.
        self.waiting.retain(|pending| {
            let lives = ends.sessions.get(pending.session).is_some();
            if !lives {
                ends.pending.take(pending.number);
            }
            lives
        });
        let next =
            self.waiting.iter().position(|pending| pending.link.is_none_or(|link| has_room(link, cx, ends)));
        if let Some(pending) = next.and_then(|index| self.waiting.remove(index)) {
            self.asked = Some(pending.number);
            cx.commands.push(pending.command);
        }
    }
}

/// Whether the client has read what it was answered on this link, but for a window. A link that is gone keeps nothing.
fn has_room(link: LinkId, cx: &Cx, ends: &mut Endpoints) -> bool {
    let Some(link) = ends.links.get_mut(link) else { return true };
    let LinkKind::Reply(replies) = &mut link.kind else { return true };
    replies.unread_bytes(cx.engine.session(link.key.session()).oldest_unsent())
        <= cx.config.deliver_window_bytes
}
