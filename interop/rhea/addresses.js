"use strict";
// Addresses that are any text.

const assert = require("node:assert/strict");
const { declareTexts } = require("../lib/texts.js");
const { Client } = require("./client.js");

function declare(suite) {
  declareTexts(suite, async (context, addresses) => {
    const client = await Client.connect(context);
    for (const address of addresses) await client.sendAll(address, [address]);
    const relay = await client.sender({ target: {} });
    for (const address of addresses) await client.send(relay, { to: address, body: "by to" });
    for (const address of addresses) {
      const receiver = await client.receiver(address);
      for (const expected of [address, "by to"]) assert.equal(await client.take(receiver), expected);
      receiver.close();
    }
    await client.close();
  });
}

module.exports = { declare };
