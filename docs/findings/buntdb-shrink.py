#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""buntdb: Shrink() renames a new file over the database, and syncs neither the file nor the folder.

A file system keeps the order of a rename and of the new file's contents only if the file was synced
before.  After the rename is on the disk the file may be empty, or of its length and all zeroes.  In
the twin the new file has the contents that a sync before the rename would have made durable."""

import os
import shutil
import subprocess
import sys
import tempfile

from go_store import built

VERSION, VALUES = "v1.3.0", 20
SOURCE = """package main

import (
	"fmt"
	"os"

	"github.com/tidwall/buntdb"
)

func must(err error) {
	if err != nil {
		fmt.Println("does not open:", err)
		os.Exit(1)
	}
}

func main() {
	database, err := buntdb.Open(os.Args[1])
	must(err)
	var config buntdb.Config
	must(database.ReadConfig(&config))
	config.SyncPolicy = buntdb.Always
	must(database.SetConfig(config))
	if os.Args[2] == "read" {
		found := 0
		must(database.View(func(tx *buntdb.Tx) error {
			return tx.Ascend("", func(key, value string) bool { found++; return true })
		}))
		fmt.Println(found)
		return
	}
	for number := 0; number < 20; number++ {
		must(database.Update(func(tx *buntdb.Tx) error {
			_, _, err := tx.Set(fmt.Sprint(number), "a value", nil)
			return err
		}))
	}
	must(database.Shrink())
}
"""


def left(state, contents):
    with open(f"{top}/cut", "wb") as file:
        file.write(contents)
    done = subprocess.run([program, f"{top}/cut", "read"], capture_output=True, text=True)
    found = int(done.stdout) if done.returncode == 0 else 0
    trouble = "" if done.returncode == 0 else f" ({done.stdout.strip()})"
    print(f"{state}: {found} of {VALUES} acknowledged values{trouble}")
    return found


program, top = built("github.com/tidwall/buntdb", VERSION, SOURCE), tempfile.mkdtemp()
print(f"buntdb {VERSION[1:]}")
subprocess.run([program, f"{top}/store", "write"], check=True)
with open(f"{top}/store", "rb") as store:
    whole = store.read()
assert left("synced before the rename", whole) == VALUES
lost = [left("empty", b""), left("its length, and zeroes", bytes(len(whole)))]
shutil.rmtree(top)
shutil.rmtree(os.path.dirname(program))
sys.exit(1 if min(lost) < VALUES else 0)
