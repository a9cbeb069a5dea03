package pdktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
)

// strict reports why b is not exactly one value of strict JSON, as abi/SPEC.md
// defines it.
func strict(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	if err := surrogates(b); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := value(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("bytes follow the value")
	}
	return nil
}

func value(dec *json.Decoder, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch t := tok.(type) {
	case json.Number:
		return number(t.String())
	case json.Delim:
		if depth++; depth > abi.MaxDepth {
			return fmt.Errorf("it is nested deeper than %d levels", abi.MaxDepth)
		}
		if t == '[' {
			for dec.More() {
				if err := value(dec, depth); err != nil {
					return err
				}
			}
		} else if err := members(dec, depth); err != nil {
			return err
		}
		_, err = dec.Token()
	}
	return err
}

func members(dec *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return errors.New("a name is no string")
		}
		if seen[key] {
			return fmt.Errorf("the name %q stands twice", key)
		}
		seen[key] = true
		if err := value(dec, depth); err != nil {
			return err
		}
	}
	return nil
}

func number(text string) error {
	if len(text) > abi.MaxNumber {
		return fmt.Errorf("the number %s… has more than %d characters", text[:20], abi.MaxNumber)
	}
	if i := bytes.IndexAny([]byte(text), "eE"); i >= 0 {
		exp, err := strconv.Atoi(text[i+1:])
		if err != nil || exp < -abi.MaxExponent || exp > abi.MaxExponent {
			return fmt.Errorf("the number %s is out of range", text)
		}
	}
	return nil
}

// surrogates finds an escape \uD800 to \uDFFF without its other half, which
// encoding/json replaces silently.
func surrogates(b []byte) error {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		u, ok := unit(b[i:])
		switch {
		case !ok:
			i++ // a short escape
		case u >= 0xdc00 && u <= 0xdfff:
			return errors.New("a string has half a surrogate pair")
		case u >= 0xd800 && u <= 0xdbff:
			low, ok := unit(b[min(i+6, len(b)):])
			if !ok || low < 0xdc00 || low > 0xdfff {
				return errors.New("a string has half a surrogate pair")
			}
			i += 11
		default:
			i += 5
		}
	}
	return nil
}

// unit reads \uXXXX at the start of b.
func unit(b []byte) (uint64, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return u, err == nil
}
