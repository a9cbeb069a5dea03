package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bladehost/bladehost/host"
)

// talk plays a conversation with a session. A line of it is one of
//
//	> LINE      send LINE; ${name} stands for what was captured
//	>! LINE     the same with a line that the schema refuses
//	< JSON      skip lines until one has these members; "$name" captures a text
//	<~ JSON     find such a line anywhere among those that were not consumed
//	!< JSON     no line so far has these members
//	long N      send a line of N MiB
//	eof         close the input
//	signal NAME send INT or TERM
//	wait        until the process has ended
//	exit N      until the process has ended with this exit code
//
// and comments after #. Every line in and out is checked against
// docs/session.schema.json.
type talk struct {
	in      io.WriteCloser
	process interface{ Signal(os.Signal) error }
	ended   func() int
	schema  *sessionSchema

	mu    sync.Mutex
	lines []heard
	over  bool
	wake  chan struct{}
	vars  map[string]string
	log   func(format string, args ...any)
}

type heard struct {
	text     string
	value    any
	consumed bool
}

// patience is how long a talk waits for a line.
const patience = 60 * time.Second

// startTalk runs bladehost session as a process.
func startTalk(cmd *exec.Cmd, schema *sessionSchema, log func(string, ...any)) (*talk, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	tk := &talk{in: in, process: cmd.Process, schema: schema, wake: make(chan struct{}, 1), vars: map[string]string{}, log: log}
	read := make(chan struct{})
	go func() { // ended waits for it
		defer close(read)
		tk.listen(out)
	}()
	tk.ended = func() int {
		<-read
		_ = cmd.Wait() // the exit code tells
		return cmd.ProcessState.ExitCode()
	}
	return tk, nil
}

func (tk *talk) listen(r io.Reader) {
	b := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := b.ReadString('\n')
		tk.mu.Lock()
		if line != "" {
			h := heard{text: strings.TrimSuffix(line, "\n")}
			if json.Unmarshal([]byte(line), &h.value) != nil {
				h.value = "not JSON: " + line
			}
			tk.lines = append(tk.lines, h)
		}
		tk.over = tk.over || err != nil
		over := tk.over
		tk.mu.Unlock()
		select {
		case tk.wake <- struct{}{}:
		default:
		}
		if over {
			return
		}
	}
}

func (tk *talk) play(script string) error {
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := tk.step(line); err != nil {
			return fmt.Errorf("line %d: %s: %w\n%s", n+1, line, err, tk.transcript())
		}
	}
	return nil
}

func (tk *talk) transcript() string {
	tk.mu.Lock()
	defer tk.mu.Unlock()
	var b strings.Builder
	b.WriteString("what was heard (* consumed):\n")
	for i, l := range tk.lines {
		if i < len(tk.lines)-60 {
			continue
		}
		mark := " "
		if l.consumed {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %.600s\n", mark, l.text)
	}
	return b.String()
}

func (tk *talk) step(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	rest = os.Expand(rest, func(k string) string {
		if v, ok := tk.vars[k]; ok {
			return v
		}
		return "$" + k
	})
	switch verb {
	case ">":
		if err := tk.schema.in(rest); err != nil {
			return err
		}
		_, err := io.WriteString(tk.in, rest+"\n")
		return err
	case ">!":
		if tk.schema.in(rest) == nil {
			return errors.New("the schema allows it")
		}
		_, err := io.WriteString(tk.in, rest+"\n")
		return err
	case "long":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		_, err = io.WriteString(tk.in, strings.Repeat("x", n<<20)+"\n")
		return err
	case "<", "<~":
		return tk.expect(rest, verb == "<~")
	case "!<":
		return tk.absent(rest)
	case "eof":
		return tk.in.Close()
	case "signal":
		return tk.process.Signal(map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM}[rest])
	case "wait":
		tk.ended()
		return nil
	case "exit":
		if got := fmt.Sprint(tk.ended()); got != rest {
			return fmt.Errorf("exit code %s", got)
		}
		return tk.valid()
	}
	return errors.New("no such step")
}

// expect waits for a line that has the members of want.
func (tk *talk) expect(text string, anywhere bool) error {
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		return err
	}
	deadline := time.After(patience)
	for {
		tk.mu.Lock()
		for i := range tk.lines {
			vars := map[string]string{}
			if tk.lines[i].consumed || !has(tk.lines[i].value, want, vars) {
				continue
			}
			for k, v := range vars {
				tk.vars[k] = v
			}
			tk.lines[i].consumed = true
			if !anywhere {
				for j := range i {
					tk.lines[j].consumed = true
				}
			}
			tk.mu.Unlock()
			return nil
		}
		over := tk.over
		tk.mu.Unlock()
		if over {
			return errors.New("the output ended without it")
		}
		select {
		case <-tk.wake:
		case <-deadline:
			return fmt.Errorf("not within %v", patience)
		}
	}
}

func (tk *talk) absent(text string) error {
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		return err
	}
	tk.mu.Lock()
	defer tk.mu.Unlock()
	for _, l := range tk.lines {
		if has(l.value, want, map[string]string{}) {
			return fmt.Errorf("there is %.300s", l.text)
		}
	}
	return nil
}

// valid checks every line that was heard.
func (tk *talk) valid() error {
	tk.mu.Lock()
	defer tk.mu.Unlock()
	for _, l := range tk.lines {
		if err := tk.schema.out(l.text); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether got has what want says: objects may have more members,
// everything else is equal. A text "$name" takes any text.
func has(got, want any, vars map[string]string) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			x, ok := g[k]
			if !ok || !has(x, v, vars) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !has(g[i], w[i], vars) {
				return false
			}
		}
		return true
	case string:
		if name, ok := strings.CutPrefix(w, "$"); ok && name != "" {
			g, ok := got.(string)
			vars[name] = g
			return ok
		}
		if part, ok := strings.CutPrefix(w, "~"); ok {
			g, ok := got.(string)
			return ok && strings.Contains(g, part)
		}
	}
	return reflect.DeepEqual(got, want)
}

// sessionSchema is docs/session.schema.json, for each direction.
type sessionSchema struct{ input, output *host.Schema }

func readSessionSchema(t testing.TB) *sessionSchema {
	t.Helper()
	b, err := os.ReadFile("../../docs/session.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	part := func(ref string) *host.Schema {
		s, err := host.CompileSchema(marshal(t, map[string]any{"type": "object", "$ref": "#/$defs/" + ref, "$defs": doc["$defs"]}))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := host.CheckSchema(b); err != nil {
		t.Fatal(err)
	}
	return &sessionSchema{part("in"), part("out")}
}

func (s *sessionSchema) in(line string) error  { return judge(s.input, line) }
func (s *sessionSchema) out(line string) error { return judge(s.output, line) }

func judge(s *host.Schema, line string) error {
	issues, err := s.Validate(json.RawMessage(line))
	if err != nil {
		return fmt.Errorf("%w: %.200s", err, line)
	}
	if len(issues) > 0 {
		return fmt.Errorf("the schema refuses %.300s: %s %s", line, issues[0].Pointer, issues[0].Message)
	}
	return nil
}
