package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

const (
	defaultLimit = 100
	// maxOutput bounds the JSON of all results together.
	maxOutput = 8 << 20
	// peekSteps is how many steps of the query are spent on finding out
	// whether there is another result after the last one that is wanted.
	peekSteps = 1 << 20
	// largeFile is from when on a file shows progress and memory is kept tight.
	largeFile = 4 << 20
)

type jqIn struct {
	Query     string                     `json:"query" jsonschema:"The jq query." minLength:"1" maxLength:"100000"`
	JSON      json.RawMessage            `json:"json,omitempty" jsonschema:"The input: a string with JSON text, or any other JSON itself."`
	Path      string                     `json:"path,omitempty" jsonschema:"A file with the input. A relative path starts from the call's folder."`
	Variables map[string]json.RawMessage `json:"variables,omitempty" jsonschema:"Values the query reads as $name."`
	Raw       bool                       `json:"raw,omitempty" jsonschema:"Show the results as lines of text, strings without quotes."`
	Slurp     bool                       `json:"slurp,omitempty" jsonschema:"Run the query once, with an array of all documents."`
	NullInput bool                       `json:"nullInput,omitempty" jsonschema:"Run the query once, with null; input and inputs read the documents."`
	Limit     int                        `json:"limit,omitempty" jsonschema:"How many results to return at most." minimum:"1" maximum:"10000" default:"100"`
}

type jqOut struct {
	Results []json.RawMessage `json:"results"`
	Count   int               `json:"count"`
	// Truncated says that there are more results than these.
	Truncated bool `json:"truncated"`
}

func jqTool(ctx context.Context, in jqIn, call *pdk.Call) (*pdk.Result, error) {
	if in.Limit == 0 {
		in.Limit = defaultLimit
	}
	vars, err := readVariables(in.Variables)
	if err != nil {
		return nil, err
	}
	docs, done, err := openInput(ctx, &in, call)
	if err != nil {
		return nil, err
	}
	defer done()
	r := &runner{ctx: ctx, docs: docs, limit: in.Limit, vars: vars}
	if r.code, err = compile(in.Query, vars.names, gojq.WithInputIter(docs), debugTo(ctx)); err != nil {
		return nil, err
	}
	if err := r.all(in.Slurp, in.NullInput); err != nil {
		return nil, err
	}
	return r.result(in.Raw), nil
}

// compile parses and compiles a query.
func compile(query string, names []string, options ...gojq.CompilerOption) (*gojq.Code, error) {
	q, err := gojq.Parse(query)
	if err != nil {
		return nil, badQuery(query, err)
	}
	code, err := gojq.Compile(q, append(options, gojq.WithVariables(names), gojq.WithEnvironLoader(noEnvironment))...)
	if err != nil {
		return nil, pdk.Invalid("bad_query", "the query does not compile: %w", err)
	}
	return code, nil
}

func noEnvironment() []string { return nil }

// debugTo lets debug write into the host's log.
func debugTo(ctx context.Context) gojq.CompilerOption {
	return gojq.WithFunction("debug", 0, 0, func(v any, _ []any) any {
		if b, err := gojq.Marshal(v); err == nil {
			pdk.Log(ctx, abi.LogDebug, "debug: "+string(b[:min(len(b), 4096)]))
		}
		return v
	})
}

// badQuery says where a query is wrong.
func badQuery(query string, err error) error {
	var p *gojq.ParseError
	if !errors.As(err, &p) {
		return pdk.Invalid("bad_query", "the query is not valid: %w", err)
	}
	at := max(0, min(p.Offset-len(p.Token), len(query)))
	before := query[:at]
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	return pdk.Invalid("bad_query", "the query is not valid at line %d, column %d: %w", line, column, err).
		With(map[string]any{"line": line, "column": column, "offset": at, "token": p.Token})
}

type variables struct {
	names  []string
	values []any
}

func readVariables(in map[string]json.RawMessage) (v variables, err error) {
	for _, name := range sortedKeys(in) {
		if !abi.ValidEnvName(name) || name == "ENV" || name == "__loc__" {
			return v, pdk.Invalid("bad_variable", "%q cannot be the name of a variable: a letter or _, then letters, digits or _", name)
		}
		value, _, err := newParser(bytes.NewReader(in[name]), nil).next()
		if err != nil {
			return v, pdk.Invalid("bad_variable", "the variable %s: %w", name, err)
		}
		v.names, v.values = append(v.names, "$"+name), append(v.values, value)
	}
	return v, nil
}

// documents is the input: what the query runs over and what input reads.
type documents struct {
	p      *parser
	where  string
	ready  []any // come before what p has
	failed error
}

var _ gojq.Iter = (*documents)(nil)

// Next is the next document, or the error that ended the input.
func (d *documents) Next() (any, bool) {
	v, ok, err := d.next()
	if err != nil {
		return err, true
	}
	return v, ok
}

func (d *documents) next() (any, bool, error) {
	if len(d.ready) > 0 {
		v := d.ready[0]
		d.ready = d.ready[1:]
		return v, true, nil
	}
	if d.p == nil || d.failed != nil {
		return nil, false, d.failed
	}
	v, ok, err := d.p.next()
	if err != nil {
		var at *syntaxError
		if errors.As(err, &at) {
			err = pdk.Invalid("bad_json", "%s is not JSON at %w", d.where, err).With(at)
		}
		d.failed = err
	}
	return v, ok, err
}

// openInput opens what the input names. Done closes it.
func openInput(ctx context.Context, in *jqIn, call *pdk.Call) (d *documents, done func(), err error) {
	none := func() {}
	hasJSON := len(in.JSON) > 0
	switch {
	case hasJSON && in.Path != "":
		return nil, none, pdk.Invalid("json_or_path", "give json or path, not both")
	case in.Path != "":
		return openFile(ctx, in.Path, call)
	case !hasJSON && in.NullInput:
		return &documents{}, none, nil
	case !hasJSON:
		return nil, none, pdk.Invalid("json_or_path", "give the input in json or path, or set nullInput")
	}
	text := []byte(in.JSON)
	if text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, none, pdk.Invalid("bad_json", "json: %w", err)
		}
		text = []byte(s)
	}
	return &documents{p: newParser(bytes.NewReader(text), canceller(ctx)), where: "json"}, none, nil
}

// canceller ends a parse when the call should stop.
func canceller(ctx context.Context) func(int) error {
	return func(int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

func openFile(ctx context.Context, name string, call *pdk.Call) (*documents, func(), error) {
	none := func() {}
	file, err := pdk.Path(ctx, name)
	if err != nil {
		return nil, none, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, none, pdk.FileError(ctx, file, false, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = pdk.Invalid(pdk.CodeIsDirectory, "%s is a folder; name a file", file)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = pdk.Invalid("not_a_file", "%s is not a regular file", file)
	}
	if err != nil {
		f.Close()
		return nil, none, pdk.FileError(ctx, file, false, err)
	}
	done := func() { f.Close() }
	if info.Size() >= largeFile {
		// Half of the usual head room: the values of a large file are live.
		old := debug.SetGCPercent(50)
		done = func() { debug.SetGCPercent(old); f.Close() }
	}
	read := &reading{ctx: ctx, call: call, name: path.Base(file), size: info.Size()}
	src := fileReader{f, ctx, file}
	return &documents{p: newParser(src, read.piece), where: file}, done, nil
}

// fileReader turns the errors of a file into the tool's.
type fileReader struct {
	f    *os.File
	ctx  context.Context
	name string
}

func (r fileReader) Read(p []byte) (int, error) {
	n, err := r.f.Read(p)
	if err != nil && err != io.EOF {
		err = pdk.FileError(r.ctx, r.name, false, err)
	}
	return n, err
}

// reading shows how much of a large file is read.
type reading struct {
	ctx        context.Context
	call       *pdk.Call
	name       string
	size       int64
	done, told int64
}

func (r *reading) piece(n int) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.done += int64(n); r.size < largeFile || (r.done-r.told < largeFile && r.done < r.size) {
		return nil
	}
	r.told = r.done
	err := r.call.Progress(fmt.Sprintf("Reading %s", r.name), float64(r.done), float64(max(r.done, r.size)))
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return err
}
