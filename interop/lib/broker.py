"""Starts, kills and restarts the broker that a suite runs against.

Invariant: when a suite's process ends, no broker that it started is left
running and no file that it made is left behind, unless
`FERRYBUS_INTEROP_KEEP` is set.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

KEY_NAME = "RootManageSharedAccessKey"
KEY = "SAS_KEY_VALUE"

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 15

# Below the range from which Linux takes the local ports of outgoing
# connections: a client that reconnects while the broker is down could
# otherwise be given the broker's own port and end up connected to itself.
PORT_MIN, PORT_MAX = 20_000, 29_999
# Suites run side by side, and a broker begins to listen some time after its ports were chosen. So each process chooses from blocks of
# its own: the process that listens on the first port of a block has the others until it ends. `broker.js` does the same.
PORTS_OF_BLOCK = 50

_giving = threading.Lock()
_blocks: list[socket.socket] = []
_ports: list[int] = []


def free_port() -> int:
    """A TCP port on the loopback address that nobody listens on, a new one each time."""
    with _giving:
        while True:
            if not _ports:
                _take_block()
            port = _ports.pop()
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port


def _take_block() -> None:
    firsts = list(range(PORT_MIN, PORT_MAX, PORTS_OF_BLOCK))
    for first in random.sample(firsts, len(firsts)):
        block = socket.socket()
        try:
            block.bind(("127.0.0.1", first))
            block.listen()
        except OSError:
            block.close()
            continue
        _blocks.append(block)
        _ports.extend(range(first + 1, first + PORTS_OF_BLOCK))
        return
    raise RuntimeError(f"no free port between {PORT_MIN} and {PORT_MAX}")


def broker_binary() -> str:
    """The path of the binary under test, from `FERRYBUS_BIN`."""
    path = os.environ.get("FERRYBUS_BIN")
    if not path:
        raise SystemExit("set FERRYBUS_BIN to the path of the ferrybus binary")
    return path


class Certificate:
    """A development CA and a server certificate, made by `ferrybus cert dev`."""

    def __init__(self, directory: pathlib.Path, hosts: tuple[str, ...] = ()):
        command = [broker_binary(), "cert", "dev", "--out", str(directory)]
        command += [word for host in hosts for word in ("--host", host)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
        self.ca = directory / "ca.pem"
        self.certificate = directory / "server.pem"
        self.key = directory / "server-key.pem"
        for path in (self.ca, self.certificate, self.key):
            if not path.exists():
                raise RuntimeError(f"`ferrybus cert dev` made no {path.name}")


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items())
        return "{ " + inside + " }"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


class Broker:
    """One broker process with its own data directory and ports.

    `queues` maps each queue's name to its settings, written as one `[[queue]]`
    of `ferrybus.toml` each; `first_config` comes before, `more_config` behind them. One with
    `subscriptions` is a topic: they map each subscription's name to its
    settings, among which `rule` is a list. It listens on each of `addresses`,
    and with TLS also on `listen_tls`, which have a port; its certificate is for `names`, where they are given.
    """

    def __init__(
        self,
        queues: dict[str, dict[str, object]],
        *,
        durability: str = "os",
        anonymous: bool = False,
        auto_create: bool = False,
        tls: bool = True,
        profile: str = "",
        first_config: str = "",
        more_config: str = "",
        addresses: tuple[str, ...] = ("127.0.0.1",),
        listen_tls: tuple[str, ...] = (),
        names: tuple[str, ...] = (),
    ):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ferrybus-interop-"))
        self.port = free_port()
        self.tls_port = free_port() if tls else None
        self.log_path = self.directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        config = self.directory / "ferrybus.toml"
        tier = f'profile = "{profile}"\n' if profile else ""
        config.write_text(tier + first_config + self._config_text(queues) + more_config, encoding="utf-8")
        self._command = [
            broker_binary(), "serve",
            *(word for address in addresses for word in ("--listen", f"{address}:{self.port}")),
            "--data-dir", str(self.directory / "data"),
            "--durability", durability,
            "--config", str(config),
            "--testing",
        ]  # fmt: skip
        if anonymous:
            self._command += ["--anonymous", "allow"]
        if auto_create:
            self._command += ["--auto-create"]
        self.ca: str | None = None
        if tls:
            made = Certificate(self.directory / "tls", names)
            places = [*(f"{address}:{self.tls_port}" for address in addresses), *listen_tls]
            self.ca = str(made.ca)
            self._command += [
                "--tls-certificate", str(made.certificate),
                "--tls-key", str(made.key),
                *(word for place in places for word in ("--listen-tls", place)),
            ]  # fmt: skip
        atexit.register(self.close)

    @staticmethod
    def _config_text(queues: dict[str, dict[str, object]]) -> str:
        lines = []

        def table(header: str, name: str, settings: dict[str, object]) -> None:
            lines.extend([f"[[{header}]]", f"name = {_toml_value(name)}"])
            lines.extend(f"{key} = {_toml_value(value)}" for key, value in settings.items())
            lines.append("")

        for name, settings in queues.items():
            own = {key: value for key, value in settings.items() if key != "subscriptions"}
            table("topic" if "subscriptions" in settings else "queue", name, own)
            for subscription, inner in settings.get("subscriptions", {}).items():
                rules = inner.get("rule", [])
                own = {key: value for key, value in inner.items() if key != "rule"}
                table("topic.subscription", subscription, own)
                for rule in rules:
                    settings_of_rule = {key: value for key, value in rule.items() if key != "name"}
                    table("topic.subscription.rule", rule["name"], settings_of_rule)
        return "\n".join(lines)

    def start(self) -> "Broker":
        """Starts the process and returns once it accepts connections."""
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        for port in filter(None, (self.port, self.tls_port)):
            self._wait_for_listener(port, deadline)
        return self

    def _wait_for_listener(self, port: int, deadline: float) -> None:
        while True:
            code = self._process.poll()
            if code is not None:
                raise RuntimeError(f"the broker exited with {code}:\n{self.log_tail()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no listener on port {port}:\n{self.log_tail()}") from None
                time.sleep(0.005)

    def stop(self) -> None:
        """SIGTERM; the broker must end by itself within its bounded time."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to write anything."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"still running {STOP_SECONDS_MAX} s after {how.name}") from None

    def restart(self, *, kill: bool = False) -> None:
        """Ends the process and starts it again on the same data and ports."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def close(self) -> None:
        """Ends the process and removes what it wrote."""
        self._end(signal.SIGKILL)
        if not os.environ.get("FERRYBUS_INTEROP_KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, method: str, path: str, body: object = None) -> object:
        """One request to the broker's HTTP side, which every port has."""
        login = base64.b64encode(f"{KEY_NAME}:{KEY}".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def advance_clock(self, seconds: float) -> None:
        """Moves the broker's time forward, for all of its queues; what became due is done."""
        self.ask("POST", "/$ferrybus/clock/advance", {"by_ms": int(seconds * 1000)})

    def limit_messages(self, queue: str, most: int) -> None:
        """Changes the largest message that a queue takes, in bytes, as an operator does."""
        command = [broker_binary(), "queue", "update", queue, "--max-message-bytes", str(most)]
        command += ["--connection-string", self.connection_string()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"`ferrybus queue update` failed: {done.stderr.strip()}")

    def order_fault(self, kind: str, **details: object) -> None:
        """Has something go wrong: `entity`, and `count` or `for_ms`."""
        self.ask("POST", "/$ferrybus/faults", {"kind": kind, **details})

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the broker printed."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def connection_string(
        self, *, key: str = KEY, tls: bool = False, key_name: str = KEY_NAME, entity: str = "", host: str = "localhost"
    ) -> str:
        """What an application of Service Bus would paste."""
        authority = f"{host}:{self.tls_port}" if tls else f"{host}:{self.port}"
        text = (
            f"Endpoint=sb://{authority};SharedAccessKeyName={key_name};SharedAccessKey={key}"
        )
        if entity:
            text += f";EntityPath={entity}"
        return text if tls else text + ";UseDevelopmentEmulator=true"
