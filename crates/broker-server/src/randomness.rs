//! Random numbers of the operating system.
//!
//! Invariant: nobody can guess them.

/// The machine gives no random numbers.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no randomness: {0}")]
pub struct RandomnessError(String);

/// As many random bytes as the caller wants.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], RandomnessError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| RandomnessError(error.to_string()))?;
    Ok(bytes)
}
