//! `cargo xtask sim`: the simulator, optimised.
//!
//! Invariant: a failing seed printed by a run replays alone with `--seed S`.

use std::process::Command;

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};

/// The package whose binary takes `--seeds N [--seed S]` and closes with `N passed, M failed`.
pub(crate) const PACKAGE: &str = "sim";

/// Seeds of a run that says nothing else; CI runs as many.
pub(crate) const SEEDS: u64 = 2_000;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--seeds", "--seed", "--digests", "--compare"], &[])?;
    let seeds = args.value_or("--seeds", SEEDS)?;
    let mut command = command(workspace, seeds);
    if let Some(seed) = args.values("--seed").last() {
        command.args(["--seed", seed]);
    }
    for option in ["--digests", "--compare"] {
        if let Some(file) = args.values(option).last() {
            command.args([option, file]);
        }
    }
    Ok(if command.status()?.success() { Verdict::Good } else { Verdict::Bad })
}

/// `cargo run` of the simulator over `seeds` seeds.
pub(crate) fn command(workspace: &Workspace, seeds: u64) -> Command {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--package", PACKAGE, "--", "--seeds"]).arg(seeds.to_string());
    command
}
