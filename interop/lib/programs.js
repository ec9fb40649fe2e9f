"use strict";
// Programs that a case starts and waits for. Others of the same process go on meanwhile: to wait in place would stop their clocks,
// and requests of theirs would time out that the broker has answered.

const childProcess = require("node:child_process");

/** Runs a program to its end, and says its exit code (`null`: it was ended) and its output. */
function run(program, words, options = {}) {
  return new Promise((resolve, reject) => {
    const ended = (error, stdout, stderr) => {
      // The code of a program that could not be started is a text.
      if (typeof error?.code === "string") reject(error);
      else resolve({ status: error ? (error.code ?? null) : 0, stdout, stderr });
    };
    const child = childProcess.execFile(program, words, { encoding: "utf8", timeout: 60_000, ...options }, ended);
    child.stdin.end();
  });
}

/** The same, of a program that has to succeed. Gives its output. */
async function output(program, words) {
  const { status, stdout, stderr } = await run(program, words);
  if (status !== 0) throw new Error(`${program} ${words[0]} ended with ${status}: ${stderr}`);
  return stdout;
}

module.exports = { output, run };
