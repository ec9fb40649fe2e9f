//! Identity providers whose tokens are taken, and what their claims permit.
//!
//! Invariant: a token of a provider permits what the operator's grants say of its claims, and nothing else.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};

use crate::{
    Access, KeySet, Scope,
    principal::{Basis, Principal, Proof},
};

/// Configuration of one identity provider.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IssuerConfig {
    /// Value of `iss` in its tokens, compared exactly.
    pub issuer: String,
    /// Accepted values of `aud` in its tokens; one of them has to be there.
    pub audiences: Vec<String>,
    /// Tolerated difference between its clock and ours, in seconds.
    pub skew_seconds: u64,
    /// Access by claims.
    pub grants: Vec<ClaimGrant>,
    /// New keys can be had: a token with an unknown key is worth asking for them.
    pub refreshable: bool,
}

/// Access that a claim gives.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClaimGrant {
    /// Name of the claim, such as `roles`.
    pub claim: String,
    /// The value it has to have: as text, as one in a list, or as one word of a text (`scp`). Empty: any.
    pub value: String,
    pub access: Access,
}

/// One identity provider and its keys, which may be renewed while tokens are judged. A copy has the same keys.
#[derive(Clone, Debug)]
pub struct Issuer {
    config: Arc<IssuerConfig>,
    keys: Arc<RwLock<Arc<KeySet>>>,
    /// Principals for the claim of each grant, in the order of the grants.
    holders: Vec<Principal>,
}

impl Issuer {
    /// With the keys that are known now; none is fine if they can be had later.
    pub fn new(config: IssuerConfig, keys: KeySet) -> Self {
        let holder = |grant: &ClaimGrant| {
            let audiences = config.audiences.clone();
            let proof = Proof::Claim { audiences, claim: grant.claim.clone(), value: grant.value.clone() };
            Principal::new(&config.issuer, proof, grant.access.clone())
        };
        let holders = config.grants.iter().map(holder).collect();
        Self { config: Arc::new(config), keys: Arc::new(RwLock::new(Arc::new(keys))), holders }
    }

    /// Its configuration.
    pub fn config(&self) -> &IssuerConfig {
        &self.config
    }

    /// Exchanges all keys: what is not in the new set counts no more.
    pub fn renew(&self, keys: KeySet) {
        self.hold(Arc::new(keys));
    }

    /// Has the keys that `other` has now, until they are renewed.
    pub fn take_keys_of(&self, other: &Self) {
        self.hold(other.keys());
    }

    fn hold(&self, keys: Arc<KeySet>) {
        // The set is exchanged whole, so a panic cannot have left it half-changed.
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The keys as they are now.
    pub(crate) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn principals(&self) -> &[Principal] {
        &self.holders
    }

    pub(crate) fn principals_mut(&mut self) -> &mut [Principal] {
        &mut self.holders
    }

    /// The principals with rights at `scope`, or anywhere, that these claims prove.
    pub(crate) fn bases(&self, claims: &Map<String, Value>, scope: Option<&Scope>) -> Vec<Basis> {
        let pairs = self.config.grants.iter().zip(&self.holders);
        let fit = pairs.filter(|(grant, holder)| {
            grant.fits(claims) && scope.is_none_or(|scope| holder.access().reaches(scope))
        });
        fit.map(|(_, holder)| Basis::Principal(holder.clone())).collect()
    }
}

impl ClaimGrant {
    fn fits(&self, claims: &Map<String, Value>) -> bool {
        match claims.get(&self.claim) {
            Some(Value::String(text)) => {
                self.value.is_empty() || *text == self.value || text.split(' ').any(|word| word == self.value)
            }
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).any(|text| self.value.is_empty() || text == self.value)
            }
            Some(Value::Bool(flag)) => {
                self.value.is_empty() || self.value == if *flag { "true" } else { "false" }
            }
            Some(Value::Number(number)) => self.value.is_empty() || self.value == format!("{number}"),
            Some(Value::Null | Value::Object(_)) | None => false,
        }
    }
}

#[cfg(test)]
mod tests;
