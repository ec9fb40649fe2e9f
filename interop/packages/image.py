"""The image of the Dockerfile, laid out in a folder and run as its last stage says: no Docker is needed for that."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request

from broker import free_port
from tools import FILES, ROOT, Files, run

START_SECONDS_MAX = 30


def serves(files: Files) -> None:
    """Its paths, user, health check and start-up command are what the broker and `Config.json` need."""
    stage = last_stage((FILES / "Dockerfile").read_text(encoding="utf-8"))
    root = files.folder / "image"
    lay_out(stage, root)
    amqp, http = free_port(), free_port()
    arguments = json.loads(stage["ENTRYPOINT"][0]) + json.loads(stage["CMD"][0])
    # On a machine that others use, too, the ports are others and nobody else is let in.
    arguments += ["--listen", f"127.0.0.1:{amqp}", "--listen-http", f"127.0.0.1:{http}"]
    name, value = stage["ENV"][0].split("=", 1)
    broker = Contained(root, stage["USER"][0], {name: value})
    process = broker.start(arguments)
    try:
        check = json.loads(stage["HEALTHCHECK"][0].split(" CMD ", 1)[1])
        assert check[1:] == ["health", "--live"], check
        deadline = time.monotonic() + START_SECONDS_MAX
        while (health := broker.run([*check, "--server", f"127.0.0.1:{http}"])).returncode != 0:
            assert process.poll() is None, f"the broker has ended: {process.communicate()[0]}"
            assert time.monotonic() < deadline, health.stdout
            time.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/health") as answer:
            assert json.load(answer)["status"] == "healthy"
        shown = broker.run([arguments[0], "queue", "list", "--json", "--server", f"127.0.0.1:{http}"])
        queues = [json.loads(line)["name"] for line in shown.stdout.splitlines()]
        assert queues == ["queue.1"], shown.stdout
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=START_SECONDS_MAX)
    assert process.returncode == 0, said


def last_stage(dockerfile: str) -> dict[str, list[str]]:
    """The instructions of the last stage, by their name."""
    joined = dockerfile.replace("\\\n", " ")
    stage: dict[str, list[str]] = {}
    for line in joined[joined.rindex("\nFROM ") :].splitlines():
        word, _, rest = line.partition(" ")
        if word and not word.startswith("#"):
            stage.setdefault(word, []).append(rest.strip())
    return stage


def lay_out(stage: dict[str, list[str]], root: pathlib.Path) -> None:
    assert stage["FROM"] == ["scratch"], stage["FROM"]
    for copy in stage["COPY"]:
        *options, source, target = copy.split()
        target = root / target.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source == "/ferrybus":
            shutil.copy(os.environ["FERRYBUS_BIN"], target)
            bring_libraries(target, root)
        elif source == "/data":
            target.mkdir()
            owner = re.search(r"--chown=(\d+):(\d+)", " ".join(options))
            if os.geteuid() == 0:
                os.chown(target, int(owner[1]), int(owner[2]))
        else:
            shutil.copy(ROOT / source, target)


def bring_libraries(binary: pathlib.Path, root: pathlib.Path) -> None:
    """The binary of the tests is not the static one: what it is linked with goes along."""
    for path in re.findall(r"(/\S+) \(0x", run("ldd", binary).output):
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


class Contained:
    """Runs programs with the folder as their root and nothing of this machine's environment."""

    def __init__(self, root: pathlib.Path, user: str, environment: dict[str, str]):
        chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin")
        if os.geteuid() == 0:
            self._enter = [chroot, f"--userspec={user}", "--groups=", str(root)]
        else:  # who is not root may be it in a world of his own, and nobody else
            self._enter = [shutil.which("unshare"), "--user", "--map-root-user", chroot, str(root)]
        self._options = {
            "env": environment,
            "text": True,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }

    def start(self, words: list[str]) -> subprocess.Popen:
        return subprocess.Popen(self._enter + words, **self._options)

    def run(self, words: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(self._enter + words, timeout=START_SECONDS_MAX, check=False, **self._options)
