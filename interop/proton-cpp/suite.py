"""Qpid Proton for C++ (Debian's) against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import Suite
from external import EVERYWHERE, LARGEST_MESSAGE, declare, declare_restart, declare_with_namespaces

program = [str(HERE / "build" / "suite")]
suite = Suite("proton-cpp", anonymous=True)

declare(
    suite,
    program,
    EVERYWHERE
    | LARGEST_MESSAGE
    | {
        "send-1000-pipelined": {},
        "send-pre-settled": {},
        "modified-without-failure": {},
        "peek-lock-release": {},
        "plain-log-in": {},
        "drain": {},
        "anonymous-relay": {},
        "topic-durable": {"subscriptions": {}},
        "topic-volatile": {"subscriptions": {}},
        "topic-selector": {"subscriptions": {}},
    },
)
declare_restart(suite, program)
declare_with_namespaces(suite, program, "namespaces")

suite.skip("send-batch", "Proton for C++ cannot set the message format of a transfer")
suite.skip("transaction-commit", "Proton for C++ 0.37 has no API for transactions")
suite.skip("peek-lock-defer", "Proton for C++ 0.37 sends `modified` only without fields")

if __name__ == "__main__":
    suite.run()
