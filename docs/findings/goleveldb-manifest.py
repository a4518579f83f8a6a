#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goleveldb: opening a database makes a new MANIFEST, and syncs all that leads to it, but not the file.

The program puts values with Sync, opens the database again, puts one more, and is cut off: of each
file only what its own Sync made durable is left.  It sees each Sync through goleveldb's interface
of storage.  The twin is the version that has the sync."""

import os
import shutil
import subprocess
import sys
import tempfile

from go_store import built

FAULTY, MENDED = "v1.0.0", "v1.0.1-0.20220721030215-126854af5e6d"
SOURCE = """package main

import (
	"fmt"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// What a sync of each file has made durable.
var durable = map[storage.FileDesc]int64{}

type disk struct{ storage.Storage }

type file struct {
	storage.Writer
	name    storage.FileDesc
	written int64
}

func (d disk) Create(name storage.FileDesc) (storage.Writer, error) {
	made, err := d.Storage.Create(name)
	durable[name] = 0
	return &file{Writer: made, name: name}, err
}

func (f *file) Write(data []byte) (int, error) {
	f.written += int64(len(data))
	return f.Writer.Write(data)
}

func (f *file) Sync() error {
	durable[f.name] = f.written
	return f.Writer.Sync()
}

func must(err error) {
	if err != nil {
		fmt.Println("does not open:", err)
		os.Exit(1)
	}
}

func open(path string) (*leveldb.DB, storage.Storage) {
	files, err := storage.OpenFile(path, false)
	must(err)
	database, err := leveldb.Open(disk{files}, nil)
	must(err)
	return database, files
}

func main() {
	put := func(database *leveldb.DB, key string) {
		must(database.Put([]byte(key), []byte("a value"), &opt.WriteOptions{Sync: true}))
	}
	database, files := open(os.Args[1])
	if os.Args[2] == "read" {
		found, walk := 0, database.NewIterator(nil, nil)
		for walk.Next() {
			found++
		}
		fmt.Println(found)
		return
	}
	for number := 0; number < 20; number++ {
		put(database, fmt.Sprint(number))
	}
	database.Close()
	files.Close()
	database, files = open(os.Args[1])
	put(database, "last")
	names, err := files.List(storage.TypeAll)
	must(err)
	for _, name := range names { // the cut
		kind := map[storage.FileType]string{storage.TypeManifest: "MANIFEST-%06d",
			storage.TypeJournal: "%06d.log", storage.TypeTable: "%06d.ldb"}[name.Type]
		must(os.Truncate(os.Args[1]+"/"+fmt.Sprintf(kind, name.Num), durable[name]))
	}
	os.Exit(0)
}
"""


def left(version):
    program, top = built("github.com/syndtr/goleveldb", version, SOURCE), tempfile.mkdtemp()
    subprocess.run([program, f"{top}/store", "write"], check=True)
    done = subprocess.run([program, f"{top}/store", "read"], capture_output=True, text=True)
    found = int(done.stdout) if done.returncode == 0 else 0
    print(f"goleveldb {version[1:]}: {found} of 21 acknowledged values")
    if done.returncode:
        print("  ", done.stdout.strip())
    shutil.rmtree(top)
    shutil.rmtree(os.path.dirname(program))
    return found


assert left(MENDED) == 21
sys.exit(1 if left(FAULTY) < 21 else 0)
