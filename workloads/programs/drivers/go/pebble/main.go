// SPDX-License-Identifier: Apache-2.0

// Command pebble drives github.com/cockroachdb/pebble.
package main

import (
	"errors"
	"runtime"
	"strconv"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"powercut/programs/bank"
)

// damage finds the words by which Pebble says that its files make no sense.
const damage = "(?i)corrupt|checksum|unexpected EOF|no such file|file does not exist|invalid|missing"

var errBusy = errors.New("another client has the key")

type store struct {
	db    *pebble.DB
	write *pebble.WriteOptions
	keys  *sync.Map // of locks, by key
}

// tx locks what it reads, so that clients with other accounts commit at the same time.
type tx struct {
	store
	batch *pebble.Batch
	held  []*sync.Mutex
}

func (t *tx) Get(key []byte) ([]byte, error) {
	known, _ := t.keys.LoadOrStore(string(key), &sync.Mutex{})
	lock := known.(*sync.Mutex)
	if !lock.TryLock() {
		return nil, errBusy
	}
	t.held = append(t.held, lock)
	value, closer, err := t.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append([]byte(nil), value...)
	return value, closer.Close()
}

func (t *tx) Put(key, value []byte) error { return t.batch.Set(key, value, nil) }

func open(folder string, settings map[string]string) (bank.Store, error) {
	memtable, err := strconv.ParseUint(settings["memtable"], 10, 64)
	if err != nil {
		return nil, err
	}
	options := &pebble.Options{
		MemTableSize:       memtable,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             quiet{},
	}
	write := pebble.NoSync
	if bank.Setting("sync", settings["sync"], "on", "off") {
		write = pebble.Sync
	}
	db, err := pebble.Open(folder, options)
	if err != nil {
		return nil, bank.Named(err, damage)
	}
	return store{db, write, &sync.Map{}}, nil
}

func (s store) Update(change func(bank.Tx) error) error {
	for {
		err := s.try(change)
		if !errors.Is(err, errBusy) {
			return bank.Named(err, damage)
		}
		runtime.Gosched()
	}
}

func (s store) try(change func(bank.Tx) error) error {
	one := &tx{store: s, batch: s.db.NewBatch()}
	defer func() {
		for _, lock := range one.held {
			lock.Unlock()
		}
	}()
	defer one.batch.Close()
	if err := change(one); err != nil {
		return err
	}
	return one.batch.Commit(s.write)
}

func (s store) Each(visit func(key, value []byte) error) error {
	found, err := s.db.NewIter(nil)
	if err != nil {
		return bank.Named(err, damage)
	}
	defer found.Close()
	for found.First(); found.Valid(); found.Next() {
		if err := visit(found.Key(), found.Value()); err != nil {
			return err
		}
	}
	return bank.Named(found.Error(), damage)
}

func (s store) Close() error { return s.db.Close() }

// quiet drops what Pebble has to tell, but panics where it would end the process: it does so when
// its store makes no sense.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, words ...any) {
	pebble.DefaultLogger.Fatalf("panic: "+format, words...)
}

func main() {
	bank.Main(map[string]string{"sync": "on", "memtable": "65536"}, open)
}
