"""Writes the page of a whole run, `docs/clients/azure-python-live.md`.

`reasons.toml` says why a test does not pass, as `interop/expectations.toml` does: `"case" = "reason"` for one that is skipped,
a table with `reason` and `failure` for one that fails, the latter the last line of its detail with `#` for each number. The reasons
of those that every test run plays stand in `expectations.toml` itself.

Invariant: a test that does not pass is on the page, with its reason or as one whose reason is not known.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "clients" / "azure-python-live.md"

NUMBER = re.compile(r"\b\d+(\.\d+)?\b")
UNKNOWN = "**The reason is not known.**"

FRONT = """\
# The live tests of the Python SDK

`azure-servicebus` brings the tests that its makers play against Azure Service Bus. `interop/azure-python-live` plays them, unchanged,
against the broker with the profile `standard-only`. They connect over TLS and, where a test asks for it, over WebSocket; most log in
with a token (JWT) of an identity provider that the broker trusts, the others with a SAS key. A whole run takes longer than a
test run may, so one command plays all and writes this page; `mgmt_tests` and `test_message.py` are played in every test run too.

```console
$ cargo build && export FERRYBUS_BIN=$PWD/target/debug/ferrybus VIRTUAL_ENV=$PWD/.venv
$ cd interop/azure-python-live && $VIRTUAL_ENV/bin/python -m pip install -r requirements.txt && ./fetch.sh
$ $VIRTUAL_ENV/bin/python suite.py --report
```

The package's tests that run on mocks and reach no broker are left out: `test_batch_sizing.py`,
`test_connection_string_parser.py`, `test_dictmixin_amqp.py`, `test_mgmt_client_kwargs.py`, `test_tracing.py` and `unittests`.
Each test is played once. Several measure seconds, which a machine with other work does not keep.
"""


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """The commit, and whether the working tree differs from it in more than this page."""
    changed = [line for line in output("git", "status", "--porcelain").splitlines() if not line.endswith(PAGE.name)]
    return output("git", "rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


def facts(seconds: int) -> list[tuple[str, str]]:
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("azure-servicebus", "azure-core", "pytest"))
    return [
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("broker", f"{output(os.environ['FERRYBUS_BIN'], '--version')}, commit {commit()}"),
        ("tests", f"{', '.join(versions)}, Python {platform.python_version()}"),
        ("profile", "`standard-only`"),
        ("machine", f"{os.cpu_count()} cores, {platform.system()} on {platform.machine()}"),
        ("took", f"{seconds // 60} min {seconds % 60} s"),
    ]


def table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def counts(results: list[dict[str, object]]) -> str:
    def row(name: str, some: list[dict[str, object]]) -> list[str]:
        ended = [sum(one["status"] == status for one in some) for status in ("passed", "failed", "skipped")]
        ways = [sum(way in one["ways"] for one in some) for way in ("tls", "websocket", "jwt")]
        return [name, *(str(count) for count in [len(some), *ended, *ways])]

    files = sorted({one["case"].partition("/")[0] for one in results})
    rows = [row(f"`{file}`", [one for one in results if one["case"].partition("/")[0] == file]) for file in files]
    heading = ["file", "tests", "passed", "failed", "skipped", "AMQP over TLS", "AMQP over WebSocket", "with JWT"]
    return table(heading, [*rows, row("all", results)])


def reasons() -> dict[str, object]:
    runs = tomllib.loads((HERE.parent / "expectations.toml").read_text(encoding="utf-8"))["azure-python-live"]
    return runs | tomllib.loads((HERE / "reasons.toml").read_text(encoding="utf-8"))


def reason(one: dict[str, object], known: dict[str, object]) -> str | None:
    """Why a test did not pass, if it ended as was written down."""
    written = known.get(one["case"])
    if one["status"] == "skipped":
        return written if isinstance(written, str) else None
    if not isinstance(written, dict) or written["failure"] != NUMBER.sub("#", one["detail"].splitlines()[-1]):
        return None
    return written["reason"]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def write(results: list[dict[str, object]], seconds: int) -> int:
    """Writes the page; the exit code says whether each test that does not pass has its reason."""
    known = reasons()
    results = sorted(results, key=lambda one: one["case"])
    rows, unexplained = [], []
    for one in results:
        if one["status"] == "passed":
            continue
        why = reason(one, known)
        if why is None:
            unexplained.append(one["case"])
            why = f"{UNKNOWN} {one['detail'].splitlines()[-1]}"
        rows.append([f"`{one['case']}`", one["status"], cell(why)])
    passed = sum(one["status"] == "passed" for one in results)
    parts = [
        FRONT,
        "## The last whole run",
        table(["what", "value"], [list(fact) for fact in facts(seconds)]),
        f"{passed} of {len(results)} tests passed. How they reached the broker is counted as they ran; `mgmt_tests` ask over HTTPS.",
        counts(results),
        "## Tests that do not pass",
        table(["test", "ended", "why"], rows) if rows else "All pass.",
    ]
    PAGE.write_text("\n".join(part if part.endswith("\n") else part + "\n" for part in parts), encoding="utf-8")
    print(f"azure-python-live: {len(results)} tests, {passed} passed, without a known reason: {unexplained or 'none'}")
    for case in sorted(known.keys() & {one["case"] for one in results if one["status"] == "passed"}):
        print(f"azure-python-live: {case} passes, and has a reason why it does not")
    return 1 if unexplained else 0
