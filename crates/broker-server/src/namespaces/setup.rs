//! Client of the server itself, which creates namespaces and entities at a start and at a reload.
//!
//! Invariant: an answer counts once it is durable; a client that is dropped is gone from its shard.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use broker_core::{
    Batch, ClientId, Command, DEFAULT_NAMESPACE, Effect, EntityError, NamespaceError, NamespaceSettings,
    Ticket,
};
use broker_node::{NamespaceCommand, NamespaceId, NamespaceRequest};
use tracing::error;

use super::{NamespaceDirectory, ServedNamespace, directory::takes_a_name};
use crate::{
    config::{EntityPlan, NamespacePlan},
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
    host_table::NameConflict,
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
    pub(crate) async fn ask(&self, commands: Vec<Command>) -> Result<Vec<Effect>, StartError> {
        let count = commands.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        self.executor.push(ExecutorItem::Batch(Batch { client: self.client, commands }, 0));
        self.answers(count).await
    }

    /// Has the shard change namespaces; the tickets count from 0. Some of them at a time are handled in one step of the node, so
    /// that they share a sync, and no other client waits long. The answers are those of [`Self::answers`].
    fn begin_changes(&self, commands: Vec<NamespaceCommand>) {
        let mut items = commands.into_iter().zip(0..).map(|(command, ticket)| {
            let request = NamespaceRequest { client: self.client, ticket: Ticket(ticket) };
            ExecutorItem::ChangeNamespace(request, Box::new(command))
        });
        loop {
            let step: Vec<_> = items.by_ref().take(CHANGES_IN_A_STEP).collect();
            if step.is_empty() {
                return;
            }
            self.executor.push_all(step);
        }
    }

    /// Takes what has come, unless the shard has ended and nothing more comes.
    fn poll_effects(&self, cx: &Context<'_>) -> Poll<Result<Vec<Effect>, StartError>> {
        match self.effect_queue.poll_take(cx) {
            Poll::Ready(effects) => Poll::Ready(Ok(effects)),
            Poll::Pending if self.effect_queue.is_abandoned() || self.executor.has_panicked() => {
                Poll::Ready(Err(StartError::Recovering))
            }
            Poll::Pending if self.executor.has_ended() => Poll::Ready(Err(StartError::Journal)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for so many answers, and puts them in the order of their tickets.
    async fn answers(&self, count: usize) -> Result<Vec<Effect>, StartError> {
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            for effect in poll_fn(|cx| self.poll_effects(cx)).await? {
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
        Ok(answers.into_iter().map(|(_, effect)| effect).collect())
    }

    /// Creates those of these entities that do not exist, in this order. The first one that is refused is the error.
    pub(crate) async fn create(&self, plans: &[EntityPlan]) -> Result<(), StartError> {
        let commands = plans.iter().zip(0..).map(|(plan, ticket)| create(plan, Ticket(ticket))).collect();
        for (answer, plan) in self.ask(commands).await?.into_iter().zip(plans) {
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

/// Change of a namespace, and the place of its answer.
type Change = (usize, NamespaceCommand);

/// The server's own way to change namespaces.
#[derive(Clone)]
pub(crate) struct NamespaceSetup {
    pub(crate) directory: Arc<NamespaceDirectory>,
    pub(crate) shards: Shards,
    pub(crate) next_client: Arc<AtomicU64>,
}

impl NamespaceSetup {
    /// Gives these namespaces these settings, and creates those that are missing. Whether one is held stays as it is. The answer
    /// about each says whether it was created. A shard is asked for many at once, so that they become durable together.
    ///
    /// A shard compares host names with those of its own namespaces; here they are compared with all. A namespace whose host name
    /// another one still has waits until those that wait for nothing have their settings: the other one may give the name away.
    pub(crate) async fn put(
        &self,
        wanted: &[(&str, &NamespaceSettings)],
    ) -> Result<Vec<Result<bool, StartError>>, StartError> {
        let mut answers: Vec<_> = wanted.iter().map(|_| Err(StartError::Journal)).collect();
        let mut pending: Vec<usize> = (0..wanted.len()).collect();
        while !pending.is_empty() {
            let _alone = self.directory.creation().await;
            let (mut ready, mut refused) = (Vec::new(), Vec::new());
            let mut claimed = HostClaims::default();
            for index in pending {
                let Some((name, settings)) = wanted.get(index) else { continue };
                if self.names_are_unknown(name, settings) {
                    if let Some(answer) = answers.get_mut(index) {
                        *answer = Err(StartError::Recovering);
                    }
                    continue;
                }
                match self.check_hostnames(name, settings).and_then(|()| claimed.claim(name, settings)) {
                    Ok(()) => ready.push(index),
                    Err(error) => refused.push((index, error)),
                }
            }
            if ready.is_empty() {
                for (index, error) in refused {
                    if let (Some(answer), Some((name, _))) = (answers.get_mut(index), wanted.get(index)) {
                        *answer = Err(StartError::Namespace { name: (*name).to_owned(), error });
                    }
                }
                break;
            }
            for part in ready.chunks(AT_ONCE) {
                self.put_part(wanted, part, &mut answers).await?;
            }
            pending = refused.into_iter().map(|(index, _)| index).collect();
        }
        Ok(answers)
    }

    /// Whether the namespace would get a name that another one of a shard may have which recovers.
    fn names_are_unknown(&self, name: &str, settings: &NamespaceSettings) -> bool {
        let before = self.directory.named(name).map(|served| served.definition());
        takes_a_name(before.as_deref(), settings) && !self.shards.all_work()
    }

    /// Whether the host names of this namespace lead to no other, in any shard.
    fn check_hostnames(&self, name: &str, settings: &NamespaceSettings) -> Result<(), NamespaceError> {
        match self.directory.check_hostnames(name, &settings.hostnames) {
            Ok(()) => Ok(()),
            Err(NameConflict::Namespace(name)) => Err(NamespaceError::AlreadyExists(name.as_str().into())),
            Err(NameConflict::Host { host, first, .. }) => Err(NamespaceError::Hostname {
                hostname: host.as_str().into(),
                namespace: first.as_str().into(),
            }),
        }
    }

    async fn put_part(
        &self,
        wanted: &[(&str, &NamespaceSettings)],
        part: &[usize],
        answers: &mut [Result<bool, StartError>],
    ) -> Result<(), StartError> {
        let mut loads = self.directory.loads(&self.shards);
        let mut by_shard: BTreeMap<u16, (Arc<Executor>, Vec<Change>)> = BTreeMap::new();
        for &index in part {
            let Some((name, settings)) = wanted.get(index) else { continue };
            let served = self.directory.named(name);
            let held = served.as_ref().is_some_and(|served| served.definition().settings.held);
            let executor = match self.directory.holding(name) {
                Some(holding) => Arc::clone(&holding.executor),
                None => loads.take_least(),
            };
            let settings = NamespaceSettings { held, ..(*settings).clone() };
            let uid = u128::from_be_bytes(random()?);
            let command = NamespaceCommand::Put { name: (*name).into(), settings, uid, only_create: false };
            let (_, asked) = by_shard.entry(executor.shard()).or_insert_with(|| (executor, Vec::new()));
            asked.push((index, command));
        }
        let mut clients = Vec::with_capacity(by_shard.len());
        for (executor, asked) in by_shard.into_values() {
            let (asked, commands): (Vec<_>, _) = asked.into_iter().unzip();
            let client = SetupClient::new(&executor, NamespaceId::DEFAULT, &self.next_client);
            client.begin_changes(commands);
            clients.push((client, asked));
        }
        // Each shard is waited for, also where another one fails: names that are on their way are given to nobody else.
        for (client, asked) in clients {
            let mut effects = client.answers(asked.len()).await.map(Vec::into_iter);
            for index in asked {
                let (Some(answer), Some((name, _))) = (answers.get_mut(index), wanted.get(index)) else {
                    continue;
                };
                *answer = match &mut effects {
                    Ok(effects) => created(effects.next(), name),
                    Err(StartError::Recovering) => Err(StartError::Recovering),
                    Err(_) => Err(StartError::Journal),
                };
            }
        }
        Ok(())
    }

    /// Creates and changes the namespaces of a configuration that was read again, and creates the entities of new ones. An
    /// operator finds in the log what is refused.
    pub(crate) async fn put_all(self, default: Option<NamespaceSettings>, plans: Vec<NamespacePlan>) {
        let of_default = default.as_ref().map(|settings| (DEFAULT_NAMESPACE, settings));
        let others = plans.iter().map(|plan| (&*plan.name, &plan.settings));
        let wanted: Vec<_> = of_default.into_iter().chain(others).collect();
        let answers = match self.put(&wanted).await {
            Ok(answers) => answers,
            Err(error) => {
                return error!(%error, "the configuration was read again, but the namespaces are as they were");
            }
        };
        for ((name, _), answer) in wanted.iter().zip(answers) {
            let done = match (answer, self.directory.named(name)) {
                (Ok(true), Some(served)) => {
                    let plan = plans.iter().find(|plan| plan.name == *name);
                    let entities = plan.map_or(&[][..], |plan| &plan.entities);
                    SetupClient::of(&served, &self.next_client).create(entities).await
                }
                (Ok(_), _) => Ok(()),
                (Err(error), _) => Err(error),
            };
            if let Err(error) = done {
                error!(namespace = name, %error, "the configuration was read again, but a namespace is as it was");
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

/// Host names of the namespaces that are about to be changed together: until that is done no table has them.
#[derive(Default)]
struct HostClaims<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> HostClaims<'a> {
    /// Claims the host names of this namespace, all or none.
    fn claim(&mut self, name: &'a str, settings: &'a NamespaceSettings) -> Result<(), NamespaceError> {
        for hostname in &settings.hostnames {
            if let Some(other) = self.0.get(&**hostname) {
                return Err(NamespaceError::Hostname {
                    hostname: hostname.clone(),
                    namespace: (*other).into(),
                });
            }
        }
        self.0.extend(settings.hostnames.iter().map(|hostname| (&**hostname, name)));
        Ok(())
    }
}

/// Whether the answer of a shard says that it has created the namespace.
fn created(answer: Option<Effect>, name: &str) -> Result<bool, StartError> {
    match answer {
        Some(Effect::NamespaceDone { is_new, .. }) => Ok(is_new),
        Some(Effect::NamespaceRefused { error, .. }) => {
            Err(StartError::Namespace { name: name.to_owned(), error })
        }
        _ => Err(StartError::Journal),
    }
}

/// Namespaces that the node changes in one step: it takes a millisecond, and a write with its sync follows.
const CHANGES_IN_A_STEP: usize = 32;

/// Namespaces that are changed together.
const AT_ONCE: usize = 1_024;

/// The command that makes one entity.
fn create(plan: &EntityPlan, ticket: Ticket) -> Command {
    let EntityPlan { name, kind, settings, rules } = plan.clone();
    let (name, settings) = (name.into(), Box::new(settings));
    match rules {
        Some(rules) => Command::CreateSubscription { name, settings, rules, ticket },
        None => Command::CreateEntity { name, kind, settings, ticket },
    }
}

#[cfg(test)]
mod tests;
