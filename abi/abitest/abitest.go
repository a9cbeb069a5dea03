// Package abitest reads the golden vectors of testdata/abi and checks what a
// host or a guest kit did against them. Their format is in testdata/abi/README.md.
package abitest

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// Load reads a file of testdata/abi into a value.
func Load(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Dir(t), file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Dir is the folder testdata/abi of the repository that the test runs in.
func Dir(t testing.TB) string { return filepath.Join(Root(t), "testdata", "abi") }

// Root is the repository that the test runs in: the nearest folder above with
// a testdata/abi.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "abi", "README.md")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no testdata/abi in this folder or above")
		}
		dir = up
	}
}

// Bytes is a text in one of three forms.
type Bytes struct {
	Text   *string         `json:"text"`
	Value  json.RawMessage `json:"value"`
	Base64 *string         `json:"base64"`
}

// Of is the bytes.
func (b Bytes) Of(t testing.TB) []byte {
	t.Helper()
	switch {
	case b.Text != nil:
		return []byte(*b.Text)
	case b.Base64 != nil:
		raw, err := base64.StdEncoding.DecodeString(*b.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	return Expand(t, b.Value)
}

// Yield is one vector of yields.json.
type Yield struct {
	Name string `json:"name"`
	Spec struct {
		Yields  *[]abi.YieldKind `json:"yields"`
		Effects []abi.EffectType `json:"effects"`
	} `json:"spec"`
	Bytes
	Answer int32   `json:"answer"`
	Issue  *string `json:"issue"`
}

// Tool is a tool that declares what the vector says.
func (y *Yield) Tool() *abi.ToolSpec {
	return &abi.ToolSpec{Name: "Tool", Yields: y.Spec.Yields, Effects: y.Spec.Effects}
}

// Yields reads yields.json.
func Yields(t testing.TB) (list []Yield) {
	t.Helper()
	Load(t, "yields.json", &list)
	return list
}

// Result is one vector of results.json.
type Result struct {
	Name   string `json:"name"`
	Status int32  `json:"status"`
	Bytes
	Result json.RawMessage `json:"result"`
}

// Results reads results.json.
func Results(t testing.TB) (list []Result) {
	t.Helper()
	Load(t, "results.json", &list)
	return list
}

// Frame is one vector of frames.json.
type Frame struct {
	Name    string          `json:"name"`
	Hex     string          `json:"hex"`
	Head    json.RawMessage `json:"head"`
	BodyHex string          `json:"bodyHex"`
	Error   bool            `json:"error"`
	// JSON says that the frame is sound and its head is not.
	JSON   bool  `json:"json"`
	Encode *bool `json:"encode"`
}

// Frames reads frames.json.
func Frames(t testing.TB) (list []Frame) {
	t.Helper()
	Load(t, "frames.json", &list)
	return list
}

// Manifest is one case of manifests.json, put together.
type Manifest struct {
	Name   string
	Text   []byte
	Decode bool
	Issues []string
	Code   abi.Code
}

// Manifests reads manifests.json.
func Manifests(t testing.TB) []Manifest {
	t.Helper()
	var file struct {
		Base  json.RawMessage `json:"base"`
		Cases []struct {
			Name   string                     `json:"name"`
			Set    map[string]json.RawMessage `json:"set"`
			Remove []string                   `json:"remove"`
			Decode *bool                      `json:"decode"`
			Issues []string                   `json:"issues"`
			Code   abi.Code                   `json:"code"`
		} `json:"cases"`
	}
	Load(t, "manifests.json", &file)
	list := make([]Manifest, len(file.Cases))
	for i, c := range file.Cases {
		list[i] = Manifest{
			Name: c.Name, Text: edit(t, file.Base, c.Set, c.Remove),
			Decode: c.Decode == nil || *c.Decode, Issues: c.Issues, Code: c.Code,
		}
	}
	return list
}

// Line is one line of a log.
type Line struct {
	Level abi.LogLevel `json:"level"`
	Text  string       `json:"text"`
}

// Call is one vector of calls.json. Input has its repetitions written out.
type Call struct {
	Name  string          `json:"name"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
	Given struct {
		TimeoutMs int64 `json:"timeoutMs"`
		Cancel    *struct {
			After  int        `json:"after"`
			Reason abi.Cancel `json:"reason"`
		} `json:"cancel"`
		// Unvalidated says that the input does not fit the tool's schema: a
		// host with a validator in front does not let it through.
		Unvalidated bool `json:"unvalidated"`
	} `json:"given"`
	Yields []json.RawMessage `json:"yields"`
	Logs   []Line            `json:"logs"`
	Ret    struct {
		Status int32           `json:"status"`
		Value  json.RawMessage `json:"value"`
	} `json:"ret"`
	Result json.RawMessage `json:"result"`
}

// Calls reads calls.json.
func Calls(t testing.TB) (list []Call) {
	t.Helper()
	Load(t, "calls.json", &list)
	for i := range list {
		list[i].Input = Expand(t, list[i].Input)
	}
	return list
}
