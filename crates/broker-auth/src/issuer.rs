//! Identity providers whose tokens are taken, and what their claims permit.
//!
//! Invariant: a token of a provider permits what the operator's grants say of its claims, and nothing else.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};

use crate::{Access, KeySet, Rights, Scope};

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

/// One identity provider and its keys, which may be renewed while tokens are judged.
#[derive(Debug)]
pub struct Issuer {
    config: IssuerConfig,
    keys: RwLock<Arc<KeySet>>,
}

impl Issuer {
    /// With the keys that are known now; none is fine if they can be had later.
    pub fn new(config: IssuerConfig, keys: KeySet) -> Self {
        Self { config, keys: RwLock::new(Arc::new(keys)) }
    }

    /// Its configuration.
    pub const fn config(&self) -> &IssuerConfig {
        &self.config
    }

    /// Exchanges all keys: what is not in the new set counts no more.
    pub fn renew(&self, keys: KeySet) {
        // The value behind the lock is replaced as a whole, so a panic cannot leave it half-changed.
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The keys as they are now.
    pub(crate) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rights that these claims give at `scope`.
    pub(crate) fn rights(&self, claims: &Map<String, Value>, scope: &Scope) -> Rights {
        let fit = self.config.grants.iter().filter(|grant| grant.fits(claims) && grant.access.reaches(scope));
        fit.fold(Rights::NONE, |rights, grant| rights.union(grant.access.rights))
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
