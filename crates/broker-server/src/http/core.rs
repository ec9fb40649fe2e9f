//! Asking the node something for a request of HTTP.
//!
//! Invariant: a guest of the core is gone with its request, also when the peer hangs up before the answer.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use broker_core::{Batch, ClientId, Command, Effect};
use tokio::sync::oneshot;

use super::{Visitor, answer::Refusal};
use crate::{
    inbox::{Inbox, Item},
    mailbox::Mailbox,
    runner::NodeView,
    stop::ordered,
};

/// Gives commands to the core; the answer to the last one counts, unless an earlier one was refused.
pub(super) async fn ask(visitor: &Visitor, commands: Vec<Command>) -> Result<Effect, Refusal> {
    let shared = &visitor.shared;
    let client = ClientId(shared.next_client.fetch_add(1, Ordering::Relaxed));
    let mailbox = Arc::new(Mailbox::default());
    let answers = commands.len();
    shared.inbox.push(Item::Register(client, Arc::clone(&mailbox)));
    let _guest = Guest { inbox: &shared.inbox, client };
    shared.inbox.push(Item::Batch(Batch { client, commands }, 0));
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
