"use strict";
// Starts, kills and restarts the broker that a suite runs against: the twin of
// `broker.py`.
//
// Invariant: when a suite's process ends, no broker that it started is left
// running and no file that it made is left behind, unless
// `FERRYBUS_INTEROP_KEEP` is set.

const childProcess = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { output } = require("./programs.js");

const KEY_NAME = "RootManageSharedAccessKey";
const KEY = "SAS_KEY_VALUE";

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 15_000;

// Below the range from which Linux takes the local ports of outgoing
// connections; `broker.py` says why.
const PORT_MIN = 20_000;
const PORT_MAX = 29_999;
const PORTS_OF_BLOCK = 50;

const brokers = new Set();
process.on("exit", () => brokers.forEach((broker) => broker.remove()));

/** Listens on a port of the loopback address; `undefined` where somebody else does. */
function listening(port) {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

// The ports that are left of the blocks of this process.
const ports = [];

/** A TCP port on the loopback address that nobody listens on, a new one each time. */
async function freePort() {
  for (;;) {
    if (ports.length === 0) await takeBlock();
    const port = ports.pop();
    const probe = port && (await listening(port));
    if (!probe) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
}

/** Listens on the first port of a block for as long as the process lasts: it has the others, as `broker.py` says. */
async function takeBlock() {
  const blocks = Math.floor((PORT_MAX - PORT_MIN + 1) / PORTS_OF_BLOCK);
  for (let attempt = 0; attempt < 1000; attempt++) {
    const first = PORT_MIN + PORTS_OF_BLOCK * Math.floor(Math.random() * blocks);
    const held = await listening(first);
    if (!held) continue;
    held.unref();
    for (let port = first + 1; port < first + PORTS_OF_BLOCK; port++) ports.push(port);
    return;
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_MAX}`);
}

function canConnect(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function binary() {
  if (!process.env.FERRYBUS_BIN) {
    throw new Error("set FERRYBUS_BIN to the path of the ferrybus binary");
  }
  return process.env.FERRYBUS_BIN;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** The files that `ferrybus cert dev` leaves in `directory`. */
function certificateIn(directory) {
  return {
    ca: path.join(directory, "ca.pem"),
    certificate: path.join(directory, "server.pem"),
    key: path.join(directory, "server-key.pem"),
  };
}

/** A development CA and a server certificate, made by `ferrybus cert dev`. */
function makeCertificate(directory, hosts = []) {
  const names = hosts.flatMap((host) => ["--host", host]);
  childProcess.execFileSync(binary(), ["cert", "dev", "--out", directory, ...names], { stdio: "pipe" });
  const made = certificateIn(directory);
  for (const file of Object.values(made)) fs.accessSync(file);
  return made;
}

class Broker {
  /**
   * `queues` maps each queue's name to its settings, written as one `[[queue]]`
   * of `ferrybus.toml` each; `moreConfig` comes behind them. It listens on each of `addresses`;
   * a certificate that it makes is for `names`, where they are given.
   */
  static async start(queues, options = {}) {
    const broker = new Broker();
    broker.directory = fs.mkdtempSync(path.join(os.tmpdir(), "ferrybus-interop-"));
    broker.logPath = path.join(broker.directory, "broker.log");
    broker.port = await freePort();
    broker.tlsPort = await freePort();
    const config = path.join(broker.directory, "ferrybus.toml");
    fs.writeFileSync(config, configText(queues) + (options.moreConfig ?? ""));
    const tls = options.certificate ?? makeCertificate(path.join(broker.directory, "tls"), options.names);
    broker.ca = tls.ca;
    broker.certificate = tls;
    const addresses = options.addresses ?? ["127.0.0.1"];
    broker.arguments = [
      "serve",
      ...addresses.flatMap((address) => ["--listen", `${address}:${broker.port}`]),
      ...["--data-dir", path.join(broker.directory, "data")],
      ...["--durability", options.durability ?? "os"],
      ...["--config", config],
      "--testing",
      ...(options.anonymous ? ["--anonymous", "allow"] : []),
      ...(options.autoCreate ? ["--auto-create"] : []),
      ...["--tls-certificate", tls.certificate, "--tls-key", tls.key],
      ...addresses.flatMap((address) => ["--listen-tls", `${address}:${broker.tlsPort}`]),
    ];
    brokers.add(broker);
    await broker.launch();
    return broker;
  }

  async launch() {
    const log = fs.openSync(this.logPath, "a");
    const running = childProcess.spawn(binary(), this.arguments, {
      stdio: ["ignore", log, log],
      cwd: this.directory,
    });
    fs.closeSync(log);
    this.process = running;
    this.ended = new Promise((resolve) => running.once("exit", resolve));
    const deadline = Date.now() + START_MS_MAX;
    for (const port of [this.port, this.tlsPort]) {
      while (!(await canConnect(port))) {
        if (running.exitCode !== null || Date.now() > deadline) {
          throw new Error(`no listener on port ${port}:\n${this.logTail()}`);
        }
        await pause(5);
      }
    }
  }

  /** Ends the process and starts it again on the same data and ports. */
  async restart({ kill = false } = {}) {
    this.process.kill(kill ? "SIGKILL" : "SIGTERM");
    let late;
    const limit = new Promise((_, reject) => {
      late = setTimeout(() => reject(new Error("the broker did not end in time")), STOP_MS_MAX);
    });
    await Promise.race([this.ended, limit]);
    clearTimeout(late);
    await this.launch();
  }

  /** Kills the process and removes what it wrote. */
  remove() {
    this.process?.kill("SIGKILL");
    brokers.delete(this);
    if (!process.env.FERRYBUS_INTEROP_KEEP) {
      fs.rmSync(this.directory, { recursive: true, force: true });
    }
  }

  /** One request to the broker's HTTP side, which every port has. */
  async ask(method, path, body) {
    const login = Buffer.from(`${KEY_NAME}:${KEY}`).toString("base64");
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers: { authorization: `Basic ${login}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${said.error}`);
    return said;
  }

  /** Moves the broker's time forward, for all of its queues; what became due is done. */
  async advanceClock(milliseconds) {
    await this.ask("POST", "/$ferrybus/clock/advance", { by_ms: Math.round(milliseconds) });
  }

  /** Changes the largest message that a queue takes, in bytes, as an operator does. */
  async limitMessages(queue, most) {
    const words = ["queue", "update", queue, "--max-message-bytes", String(most)];
    const login = ["--connection-string", this.connectionString()];
    await output(binary(), [...words, ...login]);
  }

  /** Has something go wrong: `entity`, and `count` or `for_ms`. */
  async orderFault(kind, details) {
    await this.ask("POST", "/$ferrybus/faults", { kind, ...details });
  }

  logTail(lines = 20) {
    if (!fs.existsSync(this.logPath)) return "";
    return fs.readFileSync(this.logPath, "utf8").split("\n").slice(-lines).join("\n");
  }

  /** What an application of Service Bus would paste. */
  connectionString({ key = KEY, tls = false, keyName = KEY_NAME, entity, host = "localhost" } = {}) {
    const port = tls ? this.tlsPort : this.port;
    const place = entity ? `;EntityPath=${entity}` : "";
    const text = `Endpoint=sb://${host}:${port};SharedAccessKeyName=${keyName};SharedAccessKey=${key}${place}`;
    return tls ? text : `${text};UseDevelopmentEmulator=true`;
  }
}

/** One with `subscriptions` is a topic: they map each subscription's name to its settings. */
function configText(queues) {
  const table = (header, settings) => [
    `[[${header}]]`,
    ...Object.entries(settings).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
    "",
  ];
  const lines = Object.entries(queues).flatMap(([name, { subscriptions, ...settings }]) => [
    ...table(subscriptions ? "topic" : "queue", { name, ...settings }),
    ...Object.entries(subscriptions ?? {}).flatMap(([own, inner]) =>
      table("topic.subscription", { name: own, ...inner }),
    ),
  ]);
  return lines.join("\n");
}

module.exports = { Broker, KEY, KEY_NAME, binary, certificateIn, makeCertificate, pause };
