//! Resources of the interface for namespaces, and their paths.
//!
//! Invariant: a path means one resource or none.

use hyper::Method;

/// Path of the list.
pub(super) const ROOT: &str = "/$ferrybus/namespaces";

/// Whether a path, in lower case, is of this interface.
pub(crate) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The resource of a request.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Resource {
    All,
    One(String),
    Keys(String),
    Key(String, String),
}

impl Resource {
    /// The resource of a path, whose percent signs are as in the request; `None`: there is none.
    pub(super) fn of(path: &str) -> Option<Self> {
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
        let rest = decoded.get(ROOT.len()..)?.trim_matches('/');
        let mut parts = rest.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => Some(Self::All),
            (Some(name), None, ..) => Some(Self::One(name)),
            (Some(name), Some(keys), None, _) if keys.eq_ignore_ascii_case("keys") => Some(Self::Keys(name)),
            (Some(name), Some(keys), Some(key), None) if keys.eq_ignore_ascii_case("keys") => {
                Some(Self::Key(name, key))
            }
            _ => None,
        }
    }

    /// Name of the namespace, and what else it is about, for the audit log.
    pub(super) fn subject(&self) -> (&str, &str) {
        match self {
            Self::All => ("", ""),
            Self::One(name) | Self::Keys(name) => (name, ""),
            Self::Key(name, key) => (name, key),
        }
    }

    /// Name of a change in the audit log; `None` for what is no change.
    pub(super) const fn action(&self, method: &Method) -> Option<&'static str> {
        match (self, method) {
            (Self::One(_), &Method::PUT) => Some("namespace-set"),
            (Self::One(_), &Method::DELETE) => Some("namespace-delete"),
            (Self::Key(..), &Method::PUT) => Some("namespace-key-set"),
            (Self::Key(..), &Method::DELETE) => Some("namespace-key-delete"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
