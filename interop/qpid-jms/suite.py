"""Qpid JMS for Jakarta Messaging against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import Context
from declared import declared
from java import documented

suite = declared("qpid-jms", HERE / "build")


@suite.case("documented-program")
def documented_program(context: Context) -> None:
    said = documented(context, HERE / "build", "docs/clients/jms.md", {"plain": "class Orders", "tls": "class Prices"})
    orders = [f"order {number}" for number in range(3)]
    assert said == (["apples: three", "sold: one apple"] if context.tls else orders), said


if __name__ == "__main__":
    suite.run()
