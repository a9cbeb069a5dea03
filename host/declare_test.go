package host

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares text with a file of testdata.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update makes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is written now:\n%s", path, got)
	}
}

func indented(t testing.TB, raw json.RawMessage) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// documented is a tool with everything that a model is told of.
func documented() *fake {
	f := fakeTool("SearchDocs", readOnly)
	f.spec.Aliases, f.spec.DisplayName = []string{"FindDocs"}, "Search the docs"
	f.spec.Description = abi.Description{
		Short: "Searches the documentation <index> & returns the best pages.", Long: "Matches words, not meanings.",
		UsageNotes: []string{"Quote phrases: \"exact words\".", "At most 10 results."}, Important: []string{"Never send secrets."},
		Examples: []abi.Example{{Description: "Find the timeout", Params: in(`{"query":"timeout"}`)}},
	}
	f.spec.Parameters = in(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer","minimum":1,"maximum":10,"default":5}},"required":["query"],"additionalProperties":false}`)
	f.spec.Strict = true
	return f
}

// DEF-06 DEF-08 REG-09: how tools are declared to models, in the shapes of two providers.
func TestDeclarations(t *testing.T) {
	s := session(t, SessionOptions{}, documented(), fakeTool("Bare"), adder(t))
	var openai, anthropic []json.RawMessage
	for _, d := range s.Declarations() {
		openai, anthropic = append(openai, d.OpenAI()), append(anthropic, d.Anthropic())
	}
	golden(t, "openai.json", indented(t, mustJSON(openai)))
	golden(t, "anthropic.json", indented(t, mustJSON(anthropic)))
	golden(t, "description.txt", []byte(documented().spec.Description.Text()+"\n"))
	golden(t, "tools.json", indented(t, mustJSON(s.Tools())))
	for _, d := range s.Declarations() {
		if d.Name == "SearchDocs" && string(d.Parameters) != string(documented().spec.Parameters) {
			t.Errorf("the schema changed on its way: %s", d.Parameters)
		}
	}
}

// The conformance guest's tools are declared as a native tool's are.
func TestGuestDeclarations(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: conformance(t, h)}}, Services: map[string]tool.Service{"x-echo": echoService()}})
	var list []json.RawMessage
	for _, d := range s.Declarations() {
		list = append(list, d.OpenAI())
	}
	golden(t, "guest.json", indented(t, mustJSON(list)))
}
