//! Rounds of a node: how much each takes in and may do, and the promise that none of its namespaces waits for another one.
//!
//! Invariant: a namespace with one command has it handled in the round that takes it in, whatever the others bring and
//! whatever waits of them, unless the disk is behind.
//!
//! The planted fault takes in nothing of other namespaces once one has brought something, as a node would that counts what
//! all of them bring together.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::{Batch, ClientId, Work, WorkBudget};
use broker_node::{CommandWait, NamespaceId, Node};

use crate::{
    plan::{Plan, PlantedFault},
    rng::Rng,
};

/// The size of rounds in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundPlan {
    /// Most batches and changes that one round takes in.
    inputs_max: u64,
    /// Largest budget of work of a round; `None`: there is no bound.
    work_max: Option<u64>,
    unwritten_bytes: u64,
    is_greedy: bool,
}

impl RoundPlan {
    /// The rounds of this plan.
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            inputs_max: plan.inputs_per_round,
            work_max: plan.round_work,
            unwritten_bytes: plan.unwritten_bytes,
            is_greedy: !plan.topology.is_free_of(PlantedFault::GreedyRound),
        }
    }

    /// Number of inputs of the next round. A run whose rounds have one draws nothing.
    pub(super) fn inputs(self, rng: &mut Rng) -> u64 {
        if self.inputs_max > 1 { 1 + rng.below(self.inputs_max) } else { 1 }
    }

    /// Work of the next round, where it has a bound.
    pub(super) fn work(self, rng: &mut Rng) -> Option<u64> {
        self.work_max.map(|most| 1 + rng.below(most))
    }

    /// Whether a round may leave work undone that nothing else brings back.
    pub(super) fn is_bounded(self) -> bool {
        self.work_max.is_some()
    }

    /// Whether so much waits for the disk that commands have to wait too.
    fn is_behind(self, node: &Node) -> bool {
        let journal = node.journal();
        node.is_behind() || journal.end().0.saturating_sub(journal.durable().0) > self.unwritten_bytes
    }
}

/// The clients of a node whose commands wait for another round.
#[derive(Debug, Default)]
pub(super) struct Deferring(BTreeSet<(NamespaceId, ClientId)>);

impl Deferring {
    fn has(&self, id: NamespaceId) -> bool {
        self.0.iter().any(|(other, _)| *other == id)
    }

    /// After a round: each client that waited and waits no longer was told of.
    fn note(
        &mut self,
        node: &mut Node,
        clients: impl Iterator<Item = (NamespaceId, ClientId)>,
    ) -> Result<(), String> {
        let told: BTreeSet<_> = std::iter::from_fn(|| node.poll_caught_up()).collect();
        let waits = |(id, client): &(NamespaceId, ClientId)| node.command_wait(*id, *client).is_some();
        let silent = self.0.iter().find(|client| !waits(client) && !told.contains(client));
        if let Some(client) = silent {
            return Err(format!("the node tells of a client that has caught up: not of {client:?}"));
        }
        self.0.extend(clients);
        self.0.retain(waits);
        Ok(())
    }

    /// The node is gone.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// One round, from its first input on.
#[derive(Debug)]
pub(super) struct Round {
    plan: RoundPlan,
    clients: BTreeSet<(NamespaceId, ClientId)>,
    /// The namespaces that brought something, each with the client that brought one command and nothing else.
    brought: BTreeMap<NamespaceId, Option<ClientId>>,
    /// The client whose one command was not taken in, though it was its turn.
    left: Option<(NamespaceId, ClientId)>,
    was_behind: bool,
    has_changes: bool,
    /// Something was on its way to the disk before.
    was_writing: bool,
}

impl Round {
    /// Gives the node what it may do in a round that takes in these.
    pub(super) fn begin<'a>(
        node: &mut Node,
        plan: RoundPlan,
        work: Option<u64>,
        expected: impl Iterator<Item = &'a NamespaceId>,
    ) -> Self {
        if let Some(work) = work {
            node.set_work_budget(WorkBudget::new(Work(work)));
        }
        expected.for_each(|id| node.expect_batch(*id));
        Self {
            plan,
            clients: BTreeSet::new(),
            brought: BTreeMap::new(),
            left: None,
            was_behind: plan.is_behind(node),
            has_changes: false,
            was_writing: node.journal().durable() < node.journal().end(),
        }
    }

    /// The planted fault: whether the batch stays where it is, and with it all behind it.
    pub(super) fn leaves(&mut self, id: NamespaceId, batch: &Batch) -> bool {
        let leaves = self.plan.is_greedy && self.brought.keys().any(|other| *other != id);
        if leaves && batch.commands.len() == 1 && !self.brought.contains_key(&id) {
            self.left = Some((id, batch.client));
        }
        leaves
    }

    /// A batch is about to be handled.
    pub(super) fn brings(&mut self, node: &Node, deferring: &Deferring, id: NamespaceId, batch: &Batch) {
        // Its earlier records may be all that it may have waiting for the disk.
        let waits = self.was_writing && node.namespace(id).is_some_and(|view| view.unwritten_bytes > 0);
        let is_one = batch.commands.len() == 1 && !deferring.has(id) && !waits;
        let only = (is_one && !self.brought.contains_key(&id)).then_some(batch.client);
        self.brought.insert(id, only);
        self.clients.insert((id, batch.client));
    }

    /// A namespace is about to be changed: its definition is a part of its share.
    pub(super) fn changes(&mut self) {
        self.has_changes = true;
    }

    /// After the round.
    pub(super) fn end(self, node: &mut Node, deferring: &mut Deferring) -> Result<(), String> {
        deferring.note(node, self.clients.into_iter())?;
        if self.was_behind || self.has_changes || self.plan.is_behind(node) {
            return Ok(());
        }
        let taken_in = self.brought.into_iter().filter_map(|(id, client)| Some((id, client?)));
        // One that needs what is read from the disk was looked at.
        let waits = |(id, client): &(NamespaceId, ClientId)| {
            node.command_wait(*id, *client) == Some(CommandWait::NextRound)
        };
        match taken_in.filter(waits).chain(self.left).next() {
            Some(who) => Err(format!("a namespace with one command is served within one round: {who:?}")),
            None => Ok(()),
        }
    }
}
