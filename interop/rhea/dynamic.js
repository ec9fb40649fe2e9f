"use strict";
// Dynamic nodes: request and reply, owner, end, lifetime policies and topics.

const assert = require("node:assert/strict");
const rhea = require("rhea");
const { Client } = require("./client.js");

const CLOSED_WITHIN = 20_000; // ms within which the end of a connection must show
const DELETE_ON_NO_MESSAGES = 0x2d;

/** The error that follows an attach without source and target. */
function refusal(client) {
  return client.event(client.connection, "connection_close");
}

/** Waits until nothing is at an address any more. */
async function gone(context, address) {
  const end = Date.now() + CLOSED_WITHIN;
  for (;;) {
    const client = await Client.connect(context);
    const sender = await client.sender(address);
    const isThere = sender.target.address === address;
    if (!isThere) await assert.rejects(refusal(client), (error) => error.condition === "amqp:not-found");
    await client.close();
    if (!isThere) return;
    assert.ok(Date.now() < end, `${address} is still there`);
  }
}

/** A receiver of a new node, and its address. */
async function dynamic(client, source = {}) {
  const receiver = await client.receiver({ source: { dynamic: true, ...source } });
  assert.equal(receiver.source.dynamic, true);
  return [receiver, receiver.source.address];
}

/** Demands that a link is refused with this condition. */
async function refused(context, condition, attach) {
  const client = await Client.connect(context);
  await attach(client);
  await assert.rejects(refusal(client), (error) => error.condition === condition);
  await client.close();
}

function declare(suite) {
  suite.case("dynamic-request-reply", async (context) => {
    const [requester, responder] = [await Client.connect(context), await Client.connect(context)];
    const relay = await responder.sender({ target: {} });
    const requests = responder.connection.open_receiver({ source: context.queue });
    requests.on("message", ({ message }) => {
      relay.send({ to: message.reply_to, correlation_id: message.correlation_id, body: message.body * 2 });
    });
    const [replies, address] = await dynamic(requester);
    const sender = await requester.sender(context.queue);
    for (let number = 0; number < 10; number++) {
      await requester.send(sender, { reply_to: address, correlation_id: number, body: number });
      const { message, delivery } = await requester.receive(replies);
      assert.deepEqual([message.correlation_id, message.body], [number, number * 2]);
      delivery.accept();
    }
    await requester.close();
    await responder.close();
  });

  suite.case("dynamic-owner", async (context) => {
    const [owner, other] = [await Client.connect(context), await Client.connect(context)];
    const [receiver, address] = await dynamic(owner, { capabilities: ["temporary-queue"] });
    assert.equal(receiver.source.capabilities.toString(), "temporary-queue");
    await refused(context, "amqp:resource-locked", (client) => client.receiver(address));
    await other.sendAll(address, ["from another connection"]);
    await owner.sendAll(address, ["from its own"]);
    assert.equal(await owner.take(await owner.receiver(address)), "from another connection");
    assert.equal(await owner.take(receiver), "from its own");
    await owner.close();
    await other.close();
  });

  suite.case("dynamic-end", async (context) => {
    const [owner, other] = [await Client.connect(context), await Client.connect(context)];
    const [receiver, address] = await dynamic(owner);
    const [, second] = await dynamic(owner);
    const sender = await other.sender(address);
    receiver.close();
    await owner.event(receiver, "receiver_close");
    // The sender of another connection is told.
    await assert.rejects(other.event(sender, "sender_close"), (error) => error.condition === "amqp:resource-deleted");
    await gone(context, address);
    await owner.close();
    await gone(context, second);
    await other.close();
  });

  suite.case("dynamic-lifetime", async (context) => {
    const [owner, other] = [await Client.connect(context), await Client.connect(context)];
    const policy = rhea.types.wrap_described([], DELETE_ON_NO_MESSAGES);
    const [receiver, address] = await dynamic(owner, { dynamic_node_properties: { "lifetime-policy": policy } });
    const granted = receiver.source.dynamic_node_properties["lifetime-policy"];
    assert.equal(Number(granted.descriptor.value ?? granted.descriptor), DELETE_ON_NO_MESSAGES);
    await other.sendAll(address, ["kept"]);
    receiver.close();
    await owner.event(receiver, "receiver_close");
    // The message keeps the node until it is taken.
    assert.equal(await owner.take(await owner.receiver(address)), "kept");
    await gone(context, address);
    await owner.close();
    await other.close();
  });

  suite.case("dynamic-topic", async (context) => {
    const [owner, other] = [await Client.connect(context), await Client.connect(context)];
    const [first, address] = await dynamic(owner, { capabilities: ["temporary-topic"] });
    const second = await owner.receiver(address);
    await other.sendAll(address, ["news"]);
    for (const receiver of [first, second]) assert.equal(await owner.take(receiver), "news");
    await owner.close();
    await other.close();
  });
}

module.exports = { declare };
