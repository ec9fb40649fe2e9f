"""The frozen Java SDK of Azure Service Bus against the broker: starts what `src/` plays.

It connects to port 5671 and to no other: each broker has a loopback address of its own for it.
"""

from __future__ import annotations

import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import Broker
from cases import RENEWED_LOCK, Context, Suite
from external import play
from java import program_of
from namespaces import QUEUE, three_namespaces

PORT = 5671
SESSIONS = {"requires_session": True}
CASES: dict[str, dict[str, object]] = {
    "send-one": {},
    "send-batch": {},
    "peek-lock-complete": {},
    "peek-lock-abandon": {},
    "peek-lock-dead-letter": {},
    "peek-lock-defer": {},
    "deferred-by-number": {},
    "receive-and-delete": {},
    "receive-time-out-on-empty-queue": {},
    "peek": {},
    "subscribe": {},
    "lock-renewal": RENEWED_LOCK,
    "wrong-key": {},
    "missing-queue": {},
    "entity-of-another-kind": {"beside": {"{queue}-topic": {"subscriptions": {}}}},
    "session-accept": SESSIONS,
    "session-order": SESSIONS,
    "session-state": SESSIONS,
    "session-listing": SESSIONS,
    "session-browsed": SESSIONS,
    "session-processor": SESSIONS,
    "transaction-commit": {},
    "transaction-across-entities": {"beside": {"{queue}-target": {}}},
    "topics/rules-are-managed": {"subscriptions": {"s": {}}},
}

program = program_of(HERE / "build")


def address() -> str:
    """A loopback address that nobody else is likely to use."""
    return ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])


def at(host: str) -> dict[str, object]:
    """How a broker serves the SDK there."""
    return {"listen_tls": (f"{host}:{PORT}",), "names": ("localhost", host)}


shared = address()
suite = Suite("azure-java-3", transports=("tls",), **at(shared))


def declare(name: str, settings: dict[str, object]) -> None:
    """A case at the broker that the cases share."""
    suite.case(name, **settings)(lambda context: play(program, name, context, FERRYBUS_HOST=shared))


def declare_alone(name: str, *acts: str) -> None:
    """A case with a broker of its own, which is killed before its second act and stopped before its third."""

    @suite.case(name)
    def alone(context: Context) -> None:
        host = address()
        broker = Broker({context.queue: {}}, durability="fsync", **at(host)).start()
        try:
            for index, act in enumerate(acts):
                if index > 0:
                    broker.restart(kill=index == 1)
                play(program, act, Context(broker, context.transport, context.queue), FERRYBUS_HOST=host)
        finally:
            broker.close()


def declare_with_namespaces(name: str) -> None:
    """A case that has a broker with three namespaces, at an address each."""

    @suite.case(name)
    def teams(context: Context) -> None:
        hosts = [address() for _ in range(3)]
        with three_namespaces(*hosts, listen_tls=tuple(f"{host}:{PORT}" for host in hosts)) as namespaces:
            play(program, name, Context(namespaces.broker, context.transport, QUEUE), **namespaces.environment())


for case, own in CASES.items():
    declare(case, own)
declare_alone("schedule-and-cancel", "schedule-and-cancel")
declare_alone("transaction-rollback", "transaction-rollback")
declare_alone("broker-restart", "restart-before", "restart-between", "restart-after")
# Those in which a connection is refused right after its open are left out: the SDK can wait for ever then.
for case in ("namespaces", "namespace-max-bytes"):
    declare_with_namespaces(case)
suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends")
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome")

if __name__ == "__main__":
    suite.run()
