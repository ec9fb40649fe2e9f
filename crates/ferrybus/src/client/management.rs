//! The management API, one call each.
//!
//! Invariant: what does not exist is said to be missing, with the name that was probably meant.

use broker_admin::client::{
    AnswerError, Described, read_entities, read_entity, read_rule, read_rules, rule_body,
};
use broker_core::{EntityKind, Rule};
use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    BrokerEndpoint,
    http::{Http, HttpRequest, Reply},
};
use crate::{failure::Failure, suggest::suggest};

/// An entity's place in the namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntityRef {
    pub(crate) kind: EntityKind,
    /// `queue`, `topic` or `topic/Subscriptions/subscription`.
    pub(crate) path: String,
}

impl EntityRef {
    pub(crate) fn new(kind: EntityKind, path: &str) -> Self {
        Self { kind, path: path.trim_matches('/').to_owned() }
    }

    pub(crate) fn subscription(topic: &str, name: &str) -> Self {
        let path = format!("{}/Subscriptions/{}", topic.trim_matches('/'), name.trim_matches('/'));
        Self { kind: EntityKind::Subscription, path }
    }

    /// As errors name it.
    pub(crate) fn label(&self) -> String {
        format!("{} `{}`", word(self.kind), self.short())
    }

    /// The name as people write it: without the fixed word in the middle.
    pub(crate) fn short(&self) -> String {
        self.path.replacen("/Subscriptions/", "/", 1)
    }

    /// The name without the topic in front.
    pub(crate) fn own_name(&self) -> &str {
        match self.kind {
            EntityKind::Subscription => self.path.rsplit('/').next().unwrap_or_default(),
            EntityKind::Queue | EntityKind::Topic => &self.path,
        }
    }

    /// The topic of a subscription.
    fn topic(&self) -> Option<Self> {
        let (topic, _) = self.path.split_once("/Subscriptions/")?;
        (self.kind == EntityKind::Subscription).then(|| Self::new(EntityKind::Topic, topic))
    }

    /// Path of the list of its kind.
    fn list(&self) -> String {
        match self.kind {
            EntityKind::Queue => "$Resources/queues".into(),
            EntityKind::Topic => "$Resources/topics".into(),
            EntityKind::Subscription => {
                let topic = self.topic().map_or(String::new(), |topic| topic.path);
                format!("{topic}/Subscriptions")
            }
        }
    }
}

/// Name of the kind of an entity.
pub(crate) const fn word(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "queue",
        EntityKind::Topic => "topic",
        EntityKind::Subscription => "subscription",
    }
}

/// Which state of something a change is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// There is none yet.
    New,
    /// Any state.
    Any,
    /// The one with this tag.
    Tagged(String),
}

impl State {
    /// The state that an answer shows.
    fn of(reply: &Reply) -> Self {
        reply.etag.clone().map_or(Self::Any, Self::Tagged)
    }

    /// Any state, if `force` is set.
    #[must_use]
    pub(crate) fn unless_forced(self, force: bool) -> Self {
        if force { Self::Any } else { self }
    }

    /// The header `If-Match`.
    fn if_match(&self) -> Option<&str> {
        match self {
            Self::New => None,
            Self::Any => Some("*"),
            Self::Tagged(tag) => Some(tag),
        }
    }

    /// Verb for error texts.
    const fn verb(&self) -> &'static str {
        match self {
            Self::New => "create",
            Self::Any | Self::Tagged(_) => "update",
        }
    }
}

/// The API of one broker.
#[derive(Debug)]
pub(crate) struct Management<'t> {
    http: Http<'t>,
}

impl BrokerEndpoint {
    pub(crate) const fn management(&self) -> Management<'_> {
        Management { http: self.http() }
    }
}

impl Management<'_> {
    /// Description of an entity; `None` if there is none of that name.
    pub(crate) async fn find(&mut self, entity_ref: &EntityRef) -> Result<Option<Described>, Failure> {
        Ok(self.look(entity_ref).await?.map(|(found, _)| found))
    }

    /// Description of an entity, with its state; `None` if there is none of that name.
    async fn look(&mut self, entity_ref: &EntityRef) -> Result<Option<(Described, State)>, Failure> {
        let what = format!("cannot show {}", entity_ref.label());
        let reply = self.send(HttpRequest::new(Method::GET, &url(&entity_ref.path))).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let found = read_entity(&good(&reply, &what)?.body).map_err(|error| unreadable(&what, &error))?;
        match found {
            Some(found) if found.kind != entity_ref.kind => {
                let (is, wanted) = (word(found.kind), word(entity_ref.kind));
                Err(Failure::new(format_args!("`{}` is a {is}, not a {wanted}", entity_ref.short()))
                    .hint(format_args!("`ferrybus {is}` is for it")))
            }
            found => Ok(found.map(|found| (found, State::of(&reply)))),
        }
    }

    /// Description of an entity.
    pub(crate) async fn get(&mut self, entity_ref: &EntityRef) -> Result<Described, Failure> {
        Ok(self.get_state(entity_ref).await?.0)
    }

    /// Description of an entity, with its state.
    pub(crate) async fn get_state(&mut self, entity_ref: &EntityRef) -> Result<(Described, State), Failure> {
        match self.look(entity_ref).await? {
            Some(found) => Ok(found),
            None => Err(self.missing(entity_ref).await),
        }
    }

    /// The failure to find it, or the topic that it would be of, with the name that was probably meant.
    pub(crate) async fn missing(&mut self, entity_ref: &EntityRef) -> Failure {
        if let Some(topic) = entity_ref.topic() {
            match self.look(&topic).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.missing_itself(&topic).await,
                Err(failure) => return failure,
            }
        }
        self.missing_itself(entity_ref).await
    }

    async fn missing_itself(&mut self, entity_ref: &EntityRef) -> Failure {
        let failure = Failure::new(format_args!("there is no {}", entity_ref.label()));
        // That the list cannot be had is no more to tell than that the entity is missing.
        let Ok(all) = self.list(entity_ref).await else { return failure };
        let names = all.iter().map(|entity| entity.name.as_str());
        if let Some(near) = suggest(entity_ref.own_name(), names) {
            return failure.hint(format_args!("did you mean `{near}`?"));
        }
        let of = entity_ref.topic().map_or(String::new(), |topic| format!(" {}", topic.path));
        let word = word(entity_ref.kind);
        failure.hint(format_args!("`ferrybus {word} list{of}` shows those that there are"))
    }

    /// All entities of the kind of this one, and of its topic.
    pub(crate) async fn list(&mut self, like: &EntityRef) -> Result<Vec<Described>, Failure> {
        let what = format!("cannot list {}s", word(like.kind));
        let mut all = Vec::new();
        loop {
            let url = format!("{}&$skip={}&$top={PAGE}", url(&like.list()), all.len());
            let reply = self.send(HttpRequest::new(Method::GET, &url)).await?;
            let page =
                read_entities(&good(&reply, &what)?.body).map_err(|error| unreadable(&what, &error))?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Creates an entity, or replaces the properties of one that is in this state.
    pub(crate) async fn put(
        &mut self,
        entity_ref: &EntityRef,
        entity: &Described,
        state: &State,
    ) -> Result<Described, Failure> {
        let what = format!("cannot {} {}", state.verb(), entity_ref.label());
        let url = format!("{}&total-size=true", url(&entity_ref.path));
        let ask =
            HttpRequest::new(Method::PUT, &url).with_body(ATOM, entity.body()).of_state(state.if_match());
        let reply = self.send(ask).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Err(self.missing(entity_ref).await);
        }
        let stored = read_entity(&good(&reply, &what)?.body).map_err(|error| unreadable(&what, &error))?;
        stored.ok_or_else(|| unreadable(&what, &AnswerError::Nothing))
    }

    /// Deletes an entity that is in this state. The path alone does not say of what kind it is: look before.
    pub(crate) async fn delete(&mut self, entity_ref: &EntityRef, state: &State) -> Result<(), Failure> {
        let url = url(&entity_ref.path);
        let reply = self.send(HttpRequest::new(Method::DELETE, &url).of_state(state.if_match())).await?;
        good(&reply, &format!("cannot delete {}", entity_ref.label())).map(drop)
    }

    /// A rule, and which state of it that is; `None` if the subscription has none of that name.
    pub(crate) async fn find_rule(
        &mut self,
        subscription: &EntityRef,
        name: &str,
    ) -> Result<Option<(Rule, State)>, Failure> {
        let what = format!("cannot show rule `{name}`");
        let reply = self.send(HttpRequest::new(Method::GET, &rule_url(subscription, name))).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let found = read_rule(&good(&reply, &what)?.body).map_err(|error| unreadable(&what, &error))?;
        Ok(found.map(|found| (found, State::of(&reply))))
    }

    pub(crate) async fn rules(&mut self, subscription: &EntityRef) -> Result<Vec<Rule>, Failure> {
        let what = format!("cannot list the rules of {}", subscription.label());
        let mut all = Vec::new();
        loop {
            let path = format!("{}/Rules", subscription.path);
            let url = format!("{}&$skip={}&$top={PAGE}", url(&path), all.len());
            let reply = self.send(HttpRequest::new(Method::GET, &url)).await?;
            let page = read_rules(&good(&reply, &what)?.body).map_err(|error| unreadable(&what, &error))?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Creates a rule, or replaces one that is in this state.
    pub(crate) async fn put_rule(
        &mut self,
        subscription: &EntityRef,
        rule: &Rule,
        state: &State,
    ) -> Result<(), Failure> {
        let what = format!("cannot {} rule `{}`", state.verb(), rule.name);
        let url = rule_url(subscription, &rule.name);
        let ask = HttpRequest::new(Method::PUT, &url).with_body(ATOM, rule_body(rule.clone()));
        let ask = ask.of_state(state.if_match());
        let reply = self.send(ask).await?;
        good(&reply, &what).map(drop)
    }

    /// Deletes a rule that is in this state.
    pub(crate) async fn delete_rule(
        &mut self,
        subscription: &EntityRef,
        name: &str,
        state: &State,
    ) -> Result<(), Failure> {
        let url = rule_url(subscription, name);
        let reply = self.send(HttpRequest::new(Method::DELETE, &url).of_state(state.if_match())).await?;
        good(&reply, &format!("cannot delete rule `{name}`")).map(drop)
    }

    pub(super) async fn send(&mut self, ask: HttpRequest<'_>) -> Result<Reply, Failure> {
        self.http.send(ask).await
    }
}

/// An answer that is no refusal.
pub(super) fn good<'r>(reply: &'r Reply, what: &str) -> Result<&'r Reply, Failure> {
    if reply.status.is_success() { Ok(reply) } else { Err(reply.failure(what)) }
}

fn unreadable(what: &str, error: &AnswerError) -> Failure {
    Failure::new(format_args!("{what}: {error}"))
}

/// The names that Service Bus cannot spell are asked for too.
fn url(path: &str) -> String {
    format!("/{}?api-version={VERSION}&all-names=true", utf8_percent_encode(path, ESCAPED))
}

fn rule_url(subscription: &EntityRef, rule: &str) -> String {
    url(&format!("{}/Rules/{rule}", subscription.path))
}

/// Characters to escape in a path; the separator stays.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'$');
/// The version of the API that is spoken.
const VERSION: &str = "2021-05";
const ATOM: &str = "application/atom+xml;type=entry;charset=utf-8";
/// Entities in one answer.
const PAGE: usize = 100;

#[cfg(test)]
mod tests;
