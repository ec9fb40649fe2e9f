"""The cases of Qpid JMS, which two suites play: with Jakarta Messaging and with Java EE's JMS."""

from __future__ import annotations

import pathlib

from broker import Broker
from cases import Context, Suite
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
from texts import declare_texts_of

BY_LOCK = {"hold": "lock"}
A_MEBIBYTE = {"max_message_bytes": "1 MiB"}
# Of those that every client plays: JMS has no call to renew a lock, and learns of no lost one.
NOT_IN_JMS = ("lock-renewal", "lock-loss")


def declared(name: str, build: pathlib.Path) -> Suite:
    """The suite of the classes that Maven put into `build`."""
    suite = Suite(name)
    program = program_of(build)
    declare(
        suite,
        program,
        {case: settings for case, settings in EVERYWHERE.items() if case not in NOT_IN_JMS}
        | LARGEST_MESSAGE
        | {
            "oversized-message": A_MEBIBYTE,
            "message-beyond-the-tier": {},
            "send-1000-pipelined": {},
            "send-pre-settled": {},
            "peek-lock-release": {},
            "undeliverable-here": {},
            "acknowledgement-modes": {},
            "receive-time-out-on-empty-queue": {},
            "anonymous-relay": {},
            "heartbeat": {},
            "many-sessions": {},
            "connection-loss": {},
            "queue-selector": {},
            "transaction-commit": {},
            "transaction-rollback": {},
            "rollbacks-to-dead-letter": {"max_delivery_count": 3},
            "transaction-several": {},
            "transaction-of-a-thousand": {},
            "transaction-connection-loss": {},
            "transaction-listener": {"beside": {"{queue}-results": {}}},
            "consumer-per-message": {},
            "dynamic-request-reply": {},
            "dynamic-owner": {},
            "dynamic-end": {},
            "dynamic-topic": {},
            "topic-volatile": {"subscriptions": {}},
            "topic-durable": {"subscriptions": {}},
            "topic-selector": {"subscriptions": {}},
            "topic-unsubscribe": {"subscriptions": {}},
            "topic-in-use": {"subscriptions": {}},
            "topic-shared": {"subscriptions": {}},
            "topic-release": {"subscriptions": {}},
            "subscription-by-name": {"subscriptions": {"a": {}, "b": {}}},
        },
    )
    declare_with_broker(
        suite,
        program,
        {
            "slow-listener": {},
            "slow-listener-with-timer": BY_LOCK,
            "held-without-timer": {},
            "delivery-delay": {},
            "delivery-delay-in-transaction": {},
        },
    )
    declare_restart(suite, program)
    declare_texts_of(suite, program)
    declare_with_namespaces(suite, program, "namespaces")
    declare_failures(suite, program)
    declare_login(suite, program)
    declare_in_real_time(suite, program)
    suite.skip("send-batch", "the client cannot set the message format of a transfer")
    suite.skip("lock-renewal", "JMS has no call for it")
    suite.skip("lock-loss", "the client settles without waiting for an answer, so nothing tells it of a lost lock")
    suite.skip("schedule-and-cancel", "JMS has no call to cancel")
    return suite


def declare_failures(suite: Suite, program: list[str]) -> None:
    """Declares the cases in which a process is killed, and those of a broker that makes what is missing."""

    declare_listener_killed(suite, program)
    declare_reconnect(suite, program)
    for name in ("new-topic", "new-queue"):

        @suite.case(name)
        def created(context: Context, name: str = name) -> None:
            broker = Broker({}, auto_create=True).start()
            try:
                play(program, name, Context(broker, context.transport, context.queue))
            finally:
                broker.close()


def declare_in_real_time(suite: Suite, program: list[str]) -> None:
    """Declares `slow-listener` without a moved clock: each message takes 200 ms, all of them two minutes."""

    @suite.by_hand("slow-listener-in-real-time", seconds_max=300)
    def in_real_time(context: Context) -> None:
        broker = Broker({context.queue: {}}).start()
        try:
            play(program, "slow-listener-in-real-time", Context(broker, context.transport, context.queue), 300)
        finally:
            broker.close()
