"""The Debian package that `cargo xtask package` makes: built, changed, installed into a folder, removed."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import shlex
import shutil
from typing import Callable

from tools import ROOT, run

UNIT = "usr/lib/systemd/system/ferrybus.service"
ENABLED = "etc/systemd/system/multi-user.target.wants/ferrybus.service"
CONFIG = "etc/ferrybus/ferrybus.toml"
STATUS = "var/lib/dpkg/status"


@functools.cache
def built() -> pathlib.Path:
    """Around the binary that is tested, which stands in for the static one."""
    xtask = shlex.split(os.environ.get("FERRYBUS_XTASK", "cargo xtask"))
    made = run(*xtask, "package", "--binary", os.environ["FERRYBUS_BIN"], cwd=ROOT)
    assert made.code == 0, made.output
    return pathlib.Path(made.output.strip().splitlines()[-1])


@dataclasses.dataclass(frozen=True)
class Package:
    path: pathlib.Path
    folder: pathlib.Path

    @classmethod
    def build(cls, folder: pathlib.Path) -> Package:
        return cls(pathlib.Path(shutil.copy(built(), folder)), folder)

    def changed(self, change: Callable[[pathlib.Path], object]) -> pathlib.Path:
        """Another one, made from this one's files but the binary after `change`."""
        root = self.folder / "changed"
        assert run("dpkg-deb", "--raw-extract", self.path, root).code == 0
        (root / "usr/bin/ferrybus").unlink()
        change(root)
        path = self.folder / f"changed-{self.path.name}"
        assert run("dpkg-deb", "--root-owner-group", "-Znone", "--build", root, path).code == 0
        return path

    def comes_and_goes(self) -> None:
        """Installed, upgraded, removed and purged; what a person put there, and the journal, stay as dpkg promises."""
        root = self.folder / "root"
        (root / "var/lib/dpkg/info").mkdir(parents=True)
        (root / "var/lib/dpkg/updates").mkdir()
        (root / STATUS).touch()
        (root / "etc/systemd/system").mkdir(parents=True)
        self._dpkg(root, "--install", self.path)
        assert (root / UNIT).is_file() and (root / ENABLED).is_symlink(), "the service is not enabled"
        help_ = run(root / "usr/bin/ferrybus", "--help")
        assert help_.code == 0 and "broker" in help_.output, help_.output

        journal = root / "var/lib/ferrybus/00000000.segment"
        journal.parent.mkdir()
        journal.touch()
        own = "# by hand\n"
        (root / CONFIG).write_text(own, encoding="utf-8")
        self._dpkg(root, "--install", self.path)
        assert (root / CONFIG).read_text(encoding="utf-8") == own, "an upgrade has replaced the configuration"

        self._dpkg(root, "--remove", "ferrybus")
        assert not (root / "usr/bin/ferrybus").exists() and (root / CONFIG).is_file()
        self._dpkg(root, "--purge", "ferrybus")
        assert not (root / CONFIG).exists() and not (root / ENABLED).is_symlink(), "a purge has left something"
        assert journal.is_file(), "the journal is gone"

    def _dpkg(self, root: pathlib.Path, *words: object) -> None:
        # Into a folder: its scripts run here and are told of it in DPKG_ROOT. What it depends on is on this machine.
        options = ["--force-script-chrootless", "--force-depends", "--force-confold", f"--root={root}"]
        if os.geteuid() != 0:
            options.append("--force-not-root")
        done = run("dpkg", *options, *words)
        assert done.code == 0, done.output
