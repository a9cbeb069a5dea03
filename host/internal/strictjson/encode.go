package strictjson

import (
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// ErrBytes is why Encode refuses a []byte: it has no JSON form that a reader
// would expect.
var ErrBytes = errors.New("bytes have no JSON form; give a string or a base64 text")

// Encode is the JSON of a Go value by the rules of encoding/json, but strict:
// NaN, infinities, bytes and invalid UTF-8 are errors instead of something else.
// Bytes that already are JSON (json.RawMessage) are checked and kept.
func Encode(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if raw == nil {
			return json.RawMessage("null"), nil
		}
		return raw, Check(raw)
	}
	b, err := jsonv2.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false),
		jsontext.EscapeForHTML(false), jsonv2.WithMarshalers(jsonv2.MarshalFunc(func([]byte) ([]byte, error) { return nil, ErrBytes })))
	if err != nil {
		return nil, err
	}
	if err := Check(b); err != nil {
		return nil, err
	}
	return b, nil
}
