//! The names under which clients reach the broker.
//!
//! Invariant: a name is known only if the operator gave it, by configuration or certificate; nothing that a client says
//! adds one.

use std::{collections::BTreeSet, net::IpAddr};

/// Names of hosts, compared without regard to case. One that begins with `*.` stands for every single label in front of the rest,
/// as in certificates (RFC 9525 section 6.3).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostNames(BTreeSet<String>);

impl HostNames {
    /// None at all.
    pub const NONE: Self = Self(BTreeSet::new());

    /// These and the others.
    pub(crate) fn and(&self, others: &Self) -> Self {
        Self(self.0.union(&others.0).cloned().collect())
    }

    /// Whether it is one of them.
    pub fn contains(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let below = |(_, rest): (&str, &str)| self.0.contains(&format!("*.{rest}"));
        self.0.contains(&name) || name.split_once('.').is_some_and(below)
    }
}

impl<N: Into<String>> FromIterator<N> for HostNames {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect())
    }
}

/// Takes `host[:port]` apart, or says that it is none (RFC 3986 section 3.2): a name of letters, digits, `-`, `.`, `_` and `~`,
/// an IPv4 address, or an IPv6 address in brackets. The host comes without brackets.
pub fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (address, rest) = inside.split_once(']')?;
            matches!(address.parse(), Ok(IpAddr::V6(_))).then_some((address, rest))?
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if host.is_empty() || !authority.starts_with('[') && !host.bytes().all(is_name) {
        return None;
    }
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some((host, None)),
        // An empty port is the scheme's own.
        Some("") => Some((host, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
