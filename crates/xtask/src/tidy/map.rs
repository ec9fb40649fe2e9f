//! The files that `docs/ARCHITECTURE.md` names and the pages that the documents link to exist.
//!
//! Invariant: a file that is renamed fails the run until the map and every link follow.

use std::path::{Component, Path, PathBuf};

use super::findings::Findings;
use crate::Fallible;
use crate::workspace::Workspace;

const MAP: &str = "docs/ARCHITECTURE.md";

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    let map = workspace.read(MAP)?;
    let lost = sources(&map).filter(|name| !files.iter().any(|file| file.ends_with(name)));
    findings.broken.extend(lost.map(|name| format!("{MAP}: there is no file `{name}`")));
    for page in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        let text = workspace.read(page)?;
        let folder = page.parent().unwrap_or(Path::new(""));
        let lost = links(&text).filter(|link| !workspace.root.join(resolved(folder, link)).exists());
        findings.broken.extend(lost.map(|link| format!("{}: there is no `{link}`", page.display())));
    }
    Ok(())
}

/// Names of Rust files between backticks.
fn sources(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| Path::new(span).extension().is_some_and(|ending| ending == "rs"))
}

/// Paths in links to other files of the repository, without the place on the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let paths = targets.map(|target| target.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty() && !path.contains(':') && !path.contains(char::is_whitespace))
}

/// `folder/link` without `.` and `..`.
fn resolved(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for component in folder.join(link).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests;
