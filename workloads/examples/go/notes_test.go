// SPDX-License-Identifier: Apache-2.0

// A program in a test file: `go test` cuts its power.
package notes

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"example.org/notes/powercut"
)

type note struct {
	ID uint64 `json:"id"`
}

// setup makes the file durable; the folder's entry is, once the folder was synced.
func setup(folder string) error {
	for _, name := range []string{filepath.Join(folder, "notes.jsonl"), folder} {
		flags := os.O_RDONLY
		if name != folder {
			flags = os.O_CREATE | os.O_WRONLY
		}
		file, err := os.OpenFile(name, flags, 0o644)
		if err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// writer appends notes; what sync does is the difference between the two tests.
func writer(sync func(*os.File) error) func(string, powercut.Session) error {
	return func(folder string, session powercut.Session) error {
		file, err := os.OpenFile(filepath.Join(folder, "notes.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		session.Ready()
		for id := uint64(1); id < 100_000; id++ {
			session.Trying(id)
			if err := json.NewEncoder(file).Encode(note{id}); err != nil {
				return err
			}
			if err := sync(file); err != nil {
				return err
			}
			session.Durable(id)
		}
		return nil
	}
}

func check(folder string, session powercut.Session) error {
	text, err := os.ReadFile(filepath.Join(folder, "notes.jsonl"))
	if err != nil {
		return err
	}
	lines := bytes.Split(text, []byte("\n"))
	for _, line := range lines {
		var read note
		if json.Unmarshal(line, &read) == nil { // else a torn line: a note that is not there
			session.Present(read.ID)
		}
	}
	return nil
}

func TestNotesSurviveAPowerCut(t *testing.T) {
	program := powercut.Program{Setup: setup, Run: writer((*os.File).Sync), Check: check}
	powercut.Try(t, program, "--acks=40", "--budget=32")
}
