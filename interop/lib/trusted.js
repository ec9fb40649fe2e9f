"use strict";
// A certificate that node itself trusts, for clients that cannot be told of a further authority.
//
// Invariant: a suite that has got its certificate runs in a process that trusted it from the start.

const childProcess = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { certificateIn, makeCertificate } = require("./broker.js");
const { CERTIFIED } = require("./namespaces.js");

/**
 * The certificate for the suite's brokers. Node takes a further authority only from an environment variable that it
 * reads when it starts: so the first call makes the certificate, has the suite start anew and ends with it; the second
 * process gets the certificate.
 */
function trustedCertificate() {
  const made = process.env.FERRYBUS_INTEROP_TLS;
  if (made) return certificateIn(made);
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "ferrybus-interop-tls-"));
  const { ca } = makeCertificate(directory, CERTIFIED);
  const done = childProcess.spawnSync(process.execPath, process.argv.slice(1), {
    stdio: "inherit",
    env: { ...process.env, NODE_EXTRA_CA_CERTS: ca, FERRYBUS_INTEROP_TLS: directory },
  });
  fs.rmSync(directory, { recursive: true, force: true });
  process.exit(done.status ?? 1);
}

module.exports = { trustedCertificate };
