"use strict";
// Messages that are delivered later, by the annotations of plain AMQP.

const assert = require("node:assert/strict");
const rhea = require("rhea");
const { Broker } = require("../lib/broker.js");
const { Client } = require("./client.js");

const TEN_MINUTES = 600_000;

function declare(suite) {
  suite.case("delivery-delay", async ({ tls, queue }) => {
    const broker = await Broker.start({ [queue]: {} }, { anonymous: true });
    try {
      const client = await Client.connect({ broker, tls });
      const wanted = { target: queue, desired_capabilities: "DELAYED_DELIVERY" };
      const sender = await client.sender(wanted);
      assert.ok([client.connection.remote.open.offered_capabilities].flat().includes("DELAYED_DELIVERY"));
      assert.deepEqual([sender.remote.attach.offered_capabilities].flat(), ["DELAYED_DELIVERY"]);
      const at = Date.now() + TEN_MINUTES;
      const said = [
        ["by delay", "x-opt-delivery-delay", TEN_MINUTES], // a number without a type, as nest-amqp writes it
        ["by time", "x-opt-delivery-time", rhea.types.wrap_long(at)],
        ["by timestamp", "x-opt-delivery-time", rhea.types.wrap_timestamp(at)],
      ];
      for (const [body, name, value] of said) {
        const state = await client.send(sender, { body, message_annotations: { [name]: value } });
        assert.equal(state?.constructor.composite_type, "accepted", body);
      }
      for (const [name, value] of [
        ["x-opt-delivery-delay", -1],
        ["x-opt-delivery-time", "tomorrow"],
      ]) {
        const state = await client.send(sender, { body: "never", message_annotations: { [name]: value } });
        assert.equal(state?.constructor.composite_type, "rejected", name);
        assert.match(state.error.description, new RegExp(name));
      }
      await client.send(sender, { body: "now" });
      const receiver = await client.receiver(queue);
      assert.equal(await client.take(receiver), "now");
      assert.ok(await client.isEmpty(receiver));
      await broker.advanceClock(TEN_MINUTES + 60_000);
      const came = [];
      for (const _ of said) came.push(await client.take(receiver));
      assert.deepEqual(came.sort(), said.map(([body]) => body).sort());
      assert.ok(await client.isEmpty(receiver));
      await client.close();
    } finally {
      broker.remove();
    }
  });
}

module.exports = { declare };
