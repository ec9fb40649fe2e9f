"""The programs of the documentation, run as they stand.

Invariant: nothing of a program changes but where its broker is, and the name of
its queue where cases run side by side.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM_SECONDS_MAX = 60


def program(page: str, containing: str, language: str = "python") -> str:
    """The only program of a page in this language that contains this text."""
    parts = (ROOT / page).read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    found = [part.split("\n```\n")[0] for part in parts]
    found = [text for text in found if containing in text]
    assert len(found) == 1, f"{len(found)} programs of {page} contain {containing!r}"
    return found[0]


def played(text: str, **instead: str) -> str:
    """Runs a Python program, each word of `instead` in place of the other, and returns what it prints."""
    return printed([sys.executable, "-c", changed(text, instead)])


def changed(text: str, instead: dict[str, str]) -> str:
    """A program with each word of `instead` in place of the other."""
    for shown, real in instead.items():
        assert shown in text, f"the program does not say {shown}"
        text = text.replace(shown, real)
    return text


def printed(command: list[str], **settings: object) -> str:
    """What a program prints that must succeed; `settings` are those of its process."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False, **settings
    )
    assert done.returncode == 0, f"the program failed:\n{done.stdout}{done.stderr}"
    return done.stdout
