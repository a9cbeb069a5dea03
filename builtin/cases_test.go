package builtin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// The recorded cases of the built-in tools, in ../testdata/builtin (a copy; the
// README there says what a line means), run through real sessions.
//
// A scenario runs when every tool that it calls exists: whoever adds a tool gets its
// cases without a line here. What a case demands and the tool does otherwise is a
// difference, and a difference is either fixed or listed in
// testdata/builtin/deviations/<group>.tsv, a row each:
//
//	scenario#seq <TAB> field <TAB> reason
//
// The field is what the failing test names: status, error.type, model, yields, thrown,
// confirmations, behavior.<key>, metadata.<key>, fs.<path>; "*" stands for every field of
// that call, and is only for calls that must not succeed as recorded. A listed row
// that no longer occurs fails the test too. To get the rows of new tools, run
//
//	go test ./builtin -run TestCases -differences
//
// which prints them with an empty reason, to be filled in by hand after reading.
//
// What a scenario needs beyond files is an entry in one of two tables in
// cases_setup_test.go: surroundings, by a key of "context", and steps, by the name in "do".
// A scenario that needs something that no table has is not run, and must be listed in
// testdata/builtin/notrun.tsv (scenario, reason).

const casesDir = "../testdata/builtin"

// caseLine is one line of cases.jsonl: a step of the setup or a call.
type caseLine struct {
	Scenario string          `json:"scenario"`
	Seq      int             `json:"seq"`
	Do       string          `json:"do"`
	Args     json.RawMessage `json:"args"`

	Layer    string                     `json:"layer"`
	Tool     string                     `json:"tool"`
	Input    json.RawMessage            `json:"input"`
	Context  map[string]json.RawMessage `json:"context"`
	Aborted  bool                       `json:"aborted_signal"`
	Behavior map[string]any             `json:"behavior"`
	Yields   []map[string]any           `json:"yields"`
	Result   *caseResult                `json:"result"`
	Thrown   *caseThrown                `json:"thrown"`
	FSAfter  map[string]fsEntry         `json:"fs_after"`
	Confirms []map[string]any           `json:"confirmation_requests"`
	Unstable bool                       `json:"order_unstable"`
}

type caseResult struct {
	Status      string          `json:"status"`
	Model       json.RawMessage `json:"model"`
	ModelIsText bool            `json:"model_is_text"`
	ModelPaths  []string        `json:"model_paths"`
	Error       *struct {
		Type string `json:"type"`
	} `json:"error"`
	Metadata map[string]any `json:"metadata"`
}

type caseThrown struct {
	Code   string `json:"code"`
	Issues []struct {
		Field string `json:"field"`
	} `json:"issues"`
}

type fsEntry struct {
	Type   string `json:"type"`
	Text   any    `json:"text"`
	Base64 string `json:"base64"`
}

func (l *caseLine) id() string { return fmt.Sprintf("%s#%d", l.Scenario, l.Seq) }

// scenario is the lines of one scenario, in order.
type scenario struct {
	name  string
	lines []*caseLine
}

func readScenarios(t testing.TB) []scenario {
	t.Helper()
	f, err := os.Open(filepath.Join(casesDir, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []scenario
	at := map[string]int{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		l := new(caseLine)
		if err := json.Unmarshal(sc.Bytes(), l); err != nil {
			t.Fatalf("%s: %.80s", err, sc.Text())
		}
		i, ok := at[l.Scenario]
		if !ok {
			i = len(out)
			at[l.Scenario] = i
			out = append(out, scenario{name: l.Scenario})
		}
		out[i].lines = append(out[i].lines, l)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	for _, s := range out {
		slices.SortFunc(s.lines, func(a, b *caseLine) int { return a.Seq - b.Seq })
	}
	return out
}

// world is where one scenario runs.
type world struct {
	t        *testing.T
	root     string            // {{ROOT}}
	bound    map[string]string // placeholders without braces
	opt      host.SessionOptions
	builtins builtin.Options
	name     string

	host     *host.Host
	made     []tool.Tool
	session  *host.Session
	key      string // what the session was made for
	confirms []tool.Confirmation
}

// expand puts values in the place of placeholders.
func (w *world) expand(s string) string {
	for k, v := range w.bound {
		s = strings.ReplaceAll(s, "{{"+k+"}}", v)
	}
	return s
}

// TestCases: BLT-01 BLT-04, and the recorded behaviour of every tool.
func TestCases(t *testing.T) {
	known := map[string]bool{}
	for _, x := range builtin.Tools(builtin.Options{}) {
		known[x.Spec().Name] = true
	}
	listed := readDeviations(t)
	notRun := readNotRun(t)
	calls, differences := 0, map[string]int{}
	for _, s := range readScenarios(t) {
		if !slices.ContainsFunc(s.lines, func(l *caseLine) bool { return l.Tool != "" }) ||
			slices.ContainsFunc(s.lines, func(l *caseLine) bool { return l.Tool != "" && !known[l.Tool] }) {
			continue
		}
		if missing := unsupported(s); missing != "" {
			if notRun[s.name] == "" {
				t.Errorf("%s needs %s, which cases_setup_test.go does not have, and is not in notrun.tsv", s.name, missing)
			}
			continue
		}
		if why := notRun[s.name]; why != "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			n := runScenario(t, s, listed, differences)
			calls += n
		})
	}
	t.Logf("%d calls, %d tools", calls, len(known))
	if *printDifferences {
		return
	}
	for key, row := range listed {
		ran := differences[strings.SplitN(key, "\t", 2)[0]] > 0
		if ran && !row.seen {
			t.Errorf("%s: the deviation %q no longer occurs; take the row out", row.file, key)
		}
	}
}

// What Read does in another form by default (D1) it does as recorded where an embedder wants that.
func TestCasesRaw(t *testing.T) {
	listed := readDeviations(t)
	n := 0
	for _, s := range readScenarios(t) {
		d1 := slices.ContainsFunc(s.lines, func(l *caseLine) bool {
			d := listed[l.id()+"\tmodel"]
			return d != nil && strings.Contains(d.reason, "(D1)") && !strings.HasPrefix(s.name, "pipeline-externalize")
		})
		if !d1 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, s.name)
			w.builtins.Filesystem.RawRead = true
			for _, l := range s.lines {
				if l.Do != "" {
					if err := steps[l.Do](w, l); err != nil {
						t.Fatal(err)
					}
					continue
				}
				for _, d := range w.compare(l) {
					if l.Tool == "Read" && d.field == "model" {
						t.Errorf("%s: %s: %s", l.id(), d.field, d.text)
					}
				}
				n++
			}
			w.endSession()
		})
	}
	if n < 40 {
		t.Errorf("only %d calls", n)
	}
}

func runScenario(t *testing.T, s scenario, listed map[string]*deviation, ran map[string]int) int {
	w := newWorld(t, s.name)
	calls := 0
	for _, l := range s.lines {
		if l.Do != "" {
			if err := steps[l.Do](w, l); err != nil {
				t.Fatalf("%s: %s: %v", l.id(), l.Do, err)
			}
			continue
		}
		if strings.Contains(w.expand(string(l.Input)), "{{") {
			continue // the call that would have given the value was not recorded
		}
		calls++
		ran[l.id()]++
		for _, d := range w.compare(l) {
			row := listed[l.id()+"\t"+d.field]
			if row == nil {
				row = listed[l.id()+"\t*"]
			}
			switch {
			case row != nil:
				row.seen = true
			case *printDifferences:
				fmt.Printf("%s\t%s\t\t%s\n", l.id(), d.field, d.text)
			default:
				t.Errorf("%s: %s: %s", l.id(), d.field, d.text)
			}
		}
	}
	w.endSession()
	return calls
}

// call runs a line and returns the result and what was yielded.
func (w *world) call(l *caseLine) (*abi.Result, []abi.Yield) {
	ctx, cancel := context.WithCancelCause(w.t.Context())
	defer cancel(nil)
	if l.Aborted {
		cancel(&tool.CancelError{Reason: abi.CancelRequest})
	}
	input := json.RawMessage(w.expand(string(l.Input)))
	if l.Context["noSession"] != nil {
		return w.direct(ctx, l.Tool, input)
	}
	w.forSession(l)
	c := host.Call{Tool: l.Tool, Input: input}
	if raw := l.Context["messageId"]; raw != nil {
		_ = json.Unmarshal(raw, &c.MessageID) // a string by its name
	}
	x := w.session.Start(ctx, c)
	var yields []abi.Yield
	for y := range x.Yields() {
		yields = append(yields, y)
	}
	r, err := x.Result()
	if err != nil {
		r = abi.Failure(abi.AsError(err))
	}
	return r, yields
}

// direct calls the tool without a pipeline, as for nobody's session.
func (w *world) direct(ctx context.Context, name string, input json.RawMessage) (*abi.Result, []abi.Yield) {
	i := slices.IndexFunc(w.tools(), func(t tool.Tool) bool { return t.Spec().Name == name })
	snap := tool.Snapshot{Roots: []string{filepath.Join(w.root, "ws")}, Cwd: filepath.Join(w.root, "ws")}
	var yields []abi.Yield
	r, err := w.tools()[i].Execute(ctx, tool.NewCall(tool.Config{Name: name, Input: input, Snapshot: &snap, Mode: string(policy.ModeYolo),
		Yield: func(y abi.Yield, _ func() func()) error { yields = append(yields, y); return nil }}))
	if err != nil {
		r = abi.Failure(abi.AsError(err))
	}
	return r, yields
}

// forSession makes a session for the line's surroundings; lines with the same ones
// share it.
func (w *world) forSession(l *caseLine) {
	keys := slices.Sorted(maps.Keys(l.Context))
	key := ""
	for _, k := range keys {
		if k != "messageId" {
			key += k + string(l.Context[k])
		}
	}
	if w.session != nil && w.key == key {
		return
	}
	w.endSession()
	w.key = key
	w.opt = host.SessionOptions{
		ID: "s-" + w.name, Mode: policy.ModeYolo,
		Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Filesystem: &abi.FilesystemFacet{
			Roots: []string{filepath.Join(w.root, "ws")}, Cwd: filepath.Join(w.root, "ws"),
		}}},
		Confirm: tool.ConfirmFunc(func(_ context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
			w.confirms = append(w.confirms, c)
			return tool.ConfirmationAnswer{Approved: true}, nil
		}),
	}
	for _, k := range keys {
		if err := surroundings[k](w, l.Context[k]); err != nil {
			w.t.Fatalf("%s: context %s: %v", l.id(), k, err)
		}
	}
	if w.host == nil {
		h, err := host.New(host.Options{Builtins: w.tools(), ArtifactDir: w.t.TempDir()})
		if err != nil {
			w.t.Fatal(err)
		}
		w.host = h
		w.t.Cleanup(func() { _ = h.Close(context.Background()) })
	}
	var err error
	if w.session, err = w.host.NewSession(w.opt); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) endSession() {
	if w.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.session.Close(ctx); err != nil {
		w.t.Error(err)
	}
	w.session = nil
}

// deviation is a listed difference.
type deviation struct {
	file, reason string
	seen         bool
}

func readDeviations(t testing.TB) map[string]*deviation {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "deviations", "*.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*deviation{}
	for _, f := range files {
		for _, cols := range readTSV(t, f) {
			if len(cols) != 3 || strings.TrimSpace(cols[2]) == "" || !regexp.MustCompile(`#\d+$`).MatchString(cols[0]) {
				t.Errorf("%s: the row %q is not: scenario#seq, field, reason", f, cols)
				continue
			}
			key := cols[0] + "\t" + cols[1]
			if out[key] != nil {
				t.Errorf("%s: %q is listed twice", f, key)
			}
			out[key] = &deviation{file: f, reason: cols[2]}
		}
	}
	return out
}

func readNotRun(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, cols := range readTSV(t, filepath.Join(casesDir, "notrun.tsv")) {
		if len(cols) != 2 || cols[1] == "" {
			t.Errorf("notrun.tsv: the row %q is not: scenario, reason", cols)
			continue
		}
		out[cols[0]] = cols[1]
	}
	return out
}

// readTSV reads the rows of a table; lines with # in front are remarks.
func readTSV(t testing.TB, file string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		s := strings.TrimRight(string(line), "\r\n")
		if s != "" && s[0] != '#' {
			rows = append(rows, strings.Split(s, "\t"))
		}
	}
	return rows
}
