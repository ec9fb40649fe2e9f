//! Which scenarios run on which brokers, and the report of all.
//!
//! Invariant: a scenario without a result makes the run fail, and is a row of the report all the same.

use std::path::PathBuf;

use crate::broker::Broker;
use crate::growth::{self, FAMILIES, Family, Grown};
use crate::limits::Limits;
use crate::listing::{self, ListingResult};
use crate::measure::{Bench, Measured};
use crate::neighbours::{self, Neighbours};
use crate::scale::{self, Scale};
use crate::scenario::{SCENARIOS, Scenario};
use crate::sdk_latency::{self, Latencies};
use crate::{Fallible, Run, checkout, creating, machine, report};

/// Runs and prints; whether everything had a result.
pub(crate) fn run(args: &Run) -> Fallible<bool> {
    let (scenarios, families) = chosen(&args.scenario)?;
    let wanted = |name: &str| args.scenario.is_empty() || args.scenario.iter().any(|one| one == name);
    let _claim = machine::Claim::new();
    let folder = folder()?;
    let mut parts = Vec::new();
    let mut is_broken = false;
    if !scenarios.is_empty() {
        let bench = Bench { folder: folder.clone(), reps: args.reps, seconds: args.seconds };
        let (rows, part) = compare(args, &bench, &scenarios)?;
        is_broken |= rows.iter().any(Measured::is_broken);
        parts.push(part);
    }
    if !families.is_empty() {
        let binary = ferrybus(args)?;
        let folder = folder.join("growth");
        let grown: Vec<Grown> =
            families.iter().map(|family| family.run(&binary, &folder, args.reps)).collect();
        is_broken |= grown.iter().any(Grown::is_broken);
        parts.push(growth::report(&grown, args.reps));
    }
    if wanted(listing::NAME) {
        let listed = listing::run(&ferrybus(args)?, &folder.join(listing::NAME), args.reps);
        is_broken |= listed.iter().any(ListingResult::is_broken);
        parts.push(listing::report(&listed, args.reps));
    }
    if wanted(neighbours::NAME) {
        let plan = Neighbours {
            binary: ferrybus(args)?,
            folder: folder.join(neighbours::NAME),
            backlog_mb: args.backlog_mb,
            nice: args.nice_load,
            seconds: args.seconds,
        };
        let measured = plan.run(args.reps);
        is_broken |= measured.is_err();
        parts.push(plan.report(&measured, args.reps));
    }
    if wanted(scale::NAME) {
        let plan = Scale { folder: folder.join(scale::NAME), seconds: args.seconds };
        let measured = plan.run(args.reps);
        is_broken |= measured.is_err();
        parts.push(plan.report(&measured, args.reps));
    }
    if wanted(creating::NAME) {
        let created = creating::run(&ferrybus(args)?, &folder.join(creating::NAME));
        is_broken |= created.is_broken();
        parts.push(creating::report(&created));
    }
    if wanted(sdk_latency::NAME) {
        let folder = folder.join(sdk_latency::NAME);
        let latencies = sdk_latency::run(&ferrybus(args)?, &checkout::root(), &folder, args.reps);
        is_broken |= latencies.iter().any(Latencies::is_broken);
        parts.push(sdk_latency::report(&latencies, args.reps));
    }
    println!("\n{}", report::whole(&parts));
    Ok(!is_broken)
}

/// Prints what the machine allows.
pub(crate) fn limits(chosen: Option<PathBuf>) -> Fallible<()> {
    let _claim = machine::Claim::new();
    let folder = chosen.map_or_else(folder, Ok)?;
    println!("{}.\n{}", machine::description(), Limits::measure(&folder)?);
    Ok(())
}

/// Under the target directory and not in `/tmp`: that is often memory, where fdatasync costs nothing.
fn folder() -> Fallible<PathBuf> {
    let folder = checkout::target()?.join("bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs the scenarios on every broker; gives the rows and the part of the report.
fn compare(args: &Run, bench: &Bench, scenarios: &[&'static Scenario]) -> Fallible<(Vec<Measured>, String)> {
    let brokers = brokers(args)?;
    let limits = Limits::measure(&bench.folder)?;
    let mut rows: Vec<Measured> = Vec::new();
    for scenario in scenarios {
        for broker in &brokers {
            let measured = bench
                .measure(scenario, broker, &limits)
                .unwrap_or_else(|error| vec![Measured::broken(scenario, &broker.name, &error.to_string())]);
            for row in measured {
                println!("{row}");
                rows.push(row);
            }
        }
    }
    let part = report::part(bench, &brokers, &limits, &rows)?;
    Ok((rows, part))
}

/// The build that is measured: this checkout's, or another one to compare with.
fn ferrybus(args: &Run) -> Fallible<PathBuf> {
    match &args.binary {
        Some(path) => Ok(path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()))?),
        None => checkout::broker(),
    }
}

/// Names of all scenarios.
pub(crate) fn scenarios() -> Vec<&'static str> {
    let all = SCENARIOS.iter().map(|scenario| scenario.name);
    let all = all.chain(FAMILIES.iter().map(|family| family.name)).chain([
        listing::NAME,
        neighbours::NAME,
        scale::NAME,
        creating::NAME,
        sdk_latency::NAME,
    ]);
    all.collect()
}

/// All, or those that are named.
fn chosen(names: &[String]) -> Fallible<(Vec<&'static Scenario>, Vec<&'static Family>)> {
    let all = scenarios();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(format!("no scenario `{name}`; there are {}", all.join(", ")).into());
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let scenarios = SCENARIOS.iter().filter(|scenario| wanted(scenario.name)).collect();
    Ok((scenarios, FAMILIES.iter().filter(|family| wanted(family.name)).collect()))
}

/// Ferrybus first, then what is installed here, then what `--peer` names; `--broker` picks some of them.
fn brokers(args: &Run) -> Fallible<Vec<Broker>> {
    let wanted =
        |name: &str| args.broker.is_empty() || args.broker.iter().any(|one| one.eq_ignore_ascii_case(name));
    let mut brokers = Vec::new();
    if wanted("Ferrybus") {
        brokers.push(Broker::ferrybus(ferrybus(args)?)?);
    }
    brokers.extend(Broker::rabbitmq()?);
    for peer in &args.peer {
        brokers.push(Broker::peer(peer)?);
    }
    brokers.retain(|broker| wanted(&broker.name));
    if brokers.is_empty() {
        return Err("no such broker here".into());
    }
    Ok(brokers)
}
