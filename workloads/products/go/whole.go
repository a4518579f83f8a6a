// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/natefinch/atomic"
)

// wholeFile is one file with all values, which the package replaces; the folder is synced here.
type wholeFile struct{ path string }

func openWhole(folder string) (store, error) {
	return wholeFile{filepath.Join(folder, "store")}, nil
}

func (one wholeFile) put(number uint64, value string) error {
	before, err := os.ReadFile(one.path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all := fmt.Sprintf("%s%d %s\n", before, number, value)
	if err := atomic.WriteFile(one.path, strings.NewReader(all)); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(one.path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func (one wholeFile) read() (map[uint64]string, error) {
	found := map[uint64]string{}
	all, err := os.ReadFile(one.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := strings.Split(string(all), "\n")
	for _, line := range lines[:len(lines)-1] { // a line that does not end is none
		number, value, _ := strings.Cut(line, " ")
		count, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, err
		}
		found[count] = value
	}
	return found, nil
}

func (one wholeFile) tend() error { return nil }
