"use strict";
// `@azure/service-bus` for JavaScript against the broker.

const steps = require("./steps.js");

const { suite } = steps;

// Each of these declares the cases of one subject.
for (const subject of ["sending", "receiving", "deferring", "sessions", "places", "login", "teams", "faults", "clock", "largest"]) {
  require(`./${subject}.js`);
}
for (const subject of ["topics", "time", "entities"]) {
  require(`./${subject}.js`).declare(suite, steps);
}

suite.skip("send-pre-settled", "the SDK has no API for pre-settled sends");
suite.skip("peek-lock-release", "the SDK never sends the `released` outcome");
suite.skip("anonymous-relay", "a sender is always bound to a queue or topic");
suite.skip("transaction-commit", "the SDK has no API for transactions");
suite.skip("session-listing", "the SDK has no public API for it");

suite.run();
