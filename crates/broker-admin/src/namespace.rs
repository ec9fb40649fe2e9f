//! Namespace: its name and its entry, `NamespaceInfo` of the management API.
//!
//! Invariant: its name is one word of the host that was asked, or the whole address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use broker_core::Timestamp;

use crate::{time, xml};

/// Properties of the namespace besides its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Namespace {
    /// The tier, as the service calls it: `Basic`, `Standard` or `Premium`.
    pub tier: &'static str,
    /// When it was made, which it was not changed since.
    pub created_at: Timestamp,
}

impl Namespace {
    /// Appends what is shown of it under `name`.
    pub(crate) fn put(self, out: &mut String, name: &str) {
        xml::put(
            out,
            format_args!("<NamespaceInfo xmlns=\"{}\" xmlns:i=\"{}\">", xml::SERVICE_BUS, xml::INSTANCE),
        );
        let created = time::format(self.created_at);
        let elements = [
            ("CreatedTime", &*created),
            ("MessagingSKU", self.tier),
            ("ModifiedTime", &*created),
            ("Name", name),
            ("NamespaceType", "Messaging"),
        ];
        for (element, text) in elements {
            xml::element(out, element, text);
        }
        out.push_str("</NamespaceInfo>");
    }
}

/// Scheme, host and port to which the request was sent; links and the name of the namespace are derived from them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Host {
    base: Box<str>,
}

impl Host {
    /// `authority` is `host` or `host:port`; anything that cannot be one counts as `localhost`.
    pub fn new(is_tls: bool, authority: &str) -> Self {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
        let good = !authority.is_empty() && authority.len() <= 260 && authority.chars().all(is_good);
        let authority = if good { authority } else { "localhost" };
        let scheme = if is_tls { "https" } else { "http" };
        Self { base: format!("{scheme}://{authority}").into() }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The first label of the host; an address has none, and is the name itself.
    pub(crate) fn namespace(&self) -> &str {
        let authority = self.base.split_once("://").map_or("", |(_, authority)| authority);
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((address, _)) = bracketed.filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok()) {
            return address;
        }
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        if host.parse::<Ipv4Addr>().is_ok() {
            return host;
        }
        if let Ok(IpAddr::V6(_)) = authority.parse() {
            return authority;
        }
        authority.split(['.', ':', '[', ']']).find(|name| !name.is_empty()).unwrap_or("localhost")
    }
}

#[cfg(test)]
mod tests;
