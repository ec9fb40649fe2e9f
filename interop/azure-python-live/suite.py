"""The live tests of the Python SDK itself, unchanged, against the broker.

They were written against Azure Service Bus, by those who make the SDK. See
`testbed.py` for what stands in for Azure's resource manager. Arguments name the
files to play; without any, all are. Each test is played once. Many of those of
messages wait for locks that run out, some for more than ten minutes.
`suite.py --report` plays all and writes the page of `report.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree

import report

HERE = pathlib.Path(__file__).resolve().parent
TESTS = next(HERE.glob("build/azure_servicebus-*/tests"))
REPORT = HERE / "build" / "report.xml"

# The tests that reach a broker. Those of `test_batch_sizing.py`, `test_connection_string_parser.py`, `test_dictmixin_amqp.py`,
# `test_mgmt_client_kwargs.py`, `test_tracing.py` and `unittests` run on mocks.
FILES = """
test_message.py test_queues.py test_sessions.py test_sb_client.py test_subscriptions.py test_topic.py test_list_sessions.py
async_tests/test_queues_async.py async_tests/test_sessions_async.py async_tests/test_sb_client_async.py
async_tests/test_subscriptions_async.py async_tests/test_topic_async.py async_tests/test_list_sessions_async.py
mgmt_tests
""".split()

# Most wait for locks and schedules. Some measure times to the second, which a machine with more beside them does not keep.
SIDE_BY_SIDE = 8
TEST_SECONDS_MAX = 900

# What differs each time in the broker's texts.
TRAIL = re.compile(r"(Reference|TrackingId):.*")


def play(files: list[str]) -> list[dict[str, object]]:
    REPORT.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-p", "testbed", "-q", "--no-header", "--tb=short", "--show-capture=no",
        "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-o", "junit_family=xunit2",
        "-W", "ignore", "-n", str(SIDE_BY_SIDE), "--dist", "worksteal", "--timeout", str(TEST_SECONDS_MAX),
        "--junit-xml", str(REPORT), *files,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run(command, cwd=TESTS, env=environment, check=False)
    return [result(case) for case in xml.etree.ElementTree.parse(REPORT).iter("testcase")]


def run() -> int:
    begin = time.monotonic()
    reports = sys.argv[1:] == ["--report"]
    results = play(FILES if reports else sys.argv[1:] or FILES)
    assert results, "no test ran"
    if reports:
        return report.write(results, int(time.monotonic() - begin))
    path = os.environ.get("FERRYBUS_RESULTS")
    if path:
        results.sort(key=lambda one: one["case"])
        told = [{key: one[key] for key in ("case", "status", "detail")} for one in results]
        pathlib.Path(path).write_text(json.dumps(told, indent=1), encoding="utf-8")
    failed = sum(one["status"] == "failed" for one in results)
    print(f"azure-python-live: {len(results)} cases, {failed} failed", flush=True)
    return 1 if failed else 0


def result(case: xml.etree.ElementTree.Element) -> dict[str, object]:
    """One test as the runner of all suites reads it, `test_queues/test_this`, and the ways in which it reached the broker."""
    ways = sorted({found.get("value", "") for found in case.iter("property") if found.get("name") == "way"})
    return outcome(case) | {"ways": ways}


def outcome(case: xml.etree.ElementTree.Element) -> dict[str, object]:
    parts = [part for part in case.get("classname", "").split(".") if part.startswith("test_")]
    name = "/".join([*parts[:1], case.get("name", "").removesuffix("[pyamqp]")])
    for kind, status in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None and found.get("type") != "pytest.xfail":  # as its authors expect
            # The runner compares the last line with the one that is expected.
            message = TRAIL.sub("", " ".join(found.get("message", "").split())).strip()
            return {"case": name, "status": status, "detail": f"{found.text or ''}\n{message}"}
    return {"case": name, "status": "passed", "detail": ""}


def may_listen() -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 443))
        except PermissionError:
            return False
        except OSError:
            pass  # somebody listens there: so may others
    return True


def alone() -> None:
    """Goes on in a network of its own, where anybody may listen on port 443."""
    if os.environ.get(ALONE):
        raise SystemExit("nobody but root may listen on port 443 here, on which the SDK asks for administration")
    command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, *sys.argv]
    os.execvpe(command[0], command, os.environ | {ALONE: "1"})


def bring_up_loopback() -> None:
    with socket.socket() as some:
        request = struct.pack("16sh14x", b"lo", IFF_UP)
        fcntl.ioctl(some, SIOCSIFFLAGS, request)


ALONE = "FERRYBUS_LIVE_ALONE"
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1

if __name__ == "__main__":
    if os.environ.get(ALONE):
        bring_up_loopback()
    if not may_listen():
        alone()
    sys.exit(run())
