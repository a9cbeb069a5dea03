//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Without --json nothing shows that a tool runs, so this one says it itself: it writes into a FIFO.
func TestSignalsWithoutEvents(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, "up"), 0o600); err != nil {
			t.Fatal(err)
		}
		up, err := os.OpenFile(filepath.Join(dir, "up"), os.O_RDWR, 0) // opened for both, so that nobody waits for anybody
		if err != nil {
			t.Fatal(err)
		}
		cmd := process(t, ownPlaces(t), "run", "--root", dir, "Bash", `{"command":"echo a part; echo up > up; sleep 600"}`)
		var out, msg bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &msg
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		runs, ended := make(chan error, 1), make(chan error, 1)
		go func() { _, err := up.Read(make([]byte, 1)); runs <- err }() // closing ends it
		go func() { ended <- cmd.Wait() }()                             // received below
		select {
		case err := <-runs:
			if err == nil {
				err = cmd.Process.Signal(signal)
			}
			if err != nil {
				t.Error(err)
			}
			<-ended
		case <-ended:
			t.Error("it ended before it was told to")
		}
		_ = up.Close()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: exit code %d, want %d: %s", signal, got, want, msg.String())
		}
		if out.Len() > 0 {
			t.Errorf("%v: standard output has %q", signal, out.String())
		}
	}
}
