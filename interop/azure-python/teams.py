"""Three namespaces of one broker: each with its queue of one name and its own key, and with limits."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import sys
import time
import unittest
import urllib.request

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusQuotaExceededError,
)

from broker import KEY_NAME
from cases import eventually
from declared import case, suite
from documented import printed, program
from facade import client
from namespaces import QUEUE, three_namespaces
from steps import one, text, use

# The text of one message is as large as this.
LARGE = "x" * 30_000


def synchronous_case(name: str):
    """Declares a case of the synchronous client alone: both have the same connections and errors, and a case takes seconds."""

    def declare(body):
        suite.case(f"sync/{name}")(lambda context: asyncio.run(body(context, "sync")))
        return body

    return declare


@contextlib.contextmanager
def teams(context):
    """The namespaces, and the case's context with their broker."""
    with three_namespaces() as namespaces:
        yield namespaces, dataclasses.replace(context, broker=namespaces.broker)


async def send_to_each(context, style, namespaces, **options):
    """A client of each, all at the same time: each finds in its queue what it has sent, and nothing else."""
    async with contextlib.AsyncExitStack() as stack:
        open_clients = []
        for namespace in namespaces:
            bus = await stack.enter_async_context(client(context, style, namespace=namespace, **options))
            sender = await stack.enter_async_context(bus.get_queue_sender(QUEUE))
            await sender.send_messages(ServiceBusMessage(f"for {namespace.name}"))
            receiver = await stack.enter_async_context(bus.get_queue_receiver(QUEUE))
            open_clients.append((namespace, receiver))
        for namespace, receiver in open_clients:
            seen = [text(message) for message in await receiver.peek_messages(10)]
            assert seen == [f"for {namespace.name}"], seen
            await receiver.complete_message(await one(receiver))
            # Each link of this SDK has a connection of its own; that of the program which made the queue has ended.
            eventually(lambda: namespace.usage()["connections"] == 2, f"two connections of {namespace.name}")


async def send_to_stranger(context, style, namespaces):
    """A name of no namespace means the default one."""
    stranger = dataclasses.replace(namespaces.default, name="team-c")
    async with client(context, style, namespace=stranger, by_name=True) as bus:
        async with bus.get_queue_sender(QUEUE) as sender:
            await sender.send_messages(ServiceBusMessage("by the name of nobody"))
    async with client(context, style, namespace=namespaces.default) as bus:
        async with bus.get_queue_receiver(QUEUE) as receiver:
            assert text(await one(receiver)) == "by the name of nobody"


@case("namespaces")
async def three(context, style):
    with teams(context) as (namespaces, here):
        # Over TLS by names that no DNS knows, where the SDK is told that one address has them all; else by an address each.
        await send_to_each(here, style, namespaces, by_name=context.tls)
        if context.tls:
            await send_to_stranger(here, style, namespaces)
        for namespace, other in ((namespaces.team_a, namespaces.team_b), (namespaces.default, namespaces.team_a)):
            async with client(here, style, namespace=namespace, key=other.key, retry_total=0) as bus:
                # With a custom endpoint the SDK calls every failed log-in a connection error.
                kind = ServiceBusConnectionError if context.tls else ServiceBusAuthenticationError
                with unittest.TestCase().assertRaises(kind) as refused:
                    async with bus.get_queue_sender(QUEUE) as sender:
                        await use(sender)
                assert refused.exception.inner_exception.status_code == 401, refused.exception


@synchronous_case("namespaces-web-socket")
async def web_socket(context, style):
    with teams(context) as (namespaces, here):
        await send_to_each(here, style, namespaces, web_socket=True)


@synchronous_case("namespace-held")
async def held(context, style):
    with teams(context) as (namespaces, here):
        team = namespaces.team_a
        async with client(here, style, namespace=team, retry_total=1) as bus:
            async with bus.get_queue_sender(QUEUE) as sender, bus.get_queue_receiver(QUEUE) as receiver:
                await sender.send_messages(ServiceBusMessage("before"))
                team.put(held=True)
                eventually(lambda: team.usage()["connections"] == 0, "the connections are closed")
                # The first try sees its old connection end, the second one is told why.
                for link in (sender, receiver):
                    with unittest.TestCase().assertRaises(ServiceBusConnectionError) as refused:
                        await use(link)
                    assert "is held for maintenance" in str(refused.exception), refused.exception
                    assert "com.microsoft:server-busy" in str(refused.exception), refused.exception
                # The others are not.
                async with client(here, style, namespace=namespaces.team_b) as other:
                    async with other.get_queue_sender(QUEUE) as others:
                        await others.send_messages(ServiceBusMessage("elsewhere"))
                team.put()
                await sender.send_messages(ServiceBusMessage("after"))
                for body in ("before", "after"):
                    message = await one(receiver)
                    assert text(message) == body, message
                    await receiver.complete_message(message)


@synchronous_case("namespace-max-connections")
async def max_connections(context, style):
    with teams(context) as (namespaces, here):
        team = namespaces.team_a
        async with client(here, style, namespace=team, retry_total=0) as bus:
            async with bus.get_queue_sender(QUEUE) as sender:
                await sender.send_messages(ServiceBusMessage("first"))
                # Each link of this SDK has a connection of its own.
                team.put(max_connections=1)
                async with contextlib.AsyncExitStack() as stack:
                    with unittest.TestCase().assertRaises(ServiceBusConnectionError) as refused:
                        await stack.enter_async_context(bus.get_queue_sender(QUEUE))
                    assert "ConnectionsQuotaExceeded" in str(refused.exception), refused.exception
                    await sender.send_messages(ServiceBusMessage("the first one goes on"))
                    team.put(max_connections=2)
                    second = await stack.enter_async_context(bus.get_queue_sender(QUEUE))
                    await second.send_messages(ServiceBusMessage("second"))


@synchronous_case("namespace-max-bytes")
async def max_bytes(context, style):
    with teams(context) as (namespaces, here):
        team = namespaces.team_a
        team.put(max_bytes=20_000)
        async with client(here, style, namespace=team, retry_total=0) as bus:
            async with bus.get_queue_sender(QUEUE) as sender, bus.get_queue_receiver(QUEUE) as receiver:
                with unittest.TestCase().assertRaises(ServiceBusQuotaExceededError) as refused:
                    for _ in range(3):
                        await sender.send_messages(ServiceBusMessage(LARGE))
                assert "takes at most 20000" in str(refused.exception), refused.exception
                async with client(here, style, namespace=namespaces.team_b) as other:
                    async with other.get_queue_sender(QUEUE) as others:
                        await others.send_messages(ServiceBusMessage(LARGE))
                # Receiving goes on, and makes room.
                await receiver.complete_message(await one(receiver))
                await sender.send_messages(ServiceBusMessage("small"))
                team.put()
                await sender.send_messages(ServiceBusMessage(LARGE))


@synchronous_case("namespace-deleted")
async def deleted(context, style):
    with teams(context) as (namespaces, here):
        team = namespaces.team_b
        async with client(here, style, namespace=team, retry_total=0) as bus:
            async with bus.get_queue_sender(QUEUE) as sender:
                await sender.send_messages(ServiceBusMessage("lost"))
                here.broker.ask("DELETE", f"/$ferrybus/namespaces/{team.name}")
                # Its host name means the default namespace from then on, where its key opens nothing.
                with unittest.TestCase().assertRaises(
                    (ServiceBusAuthenticationError, ServiceBusConnectionError, MessagingEntityNotFoundError)
                ):
                    await sender.send_messages(ServiceBusMessage("nowhere"))
                    await sender.send_messages(ServiceBusMessage("nowhere"))


@synchronous_case("namespace-max-sends-per-second")
async def max_sends_per_second(context, style):
    with teams(context) as (namespaces, here):
        team = namespaces.team_a
        team.put(max_sends_per_second=5)
        async with client(here, style, namespace=team, retry_total=0) as bus:
            async with bus.get_queue_sender(QUEUE) as sender:
                started = time.monotonic()
                for number in range(11):
                    await sender.send_messages(ServiceBusMessage(str(number)))
                # A second's worth may come at once, and the rest as fast as the limit says.
                assert time.monotonic() - started > 0.8, "nothing was held up, and nothing was refused"


@suite.case("documented-namespaces")
def documented_namespaces(context):
    with three_namespaces() as namespaces:
        text = program("docs/features/namespaces.md", "azure.servicebus")
        for team, body in ((namespaces.team_a, "tea"), (namespaces.team_b, "coffee")):
            command = [sys.executable, "-c", text, team.connection_string(tls=False), body]
            assert printed(command) == f"{body}\n"
            seen = _metrics(team)
            assert f'incoming_messages_total{{namespace="{team.name}",entity="orders",kind="queue"}} 1\n' in seen, seen
            others = {other.name for other in namespaces if other is not team}
            assert not any(f'namespace="{other}"' in seen for other in others), seen


def _metrics(team) -> str:
    """What the team's own key shows at the team's own host."""
    login = base64.b64encode(f"{KEY_NAME}:{team.key}".encode()).decode()
    address = f"http://{team.host}:{team.broker.port}/metrics"
    request = urllib.request.Request(address, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()
