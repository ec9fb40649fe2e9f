//! Shared access signatures: `SharedAccessSignature sr=…&sig=…&se=…&skn=…` (Microsoft Learn, "Service Bus access
//! control with Shared Access Signatures").
//!
//! Invariant: what is verified is the text as it was received, never one built again; the order of the parameters
//! does not matter, and a parameter that occurs twice is refused instead of one of the two being chosen.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{HostNames, Secret, scope::Resource};

/// Malformed SAS token.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SasError {
    /// One of `sr`, `sig`, `se` and `skn` is not there.
    #[error("parameter `{0}` is missing")]
    Missing(&'static str),
    /// One of them is there twice.
    #[error("parameter `{0}` occurs twice")]
    Twice(&'static str),
    /// One of them cannot be read.
    #[error("parameter `{0}` cannot be read")]
    Unreadable(&'static str),
}

/// A token taken apart. The fields borrow the text as received.
#[derive(Debug)]
pub(crate) struct SasToken<'t> {
    resource_text: &'t str,
    expiry_text: &'t str,
    key_name_text: &'t str,
    signature: Vec<u8>,
    /// Resource that the signer named.
    pub(crate) resource: Resource,
    /// Seconds since 1970 from which on the token is worthless.
    pub(crate) expires_at: u64,
}

/// Makes a token for `resource`, a URI, as the SDKs do. For the client side: the command line, tests, links to
/// other brokers.
pub fn sign_token(resource: &str, key_name: &str, key: &Secret, expires_at: u64) -> String {
    let resource = utf8_percent_encode(resource, NON_ALPHANUMERIC).to_string();
    let expiry = expires_at.to_string();
    let signature = BASE64.encode(key.sign([resource.as_bytes(), b"\n", expiry.as_bytes()]));
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    let key_name = utf8_percent_encode(key_name, NON_ALPHANUMERIC);
    format!("{PREFIX}sr={resource}&sig={signature}&se={expiry}&skn={key_name}")
}

/// True if `token` looks like a SAS token. Its declared type is ignored, because the SDK for Python declares `jwt`.
pub fn is_sas(token: &str) -> bool {
    token.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The name of the key that a SAS token says it is signed with.
pub(crate) fn claimed_key(token: &str) -> Option<String> {
    let parameters = token.get(PREFIX.len()..)?.trim();
    decode(parameter(parameters, "skn").ok()?)
}

impl<'t> SasToken<'t> {
    /// `ours` are the names of this broker.
    pub(crate) fn parse(token: &'t str, ours: &HostNames) -> Result<Self, SasError> {
        let parameters = token.get(PREFIX.len()..).unwrap_or_default().trim();
        let resource_text = parameter(parameters, "sr")?;
        let expiry_text = parameter(parameters, "se")?;
        let key_name_text = parameter(parameters, "skn")?;
        let signature = decode_signature(parameter(parameters, "sig")?)?;
        let resource = decode(resource_text).ok_or(SasError::Unreadable("sr"))?;
        let resource = Resource::parse(&resource, ours).ok_or(SasError::Unreadable("sr"))?;
        if !expiry_text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SasError::Unreadable("se"));
        }
        let expires_at = expiry_text.parse().map_err(|_| SasError::Unreadable("se"))?;
        Ok(Self { resource_text, expiry_text, key_name_text, signature, resource, expires_at })
    }

    /// True if the token says that the key called `name` signed it. Python encodes special characters twice.
    pub(crate) fn is_by(&self, name: &str) -> bool {
        let once = decode(self.key_name_text);
        let twice = once.as_deref().and_then(decode);
        self.key_name_text == name || once.as_deref() == Some(name) || twice.as_deref() == Some(name)
    }

    /// True if `key` made the signature: HMAC-SHA256 over the still encoded `sr`, a line feed and `se`, with the
    /// bytes of the key's text (it looks like base64 but is not decoded).
    pub(crate) fn is_signed_with(&self, key: &Secret) -> bool {
        key.signed([self.resource_text.as_bytes(), b"\n", self.expiry_text.as_bytes()], &self.signature)
    }
}

/// The value of `name`, which is compared without regard to case, as it stands in the text.
fn parameter<'t>(parameters: &'t str, name: &'static str) -> Result<&'t str, SasError> {
    let mut values = parameters.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then_some(value)
    });
    match (values.next(), values.next()) {
        (None | Some(""), None) => Err(SasError::Missing(name)),
        (Some(value), None) => Ok(value),
        _ => Err(SasError::Twice(name)),
    }
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

fn decode_signature(text: &str) -> Result<Vec<u8>, SasError> {
    let base64 = decode(text).ok_or(SasError::Unreadable("sig"))?;
    BASE64.decode(base64).map_err(|_| SasError::Unreadable("sig"))
}

const PREFIX: &str = "SharedAccessSignature ";

/// Padding tells nothing that the length does not, and some signers leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests;
