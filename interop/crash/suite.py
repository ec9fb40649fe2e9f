"""Kills the broker again and again under clients that send and settle.

What was accepted must be received; what was completed must not come back. Two
cases show that the suite can see either: the same clients work against a broker
that keeps nothing, and against one whose disk goes back in time, as if it had
forgotten what it had confirmed.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

from broker import Broker
from clients import QUEUE, Ledger, Receiver, Sender

SENDERS = 2
RECEIVERS = 2
BACKLOG = 500  # messages that wait in the queue before the first receiver comes
PROGRESS_MAX = 400  # answers between two kills, at most
PROGRESS_SECONDS_MAX = 60
QUIET_SECONDS = 15  # without a delivery at the end: the queue is empty

# A kill may count as a failed delivery; no message may be dead-lettered for it.
SETTINGS = {"max_delivery_count": 2000}


class Run:
    """One broker, its clients and the ledger of what they were told."""

    def __init__(self, durability: str, seed: int):
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.broker = Broker(
            {QUEUE: SETTINGS}, durability=durability, anonymous=True, tls=False
        ).start()
        port = self.broker.port
        self.senders = [Sender(port, self.ledger, first, SENDERS) for first in range(SENDERS)]
        self.receivers = [Receiver(port, self.ledger) for _ in range(RECEIVERS)]

    def send_backlog(self) -> None:
        for sender in self.senders:
            sender.start()
        self._wait_for(self.ledger.accepted, BACKLOG)

    def receive(self) -> None:
        for receiver in self.receivers:
            receiver.start()

    def kill(self, receiving: bool) -> None:
        """Kills the broker in the middle of work and starts it again on its data."""
        self._wait_for(self.ledger.accepted, self.random.randint(1, PROGRESS_MAX))
        if receiving:
            self._wait_for(self.ledger.completed, self.random.randint(1, PROGRESS_MAX))
        self.broker.restart(kill=True)

    def keep_disk(self) -> None:
        """Kills the broker, keeps a copy of what its disk holds, and starts it again."""
        self.broker.kill()
        shutil.copytree(self.broker.directory / "data", self._kept())
        self.broker.start()

    def put_disk_back(self) -> None:
        """Kills the broker and starts it again on the copy, as if nothing had been written since."""
        self.broker.kill()
        shutil.rmtree(self.broker.directory / "data")
        self._kept().rename(self.broker.directory / "data")
        self.broker.start()

    def _kept(self) -> pathlib.Path:
        return self.broker.directory / "kept"

    def _wait_for(self, answers: set[int], more: int) -> None:
        goal = len(answers) + more
        what = f"{more} more answers from the broker"
        self.ledger.wait(lambda: len(answers) >= goal, PROGRESS_SECONDS_MAX, what)

    def finish(self) -> set[int]:
        """Lets the receivers empty the queue; returns what was accepted and never came."""
        for sender in self.senders:
            sender.stop()
        self._wait_until_quiet()
        for receiver in self.receivers:
            receiver.stop()
        return self.ledger.accepted - self.ledger.attempted

    def _wait_until_quiet(self) -> None:
        """Until everything has come, or nothing more has come for a while."""
        ledger = self.ledger
        seen = -1
        while len(ledger.attempted) > seen:
            seen = len(ledger.attempted)
            try:
                everything = lambda: ledger.accepted <= ledger.completed  # noqa: E731
                return ledger.wait(everything, QUIET_SECONDS, "everything to be completed")
            except AssertionError:
                if ledger.failure:
                    raise

    def stop(self) -> None:
        for client in self.senders + self.receivers:
            client.stop()

    def close(self) -> None:
        self.broker.close()


def survives(durability: str, kills: int, seed: int) -> str:
    """Everything accepted is received, nothing completed comes back."""
    run = Run(durability, seed)
    try:
        run.send_backlog()
        run.receive()
        for _ in range(kills):
            run.kill(receiving=True)
        lost = run.finish()
        broken = run.ledger.violations
        assert not lost and not broken, (
            f"{len(lost)} accepted messages are lost ({sorted(lost)[:5]}), "
            f"{len(broken)} deliveries broke a promise ({broken[:5]})"
        )
        return f"{len(run.ledger.accepted)} accepted, {len(run.ledger.completed)} completed"
    except BaseException as error:
        raise AssertionError(f"{run.broker.log_tail()}\nseed {seed}: {error}") from error
    finally:
        run.close()


def loses(seed: int) -> str:
    """A broker that stores nothing must be caught."""
    run = Run("none", seed)
    try:
        run.send_backlog()
        run.kill(receiving=False)
        run.receive()
        lost = run.finish()
        assert lost, "a broker that stores nothing lost nothing: the suite is blind"
        return f"{len(lost)} lost, as they must be"
    finally:
        run.close()


def comes_back(seed: int) -> str:
    """What was completed and comes back must be caught, each message of it."""
    run = Run("fsync", seed)
    ledger = run.ledger
    try:
        run.send_backlog()
        with ledger.changed:
            stored = set(ledger.accepted)
        run.keep_disk()
        run.receive()
        ledger.wait(
            lambda: len(stored & ledger.completed) >= BACKLOG // 2,
            PROGRESS_SECONDS_MAX,
            "half of the backlog to be completed",
        )
        with ledger.changed:
            gone = stored & ledger.completed
        assert not ledger.violations, f"before anything came back: {ledger.violations[:5]}"
        run.put_disk_back()
        wanted = {f"message {number} came back after its completion" for number in gone}
        ledger.wait(
            lambda: wanted <= set(ledger.violations),
            PROGRESS_SECONDS_MAX,
            f"{len(wanted)} completed messages to be seen again: the suite is blind",
        )
        run.stop()
        return f"{len(wanted)} came back, as they must"
    except BaseException as error:
        raise AssertionError(f"{run.broker.log_tail()}\nseed {seed}: {error}") from error
    finally:
        run.close()


CASES = {
    "fsync-50-kills": lambda seed: survives("fsync", 50, seed),
    "os-10-kills": lambda seed: survives("os", 10, seed),
    "none-must-lose": loses,
    "going-back-must-show": comes_back,
}


def main() -> None:
    wanted = sys.argv[1:] or CASES
    seed = int(os.environ.get("FERRYBUS_CRASH_SEED", random.SystemRandom().randrange(1 << 32)))
    results = []
    for name in wanted:
        started = time.monotonic()
        try:
            status, detail = "passed", CASES[name](seed)
        except BaseException:
            status, detail = "failed", traceback.format_exc()
        results.append({"case": name, "status": status, "detail": detail})
        print(f"{status} {name} ({time.monotonic() - started:.1f} s) {detail}", flush=True)
    if path := os.environ.get("FERRYBUS_RESULTS"):
        pathlib.Path(path).write_text(json.dumps(results, indent=1), encoding="utf-8")
    os._exit(any(result["status"] == "failed" for result in results))


if __name__ == "__main__":
    main()
