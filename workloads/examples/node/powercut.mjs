// SPDX-License-Identifier: Apache-2.0

// Makes a test of `node --test` a program whose power is cut: copy this file beside your tests. The
// lines that it speaks are those of docs/adding-a-program.md.

import { spawn } from "node:child_process";
import { writeSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

// Says what the program does; each call is one write. Operations are numbers that you choose.
class Session {
  #descriptor;

  constructor(descriptor) {
    this.#descriptor = descriptor;
  }

  #say(line) {
    const bytes = Buffer.from(`${line.replaceAll("\n", " ")}\n`);
    if (writeSync(this.#descriptor, bytes) !== bytes.length) throw new Error("powercut does not listen");
  }

  // Before all others: an operation that was tried is there whole, or not at all.
  atomic() { this.#say("atomic"); }
  // Before all others: it keeps a "prefix" of what it acknowledges, or only "opens".
  promise(less) { this.#say(`promise ${less}`); }
  // Work begins.
  ready() { this.#say("ready"); }
  // The operation may leave a trace from now on.
  trying(operation) { this.#say(`? ${operation}`); }
  // The operation was promised to survive a power cut.
  durable(operation) { this.#say(`+ ${operation}`); }
  // The operation has failed, and may or may not be there.
  failed(operation) { this.#say(`- ${operation}`); }
  // check: the operation is there, and right.
  present(operation) { this.#say(`= ${operation}`); }
  // check: the operation is there, and wrong.
  wrong(operation, reason) { this.#say(`x ${operation} ${reason}`); }
  // check: the store contradicts itself.
  bad(reason) { this.#say(`bad ${reason}`); }
}

// The test that this process is to run the program of: powercut starts the test file for each verb.
const WANTED = process.env.POWERCUT_FD === undefined ? undefined : process.argv.at(-3);

// Declares a test that puts `powercut try` to a program, and fails with the cause unless it is SAFE.
// `url` is the test file's import.meta.url; `program` has the methods setup(folder),
// run(folder, session) and check(folder, session), which may be asynchronous; `options` are those of
// `powercut try`. The environment's POWERCUT says where powercut is, else PATH does.
export function powerCut(name, url, program, ...options) {
  if (WANTED === undefined) {
    test(name, () => tried(name, url, options));
  } else if (WANTED === name) {
    process.exitCode = 1; // of a verb whose promise is never settled
    const session = new Session(Number(process.env.POWERCUT_FD));
    const [verb, folder] = process.argv.slice(-2);
    Promise.resolve()
      .then(() => program[verb](folder, session))
      .then(() => process.exit(0), (error) => {
        console.error(error);
        process.exit(1);
      });
  }
}

async function tried(name, url, options) {
  const powercut = process.env.POWERCUT ?? "powercut";
  const command = [process.execPath, fileURLToPath(url), name];
  const child = spawn(powercut, ["try", ...options, "--", ...command], { stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => { told += part; });
  const status = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? signal));
  });
  if (status !== 0) throw new Error(`${powercut}: ${status}\n${told}`);
}
