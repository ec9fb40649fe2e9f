"""Holds what the broker is packed with to the tools that others check packages with.

Each linter is shown a broken file first: a case fails when its tool does not see
what is wrong there, so none passes because a tool was silent.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

from ruamel.yaml import YAML

import image
import shells
from package import Package
from tools import FILES, Files, run

# The emulator's own Compose file, in what its users see of it.
EMULATOR = {
    "container_name": "servicebus-emulator",
    "config": "/ServiceBus_Emulator/ConfigFiles/Config.json",
    "ports": {5672, 5300},
}
# Of the ten points of `systemd-analyze security`, times ten: 10 is "OK", and what a broker with sockets needs costs some.
EXPOSURE_MAX = 20


def unit_verified(files: Files) -> None:
    broken = files.copy("ferrybus.service", "ProtectSystem=strict", "ProtectSistem=strict")
    assert "ProtectSistem" in verify(broken).output, "systemd-analyze overlooks a key that does not exist"
    good = verify(files.copy("ferrybus.service"))
    assert good.code == 0 and "ferrybus.service" not in good.output, good.output


def verify(unit: pathlib.Path):
    """The unit starts the binary where the package puts it: here it stands elsewhere."""
    text = unit.read_text(encoding="utf-8")
    assert "ExecStart=/usr/bin/ferrybus " in text, text
    unit.write_text(text.replace("/usr/bin/ferrybus", os.environ["FERRYBUS_BIN"]), encoding="utf-8")
    return run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit)


def unit_hardened(files: Files) -> None:
    def exposure(unit: pathlib.Path):
        limit = f"--threshold={EXPOSURE_MAX}"
        return run("systemd-analyze", "security", "--offline=true", "--no-pager", limit, unit)

    open_ = files.copy("ferrybus.service", "CapabilityBoundingSet=\n", "").rename(files.folder / "open.service")
    open_.write_text("[Service]\nExecStart=/usr/bin/true\n", encoding="utf-8")
    assert exposure(open_).code != 0, "systemd-analyze is content with a service that may do everything"
    good = exposure(files.copy("ferrybus.service"))
    assert good.code == 0, good.output


def dockerfile_linted(files: Files) -> None:
    broken = files.copy("Dockerfile", "USER 65532:65532", "MAINTAINER somebody")
    assert run("hadolint", "--no-color", broken).code != 0, "hadolint is content with what it should not be"
    good = run("hadolint", "--no-color", "--format", "json", FILES / "Dockerfile")
    assert good.code == 0 and json.loads(good.output) == [], good.output


def compose_read(files: Files) -> None:
    def judged(file: pathlib.Path):
        return run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)

    broken = files.copy("compose.yaml", "cap_drop:", "cap_dorp:")
    assert "cap_dorp" in judged(broken).output, "the schema takes a key that does not exist"
    good = judged(FILES / "compose.yaml")
    assert good.code == 0, good.output
    file = YAML(typ="safe").load(FILES / "compose.yaml")
    (service,) = file["services"].values()
    assert service["container_name"] == EMULATOR["container_name"]
    label = "org.springframework.boot.service-connection"
    assert service["labels"][label] == "azure-messaging/servicebus-emulator"
    assert set(service["ports"]) == {f"127.0.0.1:{port}:{port}" for port in EMULATOR["ports"]}
    assert EMULATOR["config"] in [volume["target"] for volume in service["volumes"] if isinstance(volume, dict)]
    context = (FILES / service["build"]["context"]).resolve()
    assert (context / service["build"]["dockerfile"]).resolve() == FILES / "Dockerfile"


def package_linted(files: Files) -> None:
    package = Package.build(files.folder)
    broken = package.changed(lambda root: (root / "usr/share/doc/ferrybus/copyright").unlink())
    assert "no-copyright-file" in lint(broken).output, "lintian is content with a package of no licence"
    good = lint(package.path)
    assert good.code == 0 and not good.output.strip(), good.output


def lint(package: pathlib.Path):
    return run("lintian", "--allow-root", "--no-cfg", "--fail-on", "error,warning", "--pedantic", package)


def package_installed_and_removed(files: Files) -> None:
    Package.build(files.folder).comes_and_goes()


CASES = {
    "unit-verified": unit_verified,
    "unit-hardened": unit_hardened,
    "dockerfile-linted": dockerfile_linted,
    "image-serves": image.serves,
    "compose-read": compose_read,
    "package-linted": package_linted,
    "package-installed-and-removed": package_installed_and_removed,
    "manual-pages": shells.manual_pages,
    "completions": shells.completions,
}


def play(name: str) -> dict[str, str]:
    try:
        with tempfile.TemporaryDirectory(prefix="ferrybus-packages-") as folder:
            os.chmod(folder, 0o755)  # what is unpacked here is read by others, too
            CASES[name](Files(pathlib.Path(folder)))
    except Exception:
        return {"case": name, "status": "failed", "detail": traceback.format_exc(limit=-4)}
    return {"case": name, "status": "passed", "detail": ""}


def main() -> int:
    words = sys.argv[1:]
    results = []
    for name in CASES:
        if not words or any(word in name for word in words):
            results.append(play(name))
            print(f"{results[-1]['status']:8} {name}", results[-1]["detail"], flush=True)
    path = os.environ.get("FERRYBUS_RESULTS")
    if path:
        pathlib.Path(path).write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if any(result["status"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
