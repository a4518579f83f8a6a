#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""redb: the header of a commit that makes the file longer may be there without the length.

The header is one write into a page that is there, the length a change of metadata; one sync covers
both, and a power cut before that is done may leave either.  redb 2.6 does not open such a file, and
all that was committed is gone; redb 4.6, which has the fault mended, is the twin."""

import os
import shutil
import subprocess
import sys
import tempfile

from crate_store import built

HEADER = 320
SOURCE = """
#[allow(unused_imports)]
use store::*;
const KEPT: TableDefinition<u64, &[u8]> = TableDefinition::new("kept");
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let database = Database::create(&words[1]).expect("the database does not open");
    if words[2] == "read" {
        let found = database.begin_read().unwrap().open_table(KEPT).unwrap().len().unwrap();
        return println!("{found}");
    }
    let length = || std::fs::metadata(&words[1]).unwrap().len();
    for number in 1..10_000u64 {
        std::fs::copy(&words[1], &words[3]).unwrap(); // what is durable: the commits before
        let (before, transaction) = (length(), database.begin_write().unwrap());
        transaction.open_table(KEPT).unwrap().insert(number, &[1u8; 9000][..]).unwrap();
        transaction.commit().unwrap();
        if number > 10 && length() > before {
            println!("{}", number - 1);
            std::process::abort(); // the file is as it is, not closed
        }
    }
}
"""


def is_lost(version):
    program = built("redb", version, SOURCE)
    path, cut = f"{top}/{version}", f"{top}/{version}-cut"
    made = subprocess.run([program, path, "put", cut], capture_output=True, text=True)
    acknowledged = int(made.stdout)
    with open(path, "rb") as after, open(cut, "r+b") as file:
        file.write(after.read(HEADER))  # the header of the commit under way, without the length
    print(f"redb {version}: length {os.path.getsize(cut)}, {os.path.getsize(path)} by the header")
    found = subprocess.run([program, cut, "read"], capture_output=True, text=True)
    if found.returncode:
        said = [line for line in found.stderr.splitlines() if line and "note:" not in line]
        print("   does not open:", " ".join(said[:3]).partition("stack backtrace")[0][:180])
        return True
    print(f"   {int(found.stdout)} of {acknowledged} acknowledged values")
    return int(found.stdout) < acknowledged


top = tempfile.mkdtemp()
print("the twin:")
assert not is_lost("4.6.0")
print("the fault:")
lost = is_lost("2.6.4")
shutil.rmtree(top)
sys.exit(1 if lost else 0)
