// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	"github.com/tidwall/wal"
)

// tidwall/wal: Write, by default settings, with segments of 2 KiB.
type segments struct{ *wal.Log }

func openLog(folder string) (store, error) {
	options := *wal.DefaultOptions
	options.SegmentSize = 2048
	log, err := wal.Open(filepath.Join(folder, "store"), &options)
	return segments{log}, err
}

func (s segments) put(number uint64, value string) error {
	return s.Write(number+1, []byte(value)) // its first index is 1
}

func (s segments) tend() error { return nil }

func (s segments) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	last, err := s.LastIndex()
	for index := uint64(1); err == nil && index <= last; index++ {
		var value []byte
		value, err = s.Read(index)
		found[index-1] = string(value)
	}
	return found, err
}
