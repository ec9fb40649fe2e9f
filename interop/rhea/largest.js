"use strict";
// A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.

const assert = require("node:assert/strict");
const rhea = require("rhea");
const { Client } = require("./client.js");

const LIMIT = 256 << 10;
const LOWERED = 1 << 10;
const SETTLED = 1; // snd-settle-mode
// The longest texts that a client may give when it dead-letters.
const REASON = "r".repeat(4096);
const DESCRIPTION = "d".repeat(4096);
const FIELDS = { message_id: "largest", subject: "the subject", correlation_id: "corr" };
const APPLICATION = { number: 7, text: "grüße ✓" };

function filled(length) {
  const body = Buffer.alloc(length, Buffer.from([...Array(251).keys()]));
  return { ...FIELDS, application_properties: APPLICATION, body: rhea.message.data_section(body) };
}

function encodedSize(message) {
  return rhea.message.encode(message).length;
}

/** A message whose encoding has so many bytes. */
function ofSize(size) {
  const message = filled(size - (encodedSize(filled(LOWERED)) - LOWERED));
  assert.equal(encodedSize(message), size);
  return message;
}

function announced(sender) {
  return Number(sender.remote.attach.max_message_size);
}

function accepted(state) {
  assert.equal(state?.constructor.composite_type, "accepted", state?.error?.condition);
}

/** The message stays refused; its link stays. */
async function tooLarge(client, sender, size) {
  const state = await client.send(sender, ofSize(size));
  assert.equal(state.error?.condition, "amqp:link:message-size-exceeded");
  assert.ok(sender.is_open());
}

/** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
function isWhole(message, added = {}) {
  assert.ok(message.body.content.equals(ofSize(LIMIT).body.content));
  for (const [name, value] of Object.entries(FIELDS)) assert.equal(message[name], value, name);
  assert.deepEqual(message.application_properties, { ...APPLICATION, ...added });
  assert.equal(message.delivery_count ?? 0, 0);
}

/** Takes four from receivers of the queue and of its dead-letter queue, one or two of each mode. */
async function takeFour(client, { locking, deleting, dead, deletingDead }) {
  const gone = await client.receive(deleting);
  assert.ok(gone.delivery.remote_settled);
  isWhole(gone.message);
  const locked = await client.receive(locking);
  isWhole(locked.message);
  locked.delivery.accept();
  const texts = { DeadLetterReason: REASON, DeadLetterErrorDescription: DESCRIPTION };
  for (let letters = 0; letters < 2; letters++) {
    const { message, delivery } = await client.receive(locking);
    isWhole(message);
    delivery.reject({ condition: "com.microsoft:dead-letter", info: texts });
  }
  isWhole((await client.receive(deletingDead)).message, texts);
  const letter = await client.receive(dead);
  isWhole(letter.message, texts);
  letter.delivery.accept();
}

function declare(suite) {
  suite.case("largest-message", { max_message_bytes: LIMIT }, async (context) => {
    const { broker, queue } = context;
    const client = await Client.connect(context);
    const letters = `${queue}/$DeadLetterQueue`;
    const receivers = {
      locking: await client.receiver(queue),
      deleting: await client.receiver({ source: queue, snd_settle_mode: SETTLED }),
      dead: await client.receiver(letters),
      deletingDead: await client.receiver({ source: letters, snd_settle_mode: SETTLED }),
    };
    const sender = await client.sender(queue);
    assert.equal(announced(sender), LIMIT);
    await tooLarge(client, sender, LIMIT + 1);
    for (const isLowered of [false, true]) {
      for (let sent = 0; sent < 4; sent++) accepted(await client.send(sender, ofSize(LIMIT)));
      if (isLowered) {
        await broker.limitMessages(queue, LOWERED);
        const later = await client.sender(queue);
        assert.equal(announced(later), LOWERED);
        await tooLarge(client, later, LOWERED + 1);
      }
      await takeFour(client, receivers);
    }
    assert.ok(await client.isEmpty(receivers.locking));
    assert.ok(await client.isEmpty(receivers.dead));
    await client.close();
  });
}

module.exports = { declare };
