package pdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
	"github.com/bladehost/bladehost/pdk/pdkhttp"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

// typed is a service of the fake host with typed heads.
func typed[In any](fn func(in In, body []byte) (any, []byte, error)) pdktest.Service {
	return func(_ context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
		var in In
		dec := json.NewDecoder(bytes.NewReader(head))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			return nil, nil, abi.NewError(abi.CodeRequest, "%v", err)
		}
		return fn(in, body)
	}
}

// run runs fn as a call and fails the test with its error.
func run(t *testing.T, set func(h *pdktest.Host), fn func(ctx context.Context) error) {
	t.Helper()
	h := host(t, func(ctx context.Context, _ *pdk.Call) (*pdk.Result, error) { return nil, fn(ctx) })
	set(h)
	if err := h.Run("Probe", nothing{}).Err(); err != nil {
		t.Error(err)
	}
}

func TestKV(t *testing.T) {
	store := map[string][]byte{}
	run(t, func(h *pdktest.Host) {
		h.Service(abi.KVSet, typed(func(in abi.KVSetHead, body []byte) (any, []byte, error) {
			store[fmt.Sprint(in.Key, in.TTLMs)] = body
			return nil, nil, nil
		}))
		h.Service(abi.KVGet, typed(func(in abi.KVKeyHead, _ []byte) (any, []byte, error) {
			v, ok := store[in.Key]
			return abi.KVFound{Found: ok}, v, nil
		}))
		h.Service(abi.KVDelete, typed(func(in abi.KVKeyHead, _ []byte) (any, []byte, error) {
			_, ok := store[in.Key]
			delete(store, in.Key)
			return abi.KVFound{Found: ok}, nil, nil
		}))
		h.Service(abi.KVList, typed(func(in abi.KVListHead, _ []byte) (any, []byte, error) {
			return abi.KVListAnswer{Keys: []string{in.Prefix, in.After, fmt.Sprint(in.Limit)}, More: true}, nil, nil
		}))
	}, func(ctx context.Context) error {
		if err := pdk.KVSet(ctx, "k", []byte{0, 1}, 2*time.Second); err != nil {
			return err
		}
		if v, ok, err := pdk.KVGet(ctx, "k2000"); !ok || string(v) != "\x00\x01" || err != nil {
			t.Errorf("get: %q %v %v", v, ok, err)
		}
		if v, ok, err := pdk.KVGet(ctx, "none"); ok || v != nil || err != nil {
			t.Errorf("get none: %q %v %v", v, ok, err)
		}
		if ok, err := pdk.KVDelete(ctx, "k2000"); !ok || err != nil {
			t.Errorf("delete: %v %v", ok, err)
		}
		keys, more, err := pdk.KVList(ctx, "p", "a", 3)
		if strings.Join(keys, " ") != "p a 3" || !more {
			t.Errorf("list: %v %v", keys, more)
		}
		return err
	})
}

func TestSettingsSecretsFence(t *testing.T) {
	run(t, func(h *pdktest.Host) {
		h.Service(abi.ConfigGet, typed(func(struct{}, []byte) (any, []byte, error) {
			return map[string]string{"baseUrl": "https://x"}, nil, nil
		}))
		h.Service(abi.SecretPresence, typed(func(in abi.SecretExistsHead, _ []byte) (any, []byte, error) {
			return abi.SecretExistsAnswer{Exists: in.Name == "TOKEN"}, nil, nil
		}))
		h.Service(abi.RuntimeFence, typed(func(struct{}, []byte) (any, []byte, error) {
			return abi.RuntimeFenceAnswer{LeaseID: "l", FencingToken: 7}, nil, nil
		}))
		h.Service(abi.RuntimeAssert, typed(func(struct{}, []byte) (any, []byte, error) { return nil, nil, nil }))
	}, func(ctx context.Context) error {
		var c struct {
			BaseURL string `json:"baseUrl"`
		}
		if err := pdk.Config(ctx, &c); err != nil || c.BaseURL != "https://x" {
			t.Errorf("config: %+v %v", c, err)
		}
		yes, err1 := pdk.SecretExists(ctx, "TOKEN")
		no, err2 := pdk.SecretExists(ctx, "OTHER")
		if !yes || no || err1 != nil || err2 != nil {
			t.Errorf("secrets: %v %v %v %v", yes, no, err1, err2)
		}
		f, ok, err := pdk.Fence(ctx)
		if !ok || f.FencingToken != 7 || err != nil {
			t.Errorf("fence: %+v %v %v", f, ok, err)
		}
		return pdk.AssertLease(ctx)
	})
}

// streams of the fake host: n bytes, in pieces.
func lendStream(h *pdktest.Host, content []byte, closed *int) {
	at := 0
	h.Service(abi.StreamRead, typed(func(in abi.StreamReadHead, _ []byte) (any, []byte, error) {
		n := min(in.Max, len(content)-at, 1000)
		at += n
		return abi.StreamReadAnswer{EOF: at == len(content)}, content[at-n : at], nil
	}))
	h.Service(abi.StreamClose, typed(func(in abi.StreamCloseHead, _ []byte) (any, []byte, error) {
		*closed += int(in.Stream)
		return nil, nil, nil
	}))
}

func TestArtifacts(t *testing.T) {
	content, closed := bytes.Repeat([]byte("0123456789"), 1234), 0
	run(t, func(h *pdktest.Host) {
		lendStream(h, content, &closed)
		h.Service(abi.ArtifactPut, typed(func(in abi.ArtifactPutHead, body []byte) (any, []byte, error) {
			return abi.ArtifactInfo{Handle: "art-" + in.Name, Bytes: int64(len(body))}, nil, nil
		}))
		h.Service(abi.ArtifactOpen, typed(func(in abi.ArtifactOpenHead, _ []byte) (any, []byte, error) {
			return abi.ArtifactOpenAnswer{Stream: 5, Bytes: int64(len(content))}, nil, nil
		}))
	}, func(ctx context.Context) error {
		a, err := pdk.PutArtifact(ctx, "n", []byte("abc"))
		if err != nil || a.Handle != "art-n" || a.Bytes != 3 {
			t.Errorf("put: %+v %v", a, err)
		}
		r, size, err := pdk.OpenArtifact(ctx, "art-n")
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if !bytes.Equal(got, content) || size != int64(len(content)) {
			t.Errorf("%d bytes of %d", len(got), size)
		}
		if e := r.Close(); e != nil || closed != 5 {
			t.Errorf("close: %v, stream %d", e, closed)
		}
		if e := r.Close(); e != nil || closed != 5 {
			t.Errorf("a second close: %v, stream %d", e, closed)
		}
		if _, e := r.Read(make([]byte, 1)); e == nil || errors.Is(e, io.EOF) {
			t.Errorf("a read after close: %v", e)
		}
		return err
	})
}

func TestHTTP(t *testing.T) {
	closed := 0
	run(t, func(h *pdktest.Host) {
		lendStream(h, []byte("streamed"), &closed)
		h.Service(abi.HTTPCall, typed(func(in abi.HTTPRequestHead, body []byte) (any, []byte, error) {
			text, _ := abi.Marshal(in)
			a := abi.HTTPResponseHead{Status: 201, Headers: abi.HTTPHeaders{"x-got": {string(text), string(body)}}, URL: in.URL, Length: -1}
			if in.Stream {
				a.Stream = 3
				return a, nil, nil
			}
			return a, []byte("whole"), nil
		}))
	}, func(ctx context.Context) error {
		res, err := pdk.HTTP(ctx, pdk.HTTPRequest{
			Method: "POST", URL: "https://api.example.com/a?b", Headers: map[string]string{"authorization": "Bearer " + pdk.Secret("TOKEN")},
			Body: []byte("sent"), Timeout: time.Second, Redirect: abi.RedirectError,
		})
		if err != nil {
			return err
		}
		want := `{"method":"POST","url":"https://api.example.com/a?b","headers":{"authorization":["Bearer {{secret:TOKEN}}"]},"timeoutMs":1000,"redirect":"error"}`
		if got := res.Headers["x-got"]; res.Status != 201 || string(res.Body) != "whole" || got[0] != want || got[1] != "sent" {
			t.Errorf("got %+v", res)
		}
		req, err := http.NewRequestWithContext(ctx, "PUT", "https://api.example.com/", strings.NewReader("body"))
		if err != nil {
			return err
		}
		req.Header.Add("X-A", "1")
		req.Header.Add("X-A", "2")
		hr, err := pdkhttp.Client().Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(hr.Body)
		if e := hr.Body.Close(); e != nil || closed != 3 {
			t.Errorf("close: %v, stream %d", e, closed)
		}
		want = `{"method":"PUT","url":"https://api.example.com/","headers":{"x-a":["1, 2"]},"redirect":"manual","stream":true}`
		if got := hr.Header["X-Got"]; hr.StatusCode != 201 || string(text) != "streamed" || got[0] != want || got[1] != "body" {
			t.Errorf("got %+v, %q", hr, text)
		}
		return err
	})
}
