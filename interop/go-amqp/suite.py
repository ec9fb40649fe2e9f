"""`go-amqp` against the broker: starts what `src/` plays."""

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
    declare_login,
    declare_restart,
    declare_with_broker,
    declare_with_namespaces,
)
from texts import declare_texts_of

program = [str(HERE / "build" / "suite")]
suite = Suite("go-amqp", anonymous=True)

declare(
    suite,
    program,
    EVERYWHERE
    | LARGEST_MESSAGE
    | {
        "send-batch": {},
        "send-1000-pipelined": {},
        "send-pre-settled": {},
        "peek-lock-release": {},
        "peek-lock-defer": {},
        "modified-without-failure": {},
        "undeliverable-here": {},
        "settle-mode-second": {},
        "anonymous-log-in": {},
        "without-sasl": {},
        "anonymous-relay": {},
        "many-links": {},
        "many-sessions": {},
        "heartbeat": {},
        "topic-selector": {"subscriptions": {}},
        "drain": {},
        "dynamic-request-reply": {},
        "dynamic-owner": {},
        "dynamic-end": {},
        "dynamic-topic": {},
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
declare_login(suite, program)
declare_restart(suite, program)
declare_texts_of(suite, program)
declare_with_namespaces(suite, program, "namespaces")
suite.skip("reconnect", "the client makes no connection again by itself")

if __name__ == "__main__":
    suite.run()
