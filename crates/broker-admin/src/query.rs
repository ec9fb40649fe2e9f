//! Query string of a request.
//!
//! Invariant: a page is never larger than [`TOP_MAX`].

use broker_core::NameScope;
use percent_encoding::percent_decode_str;

/// Entities of a page when the request does not say.
const TOP_DEFAULT: u64 = 100;
/// Most entities of a page.
const TOP_MAX: u64 = 500;
/// Longest version that is repeated in links.
const VERSION_BYTES_MAX: usize = 20;

/// The options of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Query {
    /// `api-version`; empty when absent or nonsense.
    pub version: Box<str>,
    /// `$skip`.
    pub skip: u64,
    /// `$top`, within its bound.
    pub top: u64,
    /// `total-size=true`: the size in a description is that of the whole entity, with partitions too. Ours: `ferrybus`
    /// means sizes as the configuration does.
    pub is_total_size: bool,
    /// `all-names=true`: the request is about all entities, those that Service Bus cannot spell too. Ours: `ferrybus` manages
    /// them so.
    pub names: NameScope,
}

impl Query {
    /// Reads a query, still percent-encoded. What is not known is ignored.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut read = Self {
            version: Box::default(),
            skip: 0,
            top: TOP_DEFAULT,
            is_total_size: false,
            names: NameScope::ServiceBus,
        };
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            let (key, value) = (decoded(key).to_ascii_lowercase(), decoded(value));
            let number = || value.parse().map_err(|_| format!("`{key}` is not a number that can be used"));
            match &*key {
                "api-version" => {
                    let is_version = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
                    if value.len() <= VERSION_BYTES_MAX && value.chars().all(is_version) {
                        read.version = value.into();
                    }
                }
                "$skip" => read.skip = number()?,
                "$top" => read.top = number()?,
                "all-names" if value == "true" => read.names = NameScope::All,
                "total-size" => read.is_total_size = value == "true",
                _ => {}
            }
        }
        read.top = read.top.clamp(1, TOP_MAX);
        Ok(read)
    }

    /// Whether answers have what came with the version of 2021: all later ones and those that say nothing.
    pub(crate) fn is_modern(&self) -> bool {
        &*self.version != "2017-04"
    }

    /// Whether answers have what came with the version of 2024.
    pub(crate) fn is_newest(&self) -> bool {
        self.is_modern() && &*self.version != "2021-05"
    }
}

#[cfg(test)]
mod tests;
