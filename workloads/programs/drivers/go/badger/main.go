// SPDX-License-Identifier: Apache-2.0

// Command badger drives github.com/dgraph-io/badger.
package main

import (
	"errors"
	"strconv"

	"github.com/dgraph-io/badger/v4"

	"powercut/programs/bank"
)

// damage finds the words by which Badger says that its files make no sense.
const damage = "(?i)checksum|corrupt|truncate|bad magic|unexpected EOF|file does not exist|manifest|" +
	"no such file|invalid|cannot (read|find|open)"

type store struct{ db *badger.DB }

type tx struct{ *badger.Txn }

func (t tx) Get(key []byte) ([]byte, error) {
	item, err := t.Txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (t tx) Put(key, value []byte) error { return t.Set(key, value) }

func open(folder string, settings map[string]string) (bank.Store, error) {
	memtable, err := strconv.ParseInt(settings["memtable"], 10, 64)
	if err != nil {
		return nil, err
	}
	sync := bank.Setting("sync", settings["sync"], "on", "off")
	options := badger.DefaultOptions(folder).WithSyncWrites(sync).WithMemTableSize(memtable)
	// The rest only keeps files and memory small.
	options = options.WithLogger(nil).WithMetricsEnabled(false).WithValueLogFileSize(1 << 22)
	options = options.WithBlockCacheSize(1 << 20).WithNumCompactors(2).WithValueThreshold(4096)
	db, err := badger.Open(options)
	if err != nil {
		return nil, bank.Named(err, damage)
	}
	return store{db}, nil
}

func (s store) Update(change func(bank.Tx) error) error {
	for {
		err := s.db.Update(func(t *badger.Txn) error { return change(tx{t}) })
		if !errors.Is(err, badger.ErrConflict) {
			return bank.Named(err, damage)
		}
	}
}

func (s store) Each(visit func(key, value []byte) error) error {
	return bank.Named(s.db.View(func(t *badger.Txn) error {
		found := t.NewIterator(badger.DefaultIteratorOptions)
		defer found.Close()
		for found.Rewind(); found.Valid(); found.Next() {
			item := found.Item()
			if err := item.Value(func(value []byte) error { return visit(item.Key(), value) }); err != nil {
				return err
			}
		}
		return nil
	}), damage)
}

func (s store) Close() error { return s.db.Close() }

func main() { bank.Main(map[string]string{"sync": "on", "memtable": "65536"}, open) }
