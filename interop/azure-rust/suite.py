"""The crate `azservicebus` against the broker: starts what `src/` plays."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import Broker
from cases import Context, Suite
from external import EVERYWHERE, LARGEST_MESSAGE, declare, declare_restart, declare_with_broker, declare_with_namespaces, play
from provider import Provider

SESSIONS = {"requires_session": True}
PARTITIONED = {"enable_partitioning": True}
CHANGED = [
    {"name": "first", "sql": "amount > 100", "action": "SET Priority = 'high'; SET sys.To = 'Entity'; REMOVE colour"},
    {"name": "second", "sql": "amount > 1000", "action": "SET amount = amount + 1"},
    {"name": "plain", "sql": "amount > 100"},
    {"name": "plain-too", "sql": "colour = 'red'"},
]
RULES = {
    "all": {},
    "none": {"rule": [{"name": "never", "sql": "1 = 0"}]},
    "big": {"rule": [{"name": "amount", "sql": "amount > 100 AND sys.Label LIKE 'o%'"}]},
    "red": {"rule": [{"name": "colour", "correlation": {"label": "order", "properties": {"Colour": "red", "n": 5.0}}}]},
    "changed": {"rule": CHANGED},
}
EXPIRING = {"short": {"default_time_to_live": "PT1M", "dead_letter_on_expiration": True}, "long": {}}

target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
program = [str(target / "debug" / "ferrybus-interop-azure-rust")]
suite = Suite("azure-rust")

declare(
    suite,
    program,
    EVERYWHERE
    | LARGEST_MESSAGE
    | {
        "send-batch": {},
        "peek-lock-defer": {},
        "deferred-by-number": {},
        "deferred-receive-and-delete": {},
        "receive-time-out-on-empty-queue": {},
        "web-socket": {},
        "fault-server-busy": {},
        "fault-lose-lock": {},
        "fault-lose-session": SESSIONS,
        "session-order": SESSIONS,
        "session-state": SESSIONS,
        "session-deferred": SESSIONS,
        "duplicate-detection": {"requires_duplicate_detection": True},
        "forwarding": {"forward_to": "{queue}-target"},
        "forwarding-of-dead-letters": {"forward_dead_lettered_to": "{queue}-morgue"},
        "transfer-dead-letters": {
            "forward_dead_lettered_to": "{queue}-closed",
            "beside": {"{queue}-closed": {"status": "send-disabled"}},
        },
        "partitions": PARTITIONED,
        "partitions-by-number": PARTITIONED,
        "partition-keys-refused": PARTITIONED,
        "topics/each-subscription-gets-its-copy": {"subscriptions": {"a": {}, "b": {}}},
        "topics/copies-are-settled-apart": {"subscriptions": {"a": {}, "b": {}}},
        "topics/rules-choose": {"subscriptions": RULES},
        "topics/actions-change-their-copy": {"subscriptions": RULES},
        "topics/a-failing-rule-makes-a-dead-letter": {
            "subscriptions": {"bad": {"rule": [{"name": "r", "sql": "sys.Nope = 1"}]}, "good": {}}
        },
        "topics/peek": {"subscriptions": {"a": {}}},
        "topics/what-is-refused": {"subscriptions": {"a": {}}},
        "topics/rules-are-managed": {"subscriptions": {"s": {}}},
        "topics/sessions": {"subscriptions": {"s": SESSIONS}},
        "topics/duplicate-detection": {"requires_duplicate_detection": True, "subscriptions": {"a": {}, "b": {}}},
        "topics/forwarding": {
            "subscriptions": {
                "on": {
                    "forward_to": "{queue}-work",
                    "rule": [{"name": "r", "sql": "n = 1", "action": "SET seen = 'yes'"}],
                },
                "dead": {"forward_dead_lettered_to": "{queue}-morgue"},
            },
            "beside": {"{queue}-work": {}, "{queue}-morgue": {}},
        },
        "entity-full": {"max_size_bytes": 20_000},
        "entity-status": {
            "beside": {
                "{queue}-send": {"status": "send-disabled"},
                "{queue}-receive": {"status": "receive-disabled"},
                "{queue}-off": {"status": "disabled"},
                "{queue}-shut": {"status": "disabled", "subscriptions": {"s": {}}},
                "{queue}-news": {
                    "subscriptions": {
                        "off": {"status": "disabled"},
                        "shut": {"status": "receive-disabled"},
                        "on": {},
                    }
                },
            },
        },
    },
)
declare_with_broker(
    suite,
    program,
    {
        "schedule-and-cancel": {},
        "schedule-by-property": {},
        "clock-advance": {"lock_duration": "PT5M"},
        "expiry": {
            "dead_letter_on_expiration": True,
            # Long enough for a slow machine to get to the peek, and a lock that outlives them all.
            "default_time_to_live": "PT200S",
            "lock_duration": "PT5M",
        },
        "session-accept": SESSIONS,
        "session-lost": SESSIONS,
        "topics/schedule-and-cancel": {
            "subscriptions": {"red": {"rule": [{"name": "colour", "sql": "colour = 'red'"}]}}
        },
        "topics/copies-expire-apart": {"subscriptions": EXPIRING},
        "topics/shorter-lifetime": {
            "default_time_to_live": "PT200S",
            "subscriptions": {
                "brief": {"default_time_to_live": "PT100S", "dead_letter_on_expiration": True},
                "long": {"default_time_to_live": "PT1H", "dead_letter_on_expiration": True},
            },
        },
    },
)
declare_restart(suite, program)
declare_with_namespaces(suite, program, "namespaces")


@suite.case("token-credential")
def token_credential(context: Context) -> None:
    with tempfile.TemporaryDirectory() as directory:
        provider = Provider(pathlib.Path(directory))
        tokens = {
            "FERRYBUS_TOKEN_CLERK": provider.token("clerk"),
            "FERRYBUS_TOKEN_GUEST": provider.token("guest"),
            "FERRYBUS_TOKEN_EXPIRED": provider.token("clerk", seconds=-600),
            "FERRYBUS_TOKEN_FORGED": provider.token("clerk")[:-8] + "AAAAAAAA",
        }
        broker = Broker({context.queue: {}}, more_config=provider.config).start()
        try:
            play(program, "token-credential", Context(broker, context.transport, context.queue), **tokens)
        finally:
            broker.close()


suite.skip("send-1000-pipelined", "send_message borrows the sender until its message is settled")
suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends")
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome")
suite.skip("anonymous-relay", "a sender is always bound to a queue or topic")
suite.skip("settle-after-the-link-is-gone", "the SDK settles only on the link that received")
suite.skip("subscribe", "the SDK has no message pump")
suite.skip("transaction-commit", "the SDK has no API for transactions")
suite.skip("session-listing", "the SDK has no API for it")
suite.skip("lock-renewal-automatic", "the SDK renews nothing by itself")
suite.skip("session-renewal-automatic", "the SDK renews nothing by itself")

if __name__ == "__main__":
    suite.run()
