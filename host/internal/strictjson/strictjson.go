// Package strictjson reads JSON that came from outside. It refuses what two
// readers could understand differently: duplicate keys, invalid UTF-8, lone
// surrogates, trailing bytes, numbers beyond a float64's range, and nesting
// deeper than abi.MaxDepth. It is the one owner of go-json-experiment, whose
// types stay inside. All functions are safe for concurrent use.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bladehost/bladehost/abi"
)

// Error says where and why bytes are not strict JSON.
type Error struct {
	// Offset counts bytes from 0.
	Offset int64
	// Pointer is the JSON Pointer of the value that was being read.
	Pointer string
	Text    string
}

// Error is one sentence with the position.
func (e *Error) Error() string {
	if e.Pointer != "" {
		return fmt.Sprintf("not strict JSON at byte %d (in %s): %s", e.Offset, e.Pointer, e.Text)
	}
	return fmt.Sprintf("not strict JSON at byte %d: %s", e.Offset, e.Text)
}

// reader is a decoder that is used again and again: making one costs more than
// reading a short text.
type reader struct {
	dec *jsontext.Decoder
	buf bytes.Buffer
}

var readers = sync.Pool{New: func() any { return &reader{dec: jsontext.NewDecoder(bytes.NewBuffer(nil))} }}

// with calls f with a decoder for b.
func with[T any](b []byte, f func(*jsontext.Decoder) (T, error)) (T, error) {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.buf = *bytes.NewBuffer(b)
	r.dec.Reset(&r.buf)
	v, err := f(r.dec)
	if err == nil {
		err = end(r.dec)
	}
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf) // lets go of b
	return v, err
}

// next reads a token within the limits.
func next(dec *jsontext.Decoder) (jsontext.Token, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return tok, syntax(dec, err)
	}
	if dec.StackDepth() > abi.MaxDepth {
		return tok, &Error{dec.InputOffset(), clip(string(dec.StackPointer())), fmt.Sprintf("nested deeper than %d levels", abi.MaxDepth)}
	}
	if tok.Kind() == '0' {
		if text := tok.String(); !saneNumber(text) {
			return tok, &Error{dec.InputOffset(), clip(string(dec.StackPointer())), fmt.Sprintf("the number %s is out of range", clip(text))}
		}
	}
	return tok, nil
}

// Check reports whether b is exactly one strict JSON value.
func Check(b []byte) error {
	if plainly(b) {
		return nil
	}
	return check(b)
}

// check is Check by the decoder, which has the last word.
func check(b []byte) error {
	_, err := with(b, func(dec *jsontext.Decoder) (struct{}, error) {
		for {
			if _, err := next(dec); err != nil || dec.StackDepth() == 0 {
				return struct{}{}, err
			}
		}
	})
	return err
}

// end checks that nothing follows the value that was read.
func end(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return syntax(dec, err)
	}
	return &Error{dec.InputOffset(), "", "bytes follow the value"}
}

func syntax(dec *jsontext.Decoder, err error) error {
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		return &Error{se.ByteOffset, clip(string(se.JSONPointer)), reason(se.Err)}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{dec.InputOffset(), "", "the text ends too early"}
	}
	return &Error{dec.InputOffset(), "", err.Error()}
}

func reason(err error) string {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "a key stands twice in one object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the text ends too early"
	}
	return err.Error()
}

// saneNumber holds a number to what a float64 can take in: a validator that
// works with exact numbers is killed by 1e9999999.
func saneNumber(text string) bool {
	if len(text) > abi.MaxNumber {
		return false
	}
	for i := range len(text) {
		if text[i] == 'e' || text[i] == 'E' {
			exp, err := strconv.Atoi(text[i+1:])
			return err == nil && exp >= -abi.MaxExponent && exp <= abi.MaxExponent
		}
	}
	return true
}

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// CheckObject reports whether b is strict JSON whose root is an object.
func CheckObject(b []byte) error {
	if err := Check(b); err != nil {
		return err
	}
	if t := bytes.TrimLeft(b, " \t\r\n"); t[0] != '{' {
		return &Error{0, "", "the value is not an object"}
	}
	return nil
}

// Decode reads strict JSON into v and ignores members that v does not have.
// Names match exactly, case included.
func Decode(b []byte, v any) error { return decode(b, v, false) }

// DecodeKnown is Decode, but a member that v does not have is an error.
func DecodeKnown(b []byte, v any) error { return decode(b, v, true) }

func decode(b []byte, v any, known bool) error {
	if err := Check(b); err != nil {
		return err
	}
	err := jsonv2.Unmarshal(b, v, jsonv2.RejectUnknownMembers(known))
	if err == nil {
		return nil
	}
	var se *jsonv2.SemanticError
	if errors.As(err, &se) {
		e := &Error{Offset: se.ByteOffset, Pointer: clip(string(se.JSONPointer))}
		switch {
		case errors.Is(se.Err, jsonv2.ErrUnknownName):
			e.Text = "this member is not known"
		case se.Err != nil:
			e.Text = se.Err.Error()
		default:
			e.Text = fmt.Sprintf("a %s does not fit here", kindName(se.JSONKind))
		}
		return e
	}
	return &Error{Text: err.Error()}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

// Value reads strict JSON into the shape that a schema validator works on:
// map[string]any, []any, string, bool, nil and json.Number.
func Value(b []byte) (any, error) { return with(b, value) }

func value(dec *jsontext.Decoder) (any, error) {
	tok, err := next(dec)
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		return object(dec)
	case '[':
		return array(dec)
	case '"':
		return tok.String(), nil
	case '0':
		return json.Number(tok.String()), nil
	case 't', 'f':
		return tok.Bool(), nil
	}
	return nil, nil
}

func object(dec *jsontext.Decoder) (any, error) {
	out := map[string]any{}
	for dec.PeekKind() != '}' {
		key, err := next(dec)
		if err != nil {
			return nil, err
		}
		name := key.String() // before the next read makes the token stale
		if out[name], err = value(dec); err != nil {
			return nil, err
		}
	}
	_, err := next(dec)
	return out, err
}

func array(dec *jsontext.Decoder) (any, error) {
	out := []any{}
	for dec.PeekKind() != ']' {
		v, err := value(dec)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := next(dec)
	return out, err
}

// Canonical is the RFC 8785 form of strict JSON: one text for one value.
func Canonical(b []byte) ([]byte, error) {
	if err := Check(b); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(b))
	if err := v.Canonicalize(); err != nil {
		return nil, &Error{Text: err.Error()}
	}
	return v, nil
}
