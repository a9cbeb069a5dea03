package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// ask is what a server of measurements is asked, told what it answers.
type ask struct {
	Row, Module, Tool string
	Input             json.RawMessage
	N                 int
}

type told struct {
	Ns    float64
	Error string
}

// server is a process that measures.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(path string, env []string, args ...string) (*server, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return startCommand(cmd)
}

func startCommand(cmd *exec.Cmd) (*server, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &server{cmd, in, bufio.NewReaderSize(out, 1<<16)}, cmd.Start()
}

func (s *server) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait() // nothing is asked of it any more
}

// line writes a line and reads one back.
func (s *server) line(b []byte) ([]byte, error) {
	if _, err := s.in.Write(append(b, '\n')); err != nil {
		return nil, err
	}
	return s.out.ReadBytes('\n')
}

func (s *server) ask(a ask) (float64, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return 0, err
	}
	line, err := s.line(b)
	if err != nil {
		return 0, err
	}
	var t told
	if err := json.Unmarshal(line, &t); err != nil {
		return 0, err
	}
	if t.Error != "" {
		return 0, errors.New(a.Row + ": " + t.Error)
	}
	return t.Ns, nil
}

// side is one way of doing a thing: it does it n times and returns the
// nanoseconds.
type side func(n int) (float64, error)

func (s *server) side(a ask) side {
	return func(n int) (float64, error) {
		a.N = n
		return s.ask(a)
	}
}

// timed is a side that is measured here.
func timed(f func() error) side {
	return func(n int) (float64, error) {
		from := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(from)), nil
	}
}

// stretch is about how long one side of one pair is measured.
const stretch = 40 * time.Millisecond

// calibrate finds how often a side goes into a stretch.
func calibrate(s side) (int, error) {
	// What was idle for a while is made ready again, which is not what is measured.
	if _, err := s(3); err != nil {
		return 0, err
	}
	for n := 1; ; n *= 4 {
		ns, err := s(n)
		if err != nil {
			return 0, err
		}
		if ns > float64(stretch)/8 || n > 1<<20 {
			return max(1, int(float64(n)*float64(stretch)/ns)), nil
		}
	}
}

// compare measures sides in turn, pair by pair, and returns nanoseconds a call.
func (b *bench) compare(sides ...side) ([]sample, error) {
	counts := make([]int, len(sides))
	for k, s := range sides {
		n, err := calibrate(s)
		if err != nil {
			return nil, err
		}
		counts[k] = n
	}
	out := make([]sample, len(sides))
	for p := range b.pairs {
		for j := range sides {
			k := j
			if p%2 == 1 {
				k = len(sides) - 1 - j // nobody is always first
			}
			ns, err := sides[k](counts[k])
			if err != nil {
				return nil, err
			}
			out[k] = append(out[k], ns/float64(counts[k]))
		}
	}
	return out, nil
}

// add puts one row into the table: ours beside the other.
func (b *bench) add(name string, ours, other sample, g goal, f func(ours, other float64) float64) {
	i := pairwise(ours, other, f)
	r := row{name, duration(median(ours)), duration(median(other)), g.text(i), g.String(), g.verdict(i)}
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%-70s %s %s\n", name, r.ratio, r.verdict)
}

func (b *bench) addOne(name string, s []float64, g goal) {
	i := intervalOf(s)
	r := row{name, g.number(i.mid), "", g.text(i), g.String(), g.verdict(i)}
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%-70s %s %s\n", name, r.ratio, r.verdict)
}

// How a row compares.
func over(ours, other float64) float64  { return ours / other } // ours costs so many times the other
func under(ours, other float64) float64 { return other / ours } // ours is so many times faster
func plus(ours, other float64) float64  { return ours - other }
