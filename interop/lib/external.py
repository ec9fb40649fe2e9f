"""Cases that a program in another language plays, one process for each.

The program gets the case's name as its argument and everything else from its
environment, and answers with its exit code and what it writes to stderr. So a
crash or a hang of the client costs one case and not the suite.
"""

from __future__ import annotations

import base64
import contextlib
import os
import pathlib
import queue
import subprocess
import tempfile
import threading
import time
from typing import Iterator

from broker import KEY, KEY_NAME, Broker
from cases import CASE_SECONDS_MAX, RENEWED_LOCK, SHORT_LOCK, Context, Suite, queues_of
from namespaces import QUEUE, three_namespaces
from provider import Provider

# How long a program may take to its next line.
LINE_SECONDS_MAX = 60.0

# What every program plays, in this order, with the settings of each case's queue.
EVERYWHERE: dict[str, dict[str, object]] = {
    "send-one": {},
    "peek-lock-complete": {},
    "peek-lock-abandon": {},
    "peek-lock-dead-letter": {},
    "receive-and-delete": {},
    "lock-renewal": RENEWED_LOCK,
    "lock-loss": SHORT_LOCK,
    "delivery-count-to-dead-letter": {"max_delivery_count": 3},
    "peek": {},
    "two-competing-receivers": {},
    "wrong-key": {},
    "missing-queue": {},
    "oversized-message": {"max_message_bytes": "1 MiB"},
    "large-message": {},
    "annotations-and-header": SHORT_LOCK,
    "round-trip": {},
    "link-close-and-reopen": {},
}

# For programs that play it, beside those.
LARGEST_MESSAGE: dict[str, dict[str, object]] = {"largest-message": {"max_message_bytes": 256 << 10}}


def environment(context: Context) -> dict[str, str]:
    """What a client program is told about the broker."""
    return os.environ | {
        "FERRYBUS_TRANSPORT": context.transport,
        "FERRYBUS_HOST": "localhost",
        "FERRYBUS_PORT": str(context.port),
        # For what a client does over TLS only, whatever the transport of the case.
        "FERRYBUS_TLS_PORT": str(context.broker.tls_port),
        "FERRYBUS_CA": context.ca,
        "FERRYBUS_QUEUE": context.queue,
        "FERRYBUS_KEY_NAME": KEY_NAME,
        "FERRYBUS_KEY": KEY,
        # The broker's HTTP side, which every port has, for its clock and its faults.
        "FERRYBUS_CONTROL": f"127.0.0.1:{context.broker.port}",
        "FERRYBUS_AUTHORIZATION": "Basic " + base64.b64encode(f"{KEY_NAME}:{KEY}".encode()).decode(),
        # What `ferrybus queue update` and its like log in with: `FERRYBUS_BIN` is in the environment that they inherit.
        "FERRYBUS_CONNECTION_STRING": context.broker.connection_string(),
        # Where OpenSSL, and so `native-tls`, finds the authorities it trusts.
        "SSL_CERT_FILE": context.ca,
        "RUST_BACKTRACE": "0",
    }


def play(
    program: list[str], case: str, context: Context, seconds_max: float = CASE_SECONDS_MAX, **more: str
) -> None:
    """Runs one case to its end; anything but exit code 0 is a failure. `more` joins its environment."""
    done = subprocess.run(
        [*program, case],
        env=environment(context) | more,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds_max,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.strip()[-4000:]}")


class Started:
    """A program that runs beside the suite and says on its standard output what it does, in lines of `WORD REST`."""

    def __init__(self, program: list[str], case: str, context: Context):
        self._process = subprocess.Popen(
            [*program, case],
            env=environment(context),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._errors: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._seen: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=lambda: self._errors.extend(self._process.stderr), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, word: str, seconds: float = LINE_SECONDS_MAX) -> str:
        """Waits for the next line that begins with this word, and returns the rest of it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line `{word}` within {seconds} s; seen {self._seen[-3:]}") from None
            if line is None:
                raise AssertionError(f"the program ended: {self._said()}")
            self._seen.append(line)
            first, _, rest = line.partition(" ")
            if first == word:
                return rest

    def seen(self, word: str) -> list[str]:
        """What was said in all lines of this word that were read."""
        pairs = (line.partition(" ") for line in self._seen)
        return [rest for first, _, rest in pairs if first == word]

    def tell(self, line: str) -> None:
        """Gives the program a line to read."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def ends(self) -> None:
        """Waits for the end, which must be one with exit code 0."""
        code = self._process.wait(CASE_SECONDS_MAX)
        if code != 0:
            raise AssertionError(f"exit code {code}: {self._said()}")

    def _said(self) -> str:
        self._readers[1].join(5)
        return "".join(self._errors).strip()[-4000:]

    def kill(self) -> None:
        """SIGKILL: the program gets no chance to tell the broker anything."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def started(program: list[str], case: str, context: Context) -> Iterator[Started]:
    """A case that the suite watches while it plays; the program does not outlive the block."""
    client = Started(program, case, context)
    try:
        yield client
    finally:
        client.kill()


def declare(suite: Suite, program: list[str], cases: dict[str, dict[str, object]]) -> None:
    """Declares one case for each name, with the settings of its queue."""
    for name, settings in cases.items():
        suite.case(name, **settings)(lambda context, name=name: play(program, name, context))


def declare_with_broker(suite: Suite, program: list[str], cases: dict[str, dict[str, object]]) -> None:
    """Declares cases that move the clock: each has a broker of its own, with its queue and no other."""
    for name, settings in cases.items():

        def body(context: Context, name: str = name, settings: dict[str, object] = settings) -> None:
            broker = Broker(queues_of(context.queue, settings)).start()
            try:
                play(program, name, Context(broker, context.transport, context.queue))
            finally:
                broker.close()

        suite.case(name)(body)


def declare_with_namespaces(suite: Suite, program: list[str], *names: str) -> None:
    """Declares cases that have a broker with three namespaces each, of which `FERRYBUS_NAMESPACES` tells the program."""
    for name in names:

        def body(context: Context, name: str = name) -> None:
            with three_namespaces() as namespaces:
                there = Context(namespaces.broker, context.transport, QUEUE)
                play(program, name, there, **namespaces.environment())

        suite.case(name)(body)


def declare_restart(suite: Suite, program: list[str]) -> None:
    """Declares `broker-restart`, which the program plays in three acts.

    `restart-before` sends a message and dies holding its lock, `restart-between`
    sends another after a SIGKILL of the broker, and `restart-after` receives both
    after an orderly restart.
    """

    @suite.case("broker-restart")
    def broker_restart(context: Context) -> None:
        broker = Broker({context.queue: {}}, durability="fsync", anonymous=True).start()
        try:
            there = Context(broker, context.transport, context.queue)
            play(program, "restart-before", there)
            broker.restart(kill=True)
            play(program, "restart-between", there)
            broker.restart()
            play(program, "restart-after", there)
        finally:
            broker.close()


def declare_reconnect(suite: Suite, program: list[str]) -> None:
    """Declares `reconnect`: the program says `sent` now and then, and each time the broker ends and comes back.

    Before it looks at what has come it reads a line, which says that the broker stays: a busy suite may be late.
    """

    @suite.case("reconnect")
    def reconnect(context: Context) -> None:
        broker = Broker({context.queue: {}}, durability="fsync").start()
        there = Context(broker, context.transport, context.queue)
        try:
            with started(program, "reconnect", there) as client:
                for kill in (True, False, True):
                    client.line("sent")
                    broker.restart(kill=kill)
                client.tell("restarted")
                client.ends()
        finally:
            broker.close()


def declare_listener_killed(suite: Suite, program: list[str]) -> None:
    """Declares `listener-killed`: of two listeners one is killed while it processes its 20th message.

    `listener-killed-fill` sends 600 messages, the numbers from 0. `listener-killed-listen` says `listening`, then `begin N`
    and `end N` around each message; `listener-killed-hang` does so too and stays in its 20th.
    """

    @suite.case("listener-killed")
    def listener_killed(context: Context) -> None:
        broker = Broker({context.queue: {}}).start()
        try:
            _kill_a_listener(program, Context(broker, context.transport, context.queue))
        finally:
            broker.close()


def _kill_a_listener(program: list[str], context: Context) -> None:
    with (
        started(program, "listener-killed-hang", context) as killed,
        started(program, "listener-killed-listen", context) as other,
    ):
        killed.line("listening")
        other.line("listening")
        play(program, "listener-killed-fill", context)
        calls = [killed.line("begin") for _ in range(20)]
        assert killed.seen("end") == calls[:19]
        killed.kill()
        processed = set(calls[:19])
        while len(processed) < 600:
            number = other.line("end")
            assert number not in processed, f"message {number} is processed twice"
            processed.add(number)
        assert other.seen("begin").count(calls[19]) == 1, "the message in work comes again, once"
        play(program, "empty-with-dead-letters", context)


def declare_login(suite: Suite, program: list[str]) -> None:
    """Declares the log-in with a token of an identity provider, until the token ends."""

    @suite.case("token-log-in")
    def token_log_in(context: Context) -> None:
        with tempfile.TemporaryDirectory() as directory:
            provider = Provider(pathlib.Path(directory))
            config = provider.config.replace("keys_file", 'skew = "0s"\nkeys_file')
            broker = Broker({context.queue: {}}, more_config=config).start()
            tokens = {
                "FERRYBUS_TOKEN_CLERK": provider.token("clerk"),
                "FERRYBUS_TOKEN_GUEST": provider.token("guest"),
                "FERRYBUS_TOKEN_EXPIRED": provider.token("clerk", seconds=-600),
                "FERRYBUS_TOKEN_FORGED": provider.token("clerk")[:-8] + "AAAAAAAA",
            }
            try:
                there = Context(broker, context.transport, context.queue)
                play(program, "token-log-in", there, **tokens)
                # It is made when the program starts, and lasts until that has connected.
                brief = provider.token("clerk", seconds=15)
                play(program, "token-log-in-ends", there, FERRYBUS_TOKEN_BRIEF=brief)
            finally:
                broker.close()
