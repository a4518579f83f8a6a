#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""persy: recovery takes the log's record "committed" to mean that the pages are there; none is synced.

prepare() syncs the log; commit() then writes the page that leads to the new record and after it
"committed" into the log, with no sync between them.  A power cut may leave either.  The program has
the file as prepare() and as commit() left it; between them lies what no sync covers.  In the
twin the pages are there before the log says so, as a sync between the two would have it."""

import itertools
import shutil
import subprocess
import sys
import tempfile

from crate_store import built

BLOCK, VALUES = 256, 10  # the unit in which persy's pages differ
SOURCE = """
use store::{Config, Persy};
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let database = Persy::open_or_create_with(&words[1], Config::new(), |made| {
        let mut transaction = made.begin()?;
        transaction.create_segment("kept")?;
        transaction.prepare()?.commit()?;
        Ok(())
    }).expect("the database does not open");
    if words[2] == "read" {
        return println!("{}", database.scan("kept").unwrap().count());
    }
    for number in 1..=10 {
        let mut transaction = database.begin().unwrap();
        transaction.insert("kept", b"a value").unwrap();
        let prepared = transaction.prepare().unwrap();
        if number == 10 {
            std::fs::copy(&words[1], &words[2]).unwrap(); // what is durable
        }
        prepared.commit().unwrap();
    }
    std::process::abort(); // the file is as it is, not closed
}
"""


def left(contents):
    with open(f"{top}/cut", "wb") as file:
        file.write(contents)
    done = subprocess.run([program, f"{top}/cut", "read"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def contents(path):
    with open(path, "rb") as file:
        return file.read()


program, top = built("persy", "1.8.1", SOURCE), tempfile.mkdtemp()
print("persy 1.8.1")
subprocess.run([program, f"{top}/store", f"{top}/durable"], check=False, stderr=subprocess.DEVNULL)
durable, after = contents(f"{top}/durable"), contents(f"{top}/store")
assert len(durable) == len(after)
assert left(durable) == left(after) == VALUES
changed = [at for at in range(0, len(after), BLOCK) if durable[at:][:BLOCK] != after[at:][:BLOCK]]
worst = VALUES
for count in range(1, len(changed)):
    for kept in itertools.combinations(changed, count):
        state = bytearray(durable)
        for at in kept:
            state[at : at + BLOCK] = after[at : at + BLOCK]
        found = left(bytes(state))
        print(f"written since prepare(), at {', '.join(map(str, kept))} alone: {found} of {VALUES}")
        worst = min(worst, found)
shutil.rmtree(top)
sys.exit(1 if worst < VALUES else 0)
