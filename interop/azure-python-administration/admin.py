"""The suite, the client behind it, and what its cases do over and over."""

from __future__ import annotations

import contextlib
import datetime
import inspect

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncClient
from azure.servicebus.management import AuthorizationRule, ServiceBusAdministrationClient

from cases import Context, Suite
from facade import in_both_styles

MINUTE = datetime.timedelta(minutes=1)
suite = Suite("azure-python-administration", transports=("tls",))
case = in_both_styles(suite)


class Admin:
    """Either client behind one set of awaitable calls."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        async def call(*args, **kwargs):
            result = method(*args, **kwargs)
            if hasattr(result, "__aiter__"):
                return [item async for item in result]
            if inspect.isawaitable(result):
                return await result
            if name.startswith("list_"):
                return list(result)
            return result

        return call


@contextlib.asynccontextmanager
async def admin(context: Context, style: str, **options):
    connection = context.broker.connection_string(tls=True, **options)
    made = (ServiceBusAdministrationClient if style == "sync" else AsyncClient).from_connection_string(
        connection, connection_verify=context.ca
    )
    if style == "sync":
        with made:
            yield Admin(made)
    else:
        async with made:
            yield Admin(made)


@contextlib.contextmanager
def raises(kind, text=""):
    try:
        yield
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")


async def refuses_unknown(client, kind, *names):
    """Reading, updating and deleting what is not there."""
    for call in (getattr(client, f"get_{kind}"), getattr(client, f"delete_{kind}")):
        with raises(ResourceNotFoundError):
            await call(*names)


def authorization(name: str, key: str, *rights: str) -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=list(rights),
        key_name=name,
        primary_key=key,
        secondary_key="Z" * 43 + "=",
    )
