"""One broker with three namespaces, each with a queue `orders`, and a key of one name with a text of its own.

Clients reach the default one as `localhost` and the others by an address of the loopback network each, which needs no DNS.
Their certificate is good for names below `bus.example.org` too, for clients that can be told where to connect.

Invariant: what a case changes about a namespace, it changes as an administrator does, over the broker's own interface.
"""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
from typing import Iterator

from broker import KEY, KEY_NAME, Broker, broker_binary

QUEUE = "orders"
DOMAIN = "bus.example.org"
# The key opens the default namespace alone, and administers the others, for nobody else is named.
CONFIG = f'[[key]]\nname = "{KEY_NAME}"\nkey = "{KEY}"\nrights = ["manage"]\n'


@dataclasses.dataclass(frozen=True)
class Namespace:
    """What an application of a team is told."""

    broker: Broker
    name: str
    host: str
    key: str

    @property
    def domain(self) -> str:
        """A host name whose first label is the namespace; no DNS knows it."""
        return f"{self.name}.{DOMAIN}"

    def connection_string(self, *, tls: bool, key: str = "", host: str = "") -> str:
        return self.broker.connection_string(tls=tls, key=key or self.key, host=host or self.host)

    def put(self, *, held: bool = False, **limits: int) -> None:
        """Gives the namespace these limits and no others, and holds it or lets it go on."""
        settings = {"hostnames": [self.host], "held": held, "limits": limits}
        self.broker.ask("PUT", f"/$ferrybus/namespaces/{self.name}", settings)

    def usage(self) -> dict[str, int]:
        return self.broker.ask("GET", f"/$ferrybus/namespaces/{self.name}")["usage"]


@dataclasses.dataclass(frozen=True)
class Namespaces:
    broker: Broker
    default: Namespace
    team_a: Namespace
    team_b: Namespace

    def __iter__(self) -> Iterator[Namespace]:
        return iter((self.default, self.team_a, self.team_b))

    def environment(self) -> dict[str, str]:
        """For programs: `NAME HOST KEY` in a line for each."""
        lines = (f"{each.name} {each.host} {each.key}" for each in self)
        return {"FERRYBUS_NAMESPACES": "\n".join(lines)}


@contextlib.contextmanager
def three_namespaces(
    default: str = "localhost",
    team_a: str = "127.0.0.2",
    team_b: str = "127.0.0.3",
    *,
    listen_tls: tuple[str, ...] = (),
) -> Iterator[Namespaces]:
    """The broker, for as long as the block lasts; it listens for TLS there, too."""
    hosts = {"team-a": team_a, "team-b": team_b}
    names = ("localhost", "127.0.0.1", default, *hosts.values(), f"*.{DOMAIN}")
    broker = Broker(
        {QUEUE: {}},
        more_config=CONFIG,
        addresses=("127.0.0.1", *hosts.values()),
        listen_tls=listen_tls,
        names=tuple(dict.fromkeys(names)),
    ).start()
    try:
        teams = [_created(broker, name, host) for name, host in hosts.items()]
        yield Namespaces(broker, Namespace(broker, "default", default, KEY), *teams)
    finally:
        broker.close()


def _created(broker: Broker, name: str, host: str) -> Namespace:
    path = f"/$ferrybus/namespaces/{name}"
    broker.ask("PUT", path, {"hostnames": [host]})
    made = broker.ask("PUT", f"{path}/keys/{KEY_NAME}", {"rights": ["manage"]})
    namespace = Namespace(broker, name, host, made["primary"])
    # Over AMQP and with the team's own key, as the team would.
    command = [broker_binary(), "queue", "create", QUEUE]
    command += ["--connection-string", namespace.connection_string(tls=False)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise AssertionError(f"`ferrybus queue create` failed: {done.stderr}")
    return namespace
