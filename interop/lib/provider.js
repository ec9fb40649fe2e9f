"use strict";
// An identity provider for tests: it signs tokens, and its key set is a file. The
// twin of `provider.py`.
//
// Invariant: the private key never leaves the process.

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");

const ISSUER = "https://login.test/";
const AUDIENCE = "https://servicebus.azure.net";

function text(part) {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}

/** Signs with RS256; `config` is what the broker has to be told. */
class Provider {
  constructor(directory) {
    const { privateKey, publicKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
    this.key = privateKey;
    const key = { ...publicKey.export({ format: "jwk" }), kid: "one", alg: "RS256" };
    const keys = path.join(directory, "jwks.json");
    fs.writeFileSync(keys, JSON.stringify({ keys: [key] }));
    this.config = `
[[issuer]]
name = "${ISSUER}"
audiences = ["${AUDIENCE}"]
keys_file = "${keys}"
[[issuer.grant]]
claim = "roles"
value = "clerk"
rights = ["send", "listen"]
`;
  }

  token(role, seconds = 3600) {
    const expires = Math.floor(Date.now() / 1000) + seconds;
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: "t", exp: expires, roles: [role] };
    const signed = `${text({ alg: "RS256", kid: "one", typ: "JWT" })}.${text(claims)}`;
    return `${signed}.${crypto.sign("sha256", Buffer.from(signed), this.key).toString("base64url")}`;
  }
}

module.exports = { Provider };
