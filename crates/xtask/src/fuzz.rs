//! `cargo xtask fuzz`: every fuzz target, each for a bounded time, starting from its stored corpus.
//!
//! Invariant: a run adds nothing to the stored corpora; what it finds stays under the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::args::Args;
use crate::process::{self, Ran, succeeds};
use crate::workspace::Workspace;
use crate::{Fallible, Verdict, tools};

/// One `[[bin]]` of a `crates/*/fuzz/Cargo.toml`.
pub(crate) struct FuzzTarget {
    /// The folder that holds `fuzz/`.
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
}

/// Fuzzing time of one target, in seconds, where none is given.
const SECONDS: u64 = 60;
const BUILD_LIMIT: Duration = Duration::from_secs(15 * 60);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--seconds", "--target"], &[])?;
    let seconds = args.value_or("--seconds", SECONDS)?;
    let wanted = args.list("--target");
    let cargo_fuzz = tools::tool(workspace, "cargo-fuzz")?;
    let mut verdict = Verdict::Good;
    for target in targets(workspace)? {
        if wanted.is_empty() || wanted.contains(&target.name) {
            let ran = target.run(workspace, &cargo_fuzz, seconds)?;
            if !ran.ok {
                println!("{}: {}", target.label(), ran.reason);
                verdict = Verdict::Bad;
            }
        }
    }
    Ok(verdict)
}

/// All targets, in the order of their crates and names.
pub(crate) fn targets(workspace: &Workspace) -> Fallible<Vec<FuzzTarget>> {
    let mut targets = Vec::new();
    for package in &workspace.packages {
        let manifest = package.folder.join("fuzz/Cargo.toml");
        if manifest.is_file() {
            let names = binaries(&std::fs::read_to_string(&manifest)?)
                .map_err(|error| format!("`{}`: {error}", manifest.display()))?;
            targets.extend(names.into_iter().map(|name| FuzzTarget { folder: package.folder.clone(), name }));
        }
    }
    Ok(targets)
}

fn binaries(manifest: &str) -> Result<Vec<String>, toml::de::Error> {
    let table: toml::Table = toml::from_str(manifest)?;
    let bins = table.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(bins.filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

impl FuzzTarget {
    fn label(&self) -> String {
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("fuzz {folder}/{}", self.name)
    }

    /// Builds the target and runs it for `seconds`.
    fn run(&self, workspace: &Workspace, cargo_fuzz: &Path, seconds: u64) -> Fallible<Ran> {
        let scratch = workspace.target.join("fuzz").join(&self.name);
        let (found, crashes) = (scratch.join("corpus"), scratch.join("crashes"));
        std::fs::create_dir_all(&found)?;
        std::fs::create_dir_all(&crashes)?;
        let mut command = unstable(cargo_fuzz);
        command.current_dir(&self.folder).args(["run", &self.name]);
        // The first folder receives what is found; the stored corpus is only read.
        command.arg(&found);
        let stored = self.folder.join("fuzz/corpus").join(&self.name);
        if stored.is_dir() {
            command.arg(&stored);
        }
        command.arg("--").arg(format!("-max_total_time={seconds}")).arg(prefix(&crashes));
        command.args(["-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1"]);
        command.env("CARGO_TARGET_DIR", workspace.target.join("fuzz"));
        let log = workspace.target.join("test-logs").join(format!("fuzz-{}.log", self.name));
        process::run(&mut command, &log, BUILD_LIMIT + Duration::from_secs(seconds))
    }
}

/// libFuzzer takes the folder of its findings as a bare prefix.
fn prefix(crashes: &Path) -> String {
    format!("-artifact_prefix={}/", crashes.display())
}

/// `cargo fuzz` with the nightly toolchain, where there is one; else with the usual one, told to take the unstable flags that
/// sanitizers and coverage need. `cargo +nightly` would not do: inside `cargo xtask` the variable that names the outer
/// toolchain is set, and `rustup run` replaces it.
fn unstable(cargo_fuzz: &Path) -> Command {
    if succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).arg(cargo_fuzz).arg("fuzz");
        return command;
    }
    let mut command = Command::new(cargo_fuzz);
    command.arg("fuzz").env("RUSTC_BOOTSTRAP", "1");
    command
}

#[cfg(test)]
mod tests;
