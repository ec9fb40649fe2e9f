"""The crate `azservicebus` against the broker: starts what `src/` plays."""

from __future__ import annotations

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import Suite
from external import declare, declare_restart

SHORT_LOCK = {"lock_duration": "PT5S"}
# Long enough that a busy machine does not let a lock run out that a case still needs.
RENEWED_LOCK = {"lock_duration": "PT10S"}

target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
program = [str(target / "debug" / "ferrybus-interop-azure-rust")]
suite = Suite("azure-rust")

declare(
    suite,
    program,
    {
        "send-one": {},
        "send-batch": {},
        "peek-lock-complete": {},
        "peek-lock-abandon": {},
        "peek-lock-dead-letter": {},
        "peek-lock-defer": {},
        "schedule-and-cancel": {},
        "deferred-by-number": {},
        "deferred-receive-and-delete": {},
        "receive-and-delete": {},
        "lock-renewal": RENEWED_LOCK,
        "lock-loss": SHORT_LOCK,
        "delivery-count-to-dead-letter": {"max_delivery_count": 3},
        "peek": {},
        "two-competing-receivers": {},
        "wrong-key": {},
        "missing-queue": {},
        "oversized-message": {},
        "large-message": {},
        "receive-time-out-on-empty-queue": {},
        "annotations-and-header": SHORT_LOCK,
        "round-trip": {},
        "link-close-and-reopen": {},
    },
)
declare_restart(suite, program)

suite.skip("send-1000-pipelined", "send_message borrows the sender until its message is settled")
suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends")
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome")
suite.skip("anonymous-relay", "a sender is always bound to a queue or topic")
suite.skip("settle-after-the-link-is-gone", "the SDK settles only on the link that received")

if __name__ == "__main__":
    suite.run()
