"""Ways in: keys, tokens of an identity provider, WebSockets."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import time
import unittest

from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusConnectionError

from broker import Broker
from declared import case
from facade import client
from provider import Provider
from steps import assert_empty, one, text, use


class Credential:
    """A token credential that always has the same token."""

    def __init__(self, token: str):
        self._token = AccessToken(token, int(time.time()) + 3600)

    def get_token(self, *scopes, **_):
        assert scopes == ("https://servicebus.azure.net//.default",), scopes
        return self._token


class AsyncCredential(Credential):
    async def get_token(self, *scopes, **options):
        return super().get_token(*scopes, **options)


@case("token-credential")
async def token_credential(context, style):
    with tempfile.TemporaryDirectory() as directory:
        provider = Provider(pathlib.Path(directory))
        broker = Broker({"orders": {}}, more_config=provider.config).start()
        try:
            # The SDK has no token credentials without TLS.
            here = dataclasses.replace(context, broker=broker, transport="tls")
            credential = Credential if style == "sync" else AsyncCredential
            async with client(here, style, credential=credential(provider.token("clerk"))) as bus:
                async with bus.get_queue_sender("orders") as sender:
                    await sender.send_messages(ServiceBusMessage("by token"))
                async with bus.get_queue_receiver("orders") as receiver:
                    message = await one(receiver)
                    assert text(message) == "by token"
                    await receiver.renew_message_lock(message)
                    await receiver.complete_message(message)
            for token in (provider.token("guest"), provider.token("clerk", seconds=-600), "a.b.c"):
                async with client(here, style, credential=credential(token), retry_total=0) as bus:
                    # With a custom endpoint the SDK calls every failed log-in a connection error.
                    with unittest.TestCase().assertRaises(ServiceBusConnectionError) as refused:
                        async with bus.get_queue_sender("orders") as sender:
                            await use(sender)
                    assert refused.exception.inner_exception.status_code == 401, refused.exception
        finally:
            broker.close()


@case("web-socket")
async def web_socket(context, style):
    async with client(context, style, web_socket=True) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages([ServiceBusMessage(str(number)) for number in range(100)])
            await sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        async with bus.get_queue_receiver(context.queue) as receiver:
            for number in range(100):
                message = await one(receiver)
                assert text(message) == str(number)
                await receiver.complete_message(message)
            large = await one(receiver)
            assert text(large) == "x" * 200_000
            await receiver.renew_message_lock(large)
            await receiver.dead_letter_message(large, reason="large")
            await assert_empty(receiver)
        dead = ServiceBusSubQueue.DEAD_LETTER
        async with bus.get_queue_receiver(context.queue, sub_queue=dead) as receiver:
            assert (await one(receiver)).dead_letter_reason == "large"


@case("wrong-key")
async def wrong_key(context, style):
    async with client(context, style, key="WRONG_KEY", retry_total=0) as bus:
        for link in (bus.get_queue_sender(context.queue), bus.get_queue_receiver(context.queue)):
            try:
                async with link:
                    await use(link)
                raise AssertionError("a link could be used with a wrong key")
            except (ServiceBusAuthenticationError, ServiceBusConnectionError) as error:
                # With a custom endpoint the SDK calls every failed log-in a connection error.
                assert context.tls or isinstance(error, ServiceBusAuthenticationError), error
                assert error.inner_exception.status_code == 401, error.inner_exception
