package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

// source has the token, unless it is empty.
type source string

func (s source) Get(_ context.Context, name string) (string, bool, error) {
	return string(s), s != "" && name == tokenName, nil
}

// lend puts the plugin on a fake host that sends its requests with the real
// client, to a server of the test. Other servers it may reach are others.
func lend(t *testing.T, g *github, token string, others ...string) *pdktest.Host {
	t.Helper()
	h := pdktest.New(t, plugin())
	lendSettings(h, g.base())
	allowed := append([]string{hostOf(t, g.URL)}, others...)
	var granted []secrets.Grant
	if token != "" {
		granted = []secrets.Grant{{Name: tokenName, Hosts: []string{"127.0.0.1"}}}
	}
	vault := secrets.NewVault([]secrets.Source{source(token)}, granted, caphttp.Covers)
	h.Service(abi.SecretPresence, func(ctx context.Context, head json.RawMessage, _ []byte) (any, []byte, error) {
		var in abi.SecretExistsHead
		err := json.Unmarshal(head, &in)
		return abi.SecretExistsAnswer{Exists: vault.Exists(ctx, in.Name)}, nil, err
	})
	client := caphttp.New(caphttp.Options{
		Policy: caphttp.Policy{Hosts: allowed, Methods: []string{"GET", "POST"}}, Fill: vault.Fill, Limits: caphttp.Limits{Timeout: 20 * time.Second, Header: 2 * time.Second},
	})
	t.Cleanup(client.Close)
	streams := map[int64]io.ReadCloser{}
	h.Service(abi.HTTPCall, func(ctx context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
		var in abi.HTTPRequestHead
		if err := json.Unmarshal(head, &in); err != nil {
			return nil, nil, err
		}
		req := caphttp.Request{Method: in.Method, URL: in.URL, Header: http.Header{}, Body: body}
		for k, v := range in.Headers {
			req.Header.Set(k, v[0])
		}
		if in.Redirect == abi.RedirectManual {
			req.Redirect = caphttp.Manual
		}
		if in.Stream {
			req.MaxBody = 1 << 30
		}
		res, err := client.Do(ctx, req)
		if err != nil {
			return nil, nil, err
		}
		out := abi.HTTPResponseHead{Status: res.Status, URL: res.URL, Length: res.Length, Headers: abi.HTTPHeaders{}}
		for k, v := range res.Header {
			out.Headers[strings.ToLower(k)] = v
		}
		if in.Stream {
			out.Stream = int64(len(streams) + 1)
			streams[out.Stream] = res.Body
			return out, nil, nil
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return out, b, err
	})
	h.Service(abi.StreamRead, func(_ context.Context, head json.RawMessage, _ []byte) (any, []byte, error) {
		var in abi.StreamReadHead
		if err := json.Unmarshal(head, &in); err != nil {
			return nil, nil, err
		}
		b := make([]byte, in.Max)
		n, err := io.ReadFull(streams[in.Stream], b)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return abi.StreamReadAnswer{EOF: true}, b[:n], nil
		}
		return abi.StreamReadAnswer{}, b[:n], err
	})
	h.Service(abi.StreamClose, func(_ context.Context, head json.RawMessage, _ []byte) (any, []byte, error) {
		var in abi.StreamCloseHead
		err := json.Unmarshal(head, &in)
		_ = streams[in.Stream].Close()
		return nil, nil, err
	})
	return h
}

func lendSettings(h *pdktest.Host, base string) {
	h.Service(abi.ConfigGet, func(context.Context, json.RawMessage, []byte) (any, []byte, error) {
		return settings{BaseURL: base}, nil, nil
	})
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// quick makes the pause before a repetition short.
func quick(t *testing.T) {
	old := firstWait
	firstWait = time.Millisecond
	t.Cleanup(func() { firstWait = old })
}

// of is an input for octo/hello.
func of(more object) object {
	in := object{"owner": "octo", "repo": "hello"}
	for k, v := range more {
		in[k] = v
	}
	return in
}
