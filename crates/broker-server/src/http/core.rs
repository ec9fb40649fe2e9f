//! Asking the node something for a request of HTTP.
//!
//! Invariant: a guest of the core is gone with its request, also when the peer hangs up before the answer.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use broker_core::{ClientId, Command, Effect};
use tokio::sync::oneshot;

use super::{Visitor, answer::Refusal};
use crate::{
    connection::submit,
    inbox::{Inbox, Item},
    mailbox::Mailbox,
    runner::NodeView,
    stop::{ordered, unless_stopped},
};

/// Gives commands to the core; the answer to the last one counts, unless an earlier one was refused.
pub(super) async fn ask(visitor: &Visitor, commands: Vec<Command>) -> Result<Effect, Refusal> {
    let shared = &visitor.shared;
    let client = ClientId(shared.next_client.fetch_add(1, Ordering::Relaxed));
    let mailbox = shared.inbox.mailbox();
    let answers = commands.len();
    shared.inbox.push(Item::Register(client, Arc::clone(&mailbox)));
    let _guest = Guest { inbox: &shared.inbox, client };
    room(&mailbox, visitor).await?;
    submit(&mailbox, &shared.inbox, client, commands);
    collect(&mailbox, answers, visitor).await
}

/// What there is to see of the node; `None`: it does not answer within `patience`, or has ended.
pub(super) async fn look(visitor: &Visitor, patience: Duration) -> Option<NodeView> {
    let (tell, told) = oneshot::channel();
    visitor.shared.inbox.push(Item::Look(tell));
    tokio::time::timeout(patience, told).await.ok()?.ok()
}

/// A client for one request, gone with it, also when the peer hangs up before the answer.
struct Guest<'a> {
    inbox: &'a Inbox,
    client: ClientId,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.inbox.push(Item::Forget(self.client));
    }
}

/// Waits until there is room for commands, as connections do.
async fn room(mailbox: &Arc<Mailbox>, visitor: &Visitor) -> Result<(), Refusal> {
    let room = poll_fn(|cx| {
        // Nothing comes before something was asked: this registers the task.
        drop(mailbox.poll_take(cx));
        if mailbox.may_read() { Poll::Ready(()) } else { Poll::Pending }
    });
    unless_stopped(&visitor.shared.stop, room).await.map_err(|_| Refusal::Stopping)
}

async fn collect(mailbox: &Mailbox, mut missing: usize, visitor: &Visitor) -> Result<Effect, Refusal> {
    let mut stop = visitor.shared.stop.clone();
    loop {
        let effects = tokio::select! {
            effects = poll_fn(|cx| mailbox.poll_take(cx)) => effects,
            _ = ordered(&mut stop) => return Err(Refusal::Stopping),
        };
        for effect in effects {
            missing = missing.saturating_sub(1);
            if missing == 0 || matches!(effect, Effect::RequestRefused { .. }) {
                return Ok(effect);
            }
        }
    }
}
