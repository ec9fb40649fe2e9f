"use strict";
// What is sent comes as it was, or is refused.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const Long = require("long");
const { SHORT_LOCK } = require("../lib/cases.js");
const { run } = require("../lib/programs.js");
const { bodies, many, one, queueCase, rejects, suite } = require("./steps.js");

queueCase("send-one", async ({ sender, receiver }) => {
  await sender.sendMessages({ body: "hello" });
  const message = await one(receiver);
  assert.equal(message.body, "hello");
  await receiver.completeMessage(message);
});

queueCase("send-batch", async ({ sender, receiver }) => {
  const batch = await sender.createMessageBatch();
  assert.ok(batch.maxSizeInBytes >= 262_144);
  for (let number = 0; number < 50; number++) assert.ok(batch.tryAddMessage({ body: number }));
  await sender.sendMessages(batch);
  await sender.sendMessages([{ body: "only one in its batch" }]);
  const taken = await many(receiver, 51);
  assert.deepEqual(bodies(taken), [...Array(50).keys(), "only one in its batch"]);
  const first = taken[0].sequenceNumber;
  taken.forEach(({ sequenceNumber }, index) => assert.ok(sequenceNumber.equals(first.add(index))));
  for (const message of taken) await receiver.completeMessage(message);
});

queueCase("send-1000-pipelined", async ({ sender, receiver }) => {
  await Promise.all(Array.from({ length: 1000 }, (_, number) => sender.sendMessages({ body: number })));
  const taken = await many(receiver, 1000);
  assert.deepEqual(bodies(taken), [...Array(1000).keys()]);
  await Promise.all(taken.map((message) => receiver.completeMessage(message)));
  assert.deepEqual(await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE }), []);
});

queueCase("oversized-message", async ({ sender, receiver }) => {
  await rejects(sender.sendMessages({ body: Buffer.alloc(2 << 20) }), "MessageSizeExceeded");
  const batch = await sender.createMessageBatch();
  assert.equal(batch.tryAddMessage({ body: Buffer.alloc(2 << 20) }), false);
  await sender.sendMessages({ body: "fits" });
  const message = await one(receiver);
  assert.equal(message.body, "fits");
  await receiver.completeMessage(message);
});

queueCase("large-message", async ({ sender, receiver }) => {
  const body = Buffer.alloc(900 * 1024, Buffer.from([...Array(251).keys()]));
  await sender.sendMessages({ body });
  const message = await one(receiver);
  assert.ok(body.equals(message.body));
  await receiver.completeMessage(message);
});

queueCase("annotations-and-header", SHORT_LOCK, async ({ sender, receiver }) => {
  const before = Date.now();
  await sender.sendMessages({
    body: { annotated: true },
    bodyType: "value",
    header: { priority: 7, durable: true, timeToLive: 60_000 },
    messageAnnotations: { "x-opt-partition-key": "pk", "x-opt-ours": 42 },
  });
  const message = await one(receiver);
  assert.ok(message.sequenceNumber.greaterThanOrEqual(1));
  assert.ok(Math.abs(message.enqueuedTimeUtc.getTime() - before) < 60_000);
  const lock = message.lockedUntilUtc - message.enqueuedTimeUtc;
  assert.ok(lock >= 5_000 && lock < 60_000, `locked for ${lock} ms`);
  assert.match(message.lockToken, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.match(message.messageId, /^[0-9a-f]{32}$/, "the broker gives an id to a message without one");
  assert.equal(message.partitionKey, "pk");
  assert.equal(message.timeToLive, 60_000);
  assert.equal(message.expiresAtUtc - message.enqueuedTimeUtc, 60_000);
  assert.equal(message.state, "active");
  const { header, messageAnnotations } = message._rawAmqpMessage;
  assert.equal(header.deliveryCount, 0);
  assert.equal(header.priority, 7);
  assert.equal(messageAnnotations["x-opt-ours"], 42);
  await receiver.completeMessage(message);
});

queueCase("round-trip", async ({ sender, receiver }) => {
  const sentBodies = [
    ["data", { json: [1, "two"] }],
    ["value", { list: [1, 2, "three", true], nested: { a: -1, b: 2.5 } }],
    ["value", null],
    ["sequence", [["a", 1, true], [2.5, "b"]]],
  ];
  const fields = {
    messageId: "id-1",
    to: "there",
    subject: "the subject",
    replyTo: "back",
    correlationId: "corr-1",
    contentType: "application/json",
    sessionId: "group",
    replyToSessionId: "answers",
  };
  const applicationProperties = {
    small: 7,
    negative: -5,
    large: 2 ** 33,
    float: 1.25,
    yes: true,
    no: false,
    nothing: null,
    text: "grüße ✓",
    time: new Date(Date.UTC(2030, 1, 3, 4, 5, 6, 789)),
  };
  for (const [bodyType, body] of sentBodies) {
    await sender.sendMessages({
      body,
      bodyType,
      properties: { ...fields, subject: fields.subject, groupId: fields.sessionId, replyToGroupId: fields.replyToSessionId },
      applicationProperties,
      footer: { checksum: 99 },
    });
  }
  for (const [bodyType, body] of sentBodies) {
    const message = await one(receiver);
    assert.equal(message._rawAmqpMessage.bodyType, bodyType);
    // The SDK flattens nothing: several sequence sections come back as they were sent.
    assert.deepEqual(message.body, body);
    for (const [name, wanted] of Object.entries(fields)) assert.deepEqual(message[name], wanted, name);
    // The SDK hands out timestamps as numbers.
    assert.deepEqual(message.applicationProperties, { ...applicationProperties, time: Number(applicationProperties.time) });
    assert.equal(message._rawAmqpMessage.footer.checksum, 99);
    await receiver.completeMessage(message);
  }
});

suite.case("documented-program", async ({ broker, queue }) => {
  const page = fs.readFileSync(path.join(__dirname, "..", "..", "README.md"), "utf8");
  const program = page.split("```javascript\n")[1].split("\n```\n")[0];
  const played = program.replaceAll("sb://localhost", `sb://localhost:${broker.port}`).replaceAll('"orders"', `"${queue}"`);
  const done = await run(process.execPath, ["-e", played], { cwd: __dirname });
  assert.deepEqual([done.status, done.stdout], [0, "an order\n"], done.stderr);
});
