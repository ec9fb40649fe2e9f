"""Lets the SDK's own live tests run against the broker.

The tests come with the SDK's source package and are not changed. They import
helpers that exist only in the SDK's repository and make their entities through
Azure's resource manager. This plugin for pytest stands in for both: the same
names, with entities that are made through the broker's management API.

Invariant: a worker of pytest has brokers of its own, one for the tests that
empty the whole namespace and one for all others.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import os
import pathlib
import random
import shutil
import string
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

from broker import KEY, KEY_NAME, Broker, broker_binary
from provider import Provider

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ferrybus-live-"))
# Whatever it is told, the SDK takes the ports 5671 and 443, so each broker has an address of its own.
ADDRESSES = [".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))]) for _ in range(2)]
hosts = [word for address in ADDRESSES for word in ("--host", address)]
subprocess.run([broker_binary(), "cert", "dev", "--out", str(FOLDER), *hosts], check=True, capture_output=True)

# Each of the SDK's transports looks elsewhere for the authorities that it trusts, and some as they are imported.
for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "WEBSOCKET_CLIENT_CA_BUNDLE"):
    os.environ[name] = str(FOLDER / "ca.pem")

import certifi

certifi.where = lambda: str(FOLDER / "ca.pem")

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus._pyamqp import _transport
from azure.servicebus._pyamqp.aio import _transport_async
from azure.servicebus.management import AuthorizationRule, ServiceBusAdministrationClient

# The tests expect what the Standard tier has, and refusals of what only Premium has.
PROFILE = "standard-only"
NAME_LENGTH = 24  # of the names that the SDK's repository makes


# How the test that runs has reached the broker and logged in.
ways: set[str] = set()


def note_connections(transport: type, way: str) -> None:
    made = transport.__init__

    @functools.wraps(made)
    def noted(self, *args, **settings):
        ways.add(way)
        made(self, *args, **settings)

    transport.__init__ = noted


note_connections(_transport.SSLTransport, "tls")
note_connections(_transport.WebSocketTransport, "websocket")
note_connections(_transport_async.AsyncTransport, "tls")
note_connections(_transport_async.WebSocketTransportAsync, "websocket")


class Rights(enum.Enum):
    """As the resource manager's client calls them."""

    manage = "Manage"
    send = "Send"
    listen = "Listen"


class LocalBroker(Broker):
    """At an address of its own, on the ports that the SDK takes."""

    def __init__(self, address: str, **settings):
        super().__init__({}, tls=False, **settings)
        self.address = address
        self.ca = str(FOLDER / "ca.pem")
        self._command += ["--tls-certificate", str(FOLDER / "server.pem"), "--tls-key", str(FOLDER / "server-key.pem")]
        for port in (5671, 443):
            self._command += ["--listen-tls", f"{address}:{port}"]


class Place:
    """A broker, its administrator, and keys with each set of rights."""

    def __init__(self, kind: str, address: str):
        # The broker reads the file of keys again from time to time: it must not find those of the other broker's provider.
        folder = FOLDER / kind
        folder.mkdir()
        self.provider = Provider(folder)
        grant = '[[issuer.grant]]\nclaim = "roles"\nvalue = "owner"\nrights = ["manage", "send", "listen"]\n'
        keys = f'[[key]]\nname = "{KEY_NAME}"\nkey = "{KEY}"\nrights = ["manage", "send", "listen"]\n'
        self.keys = {}
        for number, rights in enumerate((["send"], ["listen"], ["manage", "send", "listen"])):
            name, key = f"key-{number}", string.ascii_uppercase[number] * 43 + "="
            self.keys[frozenset(rights)] = (name, key)
            named = ", ".join(f'"{right}"' for right in rights)
            keys += f'[[key]]\nname = "{name}"\nkey = "{key}"\nrights = [{named}]\n'
        self.broker = LocalBroker(address, more_config=self.provider.config + grant + keys, profile=PROFILE).start()
        self.host = self.broker.address

    def connection_string(self, name: str = KEY_NAME, key: str = KEY, entity: str = "") -> str:
        place = f";EntityPath={entity}" if entity else ""
        return f"Endpoint=sb://{self.host}/;SharedAccessKeyName={name};SharedAccessKey={key}{place}"

    @functools.cached_property
    def administrator(self) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient.from_connection_string(
            self.connection_string(), connection_verify=self.broker.ca
        )


places: dict[str, Place] = {}


def place(kind: str = "common") -> Place:
    """The broker of this worker for tests of one kind."""
    if kind not in places:
        places[kind] = Place(kind, ADDRESSES[len(places)])
    return places[kind]


def pytest_sessionfinish():
    """A worker ends without the usual ways out."""
    for one in places.values():
        one.broker.close()
    shutil.rmtree(FOLDER, ignore_errors=True)


class Credential:
    """Tokens of an identity provider that the broker trusts, for callers of either kind."""

    def __init__(self, is_async: bool):
        self._is_async = is_async

    def _token(self) -> AccessToken:
        text = place("management" if "management" in asked else "common").provider.token("owner")
        return AccessToken(text, int(time.time()) + 3600)

    def get_token(self, *scopes, **kwargs):
        ways.add("jwt")
        if not self._is_async:
            return self._token()

        async def later():
            return self._token()

        return later()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    async def close(self):
        return None


asked: set[str] = set()


class Resource:
    def __init__(self, name: str):
        self.name = name
        self.id = name


class Preparer:
    """A decorator that gives a test what it asks for; `made` says what, by name."""

    def made(self, given: dict[str, object]) -> dict[str, object]:
        raise NotImplementedError

    def provided(self) -> set[str]:
        raise NotImplementedError

    def __call__(self, test):
        wanted = inspect.signature(test).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in wanted.values())

        def known(values):
            return {name: value for name, value in values.items() if takes_all or name in wanted}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def prepared(instance, *args, **given):
                more = await asyncio.to_thread(self.made, given)
                return await test(instance, *args, **known(given | more))

        else:

            @functools.wraps(test)
            def prepared(instance, *args, **given):
                return test(instance, *args, **known(given | self.made(given)))

        signature = inspect.signature(test)
        kept = [one for one in signature.parameters.values() if one.name not in self.provided()]
        prepared.__signature__ = signature.replace(parameters=kept)
        return prepared


class Group(Preparer):
    def __init__(self, *args, **settings):
        pass

    def provided(self):
        return {"resource_group", "location"}

    def made(self, given):
        return {"resource_group": Resource("group"), "location": "here"}


class Namespace(Preparer):
    def __init__(self, *args, parameter_name="servicebus_namespace", **settings):
        self._name = parameter_name

    def provided(self):
        return {self._name, *(f"{self._name}_{part}" for part in ("connection_string", "key_name", "primary_key"))}

    def made(self, given):
        return {
            self._name: Resource(place().host),
            f"{self._name}_connection_string": place().connection_string(),
            f"{self._name}_key_name": KEY_NAME,
            f"{self._name}_primary_key": KEY,
        }


class Entity(Preparer):
    """Made anew for each test, or once for all that ask for the same."""

    parameter = ""
    _made: dict[object, Resource] = {}

    def __init__(self, name_prefix="", use_cache=False, parameter_name=None, **settings):
        self._prefix = name_prefix
        self._cached = use_cache
        self._name = parameter_name or self.parameter
        self._settings = {
            key: value for key, value in settings.items() if not key.endswith(("_parameter_name", "_recording"))
        }
        self._inside = settings.get("servicebus_topic_parameter_name", "servicebus_topic")

    def provided(self):
        return {self._name}

    def made(self, given):
        key = (type(self), self._prefix, str(sorted(self._settings.items())), str(self.within(given)))
        if self._cached and key in self._made:
            return {self._name: self._made[key]}
        letters = "".join(random.choices(string.ascii_lowercase, k=NAME_LENGTH))
        resource = Resource((self._prefix.replace("_", "") + letters)[:NAME_LENGTH])
        self.make(resource.name, given)
        if self._cached:
            self._made[key] = resource
        return {self._name: resource}

    def within(self, given):
        return None

    def make(self, name, given):
        raise NotImplementedError


class Queue(Entity):
    parameter = "servicebus_queue"

    def make(self, name, given):
        settings = dict(self._settings)
        settings["dead_lettering_on_message_expiration"] = settings.get("dead_lettering_on_message_expiration", False)
        settings["lock_duration"] = settings.get("lock_duration", "PT30S")
        place().administrator.create_queue(name, **settings)


class Topic(Entity):
    parameter = "servicebus_topic"

    def make(self, name, given):
        place().administrator.create_topic(name, **self._settings)


class Subscription(Entity):
    parameter = "servicebus_subscription"

    def within(self, given):
        return given[self._inside].name

    def make(self, name, given):
        settings = {"lock_duration": "PT60S"} | self._settings
        place().administrator.create_subscription(given[self._inside].name, name, **settings)


class NamespaceRule(Preparer):
    def __init__(self, *args, access_rights=tuple(Rights), parameter_name="servicebus_authorization_rule", **settings):
        self._rights = frozenset(right.name for right in access_rights)
        self._name = parameter_name

    def provided(self):
        return {self._name, f"{self._name}_connection_string"}

    def made(self, given):
        name, key = place().keys[self._rights]
        return {
            self._name: Resource(name),
            f"{self._name}_connection_string": place().connection_string(name, key),
        }


class QueueRule(Preparer):
    def __init__(
        self,
        *args,
        access_rights=tuple(Rights),
        parameter_name="servicebus_queue_authorization_rule",
        servicebus_queue_parameter_name="servicebus_queue",
        **settings,
    ):
        self._rights = [right.value for right in access_rights]
        self._name = parameter_name
        self._queue = servicebus_queue_parameter_name

    def provided(self):
        return {self._name, f"{self._name}_connection_string"}

    def made(self, given):
        queue = place().administrator.get_queue(given[self._queue].name)
        key = "Q" * 43 + "="
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            claim_type="SharedAccessKey",
            claim_value="None",
            key_name="rule",
            rights=self._rights,
            primary_key=key,
            secondary_key="R" * 43 + "=",
        )
        queue.authorization_rules = [rule]
        place().administrator.update_queue(queue)
        return {
            self._name: Resource("rule"),
            f"{self._name}_connection_string": place().connection_string("rule", key, queue.name),
        }


class Environment(Preparer):
    """For the tests of the administration client, which empty the namespace."""

    def __init__(self, *args, **settings):
        pass

    def provided(self):
        return set(self._values())

    @staticmethod
    def _names():
        return (
            "servicebus_connection_str servicebus_fully_qualified_namespace servicebus_topic_name "
            "servicebus_subscription_name servicebus_queue_name servicebus_sas_policy servicebus_sas_key "
            "servicebus_session_queue_name servicebus_session_id servicebus_session_queue_sas_policy "
            "servicebus_session_queue_sas_key"
        ).split()

    def _values(self):
        return dict.fromkeys(self._names())

    def made(self, given):
        asked.add("management")
        there = place("management")
        return self._values() | {
            "servicebus_connection_str": there.connection_string(),
            "servicebus_fully_qualified_namespace": there.host,
            "servicebus_sas_policy": KEY_NAME,
            "servicebus_sas_key": KEY,
        }


def _module(name: str, **content: object) -> None:
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(content)
    sys.modules[name] = module


class TestCase:
    """What the tests' classes inherit; nothing is recorded here."""

    is_live = True

    def get_resource_name(self, prefix: str) -> str:
        return prefix + "".join(random.choices(string.ascii_lowercase, k=8))

    create_random_name = get_resource_name

    @staticmethod
    def await_prepared_test(test):
        return test


def _nothing(*args, **kwargs):
    return None


def _unchanged(test=None, **kwargs):
    return test


_module(
    "devtools_testutils",
    AzureMgmtRecordedTestCase=TestCase,
    AzureRecordedTestCase=TestCase,
    get_credential=lambda is_async=False, **kwargs: Credential(is_async),
    recorded_by_proxy=_unchanged,
    RandomNameResourceGroupPreparer=Group,
    CachedResourceGroupPreparer=Group,
    PowerShellPreparer=Environment,
    set_custom_default_matcher=_nothing,
    add_general_regex_sanitizer=_nothing,
)
_module("devtools_testutils.aio", recorded_by_proxy_async=_unchanged)
_module(
    "devtools_testutils.sanitizers",
    add_remove_header_sanitizer=_nothing,
    add_general_regex_sanitizer=_nothing,
    add_oauth_response_sanitizer=_nothing,
)
_module("devtools_testutils.perfstress_tests", get_random_bytes=os.urandom)
_module("azure.mgmt")
_module("azure.mgmt.servicebus")
_module("azure.mgmt.servicebus.models", AccessRights=Rights)
_module(
    "servicebus_preparer",
    SERVICEBUS_ENDPOINT_SUFFIX="",
    ServiceBusResourceGroupPreparer=Group,
    ServiceBusNamespacePreparer=Namespace,
    ServiceBusQueuePreparer=Queue,
    ServiceBusTopicPreparer=Topic,
    ServiceBusSubscriptionPreparer=Subscription,
    ServiceBusNamespaceAuthorizationRulePreparer=NamespaceRule,
    ServiceBusQueueAuthorizationRulePreparer=QueueRule,
    CachedServiceBusResourceGroupPreparer=Group,
    CachedServiceBusNamespacePreparer=Namespace,
    CachedServiceBusQueuePreparer=functools.partial(Queue, use_cache=True),
    CachedServiceBusTopicPreparer=functools.partial(Topic, use_cache=True),
    CachedServiceBusSubscriptionPreparer=functools.partial(Subscription, use_cache=True),
)


@pytest.fixture(scope="session")
def test_proxy():
    """Asked for by the tests' own conftest."""


@pytest.fixture(autouse=True)
def _of_one_test(record_property):
    asked.clear()
    ways.clear()
    yield
    for way in sorted(ways):
        record_property("way", way)
