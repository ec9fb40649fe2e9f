//! `cargo xtask tools`: the programs that checks and tests are run with, at pinned versions, in the Python environment.
//!
//! Invariant: a prebuilt program has the digest in `.ci/tools.txt`; where there is none for this machine, the same version is built.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::process::succeeds;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict, setup};

/// Names, versions and digests of the prebuilt programs, as pip reads them.
const FILE: &str = ".ci/tools.txt";
/// Packages of the file are called this and the program's name.
const PREFIX: &str = "astral-dev-toolchain-";

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&[], &[])?;
    for (name, _) in pinned(&workspace.read(FILE)?) {
        println!("{}", tool(workspace, name)?.display());
    }
    Ok(Verdict::Good)
}

/// Path of the program, which is installed unless this version is there.
pub(crate) fn tool(workspace: &Workspace, name: &str) -> Fallible<PathBuf> {
    let text = workspace.read(FILE)?;
    let (_, version) =
        pinned(&text).find(|(known, _)| *known == name).ok_or_else(|| format!("`{FILE}` has no `{name}`"))?;
    let program = setup::venv(workspace).join("bin").join(name);
    if says(&program, version) {
        return Ok(program);
    }
    println!("installing {name} {version}");
    setup::install(&setup::PYTHON.map(str::to_owned))?;
    setup::make_venv(workspace)?;
    let mut pip = Command::new(setup::venv(workspace).join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]);
    pip.arg("--requirement").arg(workspace.root.join(FILE));
    if !(succeeds(&mut pip) && says(&program, version)) {
        println!("no prebuilt {name} for this machine: building it");
        let mut build = Command::new("cargo");
        // Unoptimised: it runs for seconds, and builds in half the time.
        build.args(["install", "--quiet", "--locked", "--debug", "--version", version, "--root"]);
        build.arg(setup::venv(workspace)).arg(name);
        if !build.status()?.success() {
            return Err(format!("`cargo install {name}` failed").into());
        }
    }
    Ok(program)
}

/// Whether the program is there, in this version.
fn says(program: &PathBuf, version: &str) -> bool {
    let subcommand = program.file_name().and_then(|name| name.to_str()?.strip_prefix("cargo-"));
    let said = Command::new(program).args(subcommand).arg("--version").stderr(Stdio::null()).output();
    said.is_ok_and(|said| {
        String::from_utf8_lossy(&said.stdout).split_whitespace().any(|word| word == version)
    })
}

/// Names and versions in the file.
fn pinned(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(PREFIX)?.split_once("=="));
    lines.map(|(name, rest)| (name, rest.split_whitespace().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
