//! `cargo xtask bench`: builds the bench, optimised, and runs it. It is a crate of its own, so that no other chore builds it.
//!
//! Invariant: every option is the bench's own.

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--package", "bench", "--"]).args(args.words());
    Ok(if command.status()?.success() { Verdict::Good } else { Verdict::Bad })
}
