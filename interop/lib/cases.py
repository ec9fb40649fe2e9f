"""Runs the cases of one suite and writes what became of each.

Invariant: every case that is declared is reported exactly once for each
transport, also when it hangs or its thread dies.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import sys
import threading
import time
import traceback
from typing import Callable

from broker import Broker

CASE_SECONDS_MAX = 90
WORKERS = 4
TRANSPORTS = ("plain", "tls")

# Settings of queues. For cases that wait until a lock is over: `hold` gives locks with a timer to receivers of plain AMQP, too.
SHORT_LOCK = {"lock_duration": "PT5S", "hold": "lock"}
# For cases that renew it in the middle of its time. A client that gets no processor for some seconds does not lose it.
RENEWED_LOCK = {"lock_duration": "PT15S", "hold": "lock"}


class Skip(Exception):
    """Raised by a case that the client has no API for."""


@dataclasses.dataclass(frozen=True)
class Context:
    """What a case gets: where to connect, and a queue of its own."""

    broker: Broker
    transport: str
    queue: str

    @property
    def tls(self) -> bool:
        return self.transport == "tls"

    @property
    def port(self) -> int:
        return self.broker.tls_port if self.tls else self.broker.port

    @property
    def ca(self) -> str:
        return self.broker.ca


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    body: Callable[[Context], None]
    settings: dict[str, object]
    seconds_max: float = CASE_SECONDS_MAX
    # Played only when it is named: for what takes minutes and is proved faster by another case.
    by_hand: bool = False


class Suite:
    """The cases of one client and what became of them. `broker_options` are those of the broker that the cases share."""

    def __init__(self, name: str, *, transports=TRANSPORTS, **broker_options: object):
        self.name = name
        self._broker_options = broker_options
        self._transports = transports
        self._cases: list[Case] = []
        self._skipped: dict[str, str] = {}
        self._results: list[dict[str, str]] = []
        self._lock = threading.Lock()

    def case(self, name: str, **settings: object):
        """Declares a case; `settings` become those of its queue.

        `{queue}` in a text stands for the queue's name. What the queue
        forwards to is a queue that is made as well; `beside` maps the names
        of further queues to their settings.
        """

        def declare(body):
            self._cases.append(Case(name, body, settings))
            return body

        return declare

    def by_hand(self, name: str, seconds_max: float):
        """Declares a case that is played only when its whole name is an argument."""

        def declare(body):
            self._cases.append(Case(name, body, {}, seconds_max, by_hand=True))
            return body

        return declare

    def skip(self, name: str, reason: str) -> None:
        """Declares a case that this client cannot express."""
        self._skipped[name] = reason

    def run(self) -> None:
        """Runs everything and ends the process: 0 when no case failed."""
        wanted = sys.argv[1:]
        chosen = [
            (case, transport)
            for case in self._cases
            for transport in self._transports
            if _is_wanted(case, transport, wanted)
        ]
        if not wanted:
            for name, reason in self._skipped.items():
                self._report(name, "skipped", reason)
        queues = {}
        for case, transport in chosen:
            queues |= queues_of(queue_name(case, transport), case.settings)
        broker = Broker(queues, **self._broker_options).start()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            for case, transport in chosen:
                context = Context(broker, transport, queue_name(case, transport))
                pool.submit(self._run_one, case, context)
        self._write()
        failed = sum(result["status"] == "failed" for result in self._results)
        print(f"{self.name}: {len(self._results)} cases, {failed} failed", flush=True)
        if failed:
            print(f"last lines of the broker:\n{broker.log_tail()}", file=sys.stderr)
        broker.close()
        sys.stdout.flush()
        sys.stderr.flush()
        # A case that hung has left a thread behind that nothing can end.
        os._exit(1 if failed else 0)

    def _run_one(self, case: Case, context: Context) -> None:
        outcome: list[tuple[str, str]] = []

        def body():
            try:
                case.body(context)
                outcome.append(("passed", ""))
            except Skip as skip:
                outcome.append(("skipped", str(skip)))
            except BaseException:
                outcome.append(("failed", traceback.format_exc(limit=-6)))

        started = time.monotonic()
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        thread.join(case.seconds_max)
        status, detail = outcome[0] if outcome else ("failed", f"hung {case.seconds_max} s")
        seconds = time.monotonic() - started
        self._report(f"{context.transport}/{case.name}", status, detail, seconds)

    def _report(self, name: str, status: str, detail: str, seconds: float = 0.0) -> None:
        with self._lock:
            self._results.append({"case": name, "status": status, "detail": detail})
            first = detail.strip().splitlines()[-1] if detail.strip() else ""
            print(f"{status:8} {name} ({seconds:.1f} s) {first}", flush=True)

    def _write(self) -> None:
        path = os.environ.get("FERRYBUS_RESULTS")
        if path:
            self._results.sort(key=lambda result: result["case"])
            pathlib.Path(path).write_text(json.dumps(self._results, indent=1), encoding="utf-8")


def _is_wanted(case: Case, transport: str, wanted: list[str]) -> bool:
    name = f"{transport}/{case.name}"
    if case.by_hand:
        return case.name in wanted or name in wanted
    return not wanted or any(word in name for word in wanted)


def queues_of(name: str, settings: dict[str, object]) -> dict[str, dict[str, object]]:
    """The queue of a case, and those that it forwards to."""
    own = _named(settings, name)
    beside = own.pop("beside", {})
    targets = [own[key] for key in ("forward_to", "forward_dead_lettered_to") if key in own]
    return {target: {} for target in targets} | beside | {name: own}


def _named(value: object, queue: str) -> object:
    """Settings with the queue's name wherever they say `{queue}`."""
    if isinstance(value, str):
        return value.replace("{queue}", queue)
    if isinstance(value, dict):
        return {_named(key, queue): _named(inner, queue) for key, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner, queue) for inner in value]
    return value


def queue_name(case: Case, transport: str) -> str:
    """Each case has a queue of its own on each transport."""
    return f"{transport}-{case.name}".replace("/", "-")


def eventually(check: Callable[[], object], what: str, seconds: float = 10.0) -> object:
    """Asks until the answer is true: for states that no client is told about."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)
