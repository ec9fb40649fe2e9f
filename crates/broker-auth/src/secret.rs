//! Texts and bytes that must not be seen.
//!
//! Invariant: `Debug` never shows them, and a comparison takes the same time wherever the texts differ.

use std::fmt;

use hmac::{Hmac, Mac, digest::CtOutput};
use sha2::Sha256;
use zeroize::Zeroizing;

/// A key or password.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// True for a secret without any text, which must not log a client in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares in a time that does not depend on where the texts differ, nor on how long ours is.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        self.seal() == Seal::of(presented)
    }

    /// Digest by which the text is compared.
    pub(crate) fn seal(&self) -> Seal {
        Seal::of(self.0.as_bytes())
    }

    /// True if `signature` is the HMAC-SHA256 of `parts`, joined, under the UTF-8 bytes of this text.
    pub(crate) fn signed(&self, parts: [&[u8]; 3], signature: &[u8]) -> bool {
        self.mac(parts).is_some_and(|mac| mac.verify_slice(signature).is_ok())
    }

    /// That HMAC.
    pub(crate) fn sign(&self, parts: [&[u8]; 3]) -> Vec<u8> {
        self.mac(parts).map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default()
    }

    fn mac(&self, parts: [&[u8]; 3]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }
}

/// A digest of a text under a fixed key: of constant length, and compared without branches.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Seal(CtOutput<Hmac<Sha256>>);

impl Seal {
    pub(crate) fn of(text: &[u8]) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(b"ferrybus secret comparison");
        let mut mac = mac.expect("HMAC takes a key of any length");
        mac.update(text);
        Self(mac.finalize())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Response of a SASL mechanism, which may be a password. This copy is erased when it is dropped; the buffer in which it
/// was read is not.
pub struct SaslResponse(Zeroizing<Box<[u8]>>);

impl SaslResponse {
    /// Copies `response`.
    pub fn new(response: &[u8]) -> Self {
        Self(Zeroizing::new(response.into()))
    }

    /// The response, for [`Authority::sasl`](crate::Authority::sasl).
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SaslResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaslResponse(…)")
    }
}

#[cfg(test)]
mod tests;
