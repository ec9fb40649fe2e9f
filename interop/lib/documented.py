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


def program(page: str, containing: str) -> str:
    """The only Python program of a page that contains this text."""
    parts = (ROOT / page).read_text(encoding="utf-8").split("```python\n")[1:]
    found = [part.split("\n```\n")[0] for part in parts]
    found = [text for text in found if containing in text]
    assert len(found) == 1, f"{len(found)} programs of {page} contain {containing!r}"
    return found[0]


def played(text: str, **instead: str) -> str:
    """Runs a program, each word of `instead` in place of the other, and returns what it prints."""
    for shown, real in instead.items():
        assert shown in text, f"the program does not say {shown}"
        text = text.replace(shown, real)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, f"the program failed:\n{done.stdout}{done.stderr}"
    return done.stdout
