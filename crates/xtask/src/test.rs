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
use crate::{Fallible, Verdict, fuzz, process, sim, table};

const SIM_LIMIT: Duration = Duration::from_secs(20 * 60);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--only", "--seeds", "--fuzz-seconds"], &["--list"])?;
    let suites = interop::discover(workspace)?;
    let mut names = vec!["cargo".to_owned(), "sim".to_owned(), "fuzz".to_owned()];
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
    if wanted("fuzz") {
        rows.extend(fuzz_all(workspace, args.value_or("--fuzz-seconds", fuzz::SECONDS)?)?);
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
    let ran = process::run(&mut sim::command(workspace, seeds), &log, SIM_LIMIT)?;
    Ok(if ran.ok {
        Row::new("sim", Counts::success(), format!("{} seeds", table::thousands(seeds)))
    } else {
        Row::failed("sim", ran.reason, &ran.text)
    })
}

/// Each fuzz target counts as one test, also where none of them can run.
fn fuzz_all(workspace: &Workspace, seconds: u64) -> Fallible<Vec<Row>> {
    let targets = fuzz::targets(workspace)?;
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    if let Err(missing) = fuzz::install() {
        return Ok(targets
            .iter()
            .map(|target| Row::failed(target.label(), missing.to_string(), ""))
            .collect());
    }
    let run = |target: &fuzz::Target| {
        let ran = target.run(workspace, seconds)?;
        Ok(if ran.ok {
            let runs = fuzz::runs(&ran.text).map_or_else(|| "?".to_owned(), table::thousands);
            Row::new(target.label(), Counts::success(), format!("{runs} inputs in {seconds} s"))
        } else {
            Row::failed(target.label(), ran.reason, &ran.text)
        })
    };
    targets.iter().map(run).collect()
}
