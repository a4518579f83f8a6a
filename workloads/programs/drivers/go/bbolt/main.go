// SPDX-License-Identifier: Apache-2.0

// Command bbolt drives go.etcd.io/bbolt.
package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"powercut/programs/bank"
)

var bucket = []byte("bank")

type store struct{ db *bbolt.DB }

type tx struct{ *bbolt.Bucket }

func (t tx) Get(key []byte) ([]byte, error) { return t.Bucket.Get(key), nil }

func open(folder string, settings map[string]string) (bank.Store, error) {
	options := *bbolt.DefaultOptions
	options.NoSync = bank.Setting("sync", settings["sync"], "off", "on")
	options.NoFreelistSync = bank.Setting("freelist", settings["freelist"], "off", "on")
	options.NoGrowSync = bank.Setting("grow_sync", settings["grow_sync"], "off", "on")
	if bank.Setting("freelist_type", settings["freelist_type"], "hashmap", "array") {
		options.FreelistType = bbolt.FreelistMapType
	}
	db, err := bbolt.Open(filepath.Join(folder, "bank.bolt"), 0o600, &options)
	if err != nil {
		return nil, named(err)
	}
	return store{db}, nil
}

// named finds out whether an error is bbolt's word for a file that makes no sense.
func named(err error) error {
	for _, damage := range []error{
		bolterrors.ErrInvalid, bolterrors.ErrVersionMismatch, bolterrors.ErrChecksum,
		bolterrors.ErrBucketNotFound,
	} {
		if errors.Is(err, damage) {
			return fmt.Errorf("%w: bbolt says: %w", bank.ErrDamaged, err)
		}
	}
	return err
}

func (s store) Update(change func(bank.Tx) error) error {
	return named(s.db.Update(func(t *bbolt.Tx) error {
		found, err := t.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return change(tx{found})
	}))
}

// Each also has bbolt look for pages that are reachable twice, or not at all and not free.
func (s store) Each(visit func(key, value []byte) error) error {
	return named(s.db.View(func(t *bbolt.Tx) error {
		for err := range t.Check() {
			return fmt.Errorf("%w: bbolt's check says: %w", bank.ErrDamaged, err)
		}
		found := t.Bucket(bucket)
		if found == nil {
			return bolterrors.ErrBucketNotFound
		}
		return found.ForEach(visit)
	}))
}

func (s store) Close() error { return s.db.Close() }

func main() {
	known := map[string]string{"sync": "on", "freelist": "on", "grow_sync": "on", "freelist_type": "array"}
	bank.Main(known, open)
}
