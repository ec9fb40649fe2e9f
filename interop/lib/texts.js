"use strict";
// Addresses that are any text: declares the cases that send to such addresses and receive from them. The twin of `texts.py`.
//
// Invariant: each case has a broker of its own, with the queues that it says and no other.

const { Broker } = require("./broker.js");

// None of them is a name that Service Bus can spell.
const ADDRESSES = [
  "with spaces, and commas",
  "a#b",
  "orders::new",
  "größe/Ärger",
  "注文",
  "a//b",
  "app://orders/50%20off?x=1&y\\",
];

/** Declares `address-texts`, whose queues the configuration makes, and `address-texts-auto-create`, where attaching does. */
function declareTexts(suite, body) {
  for (const [name, autoCreate] of [["address-texts", false], ["address-texts-auto-create", true]]) {
    suite.case(name, async (context) => {
      const queues = autoCreate ? {} : Object.fromEntries(ADDRESSES.map((address) => [address, {}]));
      const broker = await Broker.start(queues, { anonymous: true, autoCreate });
      try {
        await body({ ...context, broker }, ADDRESSES);
      } finally {
        broker.remove();
      }
    });
  }
}

module.exports = { declareTexts };
