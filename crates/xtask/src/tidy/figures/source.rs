//! Production files of a crate.
//!
//! Invariant: tests are no part of it.

use std::path::PathBuf;

/// One production file of a crate.
pub(super) struct Source {
    /// Path below `src`.
    pub(super) path: PathBuf,
    pub(super) text: String,
}
