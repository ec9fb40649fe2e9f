//! `$cbs`: the client puts tokens for the entities that it wants to use.
//!
//! Invariant: the answer is 202 only if the connection's grants have been extended; a token whose key is not known yet
//! is answered within a bounded time; the others are answered in the order in which they came.

mod pending_replies;

use std::{mem, time::Instant};

use broker_auth::{Grant, JwtError, Scope, TokenError, is_sas};
use broker_core::{Command, EntityPath, SubQueue, Ticket};

use super::{
    Caller, Request,
    reply::{NULL, Replier, Reply, reply_link},
};
use crate::{
    address::{AddressSyntax, Node},
    condition::Refusal,
    connection::KeyWait,
    correlation::Correlation,
    cx::Cx,
    endpoints::Endpoints,
    link::detach::Detacher,
    turn_work::work_of_token,
};

/// Token requests that `$cbs` has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Cbs {
    /// Tokens that wait for their provider's keys.
    tokens: Vec<PutToken>,
    /// Answers that wait for the core, and those behind them.
    answers: pending_replies::PendingReplies,
}

impl Cbs {
    /// When to look again at the tokens that wait.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.tokens.iter().map(|put| put.wait.again).min()
    }
}

/// Handles the requests to `$cbs` of one connection.
#[derive(Debug)]
pub(crate) struct CbsNode<'a> {
    cx: &'a mut Cx,
    ends: &'a mut Endpoints,
    cbs: &'a mut Cbs,
}

impl<'a> CbsNode<'a> {
    pub(super) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints, cbs: &'a mut Cbs) -> Self {
        Self { cx, ends, cbs }
    }

    /// Answers a request to `$cbs`.
    pub(super) fn on_request(&mut self, request: &Request<'_>) {
        let limit = self.cx.config.max_waiting_replies;
        if self.cbs.answers.len() >= limit {
            let Some(link) = reply_link(&self.ends.links, &request.caller) else { return };
            return Detacher::new(self.cx, self.ends).detach(link, &Refusal::TooManyRequests { limit });
        }
        let operation = request.text("operation").unwrap_or_default();
        if operation != "put-token" {
            let refusal = Refusal::UnknownOperation { operation: operation.to_owned() };
            return self.answer(request.caller.clone(), Err(refusal));
        }
        let (Some(token), Some(audience)) = (request.body.as_str(), request.text("name")) else {
            let what =
                "put-token needs the token as a string in its body and the audience as property 'name'";
            return self.answer(request.caller.clone(), Err(Refusal::BadRequest { what: what.into() }));
        };
        let put = PutToken {
            caller: request.caller.clone(),
            token: token.into(),
            kind: request.text("type").unwrap_or_default().into(),
            audience: audience.into(),
            wait: KeyWait::begun(self.cx.now.instant),
        };
        self.put_token(put);
    }

    fn put_token(&mut self, mut put: PutToken) {
        let now = self.cx.now.unix_seconds();
        let verified = self.cx.client.verify_token(&put.token, &put.kind, &put.audience, now);
        self.cx.work.charge(work_of_token(&put.token, verified.as_ref().err()));
        if let Err(TokenError::Jwt(JwtError::UnknownKey { refreshable: true })) = verified
            && let Some(wait) = put.wait.go_on(self.cx.now.instant)
            && self.cbs.tokens.len() < WAITING_TOKENS_MAX
        {
            put.wait = wait;
            return self.cbs.tokens.push(put);
        }
        let taken = match verified {
            Ok(grant) => match self.entity_to_find(&grant.scope, is_sas(&put.token)) {
                // Only who has shown a good token is told whether there is such an entity.
                Some((path, or_below)) => return self.find_entity(put.caller, grant, path, or_below),
                None => self.take_grant(grant),
            },
            Err(error) => {
                self.cx.record.add_token(&error, &put.token, &put.audience);
                Err(Refusal::BadToken { reason: error.to_string() })
            }
        };
        self.answer(put.caller, taken);
    }

    fn take_grant(&mut self, grant: Grant) -> Result<(), Refusal> {
        let (key, place) = (grant.key.clone(), grant.scope.clone());
        let added = self.cx.client.add_grant(grant, self.cx.now.unix_seconds());
        added.map_err(|error| {
            self.cx.record.add_excess_token(&key, place.as_str());
            Refusal::BadToken { reason: error.to_string() }
        })
    }

    /// The entity that has to be there for a token to be taken, and whether one below its name will do: a token may be for
    /// all that lies below a place, but no management node is.
    fn entity_to_find(&self, scope: &Scope, by_key: bool) -> Option<(EntityPath, bool)> {
        let client = &self.cx.client;
        let as_unauthorized = !by_key && client.takes_missing_entities_for_unauthorized();
        if !client.learns_of_missing_entities_by_token() && !as_unauthorized {
            return None;
        }
        match AddressSyntax::SERVICE_BUS.parse(scope.as_str()) {
            Ok(Node::Entity(path)) => {
                let or_below = path.sub_queue == SubQueue::Main;
                Some((path, or_below))
            }
            Ok(Node::Management(path)) => Some((path, false)),
            // The namespace, or what no link can be attached to.
            Ok(Node::Cbs) | Err(_) => None,
        }
    }

    fn find_entity(&mut self, caller: Caller, grant: Grant, path: EntityPath, or_below: bool) {
        let (number, ticket) = self.ends.pending.next_ticket();
        self.cbs.answers.ask(caller, number, grant);
        let auto_create = self.cx.config.auto_create;
        self.cx.commands.push(Command::FindEntity { path, or_below, auto_create, ticket });
    }

    /// The core has looked for the entity of a token. Says whether the ticket is a token's.
    pub(super) fn on_entity_looked_for(&mut self, ticket: Ticket, missing: Option<&Refusal>) -> bool {
        let Some(Correlation::Request(number)) = Correlation::unpack(ticket) else { return false };
        if !self.cbs.answers.waits_for(number) {
            return false;
        }
        let mut answers = mem::take(&mut self.cbs.answers);
        answers.decide(number, |grant| match missing {
            Some(refusal) if self.cx.client.takes_missing_entities_for_unauthorized() => {
                Err(Refusal::BadToken { reason: format!("Unauthorized access. {}", refusal.text()) })
            }
            Some(refusal) => Err(refusal.clone()),
            None => self.take_grant(grant),
        });
        while let Some((caller, answer)) = answers.pop() {
            self.reply_to_token(&caller, answer);
        }
        self.cbs.answers = answers;
        true
    }

    /// Answers now, or behind the answers that wait.
    fn answer(&mut self, caller: Caller, answer: Result<(), Refusal>) {
        if self.cbs.answers.len() > 0 {
            return self.cbs.answers.know(caller, answer);
        }
        self.reply_to_token(&caller, answer);
    }

    fn reply_to_token(&mut self, caller: &Caller, answer: Result<(), Refusal>) {
        match answer {
            Ok(()) => {
                let reply = Reply { status: 202, description: "Accepted", condition: None, body: NULL };
                Replier::new(self.cx, self.ends).reply(caller, reply);
            }
            Err(refusal) => Replier::new(self.cx, self.ends).refuse(caller, &refusal),
        }
    }

    /// Looks again at the tokens that wait for a provider's keys, and whose time to look has come.
    pub(crate) fn look_at_tokens(&mut self) {
        let now = self.cx.now.instant;
        let due = self.cbs.tokens.extract_if(.., |put| put.wait.again <= now);
        for put in due.collect::<Vec<_>>() {
            self.put_token(put);
        }
    }
}

/// A request to take a token.
#[derive(Debug)]
struct PutToken {
    caller: Caller,
    token: Box<str>,
    kind: Box<str>,
    audience: Box<str>,
    wait: KeyWait,
}

/// Tokens of one connection that may wait at the same time; one more is refused at once.
const WAITING_TOKENS_MAX: usize = 8;
