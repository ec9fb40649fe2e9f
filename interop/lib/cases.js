"use strict";
// Runs the cases of one JavaScript suite and writes what became of each: the
// twin of `cases.py`.
//
// Invariant: every case that is declared is reported exactly once for each
// transport, also when it hangs.

const fs = require("node:fs");
const { Broker } = require("./broker.js");

const CASE_MS_MAX = 90_000;
const WORKERS = 4;
const TRANSPORTS = ["plain", "tls"];

// Settings of queues. For cases that wait until a lock is over: `hold` gives locks with a timer to receivers of plain AMQP, too.
const SHORT_LOCK = { lock_duration: "PT5S", hold: "lock" };
// For cases that renew it in the middle of its time. A client that gets no processor for some seconds does not lose it.
const RENEWED_LOCK = { lock_duration: "PT15S", hold: "lock" };

/** The queue of a case, and those that it forwards to. */
function queuesOf(name, settings) {
  const own = Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [
      key,
      typeof value === "string" ? value.replaceAll("{queue}", name) : value,
    ]),
  );
  const targets = [own.forward_to, own.forward_dead_lettered_to].filter(Boolean);
  return { ...Object.fromEntries(targets.map((target) => [target, {}])), [name]: own };
}

class Suite {
  constructor(name, { anonymous = false, certificate } = {}) {
    this.name = name;
    this.options = { anonymous, certificate };
    this.cases = [];
    this.skipped = [];
    this.results = [];
  }

  /**
   * Declares a case; `settings` become those of its queue. `{queue}` in a text stands for the queue's name. What the
   * queue forwards to is a queue that is made as well.
   */
  case(name, settings, body) {
    if (typeof settings === "function") [settings, body] = [{}, settings];
    this.cases.push({ name, settings, body });
  }

  /** Declares a case that this client cannot express. */
  skip(name, reason) {
    this.skipped.push({ name, reason });
  }

  /** Runs everything and ends the process: 0 when no case failed. */
  async run() {
    const wanted = process.argv.slice(2);
    const chosen = this.cases
      .flatMap((each) => TRANSPORTS.map((transport) => ({ ...each, transport })))
      .map((each) => ({ ...each, title: `${each.transport}/${each.name}`, queue: `${each.transport}-${each.name}` }))
      .filter(({ title }) => wanted.length === 0 || wanted.some((word) => title.includes(word)));
    if (wanted.length === 0) {
      for (const { name, reason } of this.skipped) this.report(name, "skipped", reason, 0);
    }
    const queues = Object.assign({}, ...chosen.map(({ queue, settings }) => queuesOf(queue, settings)));
    const broker = await Broker.start(queues, this.options);
    const waiting = [...chosen];
    const worker = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) await this.runOne(next, broker);
    };
    await Promise.all(Array.from({ length: WORKERS }, worker));
    this.finish(broker);
  }

  async runOne(chosen, broker) {
    const { title, queue, transport, body } = chosen;
    const context = { broker, queue, transport, tls: transport === "tls" };
    const started = Date.now();
    let timer;
    const hung = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`hung ${CASE_MS_MAX / 1000} s`)), CASE_MS_MAX);
    });
    try {
      await Promise.race([body(context), hung]);
      this.report(title, "passed", "", Date.now() - started);
    } catch (error) {
      // What went wrong comes last: a report that has one line for a case shows that one.
      const detail = error instanceof Error ? `${error.stack}\n${oneLine(error)}` : `thrown: ${JSON.stringify(error)}`;
      this.report(title, "failed", detail, Date.now() - started);
    } finally {
      clearTimeout(timer);
    }
  }

  report(name, status, detail, milliseconds) {
    this.results.push({ case: name, status, detail });
    const last = detail.split("\n").at(-1);
    console.log(`${status.padEnd(8)} ${name} (${(milliseconds / 1000).toFixed(1)} s) ${last}`);
  }

  finish(broker) {
    const failed = this.results.filter(({ status }) => status === "failed").length;
    if (process.env.FERRYBUS_RESULTS) {
      this.results.sort((a, b) => (a.case < b.case ? -1 : 1));
      fs.writeFileSync(process.env.FERRYBUS_RESULTS, JSON.stringify(this.results, null, 1));
    }
    console.log(`${this.name}: ${this.results.length} cases, ${failed} failed`);
    if (failed > 0) console.error(`last lines of the broker:\n${broker.logTail()}`);
    broker.remove();
    // A case that hung may hold sockets open that nothing would close.
    process.exit(failed > 0 ? 1 : 0);
  }
}

function oneLine(error) {
  const code = error.code ? ` [${error.code}]` : "";
  return `${error.name}${code}: ${error.message.replaceAll("\n", " ")}`;
}

module.exports = { RENEWED_LOCK, SHORT_LOCK, Suite };
