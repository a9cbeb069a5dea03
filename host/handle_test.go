package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// B14 RES-07: what one tool returned too large for a model is taken by its handle by
// another, a plugin, byte for byte.
func TestHandlesGoFromToolToTool(t *testing.T) {
	text := strings.Repeat("line with ü and 😀 and <b>\n", 100_000) // 3 MB, more than one chunk
	h := newHost(t, Options{CacheDir: guestCache(t), Tools: []tool.Tool{giving(abi.Text(text), 5000)}})
	s := sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: odd(t, h, tool.TrustWorkspace)}}})
	r := do(t, s, Call{Tool: "Gives"})
	if r.Metadata["resultExternalized"] != true || utf16Len(r.ModelText()) > 5000 {
		t.Fatalf("%v", r.Metadata)
	}
	handle := r.Metadata["resultArtifactHandle"].(string)
	type read struct {
		Bytes, Read int
		SHA256      string
	}
	got := into[read](t, do(t, s, Call{Tool: "Artifact", Input: mustJSON(map[string]string{"handle": handle})}))
	if got.SHA256 != r.Metadata["sha256"] || got.Read != r.Metadata["bytes"] || got.Bytes != got.Read {
		t.Errorf("the plugin read %+v, the metadata says %v", got, r.Metadata)
	}
	// What the plugin read holds the text unchanged.
	reader := fakeTool("Reads", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		return abi.Success(mustJSON(readArtifact(ctx, t, c, c.Input, 333_333))), nil
	}))
	if err := s.Register(tool.Source{Kind: tool.SourceSession, Trust: tool.TrustWorkspace, ID: "session"}, reader); err != nil {
		t.Fatal(err)
	}
	raw := into[string](t, do(t, s, Call{Tool: "Reads", Input: mustJSON(map[string]string{"handle": handle})}))
	var artifact struct{ ModelContent string }
	if err := json.Unmarshal([]byte(raw), &artifact); err != nil || artifact.ModelContent != text {
		t.Errorf("%v, %d bytes of text, want %d", err, len(artifact.ModelContent), len(text))
	}
	// And the other way: what a plugin put, a native tool reads.
	put := into[struct {
		Handle, SHA256 string
		Bytes          int
	}](t, do(t, s, Call{Tool: "Artifact", Input: in(`{"put":"ünchanged\u0000"}`)}))
	sum := sha256.Sum256([]byte("ünchanged\x00"))
	back := into[string](t, do(t, s, Call{Tool: "Reads", Input: mustJSON(map[string]string{"handle": put.Handle})}))
	if back != "ünchanged\x00" || put.SHA256 != hex.EncodeToString(sum[:]) || put.Bytes != len(back) {
		t.Errorf("%q %+v", back, put)
	}
	for _, bad := range []string{"", "art-nope", "../../etc/passwd", handle + "x"} {
		if r := do(t, s, Call{Tool: "Artifact", Input: mustJSON(map[string]string{"handle": bad})}); r.Error == nil {
			t.Errorf("the handle %q leads to %s", bad, r.Data)
		}
	}
	// A stream that a plugin left open is closed with the call.
	wantOK(t, do(t, s, Call{Tool: "Artifact", Input: mustJSON(map[string]any{"handle": handle, "leave": true})}))
}

// readArtifact reads an artifact in chunks of some size.
func readArtifact(ctx context.Context, t testing.TB, c *tool.Call, head json.RawMessage, chunk int) string {
	t.Helper()
	ask := func(name string, head any) (json.RawMessage, []byte) {
		a, err := c.Invoke(ctx, name, tool.Request{Head: mustJSON(head)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return a.Head, a.Body
	}
	open, _ := ask(abi.ArtifactOpen, head)
	var o abi.ArtifactOpenAnswer
	if err := json.Unmarshal(open, &o); err != nil {
		t.Error(err)
		return ""
	}
	var b bytes.Buffer
	for n := 0; n < 1000; n++ {
		head, body := ask(abi.StreamRead, abi.StreamReadHead{Stream: o.Stream, Max: chunk})
		b.Write(body)
		var a abi.StreamReadAnswer
		if err := json.Unmarshal(head, &a); err != nil || a.EOF {
			break
		}
	}
	if int64(b.Len()) != o.Bytes {
		t.Errorf("%d bytes were read, %d announced", b.Len(), o.Bytes)
	}
	ask(abi.StreamClose, abi.StreamCloseHead{Stream: o.Stream})
	ask(abi.StreamClose, abi.StreamCloseHead{Stream: o.Stream})
	return b.String()
}

// The streams of a call: at most so many, each in bounds, none after it is closed.
func TestStreams(t *testing.T) {
	f := fakeTool("T", readOnly, runs(func(ctx context.Context, c *tool.Call) (*abi.Result, error) {
		ask := func(name string, head any, body []byte) (tool.Answer, abi.Code) {
			a, err := c.Invoke(ctx, name, tool.Request{Head: mustJSON(head), Body: body})
			return a, abi.CodeOf(err)
		}
		a, _ := ask(abi.ArtifactPut, map[string]string{"name": "x"}, bytes.Repeat([]byte("y"), 3<<20))
		var info abi.ArtifactInfo
		if err := json.Unmarshal(a.Head, &info); err != nil {
			t.Error(err)
		}
		for i := range abi.MaxStreams + 1 {
			_, code := ask(abi.ArtifactOpen, abi.ArtifactOpenHead{Handle: info.Handle}, nil)
			if (i < abi.MaxStreams && code != "") || (i == abi.MaxStreams && code != abi.CodeServiceLimit) {
				t.Errorf("stream %d: %s", i, code)
			}
		}
		for _, max := range []int{0, -1, 1 << 30} {
			if a, code := ask(abi.StreamRead, abi.StreamReadHead{Stream: 1, Max: max}, nil); code != "" || len(a.Body) > abi.MaxChunk {
				t.Errorf("max %d: %s, %d bytes", max, code, len(a.Body))
			}
		}
		for name, head := range map[string]any{abi.StreamRead: map[string]any{"stream": 99}, abi.ArtifactOpen: map[string]any{"handle": 1}, abi.ArtifactPut: []int{1}} {
			if _, code := ask(name, head, nil); code != abi.CodeRequest {
				t.Errorf("%s %v: %s", name, head, code)
			}
		}
		ask(abi.StreamClose, abi.StreamCloseHead{Stream: 1}, nil)
		if _, code := ask(abi.StreamRead, abi.StreamReadHead{Stream: 1}, nil); code != abi.CodeRequest {
			t.Errorf("a closed stream: %s", code)
		}
		return abi.Text("ok"), nil
	}))
	wantOK(t, do(t, session(t, SessionOptions{}, f), Call{Tool: "T"}))
}
