//! `cargo xtask bench`: Ferrybus and the peers found here under one load generator, in one run.
//!
//! The generator is not part of the project: `--load` names a built copy. Its sibling `limits`, where
//! there is one, says what the machine itself allows.
//!
//! Invariant: every figure is printed beside those of the peers and of the machine from the same run.

mod broker;
mod limits;
mod load;
mod machine;
mod measure;
mod ports;
mod report;
mod scenario;

use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};
use broker::Broker;
use limits::Limits;
use measure::{Bench, Measured};
use scenario::{SCENARIOS, Scenario};

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--load", "--peer", "--broker", "--scenario", "--reps", "--seconds"], &["--no-record"])?;
    let load = generator(args)?;
    let scenarios = chosen(&args.list("--scenario"))?;
    let brokers = brokers(workspace, args)?;
    let _claim = machine::Claim::new();
    // Under the target folder and not in `/tmp`: that is often memory, where fdatasync costs nothing.
    let bench = Bench {
        load,
        folder: workspace.target.join("bench"),
        reps: args.value_or("--reps", 3)?,
        seconds: args.value_or("--seconds", 5)?,
    };
    std::fs::create_dir_all(&bench.folder)?;
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
    let names: Vec<&str> = brokers.iter().map(|broker| broker.name.as_str()).collect();
    let table = report::table(&rows, &names);
    println!("\n{table}\n{limits}");
    if !args.flag("--no-record") {
        report::record(workspace, &bench, &brokers, &limits, &table)?;
    }
    Ok(if rows.iter().any(Measured::is_broken) { Verdict::Bad } else { Verdict::Good })
}

fn generator(args: &Args) -> Fallible<PathBuf> {
    let path = args.values("--load").last().ok_or("`--load PATH` names the load generator")?;
    let path = Path::new(path).canonicalize().map_err(|error| format!("`{path}`: {error}"))?;
    Ok(if path.is_dir() { path.join("amqpload") } else { path })
}

fn chosen(names: &[String]) -> Fallible<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let known = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    names
        .iter()
        .map(|name| {
            let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
            found.ok_or_else(|| format!("no scenario `{name}`; there are {}", known()).into())
        })
        .collect()
}

/// Ferrybus first, then what is installed here, then what `--peer` names; `--broker` picks some of them.
fn brokers(workspace: &Workspace, args: &Args) -> Fallible<Vec<Broker>> {
    let only = args.list("--broker");
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one.eq_ignore_ascii_case(name));
    let mut brokers = Vec::new();
    if wanted("Ferrybus") {
        brokers.push(Broker::ferrybus(workspace.release_binary("ferrybus")?)?);
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
