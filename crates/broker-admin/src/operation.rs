//! Management operation: the state machine from a request to its response, one query of the core a step.
//!
//! Invariant: each exchange ends after at most twice [`change::ATTEMPTS_MAX`] questions to the core, or one for each
//! slice of a page. What changes an entity was computed from the very state that it replaces.

use broker_core::{
    Command, Effect, EntityError, EntityKind, EntityPath, EntityQuery, EntityReport, EntitySettings,
    RULES_PER_TOPIC, Rule, StoredRule, SubQueue, Ticket, Timestamp,
};
use broker_filter::Filter;
use roxmltree::Node;

use crate::{
    Answer, Host, Match, Namespace, Query, Route, condition, description,
    entries::{Context, described_rule},
    paging::{Collection, PageBuilder, PageProgress},
    rule, xml,
};

mod change;
mod delete;

use change::Change;
use delete::PendingDelete;

/// The verbs of the API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Show.
    Get,
    /// Create, or update with `If-Match`.
    Put,
    Delete,
}

/// A request that has been admitted.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub method: Method,
    pub route: Route,
    /// Options.
    pub query: Query,
    /// Its header `If-Match`, if it has one: an existing entity is meant, or one in this state.
    pub condition: Option<Match>,
    /// The body; empty where there is none.
    pub body: &'a [u8],
    /// Scheme, host and port to which it was sent.
    pub host: Host,
    pub namespace: Namespace,
    pub now: Timestamp,
}

/// Next step of an operation. A list is made in slices, each with a query of its own, so that a long list holds up
/// neither the core nor the thread that formats it: other work runs between two steps.
#[derive(Debug)]
pub enum Step {
    Answer(Answer),
    /// Give the commands to the core, in one batch, and their effects to [`Pending::resume`], the last one last.
    Ask(Vec<Command>, Box<Pending>),
}

/// An exchange that waits for the core.
#[derive(Debug)]
pub struct Pending {
    context: Context,
    awaiting: Awaiting,
}

/// Meaning of the effect that the operation awaits.
#[derive(Debug)]
enum Awaiting {
    /// The queue or topic to show. The service answers an empty feed where there is none.
    Entity,
    /// The subscription to show. The service answers 404 where there is none.
    Subscription {
        name: Box<str>,
    },
    /// The next entities to list.
    Page(PageBuilder),
    /// The entity as it is before it is changed.
    Before(Box<Change>),
    /// The entity as it was stored, to show with this status.
    Stored {
        name: Box<str>,
        status: u16,
        change: Option<Box<Change>>,
    },
    /// The entity as it is before it is deleted.
    PendingDelete(PendingDelete),
    /// The rule as it is before it is deleted.
    PendingRuleDelete(EntityPath, PendingDelete),
    /// That an entity or rule is gone.
    Gone,
    RulePage {
        path: String,
    },
    /// The rule to show. The service answers 404 where there is none.
    Rule {
        path: EntityPath,
        name: Box<str>,
    },
    /// The rule as it is before it is changed to this one.
    RuleBefore {
        path: EntityPath,
        rule: Box<Rule>,
        condition: Match,
    },
    /// The rule as it was stored, to show with this status.
    RuleStored {
        path: EntityPath,
        name: Box<str>,
        status: u16,
        is_correlation: bool,
    },
}

/// The client has one request at a time, so one number is enough.
pub(crate) const TICKET: Ticket = Ticket(0);

/// Begins an exchange.
pub fn begin(request: Request<'_>) -> Step {
    let Request { method, route, query, condition, body, host, namespace, now } = request;
    let context = Context { host, query, now };
    if let Some(name) = route.entity().filter(|name| !context.query.names.includes(name)) {
        return Step::Answer(unspelled(&context, method, &route, name, condition.is_some()));
    }
    match (method, route) {
        (Method::Get, Route::Namespace) => Step::Answer(context.namespace(namespace)),
        (Method::Get, Route::List(kind)) => list(context, PageBuilder::of(Collection::Kind(kind))),
        (Method::Get, Route::Subscriptions(topic)) => {
            list(context, PageBuilder::of(Collection::Subscriptions(topic)))
        }
        (Method::Get, Route::Entity(name)) => {
            let command = describe(&name);
            context.ask(command, Awaiting::Entity)
        }
        (Method::Get, Route::Subscription(name)) => {
            let command = describe(&name);
            context.ask(command, Awaiting::Subscription { name })
        }
        (Method::Get, Route::Rules(subscription)) => list_rules(context, &subscription),
        (Method::Get, Route::Rule(subscription, name)) => {
            let path = main_path(&subscription);
            context.ask(show_rule(&path, &name), Awaiting::Rule { path, name })
        }
        (Method::Put, Route::Entity(name)) => put(context, name, condition, body, false),
        (Method::Put, Route::Subscription(name)) => put(context, name, condition, body, true),
        (Method::Put, Route::Rule(subscription, name)) => {
            put_rule(context, &subscription, Some(&name), condition, body)
        }
        // The Go SDK says in the description alone what a rule is called that its caller gave no name. To change one so
        // is refused by the service.
        (Method::Put, Route::Rules(subscription)) if condition.is_none() => {
            put_rule(context, &subscription, None, condition, body)
        }
        (Method::Delete, Route::Entity(name) | Route::Subscription(name)) => {
            delete::entity(context, name, condition)
        }
        (Method::Delete, Route::Rule(subscription, name)) => {
            delete::rule(context, &subscription, name, condition)
        }
        _ => Step::Answer(Answer::error(405, "Method Not Allowed. The path does not take this method.")),
    }
}

/// The answer to a request for an entity whose name Service Bus cannot spell: as if there was none.
fn unspelled(context: &Context, method: Method, route: &Route, name: &str, is_update: bool) -> Answer {
    match (method, route) {
        (Method::Get, Route::Entity(_) | Route::Rules(_)) => context.empty_feed(),
        (Method::Get, Route::Subscriptions(topic)) => {
            PageBuilder::of(Collection::Subscriptions(topic.clone())).empty(context)
        }
        (Method::Get, Route::Subscription(whole)) => Answer::missing(whole),
        (Method::Get, Route::Rule(_, rule)) => Answer::missing(rule),
        (Method::Put, Route::Entity(_)) if !is_update => {
            Answer::refused(&EntityError::InvalidName(name.into()))
        }
        _ => Answer::missing(name),
    }
}

impl Answer {
    /// The answer to a path or options that make no sense.
    pub fn bad_request(reason: &str) -> Self {
        Self::bad(reason)
    }
}

impl Context {
    fn ask(self, command: Command, awaiting: Awaiting) -> Step {
        Step::Ask(vec![command], Box::new(Pending { context: self, awaiting }))
    }
}

fn main_path(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::Main }
}

fn describe(name: &str) -> Command {
    Command::Describe { query: EntityQuery::One { name: name.into() }, ticket: TICKET }
}

fn show_rule(path: &EntityPath, name: &str) -> Command {
    Command::ShowRule { path: path.clone(), name: name.into(), ticket: TICKET }
}

/// Asks for the first entities of a list, or for the next.
fn list(context: Context, page: PageBuilder) -> Step {
    let query = page.entity_query(&context.query);
    context.ask(Command::Describe { query, ticket: TICKET }, Awaiting::Page(page))
}

fn list_rules(context: Context, subscription: &str) -> Step {
    let (skip, top) = (context.query.skip, context.query.top.saturating_add(1));
    let command = Command::ListRules { path: main_path(subscription), skip, top, ticket: TICKET };
    context.ask(command, Awaiting::RulePage { path: format!("{subscription}/Rules") })
}

/// Does `then` with the element that a body is about.
fn with_description<T>(
    body: &[u8],
    then: impl FnOnce(Node<'_, '_>) -> Result<T, String>,
) -> Result<T, String> {
    let read = xml::with_document(body, |document| match description::described(document) {
        Some(node) => then(node),
        None => Err("the body has no description of an entity".to_owned()),
    });
    read.map_err(|error| error.to_string())?
}

fn put(
    context: Context,
    name: Box<str>,
    condition: Option<Match>,
    body: &[u8],
    is_subscription: bool,
) -> Step {
    let read = with_description(body, |node| {
        let default_rule = xml::child(node, rule::DEFAULT_RULE);
        let rule = default_rule.map(|node| rule::read(node, None)).transpose()?;
        let read = if condition.is_some() { description::read_update } else { description::read };
        Ok((read(node)?, rule))
    });
    let (mut description, rule) = match read {
        Ok(read) => read,
        Err(reason) => return Step::Answer(Answer::bad(&reason)),
    };
    if (description.kind == EntityKind::Subscription) != is_subscription {
        return Step::Answer(Answer::bad("the description does not fit the path"));
    }
    if !context.query.is_total_size {
        description.take_size_as_of_partition();
    }
    if let Some(condition) = condition {
        return Change::new(name, description, condition).begin(context);
    }
    let kind = description.kind;
    let (settings, ticket) = (Box::new(description.created()), TICKET);
    if let Err(error) = context.check_targets(&settings, None) {
        return Step::Answer(Answer::refused(&error));
    }
    let command = match rule {
        Some(rule) if is_subscription => {
            Command::CreateSubscription { name: name.clone(), settings, rules: vec![rule], ticket }
        }
        _ => Command::CreateEntity { name: name.clone(), kind, settings, ticket },
    };
    context.store(command, name, 201, None)
}

/// `name` is the rule's name in the path, if it has one there.
fn put_rule(
    context: Context,
    subscription: &str,
    name: Option<&str>,
    condition: Option<Match>,
    body: &[u8],
) -> Step {
    let read = with_description(body, |node| match name.or_else(|| xml::text_of(node, "Name")) {
        Some(name) => rule::read(node, Some(name)),
        None => Err("the rule has no name".to_owned()),
    });
    let rule = match read {
        Ok(rule) => Box::new(rule),
        Err(reason) => return Step::Answer(Answer::bad(&reason)),
    };
    let path = main_path(subscription);
    match condition {
        None => {
            let command = Command::AddRule { path: path.clone(), rule: rule.clone(), ticket: TICKET };
            context.store_rule(command, path, &rule, 201)
        }
        Some(Match::Any) => context.update_rule(path, &rule, None),
        Some(condition) => {
            context.ask(show_rule(&path, &rule.name), Awaiting::RuleBefore { path, rule, condition })
        }
    }
}

impl Context {
    /// Refuses to forward to an entity that the request cannot spell, as to one that is missing. A target that the entity has
    /// stays: `before`.
    fn check_targets(
        &self,
        settings: &EntitySettings,
        before: Option<&EntitySettings>,
    ) -> Result<(), EntityError> {
        let targets = [
            ("ForwardTo", &settings.forward_to, before.map(|it| &it.forward_to)),
            (
                "ForwardDeadLetteredMessagesTo",
                &settings.forward_dead_lettered_to,
                before.map(|it| &it.forward_dead_lettered_to),
            ),
        ];
        for (property, target, before) in targets {
            if let Some(target) = target.as_ref().filter(|target| !self.query.names.includes(target))
                && before.is_none_or(|before| before.as_ref() != Some(target))
            {
                return Err(EntityError::ForwardTargetMissing { property, target: target.clone() });
            }
        }
        Ok(())
    }

    /// Changes or makes an entity, and shows it as it is then.
    fn store(self, command: Command, name: Box<str>, status: u16, change: Option<Box<Change>>) -> Step {
        let commands = vec![command, describe(&name)];
        let awaiting = Awaiting::Stored { name, status, change };
        Step::Ask(commands, Box::new(Pending { context: self, awaiting }))
    }

    fn update_rule(self, path: EntityPath, rule: &Rule, expected: Option<Box<StoredRule>>) -> Step {
        let (path_of_it, changed) = (path.clone(), Box::new(rule.clone()));
        let command = Command::UpdateRule { path: path_of_it, rule: changed, expected, ticket: TICKET };
        self.store_rule(command, path, rule, 200)
    }

    fn store_rule(self, command: Command, path: EntityPath, rule: &Rule, status: u16) -> Step {
        let commands = vec![command, show_rule(&path, &rule.name)];
        let is_correlation = matches!(rule.filter, Filter::Correlation(_));
        let awaiting = Awaiting::RuleStored { path, name: rule.name.clone(), status, is_correlation };
        Step::Ask(commands, Box::new(Pending { context: self, awaiting }))
    }
}

impl Pending {
    /// Entities that the commands forward messages to: the client needs the right to manage them as well.
    pub fn targets(commands: &[Command]) -> Vec<&str> {
        let settings = commands.iter().filter_map(|command| match command {
            Command::CreateEntity { settings, .. }
            | Command::CreateSubscription { settings, .. }
            | Command::UpdateEntity { settings, .. } => Some(settings),
            _ => None,
        });
        let targets =
            settings.flat_map(|settings| [&settings.forward_to, &settings.forward_dead_lettered_to]);
        targets.flatten().map(|target| &**target).collect()
    }

    /// Whether the commands ask for one slice of a list.
    pub const fn lists(&self) -> bool {
        matches!(self.awaiting, Awaiting::Page(_) | Awaiting::RulePage { .. })
    }

    /// Goes on with the effect that answers the last command, or with the refusal of one.
    pub fn resume(self, effect: Effect) -> Step {
        let Self { context, awaiting } = self;
        match (effect, awaiting) {
            (Effect::RequestRefused { error, .. }, awaiting) => refused(context, awaiting, &error),
            (Effect::EntityDone { .. }, Awaiting::Gone) => Step::Answer(Answer::empty()),
            (Effect::Described { entities, .. }, awaiting) => described(context, awaiting, &entities),
            (Effect::Rules { rules, .. }, awaiting) => ruled(context, awaiting, &rules),
            _ => something_else(),
        }
    }
}

fn something_else() -> Step {
    Step::Answer(Answer::error(500, "SubCode=50000. The broker answered something else."))
}

fn refused(context: Context, awaiting: Awaiting, error: &EntityError) -> Step {
    Step::Answer(match (awaiting, error) {
        // The rules of a missing subscription are listed as none.
        (Awaiting::RulePage { .. }, EntityError::NotFound(_)) => context.empty_feed(),
        (Awaiting::Rule { name, .. }, EntityError::NotFound(_)) => Answer::missing(&name),
        (Awaiting::Stored { change: Some(change), .. }, EntityError::Changed(_)) => {
            return change.again(context);
        }
        (Awaiting::RuleStored { is_correlation: true, .. }, EntityError::LimitReached { what, .. })
            if *what == RULES_PER_TOPIC =>
        {
            Answer::quota(error, 40502)
        }
        _ => Answer::refused(error),
    })
}

fn described(context: Context, awaiting: Awaiting, entities: &[EntityReport]) -> Step {
    match (awaiting, entities.first()) {
        (Awaiting::Entity | Awaiting::Subscription { .. }, Some(report)) => {
            Step::Answer(context.entity(200, report, true))
        }
        (Awaiting::Entity, None) => Step::Answer(context.empty_feed()),
        (Awaiting::Page(page), _) => match page.step(&context, entities) {
            PageProgress::Complete(answer) => Step::Answer(answer),
            PageProgress::Incomplete(page) => list(context, page),
        },
        (Awaiting::Before(change), Some(report)) => change.apply(context, report),
        (Awaiting::PendingDelete(doomed), Some(report)) => doomed.entity(context, report),
        (Awaiting::PendingDelete(doomed), None) => Step::Answer(Answer::missing(&doomed.name)),
        (Awaiting::Stored { status, .. }, Some(report)) => {
            Step::Answer(context.entity(status, report, false))
        }
        (Awaiting::Before(change), None) => Step::Answer(Answer::missing(&change.name)),
        (Awaiting::Subscription { name } | Awaiting::Stored { name, .. }, None) => {
            Step::Answer(Answer::missing(&name))
        }
        _ => something_else(),
    }
}

fn ruled(context: Context, awaiting: Awaiting, rules: &[StoredRule]) -> Step {
    Step::Answer(match (awaiting, rules.first()) {
        (Awaiting::RulePage { path }, _) => context.rules(&path, rules),
        (Awaiting::Rule { path, .. }, Some(stored)) => context.rule(200, &path.entity, stored),
        (Awaiting::RuleBefore { path, rule, condition }, Some(stored)) => {
            if condition.holds(condition::tag_of_text(&described_rule(stored))) {
                return context.update_rule(path, &rule, Some(Box::new(stored.clone())));
            }
            Answer::changed(&rule.name)
        }
        (Awaiting::RuleStored { path, status, .. }, Some(stored)) => {
            context.rule(status, &path.entity, stored)
        }
        (Awaiting::PendingRuleDelete(path, doomed), Some(stored)) => {
            return doomed.rule(context, path, stored);
        }
        (Awaiting::PendingRuleDelete(_, doomed), None) => Answer::missing(&doomed.name),
        (Awaiting::RuleBefore { rule, .. }, None) => Answer::missing(&rule.name),
        (Awaiting::Rule { name, .. } | Awaiting::RuleStored { name, .. }, None) => Answer::missing(&name),
        _ => return something_else(),
    })
}

#[cfg(test)]
mod tests;
