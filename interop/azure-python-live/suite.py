"""The live tests of the Python SDK itself, unchanged, against the broker.

They were written against Azure Service Bus, by those who make the SDK. See
`testbed.py` for what stands in for Azure's resource manager. Arguments name the
files to play; without any, all are. Many of the tests of messages wait for locks
that run out, so many run side by side; some measure times to the second.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
TESTS = next(HERE.glob("build/azure_servicebus-*/tests"))
REPORT = HERE / "build" / "report.xml"

FILES = """
test_queues.py test_sessions.py test_sb_client.py test_subscriptions.py test_topic.py test_list_sessions.py
async_tests/test_queues_async.py async_tests/test_sessions_async.py async_tests/test_sb_client_async.py
async_tests/test_subscriptions_async.py async_tests/test_topic_async.py async_tests/test_list_sessions_async.py
mgmt_tests
""".split()

LEFT_OUT = (
    # They only wait for minutes: idle connections, links that time out after ten minutes.
    "keep_conn_alive",
    "resume_after_link_timeout",
    "github_issue_6178",
    "large_messages_w_sleep",
)

# How many run side by side: those that fail are played again with fewer beside them, for some measure times to the
# second, which a busy machine does not keep.
WORKERS = (14, 4, 1)
TEST_SECONDS_MAX = 300


def play(workers: int, *more: str) -> list[dict[str, str]]:
    REPORT.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-p", "testbed", "-q", "--no-header", "--tb=short", "--show-capture=no",
        "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-o", "junit_family=xunit2",
        "-W", "ignore", "-n", str(workers), "--timeout", str(TEST_SECONDS_MAX), "--junit-xml", str(REPORT),
        "-k", " and ".join(f"not {name}" for name in LEFT_OUT), *more,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run(command, cwd=TESTS, env=environment, check=False)
    return [result(case) for case in xml.etree.ElementTree.parse(REPORT).iter("testcase")]


def run() -> int:
    played = {}
    for workers in WORKERS:
        failed = [name for name, one in played.items() if one["status"] == "failed"]
        if played and not failed:
            break
        again = ["--last-failed"] if failed else ["--cache-clear"]
        played |= {one["case"]: one for one in play(workers, *again, *(sys.argv[1:] or FILES))}
    results = list(played.values())
    assert results, "no test ran"
    path = os.environ.get("FERRYBUS_RESULTS")
    if path:
        results.sort(key=lambda one: one["case"])
        pathlib.Path(path).write_text(json.dumps(results, indent=1), encoding="utf-8")
    failed = sum(one["status"] == "failed" for one in results)
    print(f"azure-python-live: {len(results)} cases, {failed} failed", flush=True)
    return 1 if failed else 0


def result(case: xml.etree.ElementTree.Element) -> dict[str, str]:
    """One test as the runner of all suites reads it: `test_queues/test_this`."""
    parts = [part for part in case.get("classname", "").split(".") if part.startswith("test_")]
    name = "/".join([*parts[:1], case.get("name", "").removesuffix("[pyamqp]")])
    for kind, status in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None and found.get("type") != "pytest.xfail":  # as its authors expect
            return {"case": name, "status": status, "detail": f"{found.get('message', '')}\n{found.text or ''}"}
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
