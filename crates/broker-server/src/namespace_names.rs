//! Names by which clients mean a namespace: its own, and host names.
//!
//! A client names a namespace by a host name, in `sasl-init`, in its open, as TLS server name or as the host of HTTP. Clients
//! of RabbitMQ write `vhost:NAME` in its place.
//!
//! Invariant: a name has one form, whatever case, port or final dot the client wrote.

use std::{fmt, net::IpAddr};

use broker_core::{NAMESPACE_NAME_CHARS_MAX, NamespaceNameError, namespace_key};
use idna::AsciiDenyList;

/// Name of a namespace, in lower case: one label of a host name (see [`namespace_key`]).
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamespaceName(Box<str>);

impl NamespaceName {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, NamespaceNameError> {
        namespace_key(text).map(Self)
    }

    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name or address of a host, without port and final dot: labels of ASCII letters, digits, `-` and `_` in lower case, those of other
/// scripts as A-labels (RFC 5890), or an IP address in its usual form, without brackets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostName(Box<str>);

/// Reason for which a text is no host name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no host name: expected are a name such as `team-a.example`, or an IP address")]
pub struct HostNameError(String);

impl HostName {
    /// Reads a host name, with or without port. A path behind it counts for nothing: over WebSocket the SDK for Python sends
    /// `host/$servicebus/websocket`.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        // Two slashes follow the scheme of a URI.
        let host = if path.starts_with('/') { None } else { Self::of_authority(authority) };
        host.ok_or_else(|| HostNameError(text.into()))
    }

    fn of_authority(authority: &str) -> Option<Self> {
        if let Some(inside) = authority.strip_prefix('[') {
            let (address, rest) = inside.split_once(']')?;
            let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
            return Self::of_address(address).filter(|_| is_whole && address.contains(':'));
        }
        // Without brackets, the colons of an IPv6 address are its own.
        if let Some(address) = Self::of_address(authority) {
            return Some(address);
        }
        let host = match authority.split_once(':') {
            Some((host, port)) if is_port(port) => host,
            Some(_) => return None,
            None => authority,
        };
        let host = host.strip_suffix('.').unwrap_or(host);
        // An ASCII name stays as it is, A-labels too: a name that no registry would take may still be in use on a private network.
        let host = if host.is_ascii() {
            host.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii_cow(host.as_bytes(), AsciiDenyList::URL).ok()?.into_owned()
        };
        Self::of_address(&host).or_else(|| {
            let is_name = host.len() <= NAME_BYTES_MAX && host.split('.').all(is_label);
            is_name.then(|| Self(host.into()))
        })
    }

    fn of_address(text: &str) -> Option<Self> {
        let address: IpAddr = text.parse().ok()?;
        Some(Self(address.to_string().into()))
    }

    /// The name in its one form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host of one label that is the name of a namespace.
    pub(crate) fn of_namespace(name: &NamespaceName) -> Self {
        Self(name.as_str().into())
    }

    /// The namespace whose name is the whole host name.
    pub(crate) fn as_namespace(&self) -> Option<NamespaceName> {
        NamespaceName::parse(&self.0).ok()
    }

    /// The namespace whose name is the first label; an address has no labels.
    pub(crate) fn first_label(&self) -> Option<NamespaceName> {
        if self.0.parse::<IpAddr>().is_ok() {
            return None;
        }
        NamespaceName::parse(self.0.split('.').next()?).ok()
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that a client has sent to say which host or namespace it wants to reach.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HostSign {
    /// None, or an empty one.
    Absent,
    /// `vhost:/`, the virtual host that each RabbitMQ has, and `vhost:`.
    DefaultNamespace,
    /// `vhost:NAME`.
    Namespace(NamespaceName),
    /// `vhost:NAME` with a name that no namespace can have.
    UnknownNamespace,
    Host(HostName),
    /// No host name at all.
    Malformed,
}

impl HostSign {
    /// Reads the text of a client; empty for none.
    pub(crate) fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::Absent;
        }
        match text.strip_prefix(VIRTUAL_HOST) {
            Some("" | "/") => Self::DefaultNamespace,
            Some(name) => NamespaceName::parse(name).map_or(Self::UnknownNamespace, Self::Namespace),
            None => HostName::parse(text).map_or(Self::Malformed, Self::Host),
        }
    }
}

/// Whether it can stand between the dots of a host name. An underscore stands in names of containers.
fn is_label(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=NAMESPACE_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// An empty port is the scheme's own (RFC 3986 section 3.2.3).
fn is_port(text: &str) -> bool {
    text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Prefix of the virtual host in `open.hostname`, as RabbitMQ's clients write it.
pub(crate) const VIRTUAL_HOST: &str = "vhost:";

/// Longest host name, in bytes, without the final dot.
const NAME_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests;
