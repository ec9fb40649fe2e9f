"use strict";
// Connections of rhea to the broker, as promises over its events.
//
// Invariant: every wait ends: with the event, with the error that the broker
// sent instead, or after `WAIT`.

const fs = require("node:fs");
const rhea = require("rhea");

const WAIT = 30_000; // ms that a message which must come may take
const SILENCE = 1_000; // ms after which a queue counts as empty

class Client {
  /** Connects over the case's transport, anonymous unless told otherwise. */
  static async connect({ broker, tls }, options = {}) {
    const client = new Client();
    client.errors = [];
    client.waiting = new Set();
    client.container = rhea.create_container();
    const secure = tls ? { transport: "tls", ca: [fs.readFileSync(broker.ca)], servername: "localhost" } : {};
    client.connection = client.container.connect({
      host: "localhost",
      port: tls ? broker.tlsPort : broker.port,
      reconnect: false,
      username: "anonymous", // without a name rhea leaves the SASL layer out
      ...secure,
      ...options,
    });
    for (const event of ["connection_error", "session_error", "sender_error", "receiver_error"]) {
      client.connection.on(event, (context) => {
        const endpoint = context.receiver ?? context.sender ?? context.session ?? context.connection;
        client.fail(endpoint.error ?? context.error ?? new Error(event));
      });
    }
    client.connection.on("disconnected", ({ error }) => client.fail(error ?? new Error("disconnected")));
    client.connection.on("error", (error) => client.fail(error));
    // rhea throws what nobody listens for.
    client.container.on("error", (error) => client.fail(error));
    await client.event(client.connection, "connection_open");
    return client;
  }

  fail(error) {
    this.errors.push(error);
    for (const reject of this.waiting) reject(error);
    this.waiting.clear();
  }

  /** Waits until `emitter` emits `name`; gives what the event carries. */
  event(emitter, name, limit = WAIT) {
    if (this.errors.length > 0) return Promise.reject(this.errors[0]);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => finish(reject, new Error(`waited in vain for ${name}`)), limit);
      const finish = (how, what) => {
        clearTimeout(timer);
        emitter.removeListener(name, arrived);
        this.waiting.delete(failed);
        how(what);
      };
      const arrived = (context) => finish(resolve, context);
      const failed = (error) => finish(reject, error);
      this.waiting.add(failed);
      emitter.on(name, arrived);
    });
  }

  async sender(options) {
    const link = this.connection.open_sender(options);
    await this.event(link, "sender_open");
    return link;
  }

  /** A receiver that asks for nothing by itself. */
  async receiver(options) {
    const source = typeof options === "string" ? { source: options } : options;
    const link = this.connection.open_receiver({ credit_window: 0, autoaccept: false, ...source });
    link.arrived = [];
    link.on("message", (context) => link.arrived.push(context));
    await this.event(link, "receiver_open");
    return link;
  }

  /**
   * A receiver that says, as a Service Bus SDK would, that it speaks Service Bus: it is
   * given lock tokens, and its `modified` is read as abandon or defer.
   */
  serviceBusReceiver(source) {
    return this.receiver({ source, properties: { "com.microsoft:receiver-name": "rhea" } });
  }

  /** Sends one message and waits for its outcome. */
  async send(sender, message, format) {
    if (!sender.sendable()) await this.event(sender, "sendable");
    const delivery = sender.send(message, undefined, format);
    for (;;) {
      const { delivery: settled } = await this.event(sender, "settled");
      if (settled.id === delivery.id) return settled.remote_state;
    }
  }

  /** Opens a sender, sends each message and closes it. */
  async sendAll(queue, bodies) {
    const sender = await this.sender(queue);
    for (const body of bodies) await this.send(sender, { body });
    sender.close();
    await this.event(sender, "sender_close");
  }

  /** The next message; asks for one when none has come ahead. */
  async receive(receiver) {
    if (receiver.arrived.length === 0) {
      receiver.add_credit(1);
      await this.event(receiver, "message");
    }
    return receiver.arrived.shift();
  }

  /** Whether nothing comes; the credit that was given for it is taken back. */
  async isEmpty(receiver) {
    receiver.add_credit(1);
    await new Promise((resolve) => setTimeout(resolve, SILENCE));
    if (receiver.arrived.length > 0) return false;
    await this.drain(receiver);
    return receiver.arrived.length === 0;
  }

  async drain(receiver) {
    const drained = this.event(receiver, "receiver_drained");
    receiver.drain_credit();
    await drained;
  }

  /** Receives one message, accepts it and gives its body. */
  async take(receiver) {
    const { message, delivery } = await this.receive(receiver);
    delivery.accept();
    return message.body;
  }

  async close() {
    const closed = this.event(this.connection, "connection_close");
    this.connection.close();
    await closed.catch(() => undefined);
  }
}

/** Requests to a queue's `$management` node. */
class Management {
  static async open(client, queue) {
    const made = new Management();
    made.client = client;
    made.replyTo = `${queue}-replies`;
    made.count = 0;
    const node = `${queue}/$management`;
    made.receiver = await client.receiver({ source: node, target: made.replyTo });
    made.sender = await client.sender(node);
    return made;
  }

  /** Gives the status code and the body of the answer. */
  async request(operation, body) {
    const id = `request-${++this.count}`;
    await this.client.send(this.sender, {
      message_id: id,
      reply_to: this.replyTo,
      application_properties: { operation: `com.microsoft:${operation}` },
      body,
    });
    const { message, delivery } = await this.client.receive(this.receiver);
    delivery.accept();
    if (message.correlation_id !== id) throw new Error(`answer to ${message.correlation_id}, not to ${id}`);
    return { status: message.application_properties.statusCode, body: message.body };
  }

  renewLock(token) {
    const tokens = rhea.types.wrap_array([token], 0x98);
    return this.request("renew-lock", { "lock-tokens": tokens });
  }

  async peek(from, count) {
    const { status, body } = await this.request("peek-message", {
      "from-sequence-number": rhea.types.wrap_long(from),
      "message-count": rhea.types.wrap_int(count),
    });
    if (status === 204) return [];
    if (status !== 200) throw new Error(`peek answered ${status}`);
    return body.messages.map(({ message }) => rhea.message.decode(message));
  }
}

module.exports = { Client, Management, WAIT };
