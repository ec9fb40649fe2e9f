"""How a suite's Java program is started.

As a program, in the folder of a suite behind Maven: plays `send-one` and stores the classes that the JVM loaded for it, as
it has them in memory (`build/classes.jsa`). A case then costs two thirds of the time, most of which is loading classes.

Invariant: the classes and their libraries are those that Maven compiled against.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

from broker import Broker
from cases import Context
from documented import changed, printed, program
from external import environment

# A case lasts a second or two: what makes long runs fast costs more than it brings.
FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]


QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


def program_of(build: pathlib.Path, main: str = "Main", flags: list[str] | None = None) -> list[str]:
    """The command that plays a case, from the folder where Maven put `classes` and `classpath`."""
    jar, stored = build / "classes.jar", build / "classes.jsa"
    if main == "Main" and stored.exists() and _is_newest(jar, build / "classes"):
        return ["java", *FLAGS, f"-XX:SharedArchiveFile={stored}", QUIET, *(flags or []), "-cp", _path(build, jar), main]
    return ["java", *FLAGS, QUIET, *(flags or []), "-cp", _path(build, build / "classes"), main]


def _path(build: pathlib.Path, classes: pathlib.Path) -> str:
    libraries = (build / "classpath").read_text(encoding="utf-8").strip()
    return f"{classes}{os.pathsep}{libraries}"


def _is_newest(jar: pathlib.Path, classes: pathlib.Path) -> bool:
    made = jar.stat().st_mtime
    return all(file.stat().st_mtime < made for file in classes.rglob("*.class"))


def store_classes(build: pathlib.Path) -> None:
    """Stores the classes that a case loads. The JVM stores none of a folder, so they go into a JAR first."""
    jar, names, stored = build / "classes.jar", build / "classes.list", build / "classes.jsa"
    stored.unlink(missing_ok=True)
    subprocess.run(["jar", "--create", "--file", str(jar), "-C", str(build / "classes"), "."], check=True, timeout=60)
    command = ["java", *FLAGS, "-Xlog:disable", "-Xlog:all=error:stderr", QUIET, "-cp", _path(build, jar)]
    broker = Broker({"stored": {}}, anonymous=True).start()
    try:
        # Over TLS, so that its classes are stored too.
        told = environment(Context(broker, "tls", "stored"))
        listing = [*command, f"-XX:DumpLoadedClassList={names}", "Main", "send-one"]
        subprocess.run(listing, env=told, check=True, timeout=120)
    finally:
        broker.close()
    # In a process of its own: one that has just played a case may still have threads that load classes.
    storing = [*command, f"-XX:SharedClassListFile={names}", f"-XX:SharedArchiveFile={stored}", "-Xshare:dump"]
    subprocess.run(storing, check=True, timeout=120)


def documented(context: Context, build: pathlib.Path, page: str, words: dict[str, str]) -> list[str]:
    """What the page's program prints: its first is for plain TCP, its second for TLS. `words` are in the one and the other."""
    broker = Broker({}, auto_create=True).start()
    try:
        text = program(page, words[context.transport], "java")
        shown, port = ("5671", broker.tls_port) if context.tls else ("5672", broker.port)
        folder = build / f"documented-{context.transport}"
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / "trust.p12"
        store.unlink(missing_ok=True)
        trusted = ["-file", broker.ca, "-keystore", str(store), "-storepass", "changeit"]
        importing = ["keytool", "-importcert", "-noprompt", "-alias", "ferrybus", *trusted]
        subprocess.run(importing, check=True, capture_output=True, timeout=60)
        (folder / "Documented.java").write_text(changed(text, {shown: str(port)}), encoding="utf-8")
        trust = ["-Djavax.net.ssl.trustStore=trust.p12", "-Djavax.net.ssl.trustStorePassword=changeit"]
        command = program_of(build, "Documented.java", flags=trust)
        return printed(command, cwd=folder).splitlines()
    finally:
        broker.close()


if __name__ == "__main__":
    store_classes(pathlib.Path("build").resolve())
