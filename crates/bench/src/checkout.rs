//! The checkout that is measured: its folder, its commit and its build.
//!
//! Invariant: every path comes from here, so the bench works from any folder and with any target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Fallible;

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Cargo's target directory: the one that this program was built in.
pub(crate) fn target() -> Fallible<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.ancestors().nth(2).ok_or("this program is in no target directory")?.to_owned())
}

/// Builds the broker and gives its path.
pub(crate) fn broker() -> Fallible<PathBuf> {
    let target = target()?;
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "ferrybus", "--target-dir"]).arg(&target);
    if !build.current_dir(root()).status()?.success() {
        return Err("the broker does not build".into());
    }
    Ok(target.join("release/ferrybus"))
}

/// The commit, with a `+` when the tree differs from it.
pub(crate) fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    format!("{}{}", git(&["rev-parse", "--short", "HEAD"]), if changed { "+" } else { "" })
}
