"use strict";
// One broker with three namespaces, each with a queue `orders`, and a key of one name with a text of its own: the twin
// of `namespaces.py`, which says how clients reach them.

const { Broker, KEY, KEY_NAME, binary } = require("./broker.js");
const { output } = require("./programs.js");

const QUEUE = "orders";
const DOMAIN = "bus.example.org";
const HOSTS = { "team-a": "127.0.0.2", "team-b": "127.0.0.3" };
/** What the certificate of a broker is for. */
const CERTIFIED = ["localhost", "127.0.0.1", ...Object.values(HOSTS), `*.${DOMAIN}`];
// The key opens the default namespace alone, and administers the others, for nobody else is named.
const CONFIG = `[[key]]\nname = "${KEY_NAME}"\nkey = "${KEY}"\nrights = ["manage"]\n`;

class Namespace {
  constructor(broker, name, host, key) {
    Object.assign(this, { broker, name, host, key, domain: `${name}.${DOMAIN}` });
  }

  connectionString({ tls, key = this.key, host = this.host }) {
    return this.broker.connectionString({ tls, key, host });
  }

  /** Gives the namespace these limits and no others, and holds it or lets it go on. */
  async put(limits = {}, { held = false } = {}) {
    await this.broker.ask("PUT", `/$ferrybus/namespaces/${this.name}`, { hostnames: [this.host], held, limits });
  }

  async usage() {
    return (await this.broker.ask("GET", `/$ferrybus/namespaces/${this.name}`)).usage;
  }
}

async function created(broker, name, host) {
  const path = `/$ferrybus/namespaces/${name}`;
  await broker.ask("PUT", path, { hostnames: [host] });
  const { primary } = await broker.ask("PUT", `${path}/keys/${KEY_NAME}`, { rights: ["manage"] });
  const namespace = new Namespace(broker, name, host, primary);
  // Over AMQP and with the team's own key, as the team would.
  const words = ["queue", "create", QUEUE, "--connection-string", namespace.connectionString({ tls: false })];
  await output(binary(), words);
  return namespace;
}

/** Gives the broker, and its namespaces in the order default, team-a, team-b, to `use`. `options` are more of the broker's. */
async function withThreeNamespaces(certificate, use, options = {}) {
  const addresses = ["127.0.0.1", ...Object.values(HOSTS)];
  const broker = await Broker.start({ [QUEUE]: {} }, {
    certificate,
    names: CERTIFIED,
    addresses,
    moreConfig: CONFIG,
    ...options,
  });
  try {
    const namespaces = [new Namespace(broker, "default", "localhost", KEY)];
    for (const [name, host] of Object.entries(HOSTS)) namespaces.push(await created(broker, name, host));
    return await use(broker, namespaces);
  } finally {
    broker.remove();
  }
}

module.exports = { CERTIFIED, QUEUE, withThreeNamespaces };
