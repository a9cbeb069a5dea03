package main

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

var errTooLarge = pdk.Errorf("result_too_large", "the results have more than %d MiB of JSON; select less, or count and sum up in the query", maxOutput>>20)

// appendJSON writes a value of gojq as the JSON that may cross the ABI: a number
// of more than abi.MaxNumber characters is rounded to a float64, what is smaller
// than a float64 can well say becomes 0, infinities the largest float64 as in
// jq, and NaN null.
func appendJSON(dst []byte, v any, depth int) ([]byte, error) {
	if len(dst) > maxOutput {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		return appendFloat(dst, v), nil
	case *big.Int:
		return appendNumber(dst, v.String()), nil
	case json.Number:
		return appendNumber(dst, v.String()), nil
	case string:
		return appendString(dst, v), nil
	case []any:
		return appendArray(dst, v, depth)
	case map[string]any:
		return appendObject(dst, v, depth)
	}
	return nil, pdk.Errorf("query_failed", "the query returned a value of the unknown type %T", v)
}

func tooDeep(depth int) error {
	// The results themselves are two levels into the tool's answer.
	if depth+3 > abi.MaxDepth {
		return pdk.Errorf("result_too_deep", "a result is nested deeper than %d levels; select a part of it, or use tojson", abi.MaxDepth-3)
	}
	return nil
}

func appendArray(dst []byte, list []any, depth int) (_ []byte, err error) {
	if err := tooDeep(depth); err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, v, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, m map[string]any, depth int) (_ []byte, err error) {
	if err := tooDeep(depth); err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		if dst, err = appendJSON(dst, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, _ := gojq.Marshal(s) // never fails for a string
			return append(dst, b...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// smallest is where the exponents of a float64 leave the range of the ABI.
const smallest = 1e-307

func appendFloat(dst []byte, f float64) []byte {
	if math.Abs(f) < smallest {
		f = 0
	}
	b, _ := gojq.Marshal(f) // never fails for a number
	return append(dst, b...)
}

// appendNumber keeps the text of a number where it can.
func appendNumber(dst []byte, text string) []byte {
	if len(text) <= abi.MaxNumber {
		i := strings.IndexAny(text, "eE")
		if i < 0 {
			return append(dst, text...)
		}
		if exp, err := strconv.Atoi(text[i+1:]); err == nil && exp >= -abi.MaxExponent && exp <= abi.MaxExponent {
			return append(dst, text...)
		}
	}
	f, _ := gojq.ToFloat64(json.Number(text))
	return appendFloat(dst, f)
}
