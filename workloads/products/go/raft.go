// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// raft-wal: StoreLog, with segments of 4 KiB.
type entries struct{ *wal.WAL }

func openRaft(folder string) (store, error) {
	path := filepath.Join(folder, "store")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	log, err := wal.Open(path, wal.WithSegmentSize(4096))
	return entries{log}, err
}

func (e entries) put(number uint64, value string) error {
	return e.StoreLog(&raft.Log{Index: number + 1, Data: []byte(value)})
}

func (e entries) tend() error { return nil }

func (e entries) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	first, err := e.FirstIndex()
	if err != nil || first == 0 {
		return found, err
	}
	last, err := e.LastIndex()
	for index := first; err == nil && index <= last; index++ {
		var entry raft.Log
		err = e.GetLog(index, &entry)
		found[index-1] = string(entry.Data)
	}
	return found, err
}
