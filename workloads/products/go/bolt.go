// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// bbolt: Update, by default settings.
type bolt struct{ *bbolt.DB }

func openBolt(folder string) (store, error) {
	database, err := bbolt.Open(filepath.Join(folder, "store.bolt"), 0o600, nil)
	return bolt{database}, err
}

func (b bolt) put(number uint64, value string) error {
	return b.Update(func(transaction *bbolt.Tx) error {
		bucket, err := transaction.CreateBucketIfNotExists([]byte("kept"))
		if err != nil {
			return err
		}
		return bucket.Put(binary.BigEndian.AppendUint64(nil, number), []byte(value))
	})
}

func (b bolt) tend() error { return nil }

func (b bolt) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	return found, b.View(func(transaction *bbolt.Tx) error {
		bucket := transaction.Bucket([]byte("kept"))
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(key, value []byte) error {
			found[binary.BigEndian.Uint64(key)] = string(value)
			return nil
		})
	})
}
