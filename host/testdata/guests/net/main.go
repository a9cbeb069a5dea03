// Command net is a guest for tests: it sends requests, asks for secrets and
// settings, and tells everything it can see of them.
package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

type in struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Stream  bool              `json:"stream,omitempty"`
	Timeout int               `json:"timeoutMs,omitempty"`
	// Quiet answers with the number of bytes only.
	Quiet bool `json:"quiet,omitempty"`
}

type out struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body"`
	Bytes   int64               `json:"bytes"`
}

func request(ctx context.Context, in in, call *pdk.Call) (*pdk.Result, error) {
	req := pdk.HTTPRequest{Method: in.Method, URL: in.URL, Headers: in.Headers, Body: []byte(in.Body), Timeout: time.Duration(in.Timeout) * time.Millisecond}
	if in.Stream {
		res, body, err := pdk.HTTPStream(ctx, req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = body.Close() }()
		n, err := io.Copy(io.Discard, body)
		if err != nil {
			return nil, err
		}
		return pdk.Data(out{Status: res.Status, Bytes: n}), nil
	}
	res, err := pdk.HTTP(ctx, req)
	if err != nil {
		return nil, err
	}
	if in.Quiet {
		return pdk.Data(out{Status: res.Status, Bytes: int64(len(res.Body))}), nil
	}
	pdk.Log(ctx, abi.LogInfo, string(res.Body))
	_ = call.Message(string(res.Body), nil)
	return pdk.Data(out{res.Status, res.Headers, string(res.Body), int64(len(res.Body))}), nil
}

func settings(ctx context.Context, _ struct{}) (any, error) {
	var raw json.RawMessage
	err := pdk.Config(ctx, &raw)
	return raw, err
}

func exists(ctx context.Context, in struct {
	Name string `json:"name"`
}) (bool, error) {
	return pdk.SecretExists(ctx, in.Name)
}

func init() {
	spec := func(name string) pdk.Spec {
		return pdk.Spec{Name: name, Description: "Tests.", Kind: pdk.Execute, SideEffect: pdk.NonIdempotent, Interrupt: pdk.Cancel}
	}
	pdk.Serve(pdk.Plugin{
		Name: "blade-tool-net", Version: "1.0.0", Description: "Sends requests.",
		Config: json.RawMessage(`{"type":"object","properties":{"base":{"type":"string","default":"https://api.example.com"},"size":{"type":"integer"}},"additionalProperties":false}`),
		Capabilities: abi.Capabilities{
			HTTP:    &abi.HTTPRequest{Hosts: []string{"127.0.0.1", "api.example.com", "*.example.org"}, Methods: []string{"GET", "POST"}, Why: "To test."},
			Secrets: []abi.SecretRequest{{Name: "TOKEN", Hosts: []string{"127.0.0.1"}, Required: true, Why: "To test."}, {Name: "OTHER", Hosts: []string{"127.0.0.1"}, Why: "To test."}},
		},
		Tools: []pdk.Tool{pdk.DefineStream(spec("Request"), request),
			pdk.DefineStream(pdk.Spec{Name: "Read", Description: "Tests.", Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel}, request),
			pdk.Define(spec("Settings"), settings), pdk.Define(spec("Exists"), exists)},
	})
}

func main() {}
