// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strconv"

	"github.com/tidwall/buntdb"
)

// buntdb: Update with SyncPolicy Always, and Shrink.
type bunt struct{ *buntdb.DB }

func openBunt(folder string) (store, error) {
	database, err := buntdb.Open(filepath.Join(folder, "store.buntdb"))
	if err != nil {
		return nil, err
	}
	var config buntdb.Config
	if err := database.ReadConfig(&config); err != nil {
		return nil, err
	}
	config.SyncPolicy, config.AutoShrinkDisabled = buntdb.Always, true
	return bunt{database}, database.SetConfig(config)
}

func (b bunt) put(number uint64, value string) error {
	return b.Update(func(transaction *buntdb.Tx) error {
		_, _, err := transaction.Set(strconv.FormatUint(number, 10), value, nil)
		return err
	})
}

func (b bunt) tend() error { return b.Shrink() }

func (b bunt) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	return found, b.View(func(transaction *buntdb.Tx) error {
		return transaction.Ascend("", func(key, value string) bool {
			number, _ := strconv.ParseUint(key, 10, 64)
			found[number] = value
			return true
		})
	})
}
