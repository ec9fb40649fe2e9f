//! The public keys of an identity provider: a JSON Web Key Set (RFC 7517).
//!
//! Invariant: a key verifies only signatures of its own algorithm, without regard to the token's header.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

/// Largest set that is read, in bytes.
pub const KEY_SET_BYTES_MAX: usize = 256 << 10;

/// Most keys of a set that are used; providers publish a handful.
pub const KEYS_MAX: usize = 64;

/// Accepted signature algorithms. `none` and those with a shared secret are left out, because an attacker could choose
/// them (RFC 8725 section 2.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Algorithm {
    /// RSA with PKCS #1 v1.5 padding and SHA-256.
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// By its name in a token's header.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

/// Reason why a key set cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeySetError {
    /// Longer than [`KEY_SET_BYTES_MAX`].
    #[error("it has {0} bytes, at most {KEY_SET_BYTES_MAX} are read")]
    TooLong(usize),
    /// No JSON, or not an object with a list of `keys`.
    #[error("it is not a JSON object with a list of `keys`")]
    Malformed,
    /// None of its keys is for RS256 (2,048 bits or more) or ES256 signatures.
    #[error("it holds no key for RS256 (2048 bits or more) or ES256 signatures")]
    NoKeys,
}

/// The keys of one provider.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Key {
    id: Option<Box<str>>,
    material: Material,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Ec(Vec<u8>),
}

/// Result of verifying a signature with a key set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verification {
    /// A key of the set has signed it.
    Good,
    /// The set has keys that may have, and none has.
    Forged,
    /// The set has no key of that name and algorithm.
    NoKey,
}

impl KeySet {
    /// Reads a set. Keys of other kinds, for other uses, or that make no sense are left out.
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetError::TooLong(text.len()));
        }
        let set: Value = serde_json::from_slice(text).map_err(|_| KeySetError::Malformed)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        let keys: Vec<Key> = keys.iter().filter_map(Key::read).take(KEYS_MAX).collect();
        if keys.is_empty() { Err(KeySetError::NoKeys) } else { Ok(Self { keys }) }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there is none: nothing verifies.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Judges a signature. A token that names its key is judged by that key alone.
    pub(crate) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Verification {
        let fits = |key: &&Key| {
            key.algorithm() == algorithm && (id.is_none() || key.id.is_none() || key.id.as_deref() == id)
        };
        let mut keys = self.keys.iter().filter(fits).peekable();
        if keys.peek().is_none() {
            return Verification::NoKey;
        }
        if keys.any(|key| key.has_signed(message, signature)) {
            Verification::Good
        } else {
            Verification::Forged
        }
    }
}

impl Key {
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        let (material, algorithm) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let modulus: Vec<u8> = bytes("n")?.into_iter().skip_while(|byte| *byte == 0).collect();
                if modulus.len() < RSA_BYTES_MIN {
                    return None;
                }
                (Material::Rsa { modulus, exponent: bytes("e")? }, "RS256")
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                    return None;
                }
                (Material::Ec([&[UNCOMPRESSED], &*x, &*y].concat()), "ES256")
            }
            _ => return None,
        };
        if text("alg").is_some_and(|named| named != algorithm) {
            return None;
        }
        Some(Self { id: text("kid").map(Into::into), material })
    }

    const fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::Ec(_) => Algorithm::Es256,
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Material::Ec(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

/// 2,048 bits.
const RSA_BYTES_MIN: usize = 256;
/// Of a point on P-256.
const COORDINATE_BYTES: usize = 32;
/// First byte of an uncompressed point (SEC 1 section 2.3.3).
const UNCOMPRESSED: u8 = 4;

#[cfg(test)]
mod tests;
