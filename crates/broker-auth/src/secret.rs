//! A text that must not be seen.
//!
//! Invariant: `Debug` never shows the text, and a comparison takes the same time wherever the texts differ.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key or password.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// True for a secret without any text, which nobody should be able to present.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares in a time that does not depend on where the texts differ, nor on how long ours is.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        // Comparing digests under any fixed key gives equal lengths, and `verify` compares without branches.
        let Some(expected) = mac(b"ferrybus secret comparison", self.0.as_bytes()) else { return false };
        mac(b"ferrybus secret comparison", presented)
            .is_some_and(|mac| mac.verify(&expected.finalize().into_bytes()).is_ok())
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn mac(key: &[u8], text: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text);
    Some(mac)
}

#[cfg(test)]
mod tests;
