package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// changedError tells what is different about a plugin of the same name.
func changedError(was, now *Entry) *abi.Error {
	lines := Diff(was, now)
	return abi.NewError(abi.CodeChanged, "%s is installed and this one is different:\n  %s", now.Name, strings.Join(lines, "\n  ")).
		With(map[string]any{"name": now.Name, "changes": lines})
}

// Diff says what a person should know before one plugin takes the place of
// another: a line a difference, requests for more first.
func Diff(was, now *Entry) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	diffCapabilities(was.Capabilities, now.Capabilities, add)
	diffSets("import", was.Imports, now.Imports, add)
	diffTools(was, now, add)
	switch {
	case was.Version != now.Version:
		add("version: %s, was %s", now.Version, was.Version)
	case was.SHA256 != now.SHA256:
		add("version: %s as before, but other code", now.Version)
	}
	if was.Source != now.Source {
		add("source: %s, was %s", now.Source, was.Source)
	}
	add("module: sha256 %s…, was %s…", now.SHA256[:12], was.SHA256[:12])
	return out
}

func diffSets(what string, was, now []string, add func(string, ...any)) {
	for _, x := range now {
		if !slices.Contains(was, x) {
			add("new %s: %s", what, x)
		}
	}
	for _, x := range was {
		if !slices.Contains(now, x) {
			add("no more %s: %s", what, x)
		}
	}
}

// requests lists what capabilities ask for, an item a request.
func requests(c *abi.Capabilities) []string {
	var out []string
	if c == nil {
		return nil
	}
	if c.FS != nil {
		if c.FS.Read {
			out = append(out, "read folders")
		}
		if c.FS.Write {
			out = append(out, "write folders")
		}
	}
	if c.HTTP != nil {
		methods := c.HTTP.Methods
		if methods == nil {
			methods = []string{"GET", "HEAD"}
		}
		for _, h := range c.HTTP.Hosts {
			for _, m := range methods {
				out = append(out, m+" "+h)
			}
		}
	}
	for _, s := range c.Secrets {
		for _, h := range s.Hosts {
			out = append(out, "secret "+s.Name+" for "+h)
		}
	}
	for _, e := range c.Env {
		out = append(out, "environment variable "+e.Name)
	}
	if c.KV != nil {
		out = append(out, "a store of its own")
	}
	if c.Clock != "" {
		out = append(out, "a "+c.Clock+" clock")
	}
	return out
}

// Requests lists what a manifest asks for, in words.
func Requests(c *abi.Capabilities) []string { return requests(c) }

func diffCapabilities(was, now *abi.Capabilities, add func(string, ...any)) {
	diffSets("request", requests(was), requests(now), add)
}

// diffTools compares the definitions member by member.
func diffTools(was, now *Entry, add func(string, ...any)) {
	old, fresh := definitions(was), definitions(now)
	for _, name := range sortedKeys(fresh) {
		before, ok := old[name]
		if !ok {
			add("new tool: %s", name)
			continue
		}
		for _, member := range sortedKeys(union(before, fresh[name])) {
			a, b := before[member], fresh[name][member]
			if !sameJSON(a, b) {
				add("tool %s: %s is %s, was %s", name, member, brief(b), brief(a))
			}
		}
	}
	for _, name := range sortedKeys(old) {
		if _, ok := fresh[name]; !ok {
			add("no more tool: %s", name)
		}
	}
}

type members map[string]json.RawMessage

func definitions(e *Entry) map[string]members {
	var list []members
	if json.Unmarshal(e.Definitions, &list) != nil {
		return nil
	}
	out := map[string]members{}
	for _, m := range list {
		var name string
		if json.Unmarshal(m["name"], &name) == nil {
			out[name] = m
		}
	}
	return out
}

func union(a, b members) members {
	out := members{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// sameJSON compares values: lock.json has the definitions indented.
func sameJSON(a, b json.RawMessage) bool {
	x, err := value(a)
	y, errY := value(b)
	return err == nil && errY == nil && reflect.DeepEqual(x, y)
}

// value keeps numbers as they are written.
func value(raw json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func brief(raw json.RawMessage) string {
	const most = 120
	if raw == nil {
		return "not set"
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		b.Write(raw)
	}
	s := b.String()
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
