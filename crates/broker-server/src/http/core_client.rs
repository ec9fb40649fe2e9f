//! Asking the node something for a request of HTTP.
//!
//! Invariant: a guest of the core is gone with its request, also when the peer hangs up before the answer.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use broker_core::{ClientId, Command, Effect, Ticket};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest};
use tokio::sync::oneshot;

use super::{answer::Refusal, context::RequestContext, probe::HealthProblem};
use crate::{
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
    namespaces::ServedNamespace,
    node_driver::{NamespaceFigures, NodeView},
    shutdown::{ordered, unless_stopped},
    submission::submit,
};

/// Status of the node of each shard; `None`: one does not answer within `patience`, or has ended.
pub(super) async fn look(context: &RequestContext, patience: Duration) -> Option<Vec<NodeView>> {
    let ask = |executor: &Arc<Executor>| {
        let (tell, answer) = oneshot::channel();
        executor.push(ExecutorItem::View(tell));
        answer
    };
    let asked: Vec<_> = context.shared.shards.all().iter().map(ask).collect();
    let mut views = Vec::with_capacity(asked.len());
    let all = async {
        for answer in asked {
            views.push(answer.await.ok()?);
        }
        Some(views)
    };
    tokio::time::timeout(patience, all).await.ok()?
}

/// Figures of these namespaces, by shard and id; `None`: a shard does not answer within `patience`, or has ended.
pub(super) async fn figures(
    context: &RequestContext,
    namespaces: &[Arc<ServedNamespace>],
    patience: Duration,
) -> Option<BTreeMap<(u16, NamespaceId), NamespaceFigures>> {
    let mut by_shard: BTreeMap<u16, Vec<NamespaceId>> = BTreeMap::new();
    for served in namespaces {
        by_shard.entry(served.executor.shard()).or_default().push(served.id);
    }
    let asked = by_shard.into_iter().filter_map(|(shard, ids)| {
        let (tell, answer) = oneshot::channel();
        context.shared.shards.get(shard)?.push(ExecutorItem::Figures(ids, tell));
        Some((shard, answer))
    });
    let asked: Vec<_> = asked.collect();
    let all = async {
        let mut all = BTreeMap::new();
        for (shard, answer) in asked {
            all.extend(answer.await.ok()?.into_iter().map(|figures| ((shard, figures.id), figures)));
        }
        Some(all)
    };
    tokio::time::timeout(patience, all).await.ok()?
}

/// A client for one request, gone with it, also when the peer hangs up before the answer.
pub(super) struct CoreClient<'a> {
    context: &'a RequestContext,
    executor: Arc<Executor>,
    client: ClientId,
    effect_queue: Arc<EffectQueue>,
}

impl<'a> CoreClient<'a> {
    /// A new client of the core of the request's namespace.
    pub(super) fn of(context: &'a RequestContext) -> Self {
        Self::in_namespace(context, &context.namespace)
    }

    /// A new client of the core of this namespace.
    pub(super) fn in_namespace(context: &'a RequestContext, namespace: &ServedNamespace) -> Self {
        let client = ClientId(context.shared.next_client.fetch_add(1, Ordering::Relaxed));
        let effect_queue = Arc::new(EffectQueue::new(Arc::clone(&namespace.ingress_credit)));
        let executor = Arc::clone(&namespace.executor);
        executor.push(ExecutorItem::Register(client, namespace.id, Arc::clone(&effect_queue)));
        Self { context, executor, client, effect_queue }
    }

    /// A new client of a shard, for changes of its namespaces.
    pub(super) fn of_shard(context: &'a RequestContext, executor: &Arc<Executor>) -> Self {
        let client = ClientId(context.shared.next_client.fetch_add(1, Ordering::Relaxed));
        let effect_queue = Arc::<EffectQueue>::default();
        executor.push(ExecutorItem::Register(client, NamespaceId::DEFAULT, Arc::clone(&effect_queue)));
        Self { context, executor: Arc::clone(executor), client, effect_queue }
    }

    /// Has the shard change a namespace.
    pub(super) async fn change_namespace(&self, command: NamespaceCommand) -> Result<Effect, Refusal> {
        let request = NamespaceRequest { client: self.client, ticket: Ticket(0) };
        self.executor.push(ExecutorItem::ChangeNamespace(request, Box::new(command)));
        self.collect(1).await
    }

    /// Gives commands to the core; the answer to the last one counts, unless an earlier one was refused.
    pub(super) async fn ask(&self, commands: Vec<Command>) -> Result<Effect, Refusal> {
        let answers = commands.len();
        self.room().await?;
        submit(&self.effect_queue, &self.executor, self.client, commands);
        self.collect(answers).await
    }

    /// Waits until there is room for commands, as connections do.
    async fn room(&self) -> Result<(), Refusal> {
        let room = poll_fn(|cx| {
            // Nothing comes before something was asked: this registers the task.
            drop(self.effect_queue.poll_take(cx));
            if self.effect_queue.may_read() { Poll::Ready(()) } else { Poll::Pending }
        });
        unless_stopped(&self.context.shared.stop, room).await.map_err(|_| Refusal::Stopping)
    }

    fn poll_effects(&self, cx: &Context<'_>) -> Poll<Result<Vec<Effect>, Refusal>> {
        match self.effect_queue.poll_take(cx) {
            Poll::Ready(effects) => Poll::Ready(Ok(effects)),
            // A shard abandons its clients where it recovers.
            Poll::Pending if self.effect_queue.is_abandoned() || self.executor.has_panicked() => {
                Poll::Ready(Err(Refusal::HealthProblem(HealthProblem::Recovering { others: true })))
            }
            Poll::Pending if self.executor.has_ended() => {
                Poll::Ready(Err(Refusal::HealthProblem(HealthProblem::Ended)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for all the answers, so that none is left for the next question.
    async fn collect(&self, mut missing: usize) -> Result<Effect, Refusal> {
        let mut stop = self.context.shared.stop.clone();
        let mut answer = None;
        loop {
            let effects = tokio::select! {
                effects = poll_fn(|cx| self.poll_effects(cx)) => effects?,
                _ = ordered(&mut stop) => return Err(Refusal::Stopping),
            };
            for effect in effects {
                missing = missing.saturating_sub(1);
                if !matches!(answer, Some(Effect::RequestRefused { .. })) {
                    answer = Some(effect);
                }
            }
            if missing == 0
                && let Some(answer) = answer.take()
            {
                return Ok(answer);
            }
        }
    }
}

impl Drop for CoreClient<'_> {
    fn drop(&mut self) {
        self.executor.push(ExecutorItem::Forget(self.client));
    }
}
