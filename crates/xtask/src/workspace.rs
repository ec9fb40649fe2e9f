//! Workspace: its root, and its packages from `cargo metadata`.
//!
//! Invariant: every path comes from here, so a chore works from any folder and any target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Fallible;

/// The repository on disk.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a member's manifest.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
    /// Whether it comes from a path: a member of this workspace.
    pub(crate) local: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DependencyKind {
    Normal,
    Dev,
    Build,
}

impl Workspace {
    pub(crate) fn find() -> Fallible<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.ancestors().nth(2).ok_or("xtask is not in `crates/xtask`")?.to_owned();
        let output = Command::new("cargo")
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(&root)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let target = text(&metadata, "target_directory")?.into();
        let packages = list(&metadata, "packages").map(Package::read).collect::<Fallible<_>>()?;
        Ok(Self { root, target, packages })
    }

    pub(crate) fn has(&self, package: &str) -> bool {
        self.packages.iter().any(|member| member.name == package)
    }

    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root);
        command
    }

    /// Builds `package` optimised and gives the path of its binary of the same name.
    pub(crate) fn release_binary(&self, package: &str) -> Fallible<PathBuf> {
        let status = self.cargo().args(["build", "--release", "--package", package]).status()?;
        if !status.success() {
            return Err(format!("`{package}` does not build").into());
        }
        Ok(self.target.join("release").join(package))
    }

    /// The files git knows or would add, relative to the root.
    pub(crate) fn files(&self) -> Fallible<Vec<PathBuf>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()?;
        if !output.status.success() {
            return Err("`git ls-files` failed: the checks need a git checkout".into());
        }
        let names = String::from_utf8(output.stdout)?;
        let files = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
        // A file deleted but not yet committed is still listed.
        Ok(files.filter(|file| self.root.join(file).is_file()).collect())
    }

    /// Fields of the last commit, in a format of `git log`.
    pub(crate) fn commit(&self, format: &str) -> Fallible<String> {
        let output = Command::new("git")
            .args(["log", "-1", &format!("--format={format}")])
            .current_dir(&self.root)
            .output()?;
        let said = String::from_utf8(output.stdout)?.trim().to_owned();
        if said.is_empty() { Err("`git log` failed: this needs a git checkout".into()) } else { Ok(said) }
    }

    pub(crate) fn read(&self, file: impl AsRef<Path>) -> Fallible<String> {
        let path = self.root.join(file);
        std::fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()).into())
    }
}

impl Package {
    fn read(value: &Value) -> Fallible<Self> {
        let manifest = PathBuf::from(text(value, "manifest_path")?);
        Ok(Self {
            name: text(value, "name")?.to_owned(),
            folder: manifest.parent().ok_or("a manifest has no folder")?.to_owned(),
            dependencies: list(value, "dependencies").map(Dependency::read).collect::<Fallible<_>>()?,
        })
    }
}

impl Dependency {
    fn read(value: &Value) -> Fallible<Self> {
        Ok(Self {
            name: text(value, "name")?.to_owned(),
            kind: match value.get("kind").and_then(Value::as_str) {
                Some("dev") => DependencyKind::Dev,
                Some("build") => DependencyKind::Build,
                _ => DependencyKind::Normal,
            },
            local: value.get("path").is_some_and(Value::is_string),
        })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Fallible<&'a str> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| format!("cargo metadata has no `{key}`").into())
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
