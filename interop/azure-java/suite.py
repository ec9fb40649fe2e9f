"""The Java SDK of Azure Service Bus against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import RENEWED_LOCK, Context, Suite
from external import (
    EVERYWHERE,
    declare,
    declare_reconnect,
    declare_restart,
    declare_with_broker,
    declare_with_namespaces,
)
from java import documented, program_of

SESSIONS = {"requires_session": True}
# The SDK renews it after half of the time: a busy machine has the other half for the first renewal of a JVM.
KEPT_LOCK = {"lock_duration": "PT20S", "hold": "lock"}
RULES = {
    "all": {},
    "none": {"rule": [{"name": "never", "sql": "1 = 0"}]},
    "big": {"rule": [{"name": "amount", "sql": "amount > 100 AND sys.Label LIKE 'o%'"}]},
    "red": {"rule": [{"name": "colour", "correlation": {"label": "order", "properties": {"colour": "red"}}}]},
}
A_MEBIBYTE = {"max_message_bytes": "1 MiB"}

program = program_of(HERE / "build")
suite = Suite("azure-java")

declare(
    suite,
    program,
    EVERYWHERE
    | {
        "oversized-message": A_MEBIBYTE,
        "send-batch": A_MEBIBYTE,
        # What its sender is told; the case lowers it at once, and says why.
        "largest-message": {"max_message_bytes": "272 KiB"},
        "footer-with-string-keys": {},
        "missing-entity-at-once": {},
        "web-socket": {},
        "peek-lock-defer": {},
        "deferred-by-number": {},
        "deferred-receive-and-delete": {},
        "receive-time-out-on-empty-queue": {},
        "settle-after-the-link-is-gone": {},
        "subscribe": {},
        "lock-renewal": RENEWED_LOCK,
        "lock-renewal-automatic": KEPT_LOCK,
        "session-accept": SESSIONS,
        "session-order": SESSIONS,
        "session-state": SESSIONS,
        "session-deferred": SESSIONS,
        "session-processor": SESSIONS,
        "session-renewal-automatic": SESSIONS | KEPT_LOCK,
        "transaction-commit": {},
        "transaction-several": {},
        "transaction-across-entities": {"beside": {"{queue}-target": {}}},
        "topics/each-subscription-gets-its-copy": {"subscriptions": {"a": {}, "b": {}}},
        "topics/copies-are-settled-apart": {"subscriptions": {"a": {}, "b": {}}},
        "topics/rules-choose": {"subscriptions": RULES},
        "topics/rules-are-managed": {"subscriptions": {"s": {}}},
        "topics/sessions": {"subscriptions": {"s": SESSIONS}},
        "async/send-one": {},
        "async/send-1000-pipelined": {},
        "async/peek-lock-abandon": {},
        "async/session-order": SESSIONS,
        "async/schedule-and-cancel": {},
        "async/transaction-commit": {},
        "administration": {},
        "administration-missing": {"subscriptions": {"a": {}}},
    },
)
declare_with_broker(
    suite,
    program,
    {
        "schedule-and-cancel": {},
        "clock-advance": {"lock_duration": "PT5M"},
        "session-lost": SESSIONS,
        "transaction-rollback": {},
        "rollbacks-to-dead-letter": {"max_delivery_count": 3},
        "slow-listener": {},
    },
)
declare_reconnect(suite, program)
declare_restart(suite, program)
declare_with_namespaces(
    suite,
    program,
    "namespaces",
    "namespaces-web-socket",
    "namespace-held",
    "namespace-max-connections",
    "namespace-max-bytes",
    "administration-of-namespaces",
)


@suite.case("documented-program")
def documented_program(context: Context) -> None:
    said = documented(context, HERE / "build", "docs/clients/java.md", {"plain": "class Orders", "tls": "class Carts"})
    orders = [f"order {number}" for number in range(3)]
    assert said == (["customer 7: apples, one item", "???: Unreadable"] if context.tls else orders), said


suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends")
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome")
suite.skip("anonymous-relay", "a sender of the SDK is always bound to a queue or topic")
suite.skip("session-listing", "the SDK has no API for it")
suite.skip("fifty-rollbacks", "the SDK lets a message be settled once, whatever becomes of the transaction")

if __name__ == "__main__":
    suite.run()
