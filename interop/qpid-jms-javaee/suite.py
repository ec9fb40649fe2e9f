"""Qpid JMS for Java EE, the last of its kind, against the broker: plays what `qpid-jms` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "qpid-jms")]

from declared import declared

if __name__ == "__main__":
    declared("qpid-jms-javaee", HERE / "build").run()
