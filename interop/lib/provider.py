"""An identity provider for tests: it signs tokens, and its key set is a file.

Invariant: the private key lives in the provider's folder and nowhere else.
"""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess
import time

ISSUER = "https://login.test/"
AUDIENCE = "https://servicebus.azure.net"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments: str, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


class Provider:
    """Signs with RS256; `config` is what the broker has to be told."""

    def __init__(self, directory: pathlib.Path):
        self._key = directory / "provider.pem"
        self._key.write_bytes(_openssl("genrsa", "2048"))
        said = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode()
        modulus = bytes.fromhex(said.strip().removeprefix("Modulus="))
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "n": _text(modulus), "e": "AQAB"}
        keys = directory / "jwks.json"
        keys.write_text(json.dumps({"keys": [key]}), encoding="utf-8")
        self.config = f"""
[[issuer]]
name = "{ISSUER}"
audiences = ["{AUDIENCE}"]
keys_file = "{keys}"
[[issuer.grant]]
claim = "roles"
value = "clerk"
rights = ["send", "listen"]
"""

    def token(self, *roles: str, seconds: int = 3600) -> str:
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "t", "exp": int(time.time()) + seconds, "roles": roles}
        head = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
        signature = _openssl("dgst", "-sha256", "-sign", str(self._key), given=signed.encode())
        return f"{signed}.{_text(signature)}"
