package abi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/abi/abitest"
)

func TestManifestVectors(t *testing.T) {
	for _, v := range abitest.Manifests(t) {
		t.Run(v.Name, func(t *testing.T) {
			var m abi.Manifest
			err := json.Unmarshal(v.Text, &m)
			if (err == nil) != v.Decode {
				t.Fatalf("decode: %v, want it to work: %v", err, v.Decode)
			}
			if err != nil {
				return
			}
			got := []string{}
			for _, i := range m.Validate() {
				got = append(got, i.Pointer)
			}
			if !slices.Equal(got, append([]string{}, v.Issues...)) {
				t.Errorf("issues at %q, want %q: %+v", got, v.Issues, m.Validate())
			}
			if code := abi.CodeOf(m.Check()); code != v.Code {
				t.Errorf("code %q, want %q", code, v.Code)
			}
		})
	}
}

// Findings are in words for the author, and do not repeat what a stranger wrote
// at length.
func TestValidateWords(t *testing.T) {
	m := abi.Manifest{Name: strings.Repeat("x", 5000), Tools: []abi.ToolSpec{{Name: strings.Repeat("\xff", 5000)}}}
	for _, i := range m.Validate() {
		if len(i.Message) > 300 || i.Message == "" {
			t.Errorf("%s: a message of %d bytes", i.Pointer, len(i.Message))
		}
	}
	many := abi.Manifest{Tools: make([]abi.ToolSpec, abi.MaxTools+1)}
	if !slices.ContainsFunc(many.Validate(), func(i abi.Issue) bool { return i.Pointer == "/tools" }) {
		t.Error("too many tools are not reported")
	}
}

func TestYieldVectors(t *testing.T) {
	for _, v := range abitest.Yields(t) {
		t.Run(v.Name, func(t *testing.T) {
			if v.Issue == nil && v.Answer != abi.YieldOK {
				t.Skip("judged by declaration, size or strict JSON")
			}
			y, issues := abi.ParseYield(v.Of(t))
			if (y == nil) == (len(issues) == 0) {
				t.Fatalf("yield %v and issues %v", y, issues)
			}
			if v.Issue == nil {
				if issues != nil {
					t.Errorf("refused: %+v", issues)
				}
				return
			}
			if !slices.ContainsFunc(issues, func(i abi.Issue) bool { return i.Pointer == *v.Issue }) {
				t.Errorf("issues %+v, want one at %s", issues, *v.Issue)
			}
		})
	}
}

func TestResultVectors(t *testing.T) {
	for _, v := range abitest.Results(t) {
		t.Run(v.Name, func(t *testing.T) {
			if strings.Contains(string(v.Result), string(abi.CodeResultNotJSON)) {
				t.Skip("judged by strict JSON, before Publish")
			}
			abitest.CheckResult(t, v.Result, abi.Publish(v.Status, v.Of(t)))
		})
	}
}

func TestFrameVectors(t *testing.T) {
	for _, v := range abitest.Frames(t) {
		t.Run(v.Name, func(t *testing.T) {
			b, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			head, body, err := abi.DecodeFrame(b)
			if v.Error && !v.JSON {
				if !errors.Is(err, abi.ErrFrame) {
					t.Errorf("error %v, want ErrFrame", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.JSON {
				return
			}
			if !abitest.Equal(t, v.Head, head) || hex.EncodeToString(body) != v.BodyHex {
				t.Errorf("head %s body %x", head, body)
			}
			if v.Encode == nil && !bytes.Equal(abi.EncodeFrame(v.Head, body), b) && string(v.Head) == string(head) {
				t.Errorf("encoded as %x", abi.EncodeFrame(v.Head, body))
			}
		})
	}
}

func TestFrameLimits(t *testing.T) {
	big := abi.EncodeFrame([]byte("{}"), make([]byte, abi.MaxFrameBody))
	if _, _, err := abi.DecodeFrame(big); err != nil {
		t.Errorf("a body of the allowed size: %v", err)
	}
	if _, _, err := abi.DecodeFrame(append(big, 0)); !errors.Is(err, abi.ErrFrame) {
		t.Errorf("a body a byte too long: %v", err)
	}
}

// FuzzManifest: whatever the manifest, judging it does not panic; a valid one
// survives being written and read again.
func FuzzManifest(f *testing.F) {
	for _, v := range abitest.Manifests(f) {
		f.Add(v.Text)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m abi.Manifest
		if json.Unmarshal(b, &m) != nil {
			return
		}
		issues := m.Validate()
		if (len(issues) == 0) != (m.Check() == nil) {
			t.Fatalf("issues %v, but Check says %v", issues, m.Check())
		}
		if len(issues) > 0 {
			return
		}
		once, err := abi.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back abi.Manifest
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatal(err)
		}
		twice, err := abi.Marshal(&back)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once, twice) || len(back.Validate()) > 0 {
			t.Fatalf("not the same after a round trip:\n%s\n%s", once, twice)
		}
	})
}

// FuzzYield: judging a yield does not panic, and an accepted one means the same
// after being written and read again.
func FuzzYield(f *testing.F) {
	for _, v := range abitest.Yields(f) {
		f.Add(v.Of(f))
	}
	f.Add([]byte(`{"kind":"effect","effect":{"type":"permissionUpdates","updates":[]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		y, issues := abi.ParseYield(b)
		if issues != nil {
			return
		}
		once, err := abi.Marshal(y)
		if err != nil {
			return // invalid JSON inside a kept member: strict JSON comes first
		}
		again, issues := abi.ParseYield(once)
		if issues != nil {
			t.Fatalf("%s is not accepted again: %v", once, issues)
		}
		if twice, _ := abi.Marshal(again); !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s", once, twice)
		}
	})
}

// An empty list says something else than none: allow nothing, not everything.
func TestEmptyLists(t *testing.T) {
	for text, v := range map[string]any{
		`{"type":"newMessages","messages":[]}`:                                        &abi.Effect{},
		`{"type":"permissionUpdates","updates":[]}`:                                   &abi.Effect{},
		`{"scope":"turn","source":"tool","toolPolicy":{"allow":[],"deny":[]}}`:        &abi.RuntimePatch{},
		`{"scope":"turn","source":"tool","toolDiscovery":{"discover":[]},"hooks":[]}`: &abi.RuntimePatch{},
		`{"capabilities":{"network":{"allowDomains":[]}}}`:                            &abi.RuntimeContext{},
	} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
		var want, got any
		b, err := abi.Marshal(v)
		if err != nil || json.Unmarshal(b, &got) != nil || json.Unmarshal([]byte(text), &want) != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", text, b)
		}
	}
}
