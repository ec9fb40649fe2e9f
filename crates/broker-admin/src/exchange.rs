//! From a request to its answer, step by step.
//!
//! Invariant: each exchange ends after at most three questions to the core, or one for each slice of a page.

use broker_core::{
    Command, Effect, EntityError, EntityKind, EntityPath, EntityReport, Look, StoredRule, SubQueue, Ticket,
    Timestamp,
};
use roxmltree::Node;

use crate::{
    Answer, Query, Route,
    description::{self, Description, Shown},
    feed::{self, Entry},
    listing::{List, Listing, Made},
    rule, xml,
};

/// Where the request was sent: scheme, host and port, from which links and the namespace's name are made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Host {
    base: Box<str>,
}

impl Host {
    /// `authority` is `host` or `host:port`; anything that cannot be one counts as `localhost`.
    pub fn new(is_tls: bool, authority: &str) -> Self {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
        let good = !authority.is_empty() && authority.len() <= 260 && authority.chars().all(is_good);
        let authority = if good { authority } else { "localhost" };
        let scheme = if is_tls { "https" } else { "http" };
        Self { base: format!("{scheme}://{authority}").into() }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The first label of the host.
    pub(crate) fn namespace(&self) -> &str {
        let authority = self.base.split_once("://").map_or("", |(_, authority)| authority);
        authority.split(['.', ':']).next().filter(|name| !name.is_empty()).unwrap_or("localhost")
    }
}

/// The verbs of the API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Show.
    Get,
    /// Create, or update with `If-Match`.
    Put,
    /// Delete.
    Delete,
}

/// A request that has been admitted.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What to do.
    pub method: Method,
    /// With what.
    pub route: Route,
    /// Options.
    pub query: Query,
    /// Whether it has a header `If-Match`: an existing entity is meant.
    pub is_update: bool,
    /// The body; empty where there is none.
    pub body: &'a [u8],
    /// Where it was sent.
    pub host: Host,
    /// Now.
    pub now: Timestamp,
}

/// What comes next. A list is made in slices, each with a question of its own, so that neither the core nor who makes the
/// text of it is kept from others for long: let others have their turn between two steps.
#[derive(Debug)]
pub enum Step {
    /// The answer.
    Answer(Answer),
    /// Give the commands to the core, in one batch, and their effects to [`Pending::resume`], the last one last.
    Ask(Vec<Command>, Box<Pending>),
}

/// An exchange that waits for the core.
#[derive(Debug)]
pub struct Pending {
    context: Context,
    want: Want,
}

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) host: Host,
    pub(crate) query: Query,
    pub(crate) now: Timestamp,
}

/// What the effect that is waited for means.
#[derive(Debug)]
enum Want {
    /// The entity to show with this status.
    Entity { name: Box<str>, status: u16, with_counts: bool },
    /// The next entities to list.
    Page(Listing),
    /// The entity as it is before it gets this description.
    Before { name: Box<str>, description: Box<Description> },
    /// That the entity was created or updated.
    Stored { name: Box<str>, status: u16 },
    /// That an entity or rule is gone.
    Gone,
    /// The rules to list.
    RulePage { path: String },
    /// The rules, among them the one to show with this status.
    Rule { path: EntityPath, name: Box<str>, status: u16 },
    /// That a rule was stored.
    RuleStored { path: EntityPath, name: Box<str>, status: u16 },
}

/// Nobody else waits for tickets of the same client, so one number is enough.
pub(crate) const TICKET: Ticket = Ticket(0);
/// More rules than a subscription can have.
const ALL_RULES: u64 = u64::MAX;

/// Begins an exchange.
pub fn begin(request: Request<'_>) -> Step {
    let Request { method, route, query, is_update, body, host, now } = request;
    let context = Context { host, query, now };
    match (method, route) {
        (Method::Get, Route::Namespace) => Step::Answer(namespace(&context)),
        (Method::Get, Route::List(kind)) => list(context, Listing::of(List::Kind(kind))),
        (Method::Get, Route::Subscriptions(topic)) => list(context, Listing::of(List::Subscriptions(topic))),
        (Method::Get, Route::Entity(name) | Route::Subscription(name)) => context.show(name, 200, true),
        (Method::Get, Route::Rules(subscription)) => list_rules(context, &subscription),
        (Method::Get, Route::Rule(subscription, name)) => {
            context.show_rule(main_path(&subscription), name, 200)
        }
        (Method::Put, Route::Entity(name)) => put(context, name, is_update, body, false),
        (Method::Put, Route::Subscription(name)) => put(context, name, is_update, body, true),
        (Method::Put, Route::Rule(subscription, name)) => {
            put_rule(context, &subscription, &name, is_update, body)
        }
        (Method::Delete, Route::Entity(name) | Route::Subscription(name)) => {
            context.ask(Command::DeleteEntity { name, ticket: TICKET }, Want::Gone)
        }
        (Method::Delete, Route::Rule(subscription, name)) => {
            let path = main_path(&subscription);
            context.ask(Command::RemoveRule { path, name, ticket: TICKET }, Want::Gone)
        }
        _ => Step::Answer(Answer::error(405, "SubCode=40500. The method is not allowed for this path.")),
    }
}

impl Answer {
    /// The answer to options that make no sense.
    pub fn bad_query(reason: &str) -> Self {
        Self::bad(reason)
    }
}

impl Context {
    fn ask(self, command: Command, want: Want) -> Step {
        Step::Ask(vec![command], Box::new(Pending { context: self, want }))
    }

    fn show(self, name: Box<str>, status: u16, with_counts: bool) -> Step {
        let look = Look::One { name: name.clone() };
        self.ask(Command::Describe { look, ticket: TICKET }, Want::Entity { name, status, with_counts })
    }

    fn show_rule(self, path: EntityPath, name: Box<str>, status: u16) -> Step {
        let command = Command::ListRules { path: path.clone(), skip: 0, top: ALL_RULES, ticket: TICKET };
        self.ask(command, Want::Rule { path, name, status })
    }

    /// One entity as the answer.
    fn entity(&self, status: u16, report: &EntityReport, with_counts: bool) -> Answer {
        let body = feed::alone(&self.host, &self.query, entry_of(report), |out| {
            description::write(out, Shown { report, query: &self.query, with_counts });
        });
        Answer::entry(status, body, report.updated_at.as_millis())
    }

    /// One rule as the answer.
    fn rule(&self, status: u16, subscription: &str, stored: &StoredRule) -> Answer {
        let path = rule_path(subscription, stored);
        let body =
            feed::alone(&self.host, &self.query, rule_entry(&path, stored), |out| rule::write(out, stored));
        Answer::entry(status, body, stored.created_at.as_millis())
    }

    /// Rules as the answer, one of which may only show that there are more than were asked for.
    fn rules(&self, path: &str, rules: &[StoredRule]) -> Answer {
        let subscription = path.rsplit_once('/').map_or("", |(subscription, _)| subscription);
        let top = usize::try_from(self.query.top).unwrap_or(usize::MAX);
        let shown = rules.get(..top).unwrap_or(rules);
        let has_more = rules.len() > shown.len();
        let page = feed::Page { title: "Rules", path, shown: shown.len() as u64, has_more };
        let mut out = String::new();
        feed::put_head(&mut out, &self.host, &self.query, self.now, page);
        for stored in shown {
            let path = rule_path(subscription, stored);
            let entry = rule_entry(&path, stored);
            feed::put_entry(&mut out, &self.host, &self.query, entry, |out| rule::write(out, stored));
        }
        out.push_str(feed::END);
        Answer::feed(vec![out])
    }

    fn nothing(&self) -> Answer {
        Answer::feed(vec![feed::nothing(self.now, self.now.as_millis())])
    }
}

/// What the entry of an entity says in front.
pub(crate) fn entry_of(report: &EntityReport) -> Entry<'_> {
    let title = match report.kind {
        EntityKind::Subscription => report.name.rsplit('/').next().unwrap_or_default(),
        EntityKind::Queue | EntityKind::Topic => &report.name,
    };
    Entry {
        path: &report.name,
        title,
        published: Some(report.created_at),
        updated: report.updated_at,
        has_author: report.kind != EntityKind::Subscription,
    }
}

fn rule_path(subscription: &str, stored: &StoredRule) -> String {
    format!("{subscription}/Rules/{}", stored.rule.name)
}

fn rule_entry<'a>(path: &'a str, stored: &'a StoredRule) -> Entry<'a> {
    let title = &stored.rule.name;
    Entry { path, title, published: Some(stored.created_at), updated: stored.created_at, has_author: false }
}

fn main_path(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::Main }
}

fn namespace(context: &Context) -> Answer {
    let name = context.host.namespace();
    let mut description =
        format!("<NamespaceInfo xmlns=\"{}\" xmlns:i=\"{}\">", xml::SERVICE_BUS, xml::INSTANCE);
    let created = crate::time::format(Timestamp::from_millis(0));
    let elements = [
        ("CreatedTime", &*created),
        ("MessagingSKU", "Standard"),
        ("ModifiedTime", &*created),
        ("Name", name),
        ("NamespaceType", "Messaging"),
    ];
    for (element, text) in elements {
        xml::element(&mut description, element, text);
    }
    description.push_str("</NamespaceInfo>");
    let updated = Timestamp::from_millis(0);
    let entry = Entry { path: "$namespaceinfo", title: name, published: None, updated, has_author: true };
    let body = feed::alone(&context.host, &context.query, entry, |out| out.push_str(&description));
    Answer::entry(200, body, updated.as_millis())
}

/// Asks for the first entities of a list, or for the next.
fn list(context: Context, listing: Listing) -> Step {
    let look = listing.look(&context.query);
    context.ask(Command::Describe { look, ticket: TICKET }, Want::Page(listing))
}

fn list_rules(context: Context, subscription: &str) -> Step {
    let (skip, top) = (context.query.skip, context.query.top.saturating_add(1));
    let command = Command::ListRules { path: main_path(subscription), skip, top, ticket: TICKET };
    context.ask(command, Want::RulePage { path: format!("{subscription}/Rules") })
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

fn put(context: Context, name: Box<str>, is_update: bool, body: &[u8], is_subscription: bool) -> Step {
    let read = with_description(body, |node| {
        let default_rule = xml::child(node, "DefaultRuleDescription");
        let rule = default_rule.map(|node| rule::read(node, None)).transpose()?;
        let read = if is_update { description::read_update } else { description::read };
        Ok((read(node)?, rule))
    });
    let (description, rule) = match read {
        Ok(read) => read,
        Err(reason) => return Step::Answer(Answer::bad(&reason)),
    };
    if (description.kind == EntityKind::Subscription) != is_subscription {
        return Step::Answer(Answer::bad("the description does not fit the path"));
    }
    if is_update {
        let look = Look::One { name: name.clone() };
        let want = Want::Before { name, description: Box::new(description) };
        return context.ask(Command::Describe { look, ticket: TICKET }, want);
    }
    let Description { kind, settings, .. } = description;
    let (settings, ticket) = (Box::new(settings), TICKET);
    let command = match rule {
        Some(rule) if is_subscription => {
            Command::CreateSubscription { name: name.clone(), settings, rules: vec![rule], ticket }
        }
        _ => Command::CreateEntity { name: name.clone(), kind, settings, ticket },
    };
    context.ask(command, Want::Stored { name, status: 201 })
}

fn put_rule(context: Context, subscription: &str, name: &str, is_update: bool, body: &[u8]) -> Step {
    let rule = match with_description(body, |node| rule::read(node, Some(name))) {
        Ok(rule) => rule,
        Err(reason) => return Step::Answer(Answer::bad(&reason)),
    };
    let path = main_path(subscription);
    if is_update {
        let want = Want::RuleStored { path: path.clone(), name: rule.name.clone(), status: 200 };
        return context.ask(Command::UpdateRule { path, rule: Box::new(rule), ticket: TICKET }, want);
    }
    let want = Want::RuleStored { path: path.clone(), name: rule.name.clone(), status: 201 };
    context.ask(Command::AddRule { path, rule: Box::new(rule), ticket: TICKET }, want)
}

impl Pending {
    /// Entities that the commands forward messages to: who asks has to manage them as well.
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

    /// Goes on with the effect that answers the last command.
    pub fn resume(self, effect: Effect) -> Step {
        let Self { context, want } = self;
        match effect {
            Effect::RequestRefused { error, .. } => Step::Answer(refused(&context, &want, &error)),
            Effect::EntityDone { .. } => done(context, want),
            Effect::Described { entities, .. } => described(context, want, &entities),
            Effect::Rules { rules, .. } => ruled(&context, want, &rules),
            _ => Step::Answer(Answer::error(500, "SubCode=50000. The broker answered something else.")),
        }
    }
}

/// To look for what does not exist is no error in this API.
fn refused(context: &Context, want: &Want, error: &EntityError) -> Answer {
    match (want, error) {
        (Want::Rule { status: 200, .. } | Want::RulePage { .. }, EntityError::NotFound(_)) => {
            context.nothing()
        }
        _ => Answer::refused(error),
    }
}

fn done(context: Context, want: Want) -> Step {
    match want {
        Want::Stored { name, status } => context.show(name, status, false),
        Want::RuleStored { path, name, status } => context.show_rule(path, name, status),
        _ => Step::Answer(Answer::empty()),
    }
}

fn described(context: Context, want: Want, entities: &[EntityReport]) -> Step {
    match (want, entities.first()) {
        (Want::Entity { status, with_counts, .. }, Some(report)) => {
            Step::Answer(context.entity(status, report, with_counts))
        }
        (Want::Entity { status: 200, .. }, None) => Step::Answer(context.nothing()),
        (Want::Page(listing), _) => match listing.step(&context, entities) {
            Made::Whole(answer) => Step::Answer(answer),
            Made::Part(listing) => list(context, listing),
        },
        (Want::Before { name, mut description }, Some(report)) => {
            if report.kind != description.kind {
                return Step::Answer(Answer::bad("the entity is of another kind than its description"));
            }
            description.keep_fixed(&report.settings);
            if let Err(reason) = description.keep_sizes(report) {
                return Step::Answer(Answer::bad(&reason));
            }
            let settings = Box::new(description.settings);
            let command = Command::UpdateEntity { name: name.clone(), settings, ticket: TICKET };
            context.ask(command, Want::Stored { name, status: 200 })
        }
        (Want::Entity { name, .. } | Want::Before { name, .. }, None) => Step::Answer(Answer::missing(&name)),
        _ => Step::Answer(Answer::error(500, "SubCode=50000. The broker answered something else.")),
    }
}

fn ruled(context: &Context, want: Want, rules: &[StoredRule]) -> Step {
    let find = |name: &str| rules.iter().find(|stored| stored.rule.name.eq_ignore_ascii_case(name));
    match want {
        Want::RulePage { path } => Step::Answer(context.rules(&path, rules)),
        Want::Rule { path, name, status } => Step::Answer(match find(&name) {
            Some(stored) => context.rule(status, &path.entity, stored),
            None if status == 200 => context.nothing(),
            None => Answer::missing(&name),
        }),
        _ => Step::Answer(Answer::error(500, "SubCode=50000. The broker answered something else.")),
    }
}

#[cfg(test)]
mod tests;
