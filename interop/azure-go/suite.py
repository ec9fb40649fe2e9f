"""The Go SDK of Azure Service Bus against the broker: starts what `src/` plays."""

from __future__ import annotations

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import KEY, KEY_NAME, Broker
from cases import Context, Suite
from documented import changed, printed, program as documented
from external import (
    EVERYWHERE,
    LARGEST_MESSAGE,
    declare,
    declare_reconnect,
    declare_restart,
    declare_with_broker,
    declare_with_namespaces,
    play,
)

SESSIONS = {"requires_session": True}
RULES = {
    "all": {},
    "none": {"rule": [{"name": "never", "sql": "1 = 0"}]},
    "big": {"rule": [{"name": "amount", "sql": "amount > 100 AND sys.Label LIKE 'o%'"}]},
    "red": {"rule": [{"name": "colour", "correlation": {"label": "order", "properties": {"colour": "red"}}}]},
}

program = [str(HERE / "build" / "suite")]
suite = Suite("azure-go")

declare(
    suite,
    program,
    EVERYWHERE
    | LARGEST_MESSAGE
    | {
        "send-batch": {},
        "peek-lock-defer": {},
        "deferred-by-number": {},
        "receive-time-out-on-empty-queue": {},
        "missing-entity-at-once": {},
        "web-socket": {},
        "server-name-with-port": {},
        "session-order": SESSIONS,
        "session-state": SESSIONS,
        "session-listing": SESSIONS,
        "session-deferred": SESSIONS,
        "sessions-beside-a-sender": SESSIONS,
        "topics/each-subscription-gets-its-copy": {"subscriptions": {"a": {}, "b": {}}},
        "topics/copies-are-settled-apart": {"subscriptions": {"a": {}, "b": {}}},
        "topics/rules-choose": {"subscriptions": RULES},
        "topics/sessions": {"subscriptions": {"s": SESSIONS}},
        "administration": {},
        "session-required": SESSIONS,
        "administration-missing": {"subscriptions": {"a": {}}},
        "settle-after-the-link-is-gone": {},
    },
)
declare_with_broker(
    suite,
    program,
    {
        "schedule-and-cancel": {},
        "session-accept": SESSIONS,
        "session-lost": SESSIONS,
        "slow-listener": {},
        "clock-advance": {"lock_duration": "PT5M"},
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


@suite.case("administration-without-the-right")
def administration_without_the_right(context: Context) -> None:
    """A key that may send and receive but not manage, at a broker that answers as the service does."""
    key = "C" * 43 + "="
    keys = [(KEY_NAME, KEY, ["manage", "send", "listen"]), ("clerk", key, ["send", "listen"])]
    tables = [f'[[key]]\nname = "{name}"\nkey = "{text}"\nrights = {rights}\n' for name, text, rights in keys]
    first = 'missing_right = "unauthorized"\n'
    broker = Broker({context.queue: {}}, first_config=first, more_config="".join(tables).replace("'", '"')).start()
    try:
        there = Context(broker, context.transport, context.queue)
        play(program, "administration-without-the-right", there, FERRYBUS_KEY_NAME="clerk", FERRYBUS_KEY=key)
    finally:
        broker.close()


@suite.case("documented-program")
def documented_program(context: Context) -> None:
    """The page's first program is for plain TCP, its second for TLS; each has a broker as the page says."""
    broker = Broker({}, auto_create=True).start()
    try:
        text = documented("docs/clients/go.md", "ServerName" if context.tls else "order %d", "go")
        shown, port = ("localhost:5671", broker.tls_port) if context.tls else ("localhost:5672", broker.port)
        folder = HERE / "build" / f"documented-{context.transport}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.go").write_text(changed(text, {shown: f"localhost:{port}"}), encoding="utf-8")
        command = ["go", "run", "-mod=readonly", "-buildvcs=false", f"./build/{folder.name}"]
        told = os.environ | {"SSL_CERT_FILE": broker.ca, "GOTOOLCHAIN": "local", "GOWORK": "off"}
        said = printed(command, cwd=HERE, env=told).splitlines()
        wanted = ["customer 7: apples, one item"] if context.tls else [f"order {number}" for number in range(3)]
        assert said == wanted, said
    finally:
        broker.close()


suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends")
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome")
suite.skip("anonymous-relay", "a sender of the SDK is always bound to a queue or topic")
suite.skip("transaction-commit", "the SDK has no API for transactions")
suite.skip("subscribe", "the SDK has no message pump")
suite.skip("lock-renewal-automatic", "the SDK renews nothing by itself")
suite.skip("session-renewal-automatic", "the SDK renews nothing by itself")

if __name__ == "__main__":
    suite.run()
