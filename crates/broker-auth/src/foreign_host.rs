//! Hosts in tokens and audiences that lead to another namespace than the one whose authority judges.
//!
//! Invariant: no host of another namespace is taken; without a judge there is no other namespace.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::TokenError;

/// A host that leads to another namespace, or to none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForeignHost {
    host: Box<str>,
    leads_to: Option<Box<str>>,
    here: Box<str>,
}

impl ForeignHost {
    /// `host` leads to the namespace `leads_to`, or to none, and not to the namespace `here`.
    pub fn new(host: &str, leads_to: Option<&str>, here: &str) -> Self {
        // The text of a token may be longer than any host name.
        let host = host.get(..HOST_BYTES_SHOWN).unwrap_or(host);
        Self { host: host.into(), leads_to: leads_to.map(Box::from), here: here.into() }
    }
}

impl fmt::Display for ForeignHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, leads_to, here } = self;
        match leads_to {
            Some(leads_to) => {
                write!(f, "the token is for the host `{host}` of the namespace `{leads_to}`")?;
            }
            None => write!(f, "the token is for the host `{host}`, which leads to no namespace")?,
        }
        write!(f, ", and this is the namespace `{here}`")
    }
}

/// Judge of the hosts in tokens and audiences. Until it is told where hosts lead, all are the namespace's own.
#[derive(Default)]
pub struct HostJudge(RwLock<Option<Foreign>>);

/// Says where a host leads, if that is not here.
type Foreign = Arc<dyn Fn(&str) -> Option<Box<ForeignHost>> + Send + Sync>;

impl HostJudge {
    /// From now on tokens are refused whose host leads to another namespace: `foreign` says to which, and `None` for a host of
    /// this one. It must not block.
    pub fn judge_by(&self, foreign: impl Fn(&str) -> Option<Box<ForeignHost>> + Send + Sync + 'static) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(foreign));
    }

    /// Refuses the first of these hosts that leads elsewhere. A text without host is for wherever it is shown.
    pub(crate) fn judge<const N: usize>(&self, hosts: [&Option<Box<str>>; N]) -> Result<(), TokenError> {
        let Some(foreign) = self.0.read().unwrap_or_else(PoisonError::into_inner).clone() else {
            return Ok(());
        };
        match hosts.into_iter().flatten().find_map(|host| foreign(host)) {
            Some(host) => Err(TokenError::ForeignHost(host)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for HostJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostJudge")
    }
}

/// Bytes of a host that the text of a refusal has: as many as a host name has at most.
const HOST_BYTES_SHOWN: usize = 253;
