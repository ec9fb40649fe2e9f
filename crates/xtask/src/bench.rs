//! `cargo xtask bench`: Ferrybus and the peers found here under one load generator, in one run.
//!
//! The generator is not part of the project: `--load` names a built copy. Its sibling `limits`, where
//! there is one, says what the machine itself allows. Growth, and what senders notice of those who look, is measured
//! without it, for Ferrybus alone.
//!
//! Invariant: every figure is printed beside those of the peers and of the machine from the same run.

mod broker;
mod creating;
mod growth;
mod http;
mod limits;
mod listing;
mod load;
mod machine;
mod measure;
mod ports;
mod relay;
mod report;
mod scenario;
mod wake;

use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};
use broker::Broker;
use growth::{FAMILIES, Family, Grown};
use limits::Limits;
use listing::Listed;
use measure::{Bench, Measured};
use scenario::{SCENARIOS, Scenario};

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    let values = ["--load", "--peer", "--broker", "--binary", "--scenario", "--reps", "--seconds"];
    args.only(&values, &[])?;
    let names = args.list("--scenario");
    let (scenarios, families) = chosen(&names)?;
    let lists = names.is_empty() || names.iter().any(|name| name == listing::NAME);
    let _claim = machine::Claim::new();
    // Under the target folder and not in `/tmp`: that is often memory, where fdatasync costs nothing.
    let folder = workspace.target.join("bench");
    std::fs::create_dir_all(&folder)?;
    let mut parts = Vec::new();
    let mut is_broken = false;
    if !scenarios.is_empty() {
        let bench = Bench {
            load: generator(args)?,
            folder: folder.clone(),
            reps: args.value_or("--reps", 3)?,
            seconds: args.value_or("--seconds", 5)?,
        };
        let (rows, part) = compare(workspace, args, &bench, &scenarios)?;
        is_broken |= rows.iter().any(Measured::is_broken);
        parts.push(part);
    }
    if !families.is_empty() {
        let binary = ferrybus(workspace, args)?;
        let reps = args.value_or("--reps", 3)?;
        let folder = folder.join("growth");
        let grown: Vec<Grown> = families.iter().map(|family| family.run(&binary, &folder, reps)).collect();
        is_broken |= grown.iter().any(Grown::is_broken);
        parts.push(growth::report(&grown, reps));
    }
    if lists {
        let binary = ferrybus(workspace, args)?;
        let reps = args.value_or("--reps", 3)?;
        let listed = listing::run(&binary, &folder.join(listing::NAME), reps);
        is_broken |= listed.iter().any(Listed::is_broken);
        parts.push(listing::report(&listed, reps));
    }
    if names.is_empty() || names.iter().any(|name| name == creating::NAME) {
        let created = creating::run(&ferrybus(workspace, args)?, &folder.join(creating::NAME));
        is_broken |= created.is_broken();
        parts.push(creating::report(&created));
    }
    println!("\n{}", report::whole(workspace, &parts));
    Ok(if is_broken { Verdict::Bad } else { Verdict::Good })
}

/// Runs the scenarios on every broker; gives the rows and the part of the report.
fn compare(
    workspace: &Workspace,
    args: &Args,
    bench: &Bench,
    scenarios: &[&'static Scenario],
) -> Fallible<(Vec<Measured>, String)> {
    let brokers = brokers(workspace, args)?;
    let limits = Limits::measure(&bench.load, &bench.folder)?;
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

/// The build that is measured: this tree's, or another one to compare with.
fn ferrybus(workspace: &Workspace, args: &Args) -> Fallible<PathBuf> {
    match args.values("--binary").last() {
        Some(path) => Ok(Path::new(path).canonicalize().map_err(|error| format!("`{path}`: {error}"))?),
        None => workspace.release_binary("ferrybus"),
    }
}

fn generator(args: &Args) -> Fallible<PathBuf> {
    let path = args.values("--load").last().ok_or("`--load PATH` names the load generator")?;
    let path = Path::new(path).canonicalize().map_err(|error| format!("`{path}`: {error}"))?;
    Ok(if path.is_dir() { path.join("amqpload") } else { path })
}

/// All, or those that are named.
fn chosen(names: &[String]) -> Fallible<(Vec<&'static Scenario>, Vec<&'static Family>)> {
    let all = SCENARIOS.iter().map(|scenario| scenario.name);
    let all = all.chain(FAMILIES.iter().map(|family| family.name)).chain([listing::NAME, creating::NAME]);
    let all: Vec<&str> = all.collect();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(format!("no scenario `{name}`; there are {}", all.join(", ")).into());
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let scenarios = SCENARIOS.iter().filter(|scenario| wanted(scenario.name)).collect();
    Ok((scenarios, FAMILIES.iter().filter(|family| wanted(family.name)).collect()))
}

/// Ferrybus first, then what is installed here, then what `--peer` names; `--broker` picks some of them.
fn brokers(workspace: &Workspace, args: &Args) -> Fallible<Vec<Broker>> {
    let only = args.list("--broker");
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one.eq_ignore_ascii_case(name));
    let mut brokers = Vec::new();
    if wanted("Ferrybus") {
        brokers.push(Broker::ferrybus(ferrybus(workspace, args)?)?);
    }
    brokers.extend(Broker::rabbitmq()?);
    for peer in args.values("--peer") {
        brokers.push(Broker::peer(peer)?);
    }
    brokers.retain(|broker| wanted(&broker.name));
    if brokers.is_empty() {
        return Err("no such broker here".into());
    }
    Ok(brokers)
}
