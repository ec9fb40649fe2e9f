//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Invariant: every finding names a file or a crate and says what to do; findings fail the run, notes do not.

mod arrows;
mod bans;
mod documented;
mod figures;
mod findings;
mod fuzz;
mod layout;
mod libraries;
mod map;
mod promises;
mod reasons;
mod requirements;
mod sources;

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};
use findings::Findings;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&[], &["--figures", "--lower"])?;
    let files = workspace.files()?;
    let mut findings = Findings::default();
    arrows::check(&workspace.packages, &mut findings);
    libraries::check(workspace, &files, &mut findings)?;
    reasons::check(workspace, &mut findings)?;
    bans::check(workspace, &mut findings)?;
    fuzz::check(workspace, &mut findings)?;
    layout::check(&files, &mut findings);
    sources::check(workspace, &files, &mut findings)?;
    requirements::check(workspace, &files, &mut findings)?;
    promises::check(workspace, &files, &mut findings)?;
    documented::check(workspace, &files, &mut findings)?;
    map::check(workspace, &files, &mut findings)?;
    if args.flag("--figures") {
        figures::check(workspace, &files, args.flag("--lower"), &mut findings)?;
    }
    for note in &findings.notes {
        println!("note: {note}");
    }
    for broken in &findings.broken {
        println!("{broken}");
    }
    println!("tidy: {} files, {} findings", files.len(), findings.broken.len());
    Ok(if findings.broken.is_empty() { Verdict::Good } else { Verdict::Bad })
}
