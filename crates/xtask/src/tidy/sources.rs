//! Rules about single source files: length, names, invariants, unfinished work.
//!
//! Invariant: the rules read text only, so they judge every file alike, built or not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{arrows, findings::Findings};
use crate::Fallible;
use crate::workspace::Workspace;

/// Past this many lines a file is refused.
const LINES_MAX: usize = 800;
/// Past this many it is listed: look for a seam.
const LINES_NOTE: usize = 450;

/// The same for the programs of foreign clients in other languages.
const PROGRAM_LINES_MAX: usize = 600;

/// Endings of files that hold code of ours.
const CODE: [&str; 12] = ["rs", "py", "js", "mjs", "cpp", "hpp", "h", "go", "java", "sh", "toml", "yml"];
/// Those of programs in other languages.
const PROGRAMS: [&str; 8] = ["py", "js", "mjs", "cpp", "hpp", "h", "go", "java"];

/// Written in two pieces so that this file does not find itself.
const MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    for file in files.iter().filter(|file| is_one_of(&CODE, file)) {
        let text = workspace.read(file)?;
        unfinished(file, &text, findings);
        if is_one_of(&["rs"], file) {
            rust(file, &text, findings);
        } else if is_one_of(&PROGRAMS, file) {
            program(file, &text, findings);
        }
    }
    Ok(())
}

fn program(file: &Path, text: &str, findings: &mut Findings) {
    let lines = text.lines().count();
    if lines > PROGRAM_LINES_MAX {
        let shown = file.display();
        findings.broken.push(format!("{shown}: {lines} lines, at most {PROGRAM_LINES_MAX}"));
    }
}

fn rust(file: &Path, text: &str, findings: &mut Findings) {
    let shown = file.display();
    if file.file_name() == Some(OsStr::new("mod.rs")) {
        findings.broken.push(format!("{shown}: name the module's file after the module, not `mod.rs`"));
    }
    let lines = text.lines().count();
    let tests = is_test(file);
    if lines > LINES_MAX && !tests {
        findings.broken.push(format!("{shown}: {lines} lines, at most {LINES_MAX}"));
    } else if lines > LINES_NOTE {
        findings.notes.push(format!("{shown}: {lines} lines, is there a seam?"));
    }
    if !tests && states_invariants(file) && !has_invariant(text) {
        findings
            .broken
            .push(format!("{shown}: the module's documentation has no line that begins with `Invariant:`"));
    }
}

/// Whether the file belongs to a crate below the server.
fn states_invariants(file: &Path) -> bool {
    arrows::below_server().any(|name| file.starts_with(Path::new("crates").join(name).join("src")))
}

/// Tests, benches, examples and fuzz targets. The programs of foreign clients are as long as production.
pub(super) fn is_test(file: &Path) -> bool {
    let beside = ["tests", "benches", "examples", "fuzz"];
    file.components().any(|part| part.as_os_str().to_str().is_some_and(|part| beside.contains(&part)))
        || file
            .file_stem()
            .and_then(OsStr::to_str)
            .is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

fn has_invariant(text: &str) -> bool {
    text.lines()
        .take_while(|line| line.is_empty() || line.starts_with("//") || line.starts_with("#!["))
        .filter_map(|line| line.strip_prefix("//!"))
        .any(|line| line.trim_start().trim_start_matches(['*', '_']).starts_with("Invariant:"))
}

/// Work left for later names the issue that keeps it.
fn unfinished(file: &Path, text: &str, findings: &mut Findings) {
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS {
            if let Some((_, rest)) = line.split_once(mark)
                && !names_an_issue(rest)
            {
                findings.broken.push(format!(
                    "{}:{}: `{mark}` without an issue, `{mark}(#12)`",
                    file.display(),
                    index + 1
                ));
            }
        }
    }
}

fn names_an_issue(rest: &str) -> bool {
    rest.strip_prefix("(#").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

fn is_one_of(endings: &[&str], file: &Path) -> bool {
    file.extension().and_then(OsStr::to_str).is_some_and(|ending| endings.contains(&ending))
}

#[cfg(test)]
mod tests;
