//! Asking the node something for a request of HTTP.
//!
//! Invariant: a guest of the core is gone with its request, also when the peer hangs up before the answer.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use broker_core::{ClientId, Command, Effect, Ticket};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest};
use tokio::sync::oneshot;

use super::{
    answer::Refusal,
    context::RequestContext,
    probe::{HealthProblem, PATIENCE},
};
use crate::{
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
    namespaces::ServedNamespace,
    node_driver::{NamespaceFigures, NodeView},
    shutdown::{ordered, unless_stopped},
    submission::submit,
};

/// Status of the node of each shard, by number; `None` for one that recovers. An error where one does not answer in time, or the broker
/// ends.
pub(super) async fn look(context: &RequestContext) -> Result<Vec<Option<NodeView>>, HealthProblem> {
    let asked = context.shared.shards.all().iter().map(|executor| {
        let (tell, answer) = oneshot::channel();
        executor.push(ExecutorItem::View(tell));
        (executor, answer)
    });
    in_time(context, asked.collect()).await
}

/// Figures of these namespaces, by shard and id, without those of a shard that recovers. An error as [`look`] has it.
pub(super) async fn figures(
    context: &RequestContext,
    namespaces: &[Arc<ServedNamespace>],
) -> Result<BTreeMap<(u16, NamespaceId), NamespaceFigures>, HealthProblem> {
    let mut by_shard: BTreeMap<u16, (&Arc<Executor>, Vec<NamespaceId>)> = BTreeMap::new();
    for served in namespaces {
        let executor = &served.executor;
        by_shard.entry(executor.shard()).or_insert_with(|| (executor, Vec::new())).1.push(served.id);
    }
    let asked = by_shard.values_mut().map(|(executor, ids)| {
        let (tell, answer) = oneshot::channel();
        executor.push(ExecutorItem::Figures(std::mem::take(ids), tell));
        (*executor, answer)
    });
    let answers = in_time(context, asked.collect()).await?;
    let of_shards = by_shard.into_keys().zip(answers);
    let all = of_shards.flat_map(|(shard, figures)| {
        figures.into_iter().flatten().map(move |figures| ((shard, figures.id), figures))
    });
    Ok(all.collect())
}

/// The answers of shards, in this order; `None` of one that recovers. An error as [`look`] has it.
async fn in_time<T>(
    context: &RequestContext,
    asked: Vec<(&Arc<Executor>, oneshot::Receiver<T>)>,
) -> Result<Vec<Option<T>>, HealthProblem> {
    let all = async {
        let mut answers = Vec::with_capacity(asked.len());
        for (executor, answer) in asked {
            answers.push(match answer.await {
                Ok(answer) => Some(answer),
                Err(_) if executor.has_ended() && !executor.has_panicked() => {
                    return Err(HealthProblem::Ended);
                }
                // A panic has ended what was asked.
                Err(_) => None,
            });
        }
        Ok(answers)
    };
    let answers = tokio::time::timeout(PATIENCE, all).await.unwrap_or(Err(HealthProblem::Silent));
    match answers {
        Ok(answers) if answers.iter().all(Option::is_some) => Ok(answers),
        // A shard that is not there does not recover where the broker ends.
        answers => HealthProblem::of_shutdown(*context.shared.stop.borrow()).map_or(answers, Err),
    }
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

    /// The same of one question of a scrape, of which there is one at a time: it does not wait for room behind connections, and is
    /// answered within [`PATIENCE`] or not at all.
    pub(super) async fn ask_in_time(&self, question: Command) -> Result<Effect, Refusal> {
        submit(&self.effect_queue, &self.executor, self.client, vec![question]);
        let answer = tokio::time::timeout(PATIENCE, self.collect(1)).await;
        answer.unwrap_or(Err(Refusal::HealthProblem(HealthProblem::Silent)))
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
        self.effect_queue.leave();
        self.executor.push(ExecutorItem::Forget(self.client));
    }
}
