package shell

import (
	"os/exec"
	"testing"
)

// The tool against plain os/exec, on the same machine in the same run. A call may
// cost 2 ms more (the goal of the issue).

func BenchmarkExecTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/usr/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecBashTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBashTrue narrows: no shell is started.
func BenchmarkBashTrue(b *testing.B) { benchmarkLine(b, "true") }

// BenchmarkBashList does not narrow.
func BenchmarkBashList(b *testing.B) { benchmarkLine(b, "true;") }

func benchmarkLine(b *testing.B, line string) {
	t := newBench(b, Options{})
	in := input(line)
	for b.Loop() {
		if r := t.run(b.Context(), in); r.IsError() {
			b.Fatal(r.Error)
		}
	}
}

// BenchmarkReadOnly judges a line.
func BenchmarkReadOnly(b *testing.B) {
	for b.Loop() {
		if _, ok := readOnly("grep -rn --include='*.go' \"func main\" src"); !ok {
			b.Fatal("it does not narrow")
		}
	}
}
