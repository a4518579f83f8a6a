// SPDX-License-Identifier: Apache-2.0

// Package powercut makes a test of `go test` a program whose power is cut: copy this file into your
// module. The lines that it speaks are those of docs/adding-a-program.md.
package powercut

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Program has the three verbs. Each runs in a process of its own.
type Program struct {
	// Setup prepares the store in folder, which is there and empty. It may be nil.
	Setup func(folder string) error
	// Run works until it is killed. Returning early is allowed; an error ends in INCONCLUSIVE.
	Run func(folder string, session Session) error
	// Check recovers the store and says what is there. An error: it has not looked at everything.
	Check func(folder string, session Session) error
}

// Session says what the program does; each call is one write.
type Session struct{ lines *os.File }

func (s Session) say(format string, words ...any) {
	if _, err := s.lines.WriteString(fmt.Sprintf(format, words...) + "\n"); err != nil {
		fmt.Fprintln(os.Stderr, "powercut does not listen:", err)
		os.Exit(1)
	}
}

// Atomic comes before all others: an operation that was tried is there whole, or not at all.
func (s Session) Atomic() { s.say("atomic") }

// Promise comes before all others: it keeps a "prefix" of what it acknowledges, or only "opens".
func (s Session) Promise(less string) { s.say("promise %s", less) }

// Ready says that work begins.
func (s Session) Ready() { s.say("ready") }

// Trying says that operation may leave a trace from now on.
func (s Session) Trying(operation uint64) { s.say("? %d", operation) }

// Durable says that operation was promised to survive a power cut.
func (s Session) Durable(operation uint64) { s.say("+ %d", operation) }

// Failed says that operation has failed, and may or may not be there.
func (s Session) Failed(operation uint64) { s.say("- %d", operation) }

// Present is for Check: operation is there, and right.
func (s Session) Present(operation uint64) { s.say("= %d", operation) }

// Wrong is for Check: operation is there, and wrong.
func (s Session) Wrong(operation uint64, reason string) {
	s.say("x %d %s", operation, strings.ReplaceAll(reason, "\n", " "))
}

// Bad is for Check: the store contradicts itself.
func (s Session) Bad(reason string) { s.say("bad %s", strings.ReplaceAll(reason, "\n", " ")) }

// Try puts `powercut try` to program, and fails with the cause unless it is SAFE. Options are those
// of `powercut try`. The environment's POWERCUT says where powercut is, else PATH does.
//
// powercut starts this very test again for each verb, so what comes before Try in a test runs there,
// too.
func Try(t *testing.T, program Program, options ...string) {
	t.Helper()
	if lines, isProgram := os.LookupEnv("POWERCUT_FD"); isProgram {
		defer func() { // a verb that skips the test has not done its work
			if failed := recover(); failed != nil {
				panic(failed)
			}
			os.Exit(1)
		}()
		os.Exit(program.verb(lines, os.Args[len(os.Args)-2:]))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	powercut := os.Getenv("POWERCUT")
	if powercut == "" {
		powercut = "powercut"
	}
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	argv := append(append([]string{"try"}, options...), "--", self, "-test.run="+name)
	told, err := exec.Command(powercut, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", powercut, err, told)
	}
	t.Logf("%s", told)
}

// verb does what powercut asks for; the exit status.
func (p Program) verb(descriptor string, words []string) int {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		fmt.Fprintln(os.Stderr, "POWERCUT_FD:", err)
		return 1
	}
	session := Session{os.NewFile(uintptr(number), "powercut")}
	switch verb, folder := words[0], words[1]; {
	case verb == "setup" && p.Setup == nil:
	case verb == "setup":
		err = p.Setup(folder)
	case verb == "run":
		err = p.Run(folder, session)
	case verb == "check":
		err = p.Check(folder, session)
	default:
		err = fmt.Errorf("%s: no verb of powercut", verb)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
