"""The AMQP client of Vert.x against the broker: starts what `src/` plays."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from cases import Suite
from external import (
    EVERYWHERE,
    LARGEST_MESSAGE,
    declare,
    declare_listener_killed,
    declare_restart,
    declare_with_broker,
    declare_with_namespaces,
)
from java import program_of

program = program_of(HERE / "build")
suite = Suite("vertx", anonymous=True)

declare(
    suite,
    program,
    EVERYWHERE
    | LARGEST_MESSAGE
    | {
        "oversized-message": {"max_message_bytes": "1 MiB"},
        "send-1000-pipelined": {},
        "peek-lock-release": {},
        "peek-lock-defer": {},
        "modified-without-failure": {},
        "undeliverable-here": {},
        "anonymous-log-in": {},
        "anonymous-relay": {},
        "many-links": {},
        "heartbeat": {},
        "dynamic-request-reply": {},
        "dynamic-owner": {},
        "dynamic-end": {},
        "dynamic-topic": {},
        "connection-loss": {},
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
declare_listener_killed(suite, program)
declare_restart(suite, program)
declare_with_namespaces(suite, program, "namespaces")
suite.skip("send-batch", "the client cannot set the message format of a transfer")
suite.skip("send-pre-settled", "the client has no API for pre-settled sends")
suite.skip("drain", "the client has no API for it")
suite.skip("many-sessions", "the client has one session for each connection")
suite.skip("reconnect", "the client opens no link again by itself")
suite.skip("transaction-commit", "the client has no API for transactions")

if __name__ == "__main__":
    suite.run()
