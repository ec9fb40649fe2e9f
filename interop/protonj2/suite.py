"""ProtonJ2 against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import Broker
from cases import SHORT_LOCK, Context, Suite
from external import (
    EVERYWHERE,
    LARGEST_MESSAGE,
    declare,
    declare_listener_killed,
    declare_login,
    declare_reconnect,
    declare_restart,
    declare_with_broker,
    declare_with_namespaces,
    play,
)
from java import program_of

NO_MANAGEMENT = "the client cannot name the target of a receiver, where answers of `$management` go"

program = program_of(HERE / "build")
suite = Suite("protonj2", anonymous=True)

declare(
    suite,
    program,
    {case: settings for case, settings in EVERYWHERE.items() if case != "lock-renewal"}
    | LARGEST_MESSAGE
    | {
        "lock-loss": SHORT_LOCK,
        "oversized-message": {"max_message_bytes": "1 MiB"},
        "send-batch": {},
        "send-1000-pipelined": {},
        "send-pre-settled": {},
        "peek-lock-release": {},
        "modified-without-failure": {},
        "undeliverable-here": {},
        "drain": {},
        "anonymous-log-in": {},
        "without-sasl": {},
        "anonymous-relay": {},
        "many-links": {},
        "many-sessions": {},
        "heartbeat": {},
        "dynamic-request-reply": {},
        "dynamic-owner": {},
        "dynamic-end": {},
        "dynamic-topic": {},
        "connection-loss": {},
        "transaction-commit": {},
        "transaction-rollback": {},
        "rollbacks-to-dead-letter": {"max_delivery_count": 3},
        "transaction-several": {},
        "transaction-across-entities": {"beside": {"{queue}-target": {}}},
        "transaction-refused-operation": {},
        "transaction-connection-loss": {},
        "topic-volatile": {"subscriptions": {}},
        "topic-durable": {"subscriptions": {}},
        "topic-selector": {"subscriptions": {}},
        "topic-shared": {"subscriptions": {}},
        "topic-release": {"subscriptions": {}},
        "subscription-by-name": {"subscriptions": {"a": {}, "b": {}}},
        "queue-selector": {},
    },
)
declare_with_broker(
    suite,
    program,
    {
        "delivery-delay": {},
        "slow-listener": {},
        "slow-listener-with-timer": {"hold": "lock"},
        "held-without-timer": {},
    },
)


@suite.case("large-message-stream")
def large_message_stream(context: Context) -> None:
    limits = '[limits]\nmax_message_bytes = "100 MiB"\n'
    broker = Broker({context.queue: {}}, more_config=limits).start()
    try:
        play(program, "large-message-stream", Context(broker, context.transport, context.queue))
    finally:
        broker.close()


declare_listener_killed(suite, program)
declare_login(suite, program)
declare_reconnect(suite, program)
declare_restart(suite, program)
declare_with_namespaces(suite, program, "namespaces")
suite.skip("fifty-rollbacks", "the client settles at once what it disposes of in a transaction, whatever it is told")
suite.skip("lock-renewal", NO_MANAGEMENT)
suite.skip("peek-lock-defer", NO_MANAGEMENT)
suite.skip("schedule-and-cancel", NO_MANAGEMENT)

if __name__ == "__main__":
    suite.run()
