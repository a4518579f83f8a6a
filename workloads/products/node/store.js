#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0

// A store of Node behind piped.py: requests are lines of standard input, answers lines of standard
// output, as rust/src/lib.rs has them.  The name of the file chooses the package.
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { promisify } = require("util");

function syncPath(name) {
  const descriptor = fs.openSync(name, "r");
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

// One file with all values, which a package replaces; the folder is synced here.
class WholeFile {
  constructor(folder, write) {
    this.folder = folder;
    this.path = path.join(folder, "store");
    this.write = write;
  }
  read() {
    if (!fs.existsSync(this.path)) return [];
    const lines = fs.readFileSync(this.path, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => [Number(line.split(" ", 1)[0]), line.slice(line.indexOf(" ") + 1)]);
  }
  async put(number, value) {
    const all = [...this.read(), [number, value]];
    await this.write(this.path, all.map(([n, text]) => `${n} ${text}\n`).join(""));
    syncPath(this.folder);
  }
  tend() {}
}

// NeDB syncs no insertion: that is done here.  What is looked at is its compaction.
class Nedb {
  constructor(folder, Datastore) {
    this.path = path.join(folder, "store");
    this.db = new Datastore({ filename: this.path, autoload: true, onload: (error) => { if (error) throw error; } });
    this.call = (name, ...words) => promisify(this.db[name].bind(this.db))(...words);
  }
  async put(number, value) {
    await this.call("insert", { number, value });
    syncPath(this.path);
    syncPath(path.dirname(this.path));
  }
  async read() {
    return (await this.call("find", {})).map(({ number, value }) => [number, value]);
  }
  async tend() {
    this.db.persistence.compactDatafile();
    await this.call("find", {}); // comes after it in NeDB's queue
  }
}

const name = path.basename(process.argv[1]);
const product = require(name);
const folder = process.argv[2];

async function main() {
  const store = name.startsWith("nedb") ? new Nedb(folder, product)
    : new WholeFile(folder, name === "atomically" ? product.writeFile : promisify(product));
  console.log("ok");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, number, ...rest] = line.split(" ");
    if (verb === "put") await store.put(Number(number), rest.join(" "));
    if (verb === "tend") await store.tend();
    if (verb === "read") for (const [n, value] of await store.read()) console.log(`${n} ${value}`);
    console.log(verb === "read" ? "end" : "ok");
  }
}

main().catch((error) => console.log(`bad ${String(error).replace(/\n/g, " ")}`));
