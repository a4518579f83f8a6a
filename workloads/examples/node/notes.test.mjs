// SPDX-License-Identifier: Apache-2.0

// A program in a test file: `node --test` cuts its power.

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { powerCut } from "./powercut.mjs";

const notes = {
  setup(folder) {
    for (const [path, flags] of [[join(folder, "notes.jsonl"), "w"], [folder, "r"]]) {
      const file = openSync(path, flags);
      fsyncSync(file);
      closeSync(file);
    }
  },

  run(folder, session) {
    const file = openSync(join(folder, "notes.jsonl"), "a");
    session.ready();
    for (let id = 1; id < 100_000; id++) {
      session.trying(id);
      writeSync(file, `${JSON.stringify({ id })}\n`);
      fsyncSync(file);
      session.durable(id);
    }
  },

  check(folder, session) {
    const lines = readFileSync(join(folder, "notes.jsonl"), "utf8").split("\n");
    for (const line of lines) {
      let note;
      try {
        note = JSON.parse(line);
      } catch {
        continue; // a torn line: a note that is not there
      }
      session.present(note.id);
    }
  },
};

powerCut("notes survive a power cut", import.meta.url, notes, "--acks=40", "--budget=32");
