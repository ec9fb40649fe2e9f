//! SASL exchange of a client: the mechanism and the response that it has chosen, until the namespace of its open has judged them.
//!
//! Invariant: the response is erased when the exchange is over, and is part of no text.

use amqp_codec::types::Symbol;
use broker_auth::{Authority, Identity, JwtError, PeerFacts, SaslError, SaslResponse};

use crate::turn_work::{LOGIN_WORK, TurnWork, of_jwt};

/// A mechanism, with the response that the client has sent for it.
#[derive(Debug)]
pub(super) struct SaslExchange {
    mechanism: Symbol,
    response: Option<SaslResponse>,
    /// The client was asked for a response that was missing.
    challenged: bool,
    /// The authority that judges may be that of a namespace that the client does not mean.
    tentative: bool,
    /// The authority that has judged last took it.
    accepted: bool,
}

/// Decision of an authority about an exchange.
#[derive(Debug, PartialEq)]
pub(super) enum LoginDecision {
    Accepted(Identity),
    /// The response is missing and can still come.
    Challenge,
    /// The token's key is not known yet; its provider is asked.
    AwaitsKeys,
    /// Refused by an authority that may be the wrong one: that of the open decides.
    Postponed,
    Refused(SaslError),
}

impl SaslExchange {
    /// The client's choice; `response` is absent where it has sent none, which is not the same as an empty one.
    pub(super) fn new(mechanism: Symbol, response: Option<&[u8]>) -> Self {
        let response = response.map(SaslResponse::new);
        Self { mechanism, response, challenged: false, tentative: false, accepted: false }
    }

    /// The client answers the challenge; false: there was none.
    pub(super) fn respond(&mut self, response: &[u8]) -> bool {
        if self.challenged {
            self.response = Some(SaslResponse::new(response));
        }
        self.challenged
    }

    /// The authorities that judge before the open may be the wrong ones.
    pub(super) const fn set_tentative(&mut self) {
        self.tentative = true;
    }

    /// Whether the authority that has judged last took it.
    pub(super) const fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Mechanism and response.
    pub(super) fn chosen(&self) -> (&str, Option<&[u8]>) {
        (&self.mechanism, self.response.as_ref().map(SaslResponse::as_bytes))
    }

    /// Whether the response is a token of an identity provider.
    pub(super) fn is_token(&self) -> bool {
        matches!(&*self.mechanism, "OAUTHBEARER" | "XOAUTH2")
    }

    /// Has `authority` judge before the open.
    pub(super) fn judge(
        &mut self,
        (authority, peer): (&Authority, &PeerFacts),
        work: &mut TurnWork,
        now: u64,
    ) -> LoginDecision {
        match self.judge_finally((authority, peer), work, now) {
            Ok(identity) => {
                self.accepted = true;
                LoginDecision::Accepted(identity)
            }
            Err(SaslError::MissingResponse) if !self.challenged => {
                self.challenged = true;
                LoginDecision::Challenge
            }
            Err(SaslError::Token(JwtError::UnknownKey { refreshable: true })) => LoginDecision::AwaitsKeys,
            Err(
                SaslError::WrongCredentials
                | SaslError::UnknownCertificate
                | SaslError::NotOffered
                | SaslError::Token(_),
            ) if self.tentative => LoginDecision::Postponed,
            Err(error) => LoginDecision::Refused(error),
        }
    }

    /// Has `authority`, which is that of the open, judge.
    pub(super) fn judge_finally(
        &self,
        (authority, peer): (&Authority, &PeerFacts),
        work: &mut TurnWork,
        now: u64,
    ) -> Result<Identity, SaslError> {
        let (mechanism, response) = self.chosen();
        let judged = authority.sasl(peer, mechanism, response, now);
        work.charge(LOGIN_WORK);
        match &judged {
            Err(SaslError::Token(error)) => work.charge(of_jwt(Some(error))),
            Ok(_) if self.is_token() => work.charge(of_jwt(None)),
            _ => {}
        }
        judged
    }
}

#[cfg(test)]
mod tests;
