#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sled: flush(), which "calls fsync" by its manual, calls sync_file_range instead on Linux.

sync_file_range(2): "This system call does not flush disk write caches and thus does not provide any
data integrity on systems with volatile disk write caches", nor the file's length.  strace counts
both in 20 flushes.  The twin calls fsync of the store's file after each flush()."""

import shutil
import subprocess
import sys
import tempfile

from crate_store import built

SOURCE = """
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let database = store::open(&words[1]).unwrap();
    eprintln!("begin");
    for number in 0..20u64 {
        database.insert(number.to_be_bytes(), &[1u8; 200][..]).unwrap();
        database.flush().unwrap(); // acknowledged
        if words[2] == "twin" {
            std::fs::File::open(format!("{}/db", words[1])).unwrap().sync_all().unwrap();
        }
    }
    eprintln!("end");
}
"""


def syncs(name):
    with tempfile.TemporaryDirectory() as top:
        trace = ["strace", "-f", "-o", f"{top}/calls", "-e", "trace=/sync,write"]
        command = [*trace, program, f"{top}/store", name]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        with open(f"{top}/calls") as calls:
            made = calls.read().partition('"begin')[2].partition('"end')[0]
    ranges, whole = made.count(" sync_file_range("), made.count(" fsync(")
    print(f"{name}: 20 flushes acknowledged, {ranges} calls of sync_file_range, {whole} of fsync")
    return whole


if shutil.which("strace") is None:
    print("strace is not installed")
    sys.exit(77)
program = built("sled", "0.34.7", SOURCE)
print("sled 0.34.7")
assert syncs("twin") >= 20
sys.exit(0 if syncs("as-it-is") >= 20 else 1)
