#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jammdb: a commit writes its data pages and its meta page, and one sync covers both.

A power cut before that is done may leave the meta page without the data pages.  Of 32 commits that
are cut off so the program says what they leave of what was acknowledged before.  In the twin the
data pages are there with the meta page, as a sync before the meta page would have it."""

import shutil
import subprocess
import sys
import tempfile

from crate_store import built

META = 2 * 4096  # the first two pages, of which each commit writes one
SOURCE = """
use store::*;
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let database = DB::open(&words[1]).expect("the database does not open");
    if words[2] == "read" {
        let transaction = database.tx(false).unwrap();
        let found = transaction.get_bucket("kept").unwrap().cursor().count();
        return println!("{found}");
    }
    let transaction = database.tx(true).unwrap();
    let bucket = transaction.get_or_create_bucket("kept").unwrap();
    bucket.put(words[2].parse::<u64>().unwrap().to_be_bytes(), &[1u8; 200][..]).unwrap();
    transaction.commit().unwrap();
}
"""


def found_after_a_cut(state):
    with open(f"{top}/cut", "wb") as file:
        file.write(state)
    done = subprocess.run([program, f"{top}/cut", "read"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


program, top = built("jammdb", "0.11.0", SOURCE), tempfile.mkdtemp()
print("jammdb 0.11.0")
worst, twin, contents = 32, True, b""
for number in range(1, 33):
    before = contents
    subprocess.run([program, f"{top}/store", str(number)], check=True)
    with open(f"{top}/store", "rb") as store:
        contents = store.read()
    if number > 1:  # number - 1 are acknowledged, and this commit was cut off
        data = before.ljust(len(contents), b"\0")[META:]
        left = found_after_a_cut(contents[:META] + data)
        worst = min(worst, left - (number - 1))
        twin &= found_after_a_cut(contents) == number
        twin &= found_after_a_cut(before) == number - 1
print("data pages synced before the meta page:", "nothing is lost" if twin else "LOST")
print(f"one sync for both: up to {-worst} of the acknowledged values are LOST")
shutil.rmtree(top)
assert twin
sys.exit(1 if worst < 0 else 0)
