"""Qpid JMS for Jakarta Messaging against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from declared import declared

if __name__ == "__main__":
    declared("qpid-jms", HERE / "build").run()
