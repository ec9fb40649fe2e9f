//! One node with all namespaces, and beside it one node for each namespace that gets what concerns that one alone.

use broker_core::{
    Batch, Command, Effect, NamespaceDefinition, NamespaceLimit, NamespaceLimits, NamespaceSettings,
    NamespaceSlot, Ticket,
};
use broker_node::{NamespaceCommand, NamespaceId, Released};

use crate::{
    answers::Answers,
    broker::{ADMIN, Broker},
    plan::{Crash, NAMESPACES, Round, Turn},
    state::State,
    tenant::{ENTITIES, Tenant, client},
};

pub(crate) const NAMES: [&str; NAMESPACES] = ["red", "green", "blue"];
/// A node alone has room for everything in one round.
const WIDE: u64 = 4 << 20;
/// Longer than any record waits to be written.
const FLUSH_MS: u64 = 50;

/// One input of a node with one namespace.
#[derive(Clone, Debug)]
enum Input {
    Ask(Batch),
    Change(NamespaceCommand, Ticket),
    Pass,
    Restart,
    /// All messages are peeked at: what is in memory then decides which deliveries wait for the disk.
    Look,
}

/// The node of one namespace, and all that it was ever given: the same inputs give the same node.
struct Alone {
    name: &'static str,
    broker: Broker,
    tenant: Tenant,
    inputs: Vec<(u64, Input)>,
}

impl Alone {
    fn new(name: &'static str) -> Self {
        Self { name, broker: Broker::new(WIDE), tenant: Tenant::default(), inputs: Vec::new() }
    }

    /// The same node, made anew.
    fn again(&self) -> Self {
        let mut again = Self::new(self.name);
        for (now, input) in &self.inputs {
            again.give(*now, input.clone());
        }
        again
    }

    /// Gives it one input, and all the work that follows.
    fn give(&mut self, now: u64, input: Input) -> Vec<Released> {
        self.inputs.push((now, input.clone()));
        let mut shown = Vec::new();
        match input {
            Input::Ask(batch) => {
                let id = self.tenant.id.expect("a namespace");
                self.broker.ask(now, id, batch);
            }
            Input::Change(command, ticket) => self.broker.change(now, command, ticket),
            Input::Pass => {}
            Input::Look => drop(State::of(&mut self.broker, self.tenant.id, now)),
            Input::Restart => {
                self.broker.crash(now, None);
                self.tenant.disconnected();
            }
        }
        self.broker.run(now, &mut shown).expect("nothing kills it");
        self.tenant.id = id_of(&self.broker, self.name);
        shown
    }

    fn state(&mut self, now: u64) -> State {
        self.inputs.push((now, Input::Look));
        State::of(&mut self.broker, self.tenant.id, now)
    }
}

/// Creates the first two namespaces beside the default one.
pub(crate) fn create_two(broker: &mut Broker, now: u64) -> [NamespaceId; 2] {
    for name in &NAMES[..2] {
        let settings = NamespaceSettings::default();
        let put = NamespaceCommand::Put { name: (*name).into(), settings, uid: 7, only_create: true };
        broker.change(now, put, Ticket(1));
    }
    broker.run(now, &mut Vec::new()).unwrap();
    [0, 1].map(|at| id_of(broker, NAMES[at]).unwrap())
}

/// Id of the namespace with this name.
pub(crate) fn id_of(broker: &Broker, name: &str) -> Option<NamespaceId> {
    broker.node.namespaces().find(|view| &*view.definition.name == name).map(|view| view.id)
}

fn definition(broker: &Broker, name: &str) -> Option<NamespaceDefinition> {
    let found = broker.node.namespaces().find(|view| &*view.definition.name == name)?;
    // The slot depends on the others.
    Some(NamespaceDefinition { slot: NamespaceSlot::DEFAULT, ..found.definition.clone() })
}

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) tenants: [Tenant; NAMESPACES],
    alone: [Alone; NAMESPACES],
    pub(crate) now: u64,
    tickets: u64,
    uids: u128,
    /// The process was killed in the last round, and not only after it.
    pub(crate) was_killed: bool,
    /// An id whose namespace is gone.
    stale: Option<NamespaceId>,
}

/// Inputs handed to each namespace in a round.
type Handed = [Vec<Input>; NAMESPACES];

impl World {
    /// `budgets` are those of the rounds of the node with all namespaces. The others have no bound.
    pub(crate) fn new(round_bytes: u64, budgets: Vec<u64>) -> Self {
        Self {
            broker: Broker::new(round_bytes).with_budgets(budgets),
            tenants: Default::default(),
            alone: NAMES.map(Alone::new),
            now: 1_000_000,
            tickets: 0,
            uids: 0,
            was_killed: false,
            stale: None,
        }
    }

    pub(crate) fn play(&mut self, round: &Round) {
        self.pass(round.pass_ms);
        if let Some(crash) = round.crash {
            self.broker.kill_after(crash.after, crash.seed);
        }
        let mut handed = Handed::default();
        for step in 0..NAMESPACES {
            let at = (round.first + step) % NAMESPACES;
            handed[at] = self.hand_in(at, &round.turns[at]);
        }
        let mut shown = Vec::new();
        self.was_killed = self.broker.run(self.now, &mut shown).is_err();
        assert!(!self.was_killed || round.crash.is_some());
        self.check_recipients(&shown);
        match round.crash {
            Some(crash) => self.crash(crash, handed, &shown),
            None => self.compare(handed, &shown),
        }
        if let Some(crossing) = round.crossing {
            self.cross(crossing);
        }
        self.check();
    }

    /// In the end everything that is left comes again to clients that come again.
    pub(crate) fn end(&mut self) {
        let nothing = Handed::default();
        self.crash(Crash { after: 0, again: None, seed: 1 }, nothing, &[]);
        self.pass(120_000);
        self.check();
    }

    /// Time passes for all, and what is due is done and written: records for which nobody waits are written a little later.
    fn pass(&mut self, millis: u64) {
        self.advance(millis);
        self.advance(FLUSH_MS);
    }

    fn advance(&mut self, millis: u64) {
        self.now += millis;
        let mut shown = Vec::new();
        self.broker.run(self.now, &mut shown).expect("nothing kills it");
        let handed = [const { Input::Pass }; NAMESPACES].map(|input| vec![input]);
        self.compare(handed, &shown);
    }

    /// Hands the turn of one namespace to the node, and gives what its own node is to get.
    fn hand_in(&mut self, at: usize, turn: &Turn) -> Vec<Input> {
        let ticket = self.tickets;
        self.tickets += 100;
        match turn {
            Turn::Nothing => Vec::new(),
            Turn::Ask { client, ops, peek } => {
                let batch = self.tenants[at].batch(self.now, *client, (ops, *peek), ticket);
                let own = self.alone[at].tenant.batch(self.now, *client, (ops, *peek), ticket);
                self.ask(at, batch, own)
            }
            Turn::Request { client, request } => {
                let batch = self.tenants[at].request(self.now, *client, request, Ticket(ticket + 1));
                let own = self.alone[at].tenant.request(self.now, *client, request, Ticket(ticket + 1));
                self.ask(at, batch, own)
            }
            Turn::DeleteQueue { client: number } => {
                let (name, ticket) = (ENTITIES[*number].into(), Ticket(ticket + 1));
                let commands = vec![Command::DeleteEntity { name, expected: None, ticket }];
                let batch = Batch { client: client(*number), commands };
                self.ask(at, batch.clone(), batch)
            }
            Turn::Put { entities, bytes, weight, held } => {
                self.uids += 1;
                let limits = NamespaceLimits::default()
                    .with(NamespaceLimit::Entities, *entities)
                    .with(NamespaceLimit::Bytes, *bytes);
                let hostnames = vec![format!("{}.example", NAMES[at]).into()];
                let settings = NamespaceSettings { hostnames, weight: *weight, held: *held, limits };
                // Ids that differ in both halves.
                let uid = self.uids << 64 | self.uids;
                let name = NAMES[at].into();
                let command = NamespaceCommand::Put { name, settings, uid, only_create: false };
                self.change(command, Ticket(ticket + 1))
            }
            Turn::Delete => {
                self.change(NamespaceCommand::Delete { name: NAMES[at].into() }, Ticket(ticket + 1))
            }
        }
    }

    fn ask(&mut self, at: usize, batch: Batch, own: Batch) -> Vec<Input> {
        if let Some(id) = self.tenants[at].id {
            self.broker.ask(self.now, id, batch);
            return vec![Input::Ask(own)];
        }
        // An id that is gone reaches nothing, whichever namespace is in its slot now.
        if let Some(stale) = self.stale {
            self.broker.ask(self.now, stale, batch);
        }
        Vec::new()
    }

    fn change(&mut self, command: NamespaceCommand, ticket: Ticket) -> Vec<Input> {
        self.broker.change(self.now, command.clone(), ticket);
        vec![Input::Change(command, ticket)]
    }

    /// Nobody is shown anything but the clients of the namespaces that exist.
    fn check_recipients(&self, shown: &[Released]) {
        for released in shown {
            let is_admin = (released.namespace, released.client) == (NamespaceId::DEFAULT, ADMIN);
            let is_tenant = self.tenants.iter().any(|tenant| tenant.id == Some(released.namespace));
            let is_client = (0..2).any(|number| released.client == client(number));
            assert!(is_admin || (is_tenant && is_client) || is_nobody(released), "{released:?}");
        }
    }

    /// All of it was done: each namespace's own node does the same, and shows the same.
    fn compare(&mut self, handed: Handed, shown: &[Released]) {
        for (at, handed) in handed.into_iter().enumerate() {
            let (before, own_before) = (self.tenants[at].id, self.alone[at].tenant.id);
            self.find(at);
            let mut own = Vec::new();
            for input in handed {
                own.extend(self.alone[at].give(self.now, input));
            }
            for number in 0..2 {
                let (Some(id), Some(own_id)) = (before, own_before) else { continue };
                let effects = Broker::shown_to(shown, id, client(number));
                let own_effects = Broker::shown_to(&own, own_id, client(number));
                assert_eq!(Answers::of(&effects), Answers::of(&own_effects), "{} client {number}", NAMES[at]);
                self.tenants[at].see(number, &effects);
                self.alone[at].tenant.see(number, &own_effects);
            }
            Self::compare_changes(shown, &own);
            if before != self.tenants[at].id {
                self.connect(at);
            }
        }
    }

    /// Looks which id the namespace has now, and keeps an id that is gone.
    fn find(&mut self, at: usize) {
        let found = id_of(&self.broker, NAMES[at]);
        let before = std::mem::replace(&mut self.tenants[at].id, found);
        self.stale = before.filter(|_| before != found).or(self.stale);
    }

    /// The administrator is answered as at the node of one namespace.
    fn compare_changes(shown: &[Released], own: &[Released]) {
        let answers =
            |shown: &[Released]| -> Vec<Effect> { Broker::shown_to(shown, NamespaceId::DEFAULT, ADMIN) };
        let all: Vec<String> = answers(shown).iter().map(change_text).collect();
        for answer in answers(own).iter().map(change_text) {
            assert!(all.contains(&answer), "{answer} is among {all:?}");
        }
    }

    /// The process was killed: of the commands of each namespace the first ones were done, at least those that were
    /// answered; and a change of a namespace was made whole or not at all.
    fn crash(&mut self, crash: Crash, handed: Handed, shown: &[Released]) {
        self.broker.crash(self.now, crash.again);
        for (at, handed) in handed.into_iter().enumerate() {
            let id_before = self.tenants[at].id;
            self.find(at);
            self.tenants[at].disconnected();
            for input in handed {
                self.alone[at] = match input {
                    Input::Ask(batch) => self.asked(at, id_before, &batch, shown),
                    Input::Change(command, ticket) => self.changed(at, &command, ticket, shown),
                    input => panic!("{input:?} is never interrupted"),
                };
            }
            let mut inputs = self.alone[at].inputs.iter().rev().map(|(_, input)| input);
            let last = inputs.find(|input| !matches!(input, Input::Look));
            if last.is_none_or(|input| !matches!(input, Input::Restart)) {
                self.alone[at].give(self.now, Input::Restart);
            }
            self.connect(at);
        }
    }

    /// The own node with as many of the commands as the namespace has kept, started again.
    fn asked(&mut self, at: usize, id: Option<NamespaceId>, batch: &Batch, shown: &[Released]) -> Alone {
        let found = State::of(&mut self.broker, self.tenants[at].id, self.now);
        assert_eq!(id, self.tenants[at].id, "a crash makes or ends no namespace");
        let effects = id.map(|id| Broker::shown_to(shown, id, batch.client)).unwrap_or_default();
        let answered = Answers::of(&effects);
        let is_answered = |command: &Command| {
            ticket(command).is_some_and(|ticket| answered.by_ticket.contains_key(&ticket))
        };
        let answered = batch.commands.iter().rposition(is_answered).map_or(0, |last| last + 1);
        let mut tried = Vec::new();
        for kept in (answered..=batch.commands.len()).rev() {
            let mut alone = self.alone[at].again();
            let commands = batch.commands[..kept].to_vec();
            alone.give(self.now, Input::Ask(Batch { client: batch.client, commands }));
            alone.give(self.now, Input::Restart);
            let state = alone.state(self.now);
            if state == found {
                return alone;
            }
            tried.push(state);
        }
        panic!(
            "{} is not what {answered} or more of {batch:?} make: {found:#?}, alone: {tried:#?}",
            NAMES[at]
        );
    }

    /// The own node with the change, if the namespace has kept it, started again.
    fn changed(
        &mut self,
        at: usize,
        command: &NamespaceCommand,
        number: Ticket,
        shown: &[Released],
    ) -> Alone {
        let found =
            (definition(&self.broker, NAMES[at]), State::of(&mut self.broker, self.tenants[at].id, self.now));
        let answers = Broker::shown_to(shown, NamespaceId::DEFAULT, ADMIN);
        let is_answered = answers.iter().any(|effect| {
            matches!(effect, Effect::NamespaceDone { ticket, .. } | Effect::NamespaceRefused { ticket, .. } if *ticket == number)
        });
        let with = [true, false].into_iter().take(if is_answered { 1 } else { 2 });
        let mut tried = Vec::new();
        for is_kept in with {
            let mut alone = self.alone[at].again();
            if is_kept {
                alone.give(self.now, Input::Change(command.clone(), number));
            }
            alone.give(self.now, Input::Restart);
            let state = (definition(&alone.broker, NAMES[at]), alone.state(self.now));
            if state == found {
                return alone;
            }
            tried.push(state);
        }
        panic!("{command:?} (answered: {is_answered}) was kept by half: {found:#?}, alone: {tried:#?}");
    }

    /// The clients of a namespace come back.
    fn connect(&mut self, at: usize) {
        self.tenants[at].disconnected();
        self.alone[at].tenant.disconnected();
        let (Some(id), Some(own_id)) = (self.tenants[at].id, self.alone[at].tenant.id) else { return };
        for number in 0..2 {
            let mut shown = Vec::new();
            self.broker.ask(self.now, id, Tenant::connect(number));
            self.broker.run(self.now, &mut shown).expect("nothing kills it");
            let own = self.alone[at].give(self.now, Input::Ask(Tenant::connect(number)));
            let effects = Broker::shown_to(&shown, id, client(number));
            let own = Broker::shown_to(&own, own_id, client(number));
            assert_eq!(Answers::of(&effects), Answers::of(&own), "{} client {number} comes back", NAMES[at]);
            self.tenants[at].see(number, &effects);
            self.alone[at].tenant.see(number, &own);
        }
    }

    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Each namespace is what it is alone, its counts are its own, and the accounts are right.
    fn check(&mut self) {
        for (alone, tenant) in self.alone.iter_mut().zip(&self.tenants) {
            let (name, found) = (alone.name, State::of(&mut self.broker, tenant.id, self.now));
            assert_eq!(found, alone.state(self.now), "the state of {name}");
            assert_eq!(definition(&self.broker, name), definition(&alone.broker, name));
        }
        assert_eq!(self.broker.node.core().entity_count(), 0, "nothing came to the default namespace");
        self.broker.check_accounts();
    }
}

/// Answers to the deletion of what a namespace held: for no client.
fn is_nobody(released: &Released) -> bool {
    released.client.0 == u64::MAX - 1
}

/// An answer about a namespace, without its slot.
fn change_text(effect: &Effect) -> String {
    match effect {
        Effect::NamespaceDone { ticket, definition, is_new } => {
            let definition = NamespaceDefinition { slot: NamespaceSlot::DEFAULT, ..(**definition).clone() };
            format!("{ticket:?} {is_new} {definition:?}")
        }
        other => format!("{other:?}"),
    }
}

fn ticket(command: &Command) -> Option<u64> {
    match command {
        Command::AddRule { ticket, .. }
        | Command::CancelScheduled { ticket, .. }
        | Command::CreateEntity { ticket, .. }
        | Command::Declare { ticket, .. }
        | Command::DeleteEntity { ticket, .. }
        | Command::DeleteMessages { ticket, .. }
        | Command::Describe { ticket, .. }
        | Command::FindEntity { ticket, .. }
        | Command::GetSessionState { ticket, .. }
        | Command::ListRules { ticket, .. }
        | Command::ListSessions { ticket, .. }
        | Command::Peek { ticket, .. }
        | Command::ReceiveDeferred { ticket, .. }
        | Command::RemoveRule { ticket, .. }
        | Command::RenewLocks { ticket, .. }
        | Command::RenewSession { ticket, .. }
        | Command::Schedule { ticket, .. }
        | Command::SetSessionState { ticket, .. }
        | Command::SettleByToken { ticket, .. }
        | Command::ShowRule { ticket, .. }
        | Command::UpdateEntity { ticket, .. }
        | Command::UpdateRule { ticket, .. } => Some(ticket.0),
        Command::Discharge { ticket, .. }
        | Command::PublishTo { ticket, .. }
        | Command::Settle { ticket, .. } => ticket.map(|ticket| ticket.0),
        // Its part of a transaction is done with the others.
        _ => None,
    }
}
