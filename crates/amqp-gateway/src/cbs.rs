//! `$cbs`: the client shows tokens for what it wants to do.
//!
//! Invariant: the answer is 202 only if the connection's grants have been extended.

use amqp_codec::raw::RawValue;

use crate::{
    condition::Refusal,
    gateway::Gateway,
    requests::{NULL, Reply, Request},
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
        let now = self.now.unix_seconds();
        let kind = text("type").unwrap_or_default();
        let verified = self.authority.verify_token(token, kind, audience, now);
        let added = verified
            .map_err(|error| error.to_string())
            .and_then(|grant| self.grants.add(grant, now).map_err(|error| error.to_string()));
        match added {
            Ok(()) => {
                let reply = Reply { status: 202, description: "Accepted", condition: None, body: NULL };
                self.reply(&request.caller, &reply);
            }
            Err(reason) => self.reply_refused(&request.caller, &Refusal::BadToken { reason }),
        }
    }
}
