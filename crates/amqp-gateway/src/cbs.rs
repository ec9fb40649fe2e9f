//! `$cbs`: the client shows tokens for what it wants to do.
//!
//! Invariant: the answer is 202 only if the connection's grants have been extended; a token whose key is not known yet
//! is answered within a bounded time.

use std::time::{Duration, Instant};

use amqp_codec::raw::RawValue;
use broker_auth::{JwtError, TokenError};

use crate::{
    condition::Refusal,
    gateway::Gateway,
    requests::{Caller, NULL, Reply, Request},
};

impl Gateway {
    /// Answers a request to `$cbs`.
    pub(crate) fn on_cbs_request(&mut self, request: &Request<'_>) {
        let text = |name: &str| request.properties.get(name).and_then(RawValue::as_str);
        let operation = text("operation").unwrap_or_default();
        if operation != "put-token" {
            let refusal = Refusal::UnknownOperation { operation: operation.to_owned() };
            return self.reply_refused(&request.caller, &refusal);
        }
        let (Some(token), Some(audience)) = (request.body.as_str(), text("name")) else {
            let what =
                "put-token needs the token as a string in its body and the audience as property 'name'";
            return self.reply_refused(&request.caller, &Refusal::BadRequest { what: what.into() });
        };
        let put = PutToken {
            caller: request.caller.clone(),
            token: token.into(),
            kind: text("type").unwrap_or_default().into(),
            audience: audience.into(),
            until: self.now.instant + KEYS_PATIENCE,
            again: self.now.instant,
        };
        self.put_token(put);
    }

    fn put_token(&mut self, mut put: PutToken) {
        let now = self.now.unix_seconds();
        let verified = self.authority.verify_token(&put.token, &put.kind, &put.audience, now);
        if let Err(TokenError::Jwt(JwtError::UnknownKey { refreshable: true })) = verified
            && self.now.instant < put.until
            && self.waiting_tokens.len() < WAITING_TOKENS_MAX
        {
            put.again = self.now.instant + KEYS_LOOK;
            return self.waiting_tokens.push(put);
        }
        let added = verified
            .map_err(|error| error.to_string())
            .and_then(|grant| self.grants.add(grant, now).map_err(|error| error.to_string()));
        match added {
            Ok(()) => {
                let reply = Reply { status: 202, description: "Accepted", condition: None, body: NULL };
                self.reply(&put.caller, reply);
            }
            Err(reason) => self.reply_refused(&put.caller, &Refusal::BadToken { reason }),
        }
    }

    /// Looks again at the tokens that wait for a provider's keys, and whose time to look has come.
    pub(crate) fn look_at_tokens(&mut self) {
        let now = self.now.instant;
        let due = self.waiting_tokens.extract_if(.., |put| put.again <= now);
        for put in due.collect::<Vec<_>>() {
            self.put_token(put);
        }
    }

    /// When to look at them again.
    pub(crate) fn tokens_deadline(&self) -> Option<Instant> {
        self.waiting_tokens.iter().map(|put| put.again).min()
    }
}

/// A request to take a token.
#[derive(Debug)]
pub(crate) struct PutToken {
    caller: Caller,
    token: Box<str>,
    kind: Box<str>,
    audience: Box<str>,
    /// Until when its key may become known.
    until: Instant,
    /// When to look again.
    again: Instant,
}

/// How long a token waits for its provider's new keys, which are being fetched because of it.
const KEYS_PATIENCE: Duration = Duration::from_secs(8);
/// How often to look meanwhile: fetching takes about as long.
const KEYS_LOOK: Duration = Duration::from_millis(100);
/// Tokens of one connection that may wait at the same time; one more is refused at once.
const WAITING_TOKENS_MAX: usize = 8;
