"""How a suite's Java program is started.

Invariant: the classes and their libraries are those that Maven compiled against.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

from broker import Broker
from cases import Context
from documented import changed, printed, program

# A case lasts a second or two: what makes long runs fast costs more than it brings.
FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]


def program_of(build: pathlib.Path, main: str = "Main", flags: list[str] | None = None) -> list[str]:
    """The command that plays a case, from the folder where Maven put `classes` and `classpath`."""
    libraries = (build / "classpath").read_text(encoding="utf-8").strip()
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", *FLAGS, quiet, *(flags or []), "-cp", f"{build / 'classes'}{os.pathsep}{libraries}", main]


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
