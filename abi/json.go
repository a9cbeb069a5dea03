package abi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// marshal is json.Marshal without HTML escaping.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Marshal is the JSON of v as this project writes it: compact, HTML characters
// as they are, fields in the order of the type, map keys sorted.
func Marshal(v any) (json.RawMessage, error) { return marshal(v) }

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// A service frame is a little-endian u32, the length of the JSON head, then the
// head, then bytes. An empty frame means head {} and no bytes.

// ErrFrame is why DecodeFrame refuses.
var ErrFrame = errors.New("not a service frame")

// EncodeFrame puts a frame together.
func EncodeFrame(head, body []byte) []byte {
	out := make([]byte, 4, 4+len(head)+len(body))
	binary.LittleEndian.PutUint32(out, uint32(len(head)))
	out = append(out, head...)
	return append(out, body...)
}

// DecodeFrame takes a frame apart. Head and body are slices of b. The head is
// not parsed; its and the body's lengths are held to MaxFrameHead and
// MaxFrameBody.
func DecodeFrame(b []byte) (head, body []byte, err error) {
	if len(b) == 0 {
		return []byte("{}"), nil, nil
	}
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: %d bytes are too few for the head's length", ErrFrame, len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if n > MaxFrameHead {
		return nil, nil, fmt.Errorf("%w: the head has %d bytes, at most %d are allowed", ErrFrame, n, MaxFrameHead)
	}
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, fmt.Errorf("%w: the head claims %d bytes, %d follow", ErrFrame, n, len(b)-4)
	}
	head, body = b[4:4+n], b[4+n:]
	if len(body) > MaxFrameBody {
		return nil, nil, fmt.Errorf("%w: the body has %d bytes, at most %d are allowed", ErrFrame, len(body), MaxFrameBody)
	}
	if n == 0 {
		head = []byte("{}")
	}
	return head, body, nil
}
