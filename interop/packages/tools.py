"""Runs a tool and keeps what it says; copies of the files that are packed, whole or broken on purpose."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "docs" / "packages"
SECONDS_MAX = 300


@dataclasses.dataclass(frozen=True)
class Ran:
    code: int
    output: str


def run(*command: object, environment: dict[str, str] | None = None, **more) -> Ran:
    """Runs to its end, in English and without colours; both streams as they came."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env=os.environ | {"LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "NO_COLOR": "1"} | (environment or {}),
        **more,
    )
    return Ran(done.returncode, done.stdout)


@dataclasses.dataclass(frozen=True)
class Files:
    """A folder of a case's own."""

    folder: pathlib.Path

    def copy(self, name: str, old: str = "", new: str = "") -> pathlib.Path:
        """A copy of a file that is packed, with one text replaced, which must be there."""
        text = (FILES / name).read_text(encoding="utf-8")
        assert old in text, f"`{old}` is not in `{name}`"
        copy = self.folder / name
        copy.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return copy
