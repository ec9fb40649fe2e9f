//! Places in the namespace, and how the many spellings of one become equal.
//!
//! Invariant: two URIs that differ in scheme, port, case of ASCII letters, or doubled or trailing slashes alone
//! name the same place, and two names that differ in the case of ASCII letters or in slashes at their ends; a place covers itself and what lies below it, never a sibling whose name only starts alike.

use std::{fmt, net::Ipv4Addr};

use crate::host_names::{HostNames, split_authority};

/// The namespace, or a path in it: an entity, a sub-queue, a subscription, a node such as `$management`.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Scope(Box<str>);

impl Scope {
    /// The whole namespace.
    pub fn namespace() -> Self {
        Self::default()
    }

    /// The place of an entity or node by its very name, in which `?`, `://` and doubled slashes are text (decision 56).
    pub fn of_name(name: &str) -> Self {
        Self(name.trim_matches('/').to_ascii_lowercase().into_boxed_str())
    }

    /// The place that an operator has written: the name of an entity, or a URI such as `sb://localhost:5672/orders`.
    pub fn of_configured(text: &str) -> Self {
        match text.split_once("://") {
            Some((scheme, _)) if URI_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) => {
                Self::of(text)
            }
            _ => Self::of_name(text),
        }
    }

    /// The place that an address names: a path such as `orders/$DeadLetterQueue`, or a URI such as
    /// `sb://localhost:5672/orders` whose scheme, host and port are ignored.
    pub fn of(address: &str) -> Self {
        match address.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => Self::of_path(after_host(rest)),
            _ => Self::of_path(address),
        }
    }

    fn of_path(path: &str) -> Self {
        Self::normal(path.split('?').next().unwrap_or_default())
    }

    /// The place that the path of a URL names, in which letters may be escaped: clients of HTTP sign the whole URL as
    /// they send it. What is not text once it is decoded stays as it is, and names nothing.
    fn of_url_path(path: &str) -> Self {
        let Self(path) = Self::of_path(path);
        // Slashes that are escaped belong to a name.
        let decoded = percent_encoding::percent_decode_str(&path).decode_utf8();
        Self::of_name(decoded.as_deref().unwrap_or(&path))
    }

    fn normal(path: &str) -> Self {
        let mut out = String::with_capacity(path.len());
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            if !out.is_empty() {
                out.push('/');
            }
            out.extend(segment.chars().map(|letter| letter.to_ascii_lowercase()));
        }
        Self(out.into_boxed_str())
    }

    /// True if `other` is this place or lies below it.
    pub fn covers(&self, other: &Self) -> bool {
        if self.0.is_empty() {
            return true;
        }
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True if `other` is this entity or belongs to it: a sub-queue, a node such as `$management`, a subscription with
    /// the same or with its rules. An entity whose name only begins with this one's is another entity.
    pub(crate) fn owns(&self, other: &Self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Some(rest) = other.0.strip_prefix(&*self.0) else { return false };
        rest.is_empty() || rest.strip_prefix('/').is_some_and(belongs)
    }

    /// Whether it is the whole namespace.
    pub fn is_namespace(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a key of this entity, or of the whole namespace, may permit something at `other`.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.is_namespace() || self.owns(other)
    }

    /// The normal spelling: lower case, segments joined by `/`, empty for the namespace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place itself and the ones above it, down to the namespace.
    pub(crate) fn ancestry(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |path| parent(path))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the namespace") } else { write!(f, "`{}`", self.0) }
    }
}

/// The place and host that a token's `sr` or an audience names.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) place: Scope,
    /// Without port and brackets; `None` where the text names none.
    pub(crate) host: Option<Box<str>>,
}

impl Resource {
    /// Reads a token's `sr` or an audience: `scheme://host[:port]/path`, the same without scheme, or a bare
    /// path. `None` where there is a scheme or port and what stands for the host is none, such as in `sb://` and
    /// `sb://host\\queue`: what a slip of a signer's tool leaves of an entity's name is not the whole namespace.
    ///
    /// The host says for which namespace it is (decision 46). Without a scheme the first segment is a host only if it cannot be an entity: with a port,
    /// an address, `localhost`, a name of the cloud service, or a name that the operator gave to this broker. Guessing
    /// wider would turn a token for the entity `orders` into one for the host `orders`, that is: for everything.
    pub(crate) fn parse(text: &str, ours: &HostNames) -> Option<Self> {
        let text = text.trim();
        let (authority, certain) = match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => (rest, true),
            _ => (text, false),
        };
        let host = host_of(authority);
        if !certain && !names_a_host(host, ours) {
            return Some(Self { place: Scope::of_path(text), host: None });
        }
        let (host, _port) = split_authority(host)?;
        Some(Self { place: Scope::of_url_path(after_host(authority)), host: Some(host.into()) })
    }
}

/// Whether a path below an entity, without the slash in between, is a part of it.
fn belongs(below: &str) -> bool {
    if below.starts_with('$') {
        return true;
    }
    let mut segments = below.split('/');
    let is_subscriptions = segments.next() == Some("subscriptions");
    let what = segments.nth(1);
    is_subscriptions && what.is_none_or(|what| what == "rules" || what.starts_with('$'))
}

fn parent(path: &str) -> Option<&str> {
    match path.rfind('/') {
        Some(at) => path.get(..at).map(|above| above.trim_end_matches('/')),
        None => (!path.is_empty()).then_some(""),
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn host_of(authority: &str) -> &str {
    authority.split(['/', '?']).next().unwrap_or_default()
}

fn after_host(authority: &str) -> &str {
    authority.get(host_of(authority).len()..).unwrap_or_default()
}

fn names_a_host(segment: &str, ours: &HostNames) -> bool {
    let name = segment.to_ascii_lowercase();
    name.contains(':')
        || name == "localhost"
        || name.parse::<Ipv4Addr>().is_ok()
        || CLOUD_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || ours.contains(&name)
}

/// Schemes of the URIs that an operator may write for the name of an entity.
const URI_SCHEMES: [&str; 5] = ["sb", "amqp", "amqps", "http", "https"];

/// Host suffixes of the cloud service.
const CLOUD_SUFFIXES: [&str; 3] =
    [".servicebus.windows.net", ".servicebus.usgovcloudapi.net", ".servicebus.chinacloudapi.cn"];

#[cfg(test)]
mod tests;
