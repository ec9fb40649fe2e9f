//! Responses of the SASL mechanisms that carry a bearer token: OAUTHBEARER (RFC 7628 section 3.1) and XOAUTH2, its forerunner
//! without a GS2 header, as Qpid JMS, `ProtonJ2`, rhea and the plugins of Cyrus SASL write it.
//!
//! Invariant: the name that stands beside the token decides nothing, because nothing has proved it.

use crate::TOKEN_BYTES_MAX;

/// The mechanism of RFC 7628.
pub(crate) const OAUTHBEARER: &str = "OAUTHBEARER";
/// Its forerunner.
pub(crate) const XOAUTH2: &str = "XOAUTH2";

/// Ends each pair of a response, and the response.
const SEPARATOR: char = '\u{1}';

/// The token in a response of `mechanism`; `None` where the response does not have the mechanism's form, or the token is
/// longer than any may be.
pub(crate) fn token<'r>(mechanism: &str, response: &'r [u8]) -> Option<&'r str> {
    let text = std::str::from_utf8(response).ok()?;
    let pairs = match mechanism {
        OAUTHBEARER => {
            let (header, pairs) = text.split_once(SEPARATOR)?;
            is_gs2_header(header).then_some(pairs)?
        }
        // Its first pair is the name of the user.
        _ => text.starts_with("user=").then_some(text)?,
    };
    // Each pair has a separator behind it, and one more ends the response.
    let pairs = pairs.strip_suffix("\u{1}\u{1}")?;
    let mut values = pairs.split(SEPARATOR).filter_map(|pair| pair.strip_prefix("auth="));
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    let is_token = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

/// `n,,` or `n,a=NAME,`: no channel binding, and perhaps whom to act as (RFC 5801 section 4). `y` says that the client could bind.
fn is_gs2_header(header: &str) -> bool {
    let mut parts = header.split(',');
    let (Some("n" | "y"), Some(name), Some(""), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    name.is_empty() || name.strip_prefix("a=").is_some_and(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
