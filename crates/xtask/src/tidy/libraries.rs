//! The libraries that the project was asked to be built on serve in it, and are not only listed.
//!
//! Invariant: each has a crate of the product that depends on it outside of its tests and names it in its own code.

use std::path::{Path, PathBuf};

use super::{findings::Findings, sources};
use crate::Fallible;
use crate::workspace::{DependencyKind, Package, Workspace};

/// Each library, and the crates in which it serves.
const SERVING: [(&str, &[&str]); 7] = [
    ("tokio", &["broker-server", "ferrybus"]),
    ("fe2o3-amqp", &["ferrybus"]),
    ("serde_amqp", &["amqp-codec", "ferrybus"]),
    ("tokio-rustls", &["broker-server", "ferrybus"]),
    ("rustls", &["broker-server", "ferrybus"]),
    ("tracing", &["amqp-gateway", "broker-server", "ferrybus"]),
    ("anyhow", &["ferrybus"]),
];

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    for (library, name) in SERVING.iter().flat_map(|(library, names)| names.iter().map(move |n| (library, n)))
    {
        let folder = Path::new("crates").join(name).join("src");
        let own = files.iter().filter(|file| file.starts_with(&folder) && !sources::is_test(file));
        let texts = own.map(|file| workspace.read(file)).collect::<Fallible<Vec<_>>>()?;
        findings.broken.extend(fault(&workspace.packages, library, name, &texts));
    }
    Ok(())
}

/// Reason why `library` does not serve in the crate `name`, whose own code is `texts`.
fn fault(packages: &[Package], library: &str, name: &str, texts: &[String]) -> Option<String> {
    let listed = packages.iter().filter(|package| package.name == name).flat_map(|p| &p.dependencies);
    let listed =
        listed.filter(|dependency| dependency.kind == DependencyKind::Normal).any(|d| d.name == library);
    if !listed {
        return Some(format!("`{name}` does not depend on `{library}`, which it was asked to be built on"));
    }
    (!texts.iter().any(|text| uses(text, library)))
        .then(|| format!("`{name}` depends on `{library}`, and none of its code names it"))
}

/// Whether code names something of a library.
fn uses(text: &str, library: &str) -> bool {
    let path = format!("{}::", library.replace('-', "_"));
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut places = code.flat_map(|line| line.match_indices(&path).map(move |(at, _)| &line[..at]));
    places.any(|before| !before.ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter)))
}

#[cfg(test)]
mod tests;
