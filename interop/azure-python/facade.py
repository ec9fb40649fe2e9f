"""The synchronous SDK in the clothes of the asynchronous one.

Each case is written once, with `await`. Over the asynchronous client it runs
as written; over the synchronous client every call goes through `Awaited`, which
makes the blocking call and hands back what it returned. The cases are therefore
the same calls with the same arguments on both clients.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from broker import KEY, KEY_NAME
from cases import Context, Suite
from namespaces import Namespace


class Awaited:
    """Wraps a blocking client, sender or receiver."""

    def __init__(self, inner: Any):
        self._inner = inner

    async def __aenter__(self) -> "Awaited":
        self._inner.__enter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not inspect.ismethod(attribute):
            return attribute
        if name.startswith("get_"):
            return lambda *args, **kwargs: Awaited(attribute(*args, **kwargs))

        async def call(*args: Any, **kwargs: Any) -> Any:
            return attribute(*args, **kwargs)

        return call


def client(
    context: Context,
    style: str,
    *,
    key: str = "",
    key_name: str = KEY_NAME,
    entity: str = "",
    credential: Any = None,
    web_socket: bool = False,
    namespace: Namespace | None = None,
    by_name: bool = False,
    **options: Any,
) -> Any:
    """A client of the wanted style (`sync` or `async`) for the case's transport.

    Of a `namespace` it uses the key, unless one is given, and the address; or, with `by_name`, a name that no DNS knows and a
    custom endpoint.
    """
    kind = AsyncServiceBusClient if style == "async" else ServiceBusClient
    host = namespace.host if namespace and not by_name else "localhost"
    if web_socket:
        options |= {
            "custom_endpoint_address": f"sb://{host}:{context.port}",
            "transport_type": TransportType.AmqpOverWebsocket,
        }
        if context.tls:
            options["connection_verify"] = context.ca
    elif context.tls:
        # This SDK ignores the port of a connection string unless it names the
        # emulator, and the emulator is never reached over TLS.
        options |= {
            "custom_endpoint_address": f"sb://{host}:{context.port}",
            "transport_type": TransportType.Amqp,
            "connection_verify": context.ca,
        }
    options.setdefault("retry_backoff_factor", 0.1)
    if credential is not None:
        made = kind("localhost", credential, **options)
    else:
        if namespace and by_name:
            host = namespace.domain
        key = key or (namespace.key if namespace else KEY)
        text = context.broker.connection_string(key=key, key_name=key_name, entity=entity, tls=context.tls, host=host)
        made = kind.from_connection_string(text, **options)
    return made if style == "async" else Awaited(made)


def in_both_styles(suite: Suite):
    """What declares a case of the suite once for the synchronous and once for the asynchronous client."""

    def case(name: str, **settings: object):
        def declare(body):
            for style in ("sync", "async"):
                def run(context: Context, style=style):
                    asyncio.run(body(context, style))

                suite.case(f"{style}/{name}", **settings)(run)
            return body

        return declare

    return case
