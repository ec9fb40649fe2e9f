"use strict";
// rhea against the broker.

const assert = require("node:assert/strict");
const rhea = require("rhea");
const { Broker, KEY, KEY_NAME, pause } = require("../lib/broker.js");
const { RENEWED_LOCK, SHORT_LOCK, Suite } = require("../lib/cases.js");
const { Client, Management } = require("./client.js");
const delays = require("./delays.js");
const largest = require("./largest.js");
const login = require("./login.js");
const dynamic = require("./dynamic.js");
const addresses = require("./addresses.js");
const teams = require("./teams.js");

const BATCH_FORMAT = 0x80013700; // a data section for each message of a batch
const SETTLED = 1; // snd-settle-mode

const suite = new Suite("rhea", { anonymous: true });

/** Declares a case that gets a connection of its own. */
function clientCase(name, settings, body) {
  if (typeof settings === "function") [settings, body] = [{}, settings];
  suite.case(name, settings, async (context) => {
    const client = await Client.connect(context);
    try {
      await body({ ...context, client });
    } finally {
      await client.close();
    }
  });
}

function annotation(message, name) {
  return message.message_annotations[name];
}

/** The name of a delivery's outcome. */
function outcome(state) {
  return state?.constructor.composite_type;
}

function numbers(count) {
  return [...Array(count).keys()];
}

async function takeAll(client, receiver, count) {
  const bodies = [];
  while (bodies.length < count) bodies.push(await client.take(receiver));
  return bodies;
}

clientCase("send-one", async ({ client, queue }) => {
  await client.sendAll(queue, ["hello"]);
  const receiver = await client.receiver(queue);
  assert.equal(await client.take(receiver), "hello");
  assert.ok(await client.isEmpty(receiver));
});

clientCase("send-batch", async ({ client, queue }) => {
  const encoded = numbers(50).map((number) => rhea.message.encode({ body: number }));
  const sender = await client.sender(queue);
  const envelope = rhea.message.encode({ body: rhea.message.data_sections(encoded) });
  const state = await client.send(sender, envelope, BATCH_FORMAT);
  assert.equal(outcome(state), "accepted");
  const receiver = await client.receiver(queue);
  assert.deepEqual(await takeAll(client, receiver, 50), numbers(50));
  assert.ok(await client.isEmpty(receiver));
});

async function sendThousand(client, queue, options, settled) {
  const sender = await client.sender({ target: queue, ...options });
  let sent = 0;
  let accepted = 0;
  await new Promise((resolve, reject) => {
    const pump = () => {
      while (sent < 1000 && sender.sendable()) sender.send({ body: sent++ });
      if (settled && sent === 1000) resolve();
    };
    client.waiting.add(reject);
    sender.on("sendable", pump);
    sender.on("accepted", () => {
      accepted += 1;
      if (accepted === 1000) resolve();
    });
    pump();
  });
  return accepted;
}

clientCase("send-1000-pipelined", async ({ client, queue }) => {
  assert.equal(await sendThousand(client, queue, {}, false), 1000);
  const receiver = await client.receiver(queue);
  receiver.add_credit(1000);
  assert.deepEqual(await takeAll(client, receiver, 1000), numbers(1000));
  assert.ok(await client.isEmpty(receiver));
});

clientCase("send-pre-settled", async ({ client, queue }) => {
  assert.equal(await sendThousand(client, queue, { snd_settle_mode: SETTLED }, true), 0);
  const receiver = await client.receiver(queue);
  assert.deepEqual(await takeAll(client, receiver, 1000), numbers(1000));
});

clientCase("peek-lock-complete", async ({ client, queue }) => {
  await client.sendAll(queue, ["one", "two"]);
  const receiver = await client.receiver(queue);
  for (const expected of ["one", "two"]) {
    const { message, delivery } = await client.receive(receiver);
    assert.equal(message.body, expected);
    assert.equal(message.delivery_count ?? 0, 0);
    delivery.accept();
  }
  assert.ok(await client.isEmpty(receiver));
  const management = await Management.open(client, queue);
  assert.deepEqual(await management.peek(1, 10), []);
});

/** Gives the first of two messages back and expects it again, in its place. */
function giveBack(how, counted) {
  return async ({ client, queue }) => {
    await client.sendAll(queue, ["one", "two"]);
    const receiver = await client.receiver(queue);
    const first = await client.receive(receiver);
    how(first.delivery);
    await client.drain(receiver); // answered after the settlement was seen
    const again = await client.receive(receiver);
    assert.equal(again.message.body, "one");
    assert.equal(again.message.delivery_count ?? 0, counted);
    const number = "x-opt-sequence-number";
    assert.equal(annotation(again.message, number), annotation(first.message, number));
    again.delivery.accept();
    assert.equal(await client.take(receiver), "two");
    assert.ok(await client.isEmpty(receiver));
  };
}

clientCase("peek-lock-abandon", giveBack((delivery) => delivery.modified({ delivery_failed: true }), 1));
clientCase("peek-lock-release", giveBack((delivery) => delivery.release({}), 0));

clientCase("peek-lock-dead-letter", async ({ client, queue }) => {
  await client.sendAll(queue, ["bad", "worse"]);
  const receiver = await client.receiver(queue);
  (await client.receive(receiver)).delivery.reject({
    condition: "com.microsoft:dead-letter",
    info: { DeadLetterReason: "unreadable", DeadLetterErrorDescription: "no number", line: 5 },
  });
  (await client.receive(receiver)).delivery.reject();
  assert.ok(await client.isEmpty(receiver));
  const deadLetters = await client.receiver(`${queue}/$DeadLetterQueue`);
  const bad = await client.receive(deadLetters);
  assert.equal(bad.message.body, "bad");
  assert.deepEqual(bad.message.application_properties, {
    DeadLetterReason: "unreadable",
    DeadLetterErrorDescription: "no number",
    line: 5,
  });
  bad.delivery.accept();
  const worse = await client.receive(deadLetters);
  assert.equal(worse.message.body, "worse");
  assert.equal(worse.message.application_properties?.DeadLetterReason, undefined);
  worse.delivery.accept();
  assert.ok(await client.isEmpty(deadLetters));
});

clientCase("undeliverable-here", async ({ client, queue }) => {
  await client.sendAll(queue, ["not for me", "for me"]);
  const receiver = await client.receiver(queue);
  (await client.receive(receiver)).delivery.modified({ undeliverable_here: true });
  assert.equal(await client.take(receiver), "for me");
  assert.ok(await client.isEmpty(receiver));
  const { message, delivery } = await client.receive(await client.receiver(`${queue}/$DeadLetterQueue`));
  assert.equal(message.body, "not for me");
  assert.equal(message.application_properties.DeadLetterReason, "UndeliverableHere");
  delivery.accept();
});

clientCase("peek-lock-defer", async ({ client, queue }) => {
  await client.sendAll(queue, ["later", "now"]);
  const receiver = await client.serviceBusReceiver(queue);
  (await client.receive(receiver)).delivery.modified({ undeliverable_here: true });
  assert.equal(await client.take(receiver), "now");
  assert.ok(await client.isEmpty(receiver));
  const management = await Management.open(client, queue);
  const [peeked, ...more] = await management.peek(1, 10);
  assert.equal(peeked.body, "later");
  assert.equal(annotation(peeked, "x-opt-message-state"), 1);
  assert.equal(more.length, 0);
});

clientCase("receive-and-delete", async ({ client, queue }) => {
  await client.sendAll(queue, ["a", "b", "c"]);
  const receiver = await client.receiver({ source: queue, snd_settle_mode: SETTLED });
  for (const expected of ["a", "b", "c"]) {
    const { message, delivery } = await client.receive(receiver);
    assert.equal(message.body, expected);
    assert.equal(delivery.remote_settled, true);
  }
  assert.ok(await client.isEmpty(receiver));
  const management = await Management.open(client, queue);
  assert.deepEqual(await management.peek(1, 10), []);
});

function lockToken(message) {
  return message.delivery_annotations["x-opt-lock-token"];
}

async function waitPast(end) {
  await pause(Math.max(0, end - Date.now()) + 300);
}

clientCase("lock-renewal", RENEWED_LOCK, async ({ client, queue }) => {
  await client.sendAll(queue, ["long work"]);
  const receiver = await client.serviceBusReceiver(queue);
  const { message, delivery } = await client.receive(receiver);
  const firstEnd = annotation(message, "x-opt-locked-until").getTime();
  const management = await Management.open(client, queue);
  await pause(7_000); // so that the renewed lock outlives the first one by as much
  const { status, body } = await management.renewLock(lockToken(message));
  assert.equal(status, 200);
  const gained = Number(body.expirations[0]) - firstEnd;
  assert.ok(gained >= 4_500, `${gained} ms`);
  await waitPast(firstEnd);
  const other = await client.receiver(queue);
  assert.ok(await client.isEmpty(other));
  delivery.accept();
  assert.ok(await client.isEmpty(receiver));
  assert.deepEqual(await management.peek(1, 10), []);
});

clientCase("lock-loss", SHORT_LOCK, async ({ client, queue }) => {
  await client.sendAll(queue, ["too slow"]);
  const receiver = await client.serviceBusReceiver(queue);
  const first = await client.receive(receiver);
  const management = await Management.open(client, queue);
  await waitPast(annotation(first.message, "x-opt-locked-until").getTime());
  assert.equal((await management.renewLock(lockToken(first.message))).status, 410);
  first.delivery.accept(); // too late: must complete nothing
  const again = await client.receive(receiver);
  assert.equal(again.message.body, "too slow");
  assert.equal(again.message.delivery_count, 1);
  again.delivery.accept();
  assert.ok(await client.isEmpty(receiver));
});

clientCase("delivery-count-to-dead-letter", { max_delivery_count: 3 }, async ({ client, queue }) => {
  await client.sendAll(queue, ["poison"]);
  const receiver = await client.receiver(queue);
  for (let failed = 0; failed < 3; failed++) {
    const { message, delivery } = await client.receive(receiver);
    assert.equal(message.delivery_count ?? 0, failed);
    delivery.modified({ delivery_failed: true });
  }
  assert.ok(await client.isEmpty(receiver));
  const { message, delivery } = await client.receive(await client.receiver(`${queue}/$DeadLetterQueue`));
  assert.equal(message.body, "poison");
  assert.equal(message.application_properties.DeadLetterReason, "MaxDeliveryCountExceeded");
  assert.ok(message.application_properties.DeadLetterErrorDescription);
  delivery.accept();
});

clientCase("peek", async ({ client, queue }) => {
  await client.sendAll(queue, numbers(10));
  const management = await Management.open(client, queue);
  const seen = [];
  let from = 1;
  while (seen.length < 10) {
    const more = await management.peek(from, 4);
    assert.ok(more.length > 0, `peeked ${seen.length} of 10`);
    seen.push(...more);
    from = annotation(more.at(-1), "x-opt-sequence-number") + 1;
  }
  assert.deepEqual(seen.map(({ body }) => body), numbers(10));
  assert.ok(seen.every((message) => annotation(message, "x-opt-message-state") === 0));
  const receiver = await client.receiver(queue);
  for (const number of numbers(10)) {
    const { message, delivery } = await client.receive(receiver);
    assert.equal(message.body, number);
    assert.equal(message.delivery_count ?? 0, 0, "peeking is not delivering");
    delivery.accept();
  }
});

clientCase("two-competing-receivers", async ({ client, queue, ...context }) => {
  const other = await Client.connect(context);
  await client.sendAll(queue, numbers(10));
  const [left, right] = [await client.receiver(queue), await other.receiver(queue)];
  const seen = [];
  for (let round = 0; round < 5; round++) {
    seen.push(await client.receive(left), await other.receive(right));
  }
  assert.deepEqual(seen.map(({ message }) => message.body).sort((a, b) => a - b), numbers(10));
  seen.forEach(({ delivery }) => delivery.accept());
  assert.ok(await client.isEmpty(left));
  await other.close();
});

suite.case("without-sasl", async (context) => {
  const client = await Client.connect(context, { username: undefined });
  await client.sendAll(context.queue, ["AMQP from the first byte"]);
  assert.equal(await client.take(await client.receiver(context.queue)), "AMQP from the first byte");
  await client.close();
});

function logIn(context, key) {
  return Client.connect(context, { username: KEY_NAME, password: key });
}

suite.case("plain-log-in", async (context) => {
  const client = await logIn(context, KEY);
  await client.sendAll(context.queue, ["with a key"]);
  assert.equal(await client.take(await client.receiver(context.queue)), "with a key");
  await client.close();
});

suite.case("wrong-key", async (context) => {
  await refusedWith(logIn(context, "WRONG_KEY"), "amqp:unauthorized-access");
});

async function refusedWith(promise, condition) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.condition, condition, error.description ?? error.message);
    return true;
  });
}

suite.case("missing-queue", async (context) => {
  const sending = await Client.connect(context);
  const sent = sending.sender("no-such-queue").then((sender) => sending.send(sender, { body: "lost" }));
  await refusedWith(sent, "amqp:not-found");
  const receiving = await Client.connect(context);
  const received = receiving.receiver("no-such-queue").then((receiver) => receiving.receive(receiver));
  await refusedWith(received, "amqp:not-found");
  // The connections outlive the refusals.
  receiving.errors.length = 0;
  await receiving.sendAll(context.queue, ["still here"]);
  await Promise.all([sending.close(), receiving.close()]);
});

suite.case("oversized-message", { max_message_bytes: "1 MiB" }, async (context) => {
  const client = await Client.connect(context);
  const sender = await client.sender(context.queue);
  assert.equal(Number(sender.max_message_size ?? sender.remote.attach.max_message_size), 1 << 20);
  const tooLarge = "amqp:link:message-size-exceeded";
  await refusedWith(
    client.send(sender, { body: Buffer.alloc(2 << 20) }).then((state) => {
      throw state.error ?? new Error("2 MiB were accepted by a queue that allows 1 MiB");
    }),
    tooLarge,
  );
  await client.close();
  const again = await Client.connect(context);
  await again.sendAll(context.queue, ["fits"]);
  assert.equal(await again.take(await again.receiver(context.queue)), "fits");
  await again.close();
});

clientCase("large-message", async ({ client, queue }) => {
  const body = Buffer.alloc(900 * 1024, Buffer.from([...Array(251).keys()]));
  await client.sendAll(queue, [body, body, body]);
  const receiver = await client.receiver(queue);
  for (let round = 0; round < 3; round++) assert.ok(body.equals(await client.take(receiver)));
});

clientCase("drain", async ({ client, queue }) => {
  const receiver = await client.receiver(queue);
  receiver.add_credit(5);
  await client.drain(receiver);
  await client.sendAll(queue, ["a", "b"]);
  assert.equal(receiver.arrived.length, 0, "the drained credit is gone");
  receiver.add_credit(5);
  await client.drain(receiver);
  assert.deepEqual(receiver.arrived.map(({ message }) => message.body), ["a", "b"]);
  receiver.arrived.forEach(({ delivery }) => delivery.accept());
});

clientCase("annotations-and-header", SHORT_LOCK, async ({ client, queue }) => {
  const before = Date.now();
  const sender = await client.sender(queue);
  await client.send(sender, {
    body: "annotated",
    durable: true,
    priority: 7,
    ttl: 60_000,
    message_annotations: { "x-opt-partition-key": "pk", "x-opt-ours": rhea.types.wrap_uint(42) },
  });
  const { message, delivery } = await client.receive(await client.receiver(queue));
  assert.equal(message.durable, true);
  assert.equal(message.priority, 7);
  assert.equal(message.ttl, 60_000);
  assert.equal(message.delivery_count, 0);
  assert.equal(message.first_acquirer, true);
  assert.equal(annotation(message, "x-opt-partition-key"), "pk");
  assert.equal(annotation(message, "x-opt-ours"), 42);
  assert.ok(annotation(message, "x-opt-sequence-number") >= 1);
  const enqueued = annotation(message, "x-opt-enqueued-time").getTime();
  assert.ok(Math.abs(enqueued - before) < 60_000);
  const lock = annotation(message, "x-opt-locked-until").getTime() - enqueued;
  assert.ok(lock >= 5_000 && lock < 60_000, `locked for ${lock} ms`);
  delivery.accept();
});

clientCase("service-bus-annotations", SHORT_LOCK, async ({ client, queue }) => {
  await client.sendAll(queue, ["for an SDK"]);
  const { message, delivery } = await client.receive(await client.serviceBusReceiver(queue));
  assert.match(message.message_id, /^[0-9a-f]{32}$/, "the broker gives an id to a message without one");
  assert.equal(annotation(message, "x-opt-message-state"), undefined, "only where it says something");
  assert.equal(lockToken(message).length, 16);
  // The tag is the same token in the byte order of a .NET Guid.
  const swapped = Buffer.from(delivery.tag);
  swapped.subarray(0, 4).reverse();
  swapped.subarray(4, 6).reverse();
  swapped.subarray(6, 8).reverse();
  assert.deepEqual(swapped, Buffer.from(lockToken(message)));
  delivery.accept();
});

/** Name, value as rhea must be told its type, value as rhea hands it out. */
function simpleValues() {
  const { types } = rhea;
  const same = (name, value) => [name, value, value];
  return [
    same("null", null),
    same("true", true),
    same("false", false),
    ["ubyte", types.wrap_ubyte(200), 200],
    ["byte", types.wrap_byte(-100), -100],
    ["ushort", types.wrap_ushort(65_000), 65_000],
    ["short", types.wrap_short(-30_000), -30_000],
    ["uint", types.wrap_uint(4_000_000_000), 4_000_000_000],
    ["int", types.wrap_int(-2_000_000_000), -2_000_000_000],
    ["ulong", types.wrap_ulong(2 ** 53 - 1), 2 ** 53 - 1],
    ["long", types.wrap_long(-(2 ** 52)), -(2 ** 52)],
    ["float", types.wrap_float(1.25), 1.25],
    ["double", types.wrap_double(2.5), 2.5],
    ["timestamp", types.wrap_timestamp(1_896_321_906_789), new Date(1_896_321_906_789)],
    ["uuid", types.wrap_uuid(Buffer.from(numbers(16))), Buffer.from(numbers(16))],
    ["binary", types.wrap_binary(Buffer.from([0, 255])), Buffer.from([0, 255])],
    same("string", "grüße ✓"),
    same("long string", "s".repeat(300)),
    ["symbol", types.wrap_symbol("a:symbol"), "a:symbol"],
  ];
}

clientCase("round-trip", async ({ client, queue }) => {
  const bodies = [
    ...simpleValues().map(([, sent, found]) => [sent, found]),
    [{ list: [1, 2, "three", true], nested: { a: -1, b: 2.5 } }],
    [["a", 1, true]],
    [rhea.types.wrap_array([1, 2, 3], 0x81), [1, 2, 3]],
    [rhea.message.data_section(Buffer.from("data"))],
    [rhea.message.data_sections([Buffer.from("one"), Buffer.from("two")])],
    [rhea.message.sequence_section(["a", 1, true])],
    [rhea.message.sequence_sections([["a", 1], [2.5]])],
  ].map(([sent, found = sent]) => [sent, found]);
  const fields = {
    message_id: "id-1",
    user_id: Buffer.from("user"),
    to: "there",
    subject: "the subject",
    reply_to: "back",
    correlation_id: "corr-1",
    content_type: "text/plain",
    content_encoding: "identity",
    group_id: "group",
    group_sequence: 3,
    reply_to_group_id: "answers",
  };
  const expected = Object.fromEntries(simpleValues().map(([name, , found]) => [name, found]));
  const sender = await client.sender(queue);
  const receiver = await client.receiver(queue);
  for (const [body, wanted] of bodies) {
    const application_properties = Object.fromEntries(simpleValues().map(([name, sent]) => [name, sent]));
    // rhea writes the footer in front of the body, where the standard has no place for it, and reads it behind.
    const footer = { "x-opt-sum": "checked" };
    await client.send(sender, { ...fields, application_properties, body, footer });
    const { message, delivery } = await client.receive(receiver);
    assert.deepEqual(message.footer, footer);
    assert.deepEqual(message.body, wanted);
    for (const [name, value] of Object.entries(fields)) assert.deepEqual(message[name], value, name);
    assert.deepEqual(message.application_properties, expected);
    delivery.accept();
  }
});

clientCase("link-close-and-reopen", async ({ client, queue }) => {
  for (const round of numbers(3)) {
    await client.sendAll({ target: queue, name: "again" }, [round]);
    const receiver = await client.receiver({ source: queue, name: "again" });
    assert.equal(await client.take(receiver), round);
    receiver.close();
    await client.event(receiver, "receiver_close");
  }
});

clientCase("detach-and-reattach", async ({ client, queue }) => {
  const sender = await client.sender({ target: queue, name: "resumed" });
  await client.send(sender, { body: "before" });
  sender.detach();
  await client.sendAll({ target: queue, name: "meanwhile" }, ["between"]); // by now the detach is out
  const again = await client.sender({ target: queue, name: "resumed" });
  await client.send(again, { body: "after" });
  assert.deepEqual(await takeAll(client, await client.receiver(queue), 3), ["before", "between", "after"]);
});

clientCase("anonymous-relay", async ({ client, queue }) => {
  assert.ok([client.connection.remote.open.offered_capabilities].flat().includes("ANONYMOUS-RELAY"));
  const relay = await client.sender({ target: {} });
  assert.equal(outcome(await client.send(relay, { to: queue, body: "one" })), "accepted");
  assert.equal(outcome(await client.send(relay, { to: `/queues/${queue}`, body: "two" })), "accepted");
  const refused = await client.send(relay, { to: "no-such-queue", body: "lost" });
  assert.equal(outcome(refused), "rejected");
  assert.equal(refused.error.condition, "amqp:not-found");
  assert.deepEqual(await takeAll(client, await client.receiver(queue), 2), ["one", "two"]);
});

clientCase("many-sessions", async ({ client, queue }) => {
  const sessions = numbers(20).map(() => {
    const session = client.connection.create_session();
    session.open();
    return session;
  });
  for (const [number, session] of sessions.entries()) {
    const sender = session.open_sender(queue);
    await client.event(sender, "sender_open");
    await client.send(sender, { body: number });
  }
  assert.deepEqual(await takeAll(client, await client.receiver(queue), 20), numbers(20));
});

suite.case("heartbeat", async (context) => {
  const client = await Client.connect(context, { idle_time_out: 4_000 });
  await pause(10_000); // rhea gives up after twice its idle time-out without a frame
  await client.sendAll(context.queue, ["still connected"]);
  await client.close();
});

suite.case("reconnect", async ({ tls, queue }) => {
  const broker = await Broker.start({ [queue]: {} }, { durability: "fsync", anonymous: true });
  try {
    // rhea connects again by itself and attaches the same links again.
    const client = await Client.connect({ broker, tls }, { reconnect: true, initial_reconnect_delay: 50 });
    client.fail = () => undefined;
    const sender = await client.sender(queue);
    await client.send(sender, { body: "before" });
    const reopened = client.event(sender, "sender_open", 20_000);
    await broker.restart({ kill: true });
    await reopened;
    await client.send(sender, { body: "after" });
    assert.deepEqual(await takeAll(client, await client.receiver(queue), 2), ["before", "after"]);
    await client.close();
  } finally {
    broker.remove();
  }
});

suite.case("broker-restart", async ({ tls, queue }) => {
  const broker = await Broker.start({ [queue]: {} }, { durability: "fsync", anonymous: true });
  try {
    const before = await Client.connect({ broker, tls });
    await before.sendAll(queue, ["before the crash"]);
    await before.receive(await before.receiver(queue)); // locked when the broker dies
    await broker.restart({ kill: true });
    const between = await Client.connect({ broker, tls });
    await between.sendAll(queue, ["after the crash"]);
    await broker.restart();
    const after = await Client.connect({ broker, tls });
    const receiver = await after.receiver(queue);
    assert.deepEqual(await takeAll(after, receiver, 2), ["before the crash", "after the crash"]);
    assert.ok(await after.isEmpty(receiver));
    await after.close();
  } finally {
    broker.remove();
  }
});

delays.declare(suite);
largest.declare(suite);
login.declare(suite);
dynamic.declare(suite);
addresses.declare(suite);
teams.declare(suite);

suite.run();
