"""Runs what builds on the clients of Service Bus and AMQP: Dapr, KEDA, gocloud.dev, Spring Cloud Azure, Spring JMS and Camel.

    FERRYBUS_BIN=… python interop/by-hand/run.py [NAME…]

It is no suite: KEDA alone brings some hundreds of modules. Its last result stands, with versions and date, in docs/clients.md.
It needs Go, a JDK and Maven.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import Broker
from cases import Context
from external import environment
from java import program_of

# Modules of Go, each with its version; what they need is as they say.
GO = {
    "gocloud": ["gocloud.dev@v0.47.0", "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus@v1.11.0"],
    "dapr": ["github.com/dapr/components-contrib@v1.18.0"],
    "keda": ["github.com/kedacore/keda/v2@v2.21.0"],
}
# Their versions stand in the folders' `pom.xml`.
JAVA = ["spring", "spring-jms", "camel"]

ENTITIES = {
    "orders": {},
    "bound": {},
    "asked": {},
    "news": {"subscriptions": {"all": {}}},
}


def built_with_go(name: str) -> list[str]:
    """Builds in a folder of its own, for the module's files are made there."""
    folder = HERE / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.go").write_bytes((HERE / name / "main.go").read_bytes())
    told = os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=mod"}

    def go(*words: str) -> None:
        subprocess.run(["go", *words], cwd=folder, env=told, check=True, capture_output=True, text=True)

    if not (folder / "go.mod").exists():
        go("mod", "init", f"ferrybus/by-hand/{name}")
        go("get", *GO[name])
        go("mod", "tidy")
    go("build", "-buildvcs=false", "-o", "program", ".")
    return [str(folder / "program")]


def built_with_maven(name: str) -> list[str]:
    command = ["mvn", "--batch-mode", "--quiet", "process-classes"]
    subprocess.run(command, cwd=HERE / name, check=True, capture_output=True, text=True)
    return program_of(HERE / name / "build")


def prepared(name: str, broker: Broker) -> str:
    """The connection string of this program; KEDA's scaler counts what waits, so there is something, and asks over HTTPS."""
    if name != "keda":
        return broker.connection_string()
    for entity, count in (("orders", 7), ("news", 3)):
        command = [os.environ["FERRYBUS_BIN"], "send", entity, "--connection-string", broker.connection_string()]
        subprocess.run([*command, "--count", str(count)], check=True, capture_output=True, timeout=30)
    return broker.connection_string(tls=True)


def run(name: str) -> bool:
    try:
        program = built_with_go(name) if name in GO else built_with_maven(name)
    except subprocess.CalledProcessError as error:
        print(f"{name}: not built: {(error.stdout + error.stderr)[-2000:]}", flush=True)
        return False
    broker = Broker(ENTITIES).start()
    try:
        told = environment(Context(broker, "plain", "orders"))
        told["FERRYBUS_CONNECTION"] = prepared(name, broker)
        done = subprocess.run(program, env=told, capture_output=True, text=True, timeout=180, check=False)
        for line in done.stdout.splitlines():
            print(f"{name}: {line}")
        if done.returncode != 0:
            print(f"{name}: failed: {done.stderr[-3000:]}\n{broker.log_tail()}")
        return done.returncode == 0
    finally:
        broker.close()
        sys.stdout.flush()


if __name__ == "__main__":
    names = sys.argv[1:] or [*GO, *JAVA]
    results = {name: run(name) for name in names}
    print("\n".join(f"{name}: {'passed' if passed else 'FAILED'}" for name, passed in results.items()))
    sys.exit(0 if all(results.values()) else 1)
