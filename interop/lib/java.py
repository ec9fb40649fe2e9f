"""How a suite's Java program is started.

Invariant: the classes and their libraries are those that Maven compiled against.
"""

from __future__ import annotations

import os
import pathlib

# A case lasts a second or two: what makes long runs fast costs more than it brings.
FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]


def program_of(build: pathlib.Path, main: str = "Main", flags: list[str] | None = None) -> list[str]:
    """The command that plays a case, from the folder where Maven put `classes` and `classpath`."""
    libraries = (build / "classpath").read_text(encoding="utf-8").strip()
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", *FLAGS, quiet, *(flags or []), "-cp", f"{build / 'classes'}{os.pathsep}{libraries}", main]
