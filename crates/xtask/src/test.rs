//! `cargo xtask test`: installs what the tests need, runs every suite, adds up what they report.
//!
//! Invariant: the last line is `N passed, M failed`, and the exit code is success only when M is 0,
//! N is not, and no suite was left out for a reason other than `--only`.

mod described;
mod expectations;
mod interop;
mod report;
mod rust;

use std::time::{Duration, Instant};

use self::report::Row;
use crate::args::Args;
use crate::counts::Counts;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict, process, sim};

const SIM_LIMIT: Duration = Duration::from_secs(20 * 60);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--only", "--seeds"], &["--list"])?;
    let suites = interop::discover(workspace)?;
    let mut names = vec!["cargo".to_owned(), "sim".to_owned()];
    names.extend(suites.iter().map(|suite| suite.name.clone()));
    if args.flag("--list") {
        println!("{}", names.join("\n"));
        return Ok(Verdict::Good);
    }
    let only = args.list("--only");
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        return Err(format!("no suite `{unknown}`; `--list` names them").into());
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);

    let start = Instant::now();
    let mut rows = Vec::new();
    let broker = if workspace.has("ferrybus") { Some(workspace.release_binary("ferrybus")?) } else { None };
    if wanted("cargo") {
        rows.extend(rust::run(workspace, broker.as_deref())?);
    }
    if wanted("sim") && workspace.has(sim::PACKAGE) {
        rows.push(simulate(workspace, args.value_or("--seeds", sim::SEEDS)?)?);
    }
    let chosen: Vec<_> = suites.into_iter().filter(|suite| wanted(&suite.name)).collect();
    rows.extend(interop::run(workspace, broker.as_deref(), &chosen)?);
    print!("{}", report::text(&rows, start.elapsed()));
    let total = report::total(&rows);
    Ok(if total.failed == 0 && total.passed > 0 { Verdict::Good } else { Verdict::Bad })
}

/// The simulator counts as one test: its seeds are cases of the same statement.
fn simulate(workspace: &Workspace, seeds: u64) -> Fallible<Row> {
    let log = workspace.target.join("test-logs/sim.log");
    let first = sim::seed_of_commit(workspace)?;
    println!("\n== sim: {seeds} seeds from {first}, which follows from the commit ==");
    let ran = process::run(&mut sim::command(workspace, first, seeds), &log, SIM_LIMIT)?;
    Ok(if ran.ok {
        Row::new("sim", Counts::success(), format!("{seeds} seeds from {first}"))
    } else {
        Row::failed("sim", ran.reason, &ran.text)
    })
}
