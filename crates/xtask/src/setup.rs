//! Installs what the suites need: Debian packages, a Python environment, whatever a suite asks for.
//!
//! Invariant: on a machine that has everything, nothing is installed and no network is used for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Fallible;
use crate::process::succeeds;
use crate::workspace::Workspace;

/// Debian packages that a suite needs, by a file in its folder or a word of its commands.
///
/// Proton for Python comes as source only, so Python suites need a compiler and TLS headers.
const TOOLS: [(&str, &[&str]); 4] = [
    ("requirements.txt", &["python3-dev", "gcc", "pkg-config", "libssl-dev"]),
    ("package.json", &["nodejs", "npm"]),
    ("pom.xml", &["default-jdk-headless", "maven"]),
    ("CMakeLists.txt", &["cmake", "g++", "make", "libqpid-proton-cpp12-dev"]),
];

/// Packages for the Python environment.
pub(crate) const PYTHON: [&str; 2] = ["python3", "python3-venv"];

/// Programs that stand for a package when they are there, wherever they came from.
const PROGRAMS: [(&str, &str); 10] = [
    ("python3", "python3"),
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("make", "make"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
    ("nodejs", "node"),
    ("npm", "npm"),
    ("default-jdk-headless", "javac"),
    ("maven", "mvn"),
];

/// The Python environment of all suites.
pub(crate) fn venv(workspace: &Workspace) -> PathBuf {
    workspace.root.join(".venv")
}

/// `PATH` with the environment's programs first.
pub(crate) fn path_with_venv(workspace: &Workspace) -> Fallible<OsString> {
    let mut folders = vec![venv(workspace).join("bin")];
    if let Some(path) = std::env::var_os("PATH") {
        folders.extend(std::env::split_paths(&path));
    }
    Ok(std::env::join_paths(folders)?)
}

/// The Debian packages that a suite in `folder` with these `commands` needs, `more` among them.
pub(crate) fn packages_for(folder: &Path, commands: &[String], more: &[String]) -> Vec<String> {
    let says = |file: &str| folder.join(file).is_file() || commands.iter().any(|line| line.contains(file));
    let conventional = TOOLS.iter().filter(|(file, _)| says(file)).flat_map(|(_, names)| names.iter());
    // Every suite gets the Python environment.
    let names = PYTHON.iter().chain(conventional);
    names.map(|name| (*name).to_owned()).chain(more.iter().cloned()).collect()
}

/// Installs those of `packages` that are missing.
pub(crate) fn install(packages: &[String]) -> Fallible<()> {
    let missing: Vec<&str> = packages.iter().map(String::as_str).filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let words = missing.join(" ");
    if !has("apt-get") {
        return Err(format!("install these packages or what answers to them here: {words}").into());
    }
    if !is_root() {
        return Err(format!("run as root: apt-get install {words}").into());
    }
    println!("installing {words}");
    apt(&["update", "--quiet"])?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    apt(&install.iter().copied().chain(missing).collect::<Vec<_>>())
}

/// Makes the Python environment when it is not there.
pub(crate) fn make_venv(workspace: &Workspace) -> Fallible<()> {
    let venv = venv(workspace);
    if venv.join("bin/pip").is_file() {
        return Ok(());
    }
    println!("making a Python environment in `{}`", venv.display());
    if Command::new("python3").args(["-m", "venv"]).arg(&venv).status()?.success() {
        return Ok(());
    }
    Err("`python3 -m venv` failed: on Debian it is in the package `python3-venv`".into())
}

fn is_there(package: &str) -> bool {
    let program = PROGRAMS.iter().find(|(name, _)| *name == package).map(|(_, program)| *program);
    match program {
        Some(program) => has(program),
        // `python3 -m venv` and the headers may come with a Python that no package installed.
        None if package == "python3-venv" => {
            succeeds(Command::new("python3").args(["-c", "import ensurepip"]))
        }
        None if package == "python3-dev" => succeeds(Command::new("python3").args([
            "-c",
            "import os, sysconfig; os.stat(os.path.join(sysconfig.get_paths()['include'], 'Python.h'))",
        ])),
        None => succeeds(Command::new("dpkg").args(["--status", package])),
    }
}

fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

fn apt(words: &[&str]) -> Fallible<()> {
    let status = Command::new("apt-get")
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("`apt-get {}` failed", words.join(" ")).into()) }
}

#[cfg(test)]
mod tests;
