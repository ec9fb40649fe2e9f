//! `cargo xtask sim`: the simulator, optimised.
//!
//! Invariant: a failing seed printed by a run replays alone with `--seed S`.

use std::process::Command;

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};

/// The package whose binary takes `--first S --seeds N` or `--seed S` and closes with `N passed, M failed`.
pub(crate) const PACKAGE: &str = "sim";

/// The profile that the simulator and its tests are built in: optimised, with the checks of a debug build.
pub(crate) const PROFILE: &str = "sim";

/// Seeds of a run that says nothing else; CI runs as many.
pub(crate) const SEEDS: u64 = 2_000;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--seeds", "--first", "--seed", "--digests", "--compare"], &[])?;
    let seeds = args.value_or("--seeds", SEEDS)?;
    // By hand always the same seeds, so that digests can be compared.
    let mut command = command(workspace, args.value_or("--first", 1)?, seeds);
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

/// First seed of a run that is part of the tests: each commit tries seeds that none has tried before, and a failure is repeated
/// by running the same commit again.
pub(crate) fn seed_of_commit(workspace: &Workspace) -> Fallible<u64> {
    let commit = workspace.commit("%H")?;
    let digits = commit.get(..8).ok_or("a commit has no name")?;
    Ok(u64::from_str_radix(digits, 16)?.max(1))
}

/// `cargo run` of the simulator over `seeds` seeds.
pub(crate) fn command(workspace: &Workspace, first: u64, seeds: u64) -> Command {
    let mut command = workspace.cargo();
    command
        .args(["run", "--locked", "--profile", PROFILE, "--package", PACKAGE, "--", "--first"])
        .arg(first.to_string());
    command.arg("--seeds").arg(seeds.to_string());
    command
}
