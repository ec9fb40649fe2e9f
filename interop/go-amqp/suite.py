"""`go-amqp` against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import Suite
from external import declare, declare_restart

SHORT_LOCK = {"lock_duration": "PT5S"}
# Long enough that a busy machine does not let a renewed lock run out in the middle of a case.
RENEWED_LOCK = {"lock_duration": "PT10S"}

program = [str(HERE / "build" / "suite")]
suite = Suite("go-amqp", anonymous=True)

declare(
    suite,
    program,
    {
        "send-one": {},
        "send-batch": {},
        "send-1000-pipelined": {},
        "send-pre-settled": {},
        "peek-lock-complete": {},
        "peek-lock-abandon": {},
        "peek-lock-release": {},
        "peek-lock-dead-letter": {},
        "peek-lock-defer": {},
        "modified-without-failure": {},
        "undeliverable-here": {},
        "settle-mode-second": {},
        "receive-and-delete": {},
        "lock-renewal": RENEWED_LOCK,
        "lock-loss": SHORT_LOCK,
        "delivery-count-to-dead-letter": {"max_delivery_count": 3},
        "peek": {},
        "two-competing-receivers": {},
        "wrong-key": {},
        "anonymous-log-in": {},
        "without-sasl": {},
        "missing-queue": {},
        "oversized-message": {},
        "large-message": {},
        "annotations-and-header": SHORT_LOCK,
        "round-trip": {},
        "link-close-and-reopen": {},
        "anonymous-relay": {},
        "many-links": {},
        "many-sessions": {},
        "heartbeat": {},
        "topic-selector": {"subscriptions": {}},
    },
)
declare_restart(suite, program)

suite.skip("drain", "go-amqp 1.0.2 has no API for it")

if __name__ == "__main__":
    suite.run()
