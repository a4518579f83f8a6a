// SPDX-License-Identifier: Apache-2.0

// A store of Go behind piped.py: requests are lines of standard input, answers lines of standard
// output, as rust/src/lib.rs has them.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type store interface {
	put(number uint64, value string) error
	read() (map[uint64]string, error)
	tend() error
}

var stores = map[string]func(folder string) (store, error){
	"bbolt": openBolt, "buntdb": openBunt, "goleveldb": openLevel, "goleveldb-mended": openLevel,
	"natefinch": openWhole, "natefinch-before": openWhole, "raft-wal": openRaft,
	"tidwall-wal": openLog,
}

func main() {
	if err := serve(); err != nil {
		fmt.Println("bad", strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

func serve() error {
	kept, err := stores[filepath.Base(os.Args[0])](os.Args[1])
	if err != nil {
		return err
	}
	fmt.Println("ok")
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		switch words[0] {
		case "put":
			number, _ := strconv.ParseUint(words[1], 10, 64)
			err = kept.put(number, words[2])
		case "tend":
			err = kept.tend()
		case "read":
			var found map[uint64]string
			if found, err = kept.read(); err == nil {
				for number, value := range found {
					fmt.Println(number, value)
				}
				fmt.Println("end")
				continue
			}
		}
		if err != nil {
			return err
		}
		fmt.Println("ok")
	}
}
