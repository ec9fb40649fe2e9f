//! `cargo xtask package`: the static binary, and the Debian package of it.
//!
//! Invariant: what the package holds is what the repository and the binary say; nothing of the machine it is built on.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::workspace::Workspace;
use crate::{Fallible, Verdict};

/// Folder of the packages' files in the repository.
const FILES: &str = "docs/packages";
/// Contact in the package's control file.
const MAINTAINER: &str = "the Ferrybus contributors <ferrybus@localhost.localdomain>";
/// Files that the administrator may change.
const CONFFILES: [&str; 1] = ["/etc/ferrybus/ferrybus.toml"];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Fallible<Verdict> {
    args.only(&["--binary"], &[])?;
    let binary = match args.values("--binary").last() {
        Some(path) => PathBuf::from(path),
        None => static_binary(workspace)?,
    };
    let package = debian(workspace, &binary)?;
    println!("{}", binary.display());
    println!("{}", package.display());
    Ok(Verdict::Good)
}

/// Builds the broker for musl, with everything in it.
fn static_binary(workspace: &Workspace) -> Fallible<PathBuf> {
    let target = format!("{ARCH}-unknown-linux-musl");
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--locked", "--package", "ferrybus", "--target", &target]);
    if !build.status()?.success() {
        return Err(format!(
            "no static binary: it needs `rustup target add {target}` and a C compiler for musl (`apt install musl-tools`)"
        )
        .into());
    }
    Ok(workspace.target.join(target).join("release/ferrybus"))
}

/// Builds the package around a binary; says where it is.
fn debian(workspace: &Workspace, binary: &Path) -> Fallible<PathBuf> {
    let architecture = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian has no name for `{other}` here").into()),
    };
    let version = env!("CARGO_PKG_VERSION");
    let folder = workspace.target.join("package");
    let name = format!("ferrybus_{version}_{architecture}");
    let root = folder.join(&name);
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let tree = Tree { workspace, root: &root };
    tree.fill(binary)?;
    tree.describe(version, architecture, binary)?;
    let package = folder.join(format!("{name}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    // No file is younger than what it was made from.
    build.env("SOURCE_DATE_EPOCH", workspace.commit("%ct")?);
    succeed(&mut build)?;
    Ok(package)
}

/// The package's files, before they are packed.
struct Tree<'a> {
    workspace: &'a Workspace,
    root: &'a Path,
}

impl Tree<'_> {
    /// Copies the installed files.
    fn fill(&self, binary: &Path) -> Fallible<()> {
        self.put("usr/bin/ferrybus", &fs::read(binary)?, 0o755)?;
        succeed(Command::new("strip").arg(self.root.join("usr/bin/ferrybus")))?;
        let files = [
            (format!("{FILES}/ferrybus.service"), "usr/lib/systemd/system/ferrybus.service"),
            (format!("{FILES}/ferrybus.toml"), "etc/ferrybus/ferrybus.toml"),
            ("docs/ferrybus.reference.toml".into(), "usr/share/doc/ferrybus/ferrybus.reference.toml"),
            ("docs/operations.md".into(), "usr/share/doc/ferrybus/operations.md"),
            ("CHANGELOG.md".into(), "usr/share/doc/ferrybus/CHANGELOG.md"),
        ];
        for (from, to) in files {
            self.put(to, self.workspace.read(&from)?.as_bytes(), 0o644)?;
        }
        let copyright = copyright(&self.workspace.read("LICENSE")?)?;
        self.put("usr/share/doc/ferrybus/copyright", copyright.as_bytes(), 0o644)?;
        self.gzip("usr/share/doc/ferrybus/CHANGELOG.md")?;
        let changelog = changelog(env!("CARGO_PKG_VERSION"), &self.workspace.commit("%cD")?);
        self.put("usr/share/doc/ferrybus/changelog", changelog.as_bytes(), 0o644)?;
        self.gzip("usr/share/doc/ferrybus/changelog")?;
        self.put("usr/share/lintian/overrides/ferrybus", OVERRIDES.as_bytes(), 0o644)?;
        self.pages_and_completions(binary)
    }

    /// Man pages and completions, which the binary generates.
    fn pages_and_completions(&self, binary: &Path) -> Fallible<()> {
        let pages = self.root.join("usr/share/man/man1");
        succeed(Command::new(binary).arg("man").arg(&pages))?;
        let mut names: Vec<_> =
            fs::read_dir(&pages)?.map(|entry| Ok(entry?.file_name())).collect::<Fallible<_>>()?;
        names.sort();
        for name in names {
            self.gzip(&format!("usr/share/man/man1/{}", name.to_string_lossy()))?;
        }
        let shells = [
            ("bash", "usr/share/bash-completion/completions/ferrybus"),
            ("zsh", "usr/share/zsh/vendor-completions/_ferrybus"),
            ("fish", "usr/share/fish/vendor_completions.d/ferrybus.fish"),
        ];
        for (shell, to) in shells {
            let said = Command::new(binary).args(["completions", shell]).output()?;
            self.put(to, &said.stdout, 0o644)?;
        }
        Ok(())
    }

    /// Control files of the package.
    fn describe(&self, version: &str, architecture: &str, binary: &Path) -> Fallible<()> {
        let kibibytes = size(self.root)?.div_ceil(1 << 10);
        let depends = if is_static(binary)? { "" } else { "libc6 (>= 2.34), " };
        let control = format!(
            "Package: ferrybus\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
             Installed-Size: {kibibytes}\nDepends: {depends}init-system-helpers (>= 1.54~)\nSection: net\n\
             Priority: optional\nDescription: {DESCRIPTION}\n"
        );
        self.put("DEBIAN/control", control.as_bytes(), 0o644)?;
        self.put("DEBIAN/conffiles", format!("{}\n", CONFFILES.join("\n")).as_bytes(), 0o644)?;
        for (name, script) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
            self.put(&format!("DEBIAN/{name}"), script.as_bytes(), 0o755)?;
        }
        let sums = Command::new("sh")
            .args(["-c", "find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum"])
            .current_dir(self.root)
            .output()?;
        self.put("DEBIAN/md5sums", &sums.stdout, 0o644)
    }

    fn put(&self, to: &str, bytes: &[u8], mode: u32) -> Fallible<()> {
        let path = self.root.join(to);
        let folder = path.parent().ok_or("a file has a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Compresses a file as Debian wants it: the same bytes on every machine.
    fn gzip(&self, file: &str) -> Fallible<()> {
        succeed(Command::new("gzip").args(["-9", "-n", "-f"]).arg(self.root.join(file)))
    }
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Fallible<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

/// Whether a binary needs no library of the system.
fn is_static(binary: &Path) -> Fallible<bool> {
    let said = Command::new("file").arg("--brief").arg("--dereference").arg(binary).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(said.contains("statically linked") || said.contains("static-pie linked"))
}

/// Debian changelog: the version and its date.
fn changelog(version: &str, date: &str) -> String {
    format!(
        "ferrybus ({version}) unstable; urgency=medium\n\n  \
         * What has changed is in /usr/share/doc/ferrybus/CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {date}\n"
    )
}

/// The licences in Debian's form: the one that every Debian has by its name, the other in full.
fn copyright(licence: &str) -> Fallible<String> {
    let (_, expat) = licence.split_once("\nMIT License\n").ok_or("`LICENSE` has no `MIT License`")?;
    let ruled = |line: &str| line.starts_with("====");
    let text = expat.lines().skip_while(|line| ruled(line)).take_while(|line| !ruled(line));
    let text: Vec<_> = text.collect();
    let lines = text.join("\n");
    let lines =
        lines.trim().lines().map(|line| if line.is_empty() { " .\n".into() } else { format!(" {line}\n") });
    Ok(format!("{COPYRIGHT}\nLicense: Expat\n{}", lines.collect::<String>()))
}

fn succeed(command: &mut Command) -> Fallible<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("`{name}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` ended with {status}").into()) }
}

const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ferrybus

Files: *
Copyright: 2026 the Ferrybus contributors
License: Apache-2.0 or Expat

License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
";

const DESCRIPTION: &str = "message broker for AMQP 1.0 and Azure Service Bus clients
 Ferrybus is a message broker in one binary that unmodified Azure Service Bus
 SDKs and AMQP 1.0 clients can use. A message that it accepted is on disk, and
 survives the process and the power.
 .
 It has queues, topics with rules, sessions, transactions, schedules, dead
 letters, management over HTTP, metrics and a command line.";

/// Accepted findings of lintian.
const OVERRIDES: &str = "# One binary for every system.
ferrybus: statically-linked-binary [usr/bin/ferrybus]
# Built by the project itself, not for Debian's archive.
ferrybus: initial-upload-closes-no-bugs
# The project has no address for mail.
ferrybus: bogus-mail-host Maintainer ferrybus@localhost.localdomain
ferrybus: bogus-mail-host-in-debian-changelog ferrybus@localhost.localdomain *
";

/// With `DPKG_ROOT` the package is installed into a folder, so this machine's service manager is left alone.
const POSTINST: &str = r#"#!/bin/sh
set -e
if [ "$1" = configure ] || [ "$1" = abort-upgrade ] || [ "$1" = abort-deconfigure ] || [ "$1" = abort-remove ]; then
    deb-systemd-helper unmask ferrybus.service >/dev/null || true
    if deb-systemd-helper --quiet was-enabled ferrybus.service; then
        deb-systemd-helper enable ferrybus.service >/dev/null || true
    else
        deb-systemd-helper update-state ferrybus.service >/dev/null || true
    fi
    if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        if [ -n "$2" ]; then action=restart; else action=start; fi
        deb-systemd-invoke "$action" ferrybus.service >/dev/null || true
    fi
fi
"#;

const PRERM: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop ferrybus.service >/dev/null || true
fi
"#;

/// The journal stays until it is deleted by hand: it holds messages.
const POSTRM: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = remove ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper mask ferrybus.service >/dev/null || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge ferrybus.service >/dev/null || true
    deb-systemd-helper unmask ferrybus.service >/dev/null || true
fi
"#;

#[cfg(test)]
mod tests;
