// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// goleveldb: Put with Sync, and CompactRange.
type level struct{ *leveldb.DB }

func openLevel(folder string) (store, error) {
	database, err := leveldb.OpenFile(filepath.Join(folder, "store"), nil)
	return level{database}, err
}

func (l level) put(number uint64, value string) error {
	key := binary.BigEndian.AppendUint64(nil, number)
	return l.Put(key, []byte(value), &opt.WriteOptions{Sync: true})
}

func (l level) tend() error { return l.CompactRange(util.Range{}) }

func (l level) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	walk := l.NewIterator(nil, nil)
	defer walk.Release()
	for walk.Next() {
		found[binary.BigEndian.Uint64(walk.Key())] = string(walk.Value())
	}
	return found, walk.Error()
}
