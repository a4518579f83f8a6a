// SPDX-License-Identifier: Apache-2.0

// Package bank makes transfers in an ordered store of keys and values, as lines ask for them
// (workloads/programs/driver.py has the protocol, bank.py the transfers).
package bank

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	accounts = 16
	balance  = 1000
)

// ErrDamaged is in each error by which a store says that it is damaged.
var ErrDamaged = errors.New("damaged")

// Named marks an error with ErrDamaged if damage, a regular expression, finds the product's words in
// it: another error, such as that of a full disk, says nothing about the store.
func Named(err error, damage string) error {
	if err == nil || errors.Is(err, ErrDamaged) || !regexp.MustCompile(damage).MatchString(err.Error()) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Tx is a transaction; a key that is not there has no value.
type Tx interface {
	Get(key []byte) ([]byte, error)
	Put(key, value []byte) error
}

// Store is what a product has to offer.
type Store interface {
	// Update runs change in a transaction, again if another has changed what it read,
	// and returns once it is durable.
	Update(change func(Tx) error) error
	// Each visits all keys in their order.
	Each(visit func(key, value []byte) error) error
	Close() error
}

// Main opens the store that the command line names, and answers the lines of standard input.
func Main(known map[string]string, open func(folder string, settings map[string]string) (Store, error)) {
	if len(os.Args) < 2 {
		stop(fmt.Errorf("usage: %s [SETTING=VALUE...] FOLDER", os.Args[0]))
	}
	folder := os.Args[len(os.Args)-1]
	for _, word := range os.Args[1 : len(os.Args)-1] {
		name, value, found := strings.Cut(word, "=")
		if _, ours := known[name]; !found || !ours {
			stop(fmt.Errorf("%s: no setting", word))
		}
		known[name] = value
	}
	out := bufio.NewWriter(os.Stdout)
	var store Store
	answer(out, func() (err error) {
		store, err = open(folder, known)
		return err
	})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer(out, func() error { return obey(store, out, words) })
	}
	if err := guarded(store.Close); err != nil {
		stop(err)
	}
}

// Setting is the one of two words that a setting has; the program ends if it is another.
func Setting(name, value, yes, no string) bool {
	if value != yes && value != no {
		stop(fmt.Errorf("%s=%s: it is %s or %s", name, value, yes, no))
	}
	return value == yes
}

func obey(store Store, out io.Writer, words []string) error {
	numbers := make([]int, 0, 2)
	for _, word := range words[1:] {
		number, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		numbers = append(numbers, number)
	}
	switch {
	case words[0] == "create" && len(numbers) == 0:
		return create(store)
	case words[0] == "move" && len(numbers) == 1:
		return move(store, numbers[0])
	case words[0] == "read" && len(numbers) == 0:
		return read(store, out)
	case words[0] == "run" && len(numbers) == 2:
		return run(store, numbers[0], numbers[1])
	}
	return fmt.Errorf("no command: %q", words)
}

func create(store Store) error {
	return store.Update(func(tx Tx) error {
		for id := range accounts {
			if err := tx.Put(account(id), []byte(strconv.Itoa(balance))); err != nil {
				return err
			}
		}
		return nil
	})
}

func move(store Store, number int) error {
	giver := number % accounts
	taker := (giver + 1 + number/accounts%(accounts-1)) % accounts
	note := fmt.Sprintf("transfer %d %s", number, strings.Repeat(".", number%200))
	return store.Update(func(tx Tx) error {
		for _, change := range []struct{ id, amount int }{{giver, -1}, {taker, 1}} {
			value, err := tx.Get(account(change.id))
			if err != nil {
				return err
			}
			amount, err := strconv.Atoi(string(value))
			if err != nil {
				return fmt.Errorf("%w: the balance of account %d is %q", ErrDamaged, change.id, value)
			}
			if err := tx.Put(account(change.id), []byte(strconv.Itoa(amount+change.amount))); err != nil {
				return err
			}
		}
		return tx.Put(fmt.Appendf(nil, "t%08d", number), fmt.Appendf(nil, "%d %d %s", giver, taker, note))
	})
}

func read(store Store, out io.Writer) error {
	return store.Each(func(key, value []byte) error {
		number, err := strconv.Atoi(string(key[1:]))
		if err != nil || (key[0] != 'a' && key[0] != 't') {
			return fmt.Errorf("%w: a key is %q", ErrDamaged, key)
		}
		kind := map[byte]string{'a': "account", 't': "transfer"}[key[0]]
		_, err = fmt.Fprintf(out, "%s %d %s\n", kind, number, value)
		return err
	})
}

// run returns only if a client fails.
func run(store Store, first, clients int) error {
	descriptor, err := strconv.Atoi(os.Getenv("POWERCUT_FD"))
	if err != nil {
		return fmt.Errorf("POWERCUT_FD: %w", err)
	}
	session := os.NewFile(uintptr(descriptor), "POWERCUT_FD")
	next := atomic.Int64{}
	next.Store(int64(first))
	failed := make(chan error)
	serve := func() error {
		for {
			number := int(next.Add(1) - 1)
			if _, err := fmt.Fprintf(session, "? %d\n", number); err != nil {
				return err
			}
			if err := move(store, number); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(session, "+ %d\n", number); err != nil {
				return err
			}
		}
	}
	for range clients {
		go func() { failed <- guarded(serve) }()
	}
	return <-failed
}

// answer does one thing and says how it went.
func answer(out *bufio.Writer, act func() error) {
	if err := guarded(act); err != nil {
		_ = out.Flush()
		stop(err)
	}
	fmt.Fprintln(out, "ok")
	if err := out.Flush(); err != nil {
		os.Exit(1)
	}
}

// guarded makes an error of a panic, also of one over a page that a file no longer has: a store that
// finds nonsense in itself panics.
func guarded(act func() error) (err error) {
	debug.SetPanicOnFault(true)
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: panic: %v", ErrDamaged, reason)
		}
	}()
	return act()
}

func stop(err error) {
	word := "trouble"
	if errors.Is(err, ErrDamaged) {
		word = "damaged"
	}
	fmt.Println(word, strings.Join(strings.Fields(err.Error()), " "))
	os.Exit(1)
}

func account(id int) []byte { return fmt.Appendf(nil, "a%08d", id) }
