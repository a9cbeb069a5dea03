// Package args turns the lenient input that models write into what a schema describes,
// for tools that say so.
package args

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// Shape says what of an input is lenient. The zero value drops every member.
type Shape struct {
	// Known are the members that stay; others are dropped.
	Known []string
	// Numbers and Booleans are the members that may be written as strings.
	Numbers, Booleans []string
}

var number = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// Normalize is the input as its schema describes it. What it cannot read it leaves for
// the schema to refuse.
func (s Shape) Normalize(input json.RawMessage) (json.RawMessage, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(input, &in); err != nil || in == nil {
		return input, nil
	}
	changed := false
	for name, raw := range in {
		if !slices.Contains(s.Known, name) {
			delete(in, name)
			changed = true
			continue
		}
		if out, ok := s.scalar(name, raw); ok {
			in[name] = out
			changed = true
		}
	}
	if !changed {
		return input, nil
	}
	return abi.Marshal(in)
}

// scalar reads a number or a boolean out of a string.
func (s Shape) scalar(name string, raw json.RawMessage) (json.RawMessage, bool) {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil, false
	}
	text = strings.TrimSpace(text)
	if slices.Contains(s.Numbers, name) && number.MatchString(text) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) {
			return json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64)), true
		}
	}
	if slices.Contains(s.Booleans, name) {
		switch strings.ToLower(text) {
		case "true", "1", "yes", "y", "on":
			return json.RawMessage("true"), true
		case "false", "0", "no", "n", "off":
			return json.RawMessage("false"), true
		}
	}
	return nil, false
}

// Int is an integer as JSON Schema means it: 2, 2.0 and 2e0 are the same.
type Int int64

// UnmarshalJSON takes any JSON number without a fraction.
func (i *Int) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("%.40s is no integer", b)
	}
	*i = Int(f)
	return nil
}
