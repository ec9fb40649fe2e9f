//! Client of the server itself, which creates namespaces and entities at a start and at a reload.
//!
//! Invariant: an answer counts once it is durable; a client that is dropped is gone from its shard.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use broker_core::{
    Batch, ClientId, Command, DEFAULT_NAMESPACE, Effect, EntityError, NamespaceSettings, Ticket,
};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest};
use tracing::error;

use super::{NamespaceDirectory, ServedNamespace};
use crate::{
    config::{EntityPlan, NamespacePlan},
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
    randomness::random,
    shards::Shards,
    start_error::StartError,
};

/// A client of one namespace, or of a shard for changes of its namespaces.
#[derive(Debug)]
pub(crate) struct SetupClient {
    executor: Arc<Executor>,
    client: ClientId,
    effect_queue: Arc<EffectQueue>,
}

impl SetupClient {
    /// A new client of `namespace`.
    pub(crate) fn of(namespace: &ServedNamespace, next_client: &AtomicU64) -> Self {
        Self::new(&namespace.executor, namespace.id, next_client)
    }

    fn new(executor: &Arc<Executor>, namespace: NamespaceId, next_client: &AtomicU64) -> Self {
        let client = ClientId(next_client.fetch_add(1, Ordering::Relaxed));
        let effect_queue = Arc::<EffectQueue>::default();
        executor.push(ExecutorItem::Register(client, namespace, Arc::clone(&effect_queue)));
        executor.push(ExecutorItem::Batch(Batch { client, commands: vec![Command::Connect] }, 0));
        Self { executor: Arc::clone(executor), client, effect_queue }
    }

    /// Has the core do these, whose tickets count from 0; gives the answer of each, once it is durable.
    pub(crate) async fn ask(&self, commands: Vec<Command>) -> Vec<Effect> {
        let count = commands.len();
        if count == 0 {
            return Vec::new();
        }
        self.executor.push(ExecutorItem::Batch(Batch { client: self.client, commands }, 0));
        self.answers(count).await
    }

    /// Has the shard change a namespace.
    pub(crate) async fn change_namespace(&self, command: NamespaceCommand) -> Option<Effect> {
        let request = NamespaceRequest { client: self.client, ticket: Ticket(0) };
        self.executor.push(ExecutorItem::ChangeNamespace(request, Box::new(command)));
        self.answers(1).await.pop()
    }

    /// Waits for so many answers, and puts them in the order of their tickets.
    async fn answers(&self, count: usize) -> Vec<Effect> {
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            for effect in poll_fn(|cx| self.effect_queue.poll_take(cx)).await {
                let ticket = match &effect {
                    Effect::EntityDone { ticket }
                    | Effect::RequestRefused { ticket, .. }
                    | Effect::Rules { ticket, .. }
                    | Effect::NamespaceDone { ticket, .. }
                    | Effect::NamespaceRefused { ticket, .. }
                    | Effect::Described { ticket, .. } => ticket.0,
                    _ => continue,
                };
                answers.push((ticket, effect));
            }
        }
        answers.sort_by_key(|(ticket, _)| *ticket);
        answers.into_iter().map(|(_, effect)| effect).collect()
    }

    /// Creates those of these entities that do not exist, in this order. The first one that is refused is the error.
    pub(crate) async fn create(&self, plans: &[EntityPlan]) -> Result<(), StartError> {
        let commands = plans.iter().zip(0..).map(|(plan, ticket)| create(plan, Ticket(ticket))).collect();
        for (answer, plan) in self.ask(commands).await.into_iter().zip(plans) {
            match answer {
                Effect::RequestRefused { error: EntityError::AlreadyExists(_), .. } => {}
                Effect::RequestRefused { error, .. } => {
                    return Err(StartError::Entity { name: plan.name.clone(), error });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The server's own way to change namespaces.
#[derive(Clone)]
pub(crate) struct NamespaceSetup {
    pub(crate) directory: Arc<NamespaceDirectory>,
    pub(crate) shards: Shards,
    pub(crate) next_client: Arc<AtomicU64>,
}

impl NamespaceSetup {
    /// Gives a namespace these settings, and creates it where it is missing. Whether it is held stays as it is. True if it was
    /// created.
    pub(crate) async fn put(&self, name: &str, settings: &NamespaceSettings) -> Result<bool, StartError> {
        let _alone = self.directory.creation().await;
        let served = self.directory.named(name);
        let held = served.as_ref().is_some_and(|served| served.definition().settings.held);
        let executor = match &served {
            Some(served) => Arc::clone(&served.executor),
            None => self.directory.least_loaded(&self.shards),
        };
        let settings = NamespaceSettings { held, ..settings.clone() };
        let uid = u128::from_be_bytes(random()?);
        let command = NamespaceCommand::Put { name: name.into(), settings, uid, only_create: false };
        let client = SetupClient::new(&executor, NamespaceId::DEFAULT, &self.next_client);
        match client.change_namespace(command).await {
            Some(Effect::NamespaceDone { is_new, .. }) => Ok(is_new),
            Some(Effect::NamespaceRefused { error, .. }) => {
                Err(StartError::Namespace { name: name.to_owned(), error })
            }
            _ => Err(StartError::Journal),
        }
    }

    /// Creates and changes the namespaces of a configuration that was read again, and creates the entities of new ones. An
    /// operator finds in the log what is refused.
    pub(crate) async fn put_all(self, default: NamespaceSettings, plans: Vec<NamespacePlan>) {
        if default != NamespaceSettings::default()
            && let Err(error) = self.put(DEFAULT_NAMESPACE, &default).await
        {
            error!(%error, "the configuration was read again, but a namespace is as it was");
        }
        for plan in plans {
            let done = match self.put(&plan.name, &plan.settings).await {
                Ok(true) => match self.directory.named(&plan.name) {
                    Some(served) => SetupClient::of(&served, &self.next_client).create(&plan.entities).await,
                    None => Ok(()),
                },
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                error!(namespace = plan.name, %error, "the configuration was read again, but a namespace is as it was");
            }
        }
    }
}

impl Drop for SetupClient {
    fn drop(&mut self) {
        let disconnect = Batch { client: self.client, commands: vec![Command::Disconnect] };
        self.executor.push(ExecutorItem::Batch(disconnect, 0));
        self.executor.push(ExecutorItem::Forget(self.client));
    }
}

/// The command that makes one entity.
fn create(plan: &EntityPlan, ticket: Ticket) -> Command {
    let EntityPlan { name, kind, settings, rules } = plan.clone();
    let (name, settings) = (name.into(), Box::new(settings));
    match rules {
        Some(rules) => Command::CreateSubscription { name, settings, rules, ticket },
        None => Command::CreateEntity { name, kind, settings, ticket },
    }
}
