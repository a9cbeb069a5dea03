package pdk

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
)

type sample struct {
	Text    string             `json:"text"`
	Opt     string             `json:"opt,omitempty"`
	Ptr     *string            `json:"ptr,omitempty"`
	N       int                `json:"n"`
	Small   int8               `json:"small"`
	U       uint16             `json:"u,omitzero"`
	F       float64            `json:"f"`
	F32     float32            `json:"f32,omitempty"`
	B       bool               `json:"b"`
	Any     any                `json:"any"`
	Raw     json.RawMessage    `json:"raw,omitempty"`
	List    []string           `json:"list"`
	Nums    []float64          `json:"nums,omitempty"`
	Map     map[string]int     `json:"map,omitempty"`
	Maps    map[string][]inner `json:"maps"`
	Inner   inner              `json:"inner"`
	Inners  []*inner           `json:"inners"`
	Self    *sample            `json:"self,omitempty"`
	Skipped int                `json:"-"`
	NoTag   string
}

type inner struct {
	X, Y int
	Z    map[string]any `json:",omitempty"`
}

type odd struct {
	inner
	When   time.Time    `json:"when"`
	Quoted int          `json:"quoted,string"`
	Bytes  []byte       `json:"bytes"`
	Pair   [2]int       `json:"pair"`
	ByNum  map[int]bool `json:"byNum"`
	Num    json.Number  `json:"num"`
	Zero   time.Time    `json:"zero,omitzero"`
}

func plainJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

func sameEncoding(t *testing.T, v any) {
	t.Helper()
	var buf bytes.Buffer
	got, err := encode(&buf, v)
	want, wantErr := plainJSON(v)
	if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
		t.Errorf("%#v:\n%s (%v)\nencoding/json: %s (%v)", v, got, err, want, wantErr)
	}
}

func sameDecoding[T any](t *testing.T, b []byte) {
	t.Helper()
	var got, want T
	err, wantErr := unmarshal(b, &got), json.Unmarshal(b, &want)
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Errorf("%s into %T: %v, encoding/json: %v", b, got, err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s into %T:\n%#v\nencoding/json:\n%#v", b, got, got, want)
	}
}

func everyDecoding(t *testing.T, b []byte) {
	t.Helper()
	sameDecoding[any](t, b)
	sameDecoding[sample](t, b)
	sameDecoding[odd](t, b)
	sameDecoding[string](t, b)
	sameDecoding[int](t, b)
	sameDecoding[float32](t, b)
	sameDecoding[*bool](t, b)
	sameDecoding[json.RawMessage](t, b)
	sameDecoding[[]any](t, b)
	sameDecoding[[]sample](t, b)
	sameDecoding[map[string]json.RawMessage](t, b)
	sameDecoding[map[string]*inner](t, b)
	sameDecoding[abi.Yield](t, b)
	sameDecoding[abi.Manifest](t, b)
}

var jsonCases = []string{
	``, ` `, `null`, `true`, `false`, ` tru`, `nulll`, `0`, `-0`, `1.5e3`, `01`, `1.`, `-`, `.5`, `1e`, `1e999`, `128`, `70000`, `-1`, `9223372036854775808`, `0.1`, `1E-7`,
	`""`, `"a"`, `"a\nb\t\"\\\/\b\f\r"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"\ud800\u0041"`, `"\x"`, `"a`, `"a\`, `"\u12"`, "\"a\nb\"", "\"\xff\"", "\"é\u2028\"", `"aaaaaaaaaaaaaaaa\"aaaaaaa"`,
	`[]`, `[ ]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[[],{}]`, `{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"1}`, `{a:1}`, `{"a":1}x`, `{"a":1} `, `{"A":1,"a":2}`,
	`{"text":"x","n":5,"small":-3,"u":7,"f":1.5,"f32":2.5,"b":true,"any":{"a":[1,null]},"raw": {"x" : [1, 2]} ,"list":["a","b"],"nums":[1,2.5],"map":{"k":1},"maps":{"m":[{"X":1,"Y":2,"Z":{"q":null}}]},"inner":{"X":1},"inners":[{"Y":1},null],"self":{"text":"y"},"NoTag":"z"}`,
	`{"Text":"x"}`, `{"TEXT":"x"}`, `{"notag":"x"}`, `{"small":200}`, `{"n":1.0}`, `{"n":"1"}`, `{"text":5}`, `{"list":null,"ptr":null,"map":null,"inner":null,"any":null,"raw":null,"text":null,"n":null,"b":null,"f":null}`,
	`{"unknown":{"a":[1,{"b":"c\n"}]},"n":1}`, `{"unknown":[1,}`, `{"list":[1]}`, `{"when":"2020-01-02T03:04:05Z","quoted":"5","bytes":"AAE=","pair":[1,2,3],"byNum":{"1":true},"num":1.50,"X":1}`,
	`{"inner":{"x":1}}`, `{"self":{"self":{"n":1}}}`, `{"kind":"progress","completed":1,"data": [ ] ,"content":{"summary":"s","detail":1}}`, `{"text":"a","text":"b"}`, `{"any":"a","any":{"b":1}}`, `{"inner":{"X":1},"inner":{"Y":2}}`,
	`{"map":{"a":1},"map":{"b":2}}`, `{"list":["a","b"],"list":["c"]}`, `{"ptr":"a","ptr":"b"}`, `{"inners":[{"X":1}],"inners":[{"Y":1}]}`,
	"{\"abi\":1,\"tools\":[{\"name\":\"a\",\"description\":\"d\"}]}", strings.Repeat("[", 300) + strings.Repeat("]", 300), "\ufeff1",
}

func TestCodecDecodes(t *testing.T) {
	for _, s := range jsonCases {
		everyDecoding(t, []byte(s))
	}
}

func TestCodecEncodes(t *testing.T) {
	text, when := "x", time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	cyclic := &sample{}
	cyclic.Self = cyclic
	for _, v := range []any{
		nil, true, 0, -5, uint8(3), 1.0, 0.1, 1e21, 1e20, 1e-6, 1e-7, -1e-9, 1e100, 5e-324, math.MaxFloat64, float32(0.1), float32(1e21), float32(1e-7), float32(3e10), math.NaN(), math.Inf(1), math.Copysign(0, -1),
		"", "plain", "<a href=\"x\">&", "\x00\x1f\x7f\b\f\n\r\t\\\"/", "é😀\u2028\u2029\ufffd", "a\xffb\xc3", strings.Repeat("x", 31) + "\n" + strings.Repeat("é", 9),
		[]int(nil), []int{}, []int{1, 2}, []byte(nil), []byte{}, []byte{0, 255}, [2]string{"a", "b"}, map[string]int(nil), map[string]int{}, map[string]any{"b": 1, "a<": []any{nil, "x"}},
		map[int]string{2: "b", 1: "a"}, json.RawMessage(nil), json.RawMessage(`{"a":[1,"<"]}`), json.RawMessage(` { "a" : 1 } `), json.RawMessage(`{"a":1`), json.RawMessage(``), json.RawMessage("\"\xff\""), json.RawMessage("\"\u2028\""), json.RawMessage(`1 `),
		json.Number("1.50"), json.Number(""), when, &when, struct{ When *time.Time }{&when}, sample{}, &sample{}, (*sample)(nil), []*inner{nil, {X: 1}},
		sample{Text: "t", Ptr: &text, Any: map[string]any{"k": inner{Z: map[string]any{"z": 1}}}, Raw: json.RawMessage("[1]"), Maps: map[string][]inner{"m": {{X: 1}}}, Inners: []*inner{{}}, Self: &sample{N: 1}, F32: 1.5, U: 1},
		odd{inner: inner{X: 1}, When: when, Quoted: 5, Bytes: []byte{1}, ByNum: map[int]bool{1: true}, Num: "1"}, cyclic, func() {}, make(chan int), map[string]any{"f": func() {}}, struct{ F any }{math.NaN()},
		struct {
			T time.Time `json:",omitzero"`
			D time.Duration
		}{D: 5}, struct {
			A string `json:"a b"`
			B string `json:"<"`
		}{"x", "y"}, struct{ unexported, Exported int }{1, 2}, abi.Progress("m", 1, -1), abi.Message("m"), wireError{Message: "m", Details: json.RawMessage("{}")}, abi.Description{Short: "s"}, []any{abi.Description{Short: "<"}},
		[]level{"a"}, map[level]int{"k": 1}, &[]string{"p"}, any(&text),
	} {
		sameEncoding(t, v)
	}
}

// A type that contains itself, seen by many goroutines for the first time.
func TestCodecAtOnce(t *testing.T) {
	type fresh struct {
		Next *fresh           `json:"next,omitempty"`
		Map  map[string]fresh `json:"map,omitempty"`
		N    int              `json:"n"`
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			const text = `{"next":{"next":{"n":3},"n":2},"map":{"k":{"n":5}},"n":1}`
			var v fresh
			if err := unmarshal([]byte(text), &v); err != nil || v.Next.Next.N != 3 {
				t.Errorf("%+v, %v", v, err)
			}
			var buf bytes.Buffer
			if b, err := encode(&buf, v); err != nil || string(b) != text {
				t.Errorf("%s, %v", b, err)
			}
		})
	}
	wg.Wait()
}

// level writes itself.
type level string

func (l level) MarshalText() ([]byte, error) { return []byte("level " + l), nil }

// plain is right for every byte at every place.
func TestPlain(t *testing.T) {
	naive := func(b []byte) int {
		for i, c := range b {
			if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
				return i
			}
		}
		return len(b)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := bytes.Repeat([]byte{'!'}, n)
				b[at] = byte(c)
				if at+1 < n {
					b[at+1] = byte(rnd.Uint32())
				}
				if plain(b) != naive(b) || plainText(string(b)) != naive(b) {
					t.Fatalf("%q: %d, want %d", b, plain(b), naive(b))
				}
			}
		}
	}
}

// FuzzCodec: reading and writing is what encoding/json does.
func FuzzCodec(f *testing.F) {
	for _, s := range jsonCases {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		everyDecoding(t, b)
		var v any
		if json.Unmarshal(b, &v) == nil {
			sameEncoding(t, v)
		}
		var s sample
		if json.Unmarshal(b, &s) == nil {
			sameEncoding(t, s)
		}
		sameEncoding(t, string(b))
		sameEncoding(t, map[string]json.RawMessage{string(b): b})
	})
}

func BenchmarkCodec(b *testing.B) {
	in, _ := plainJSON(sample{Text: strings.Repeat("a line of text\n", 70), List: []string{"a", "b"}, N: 5, Inner: inner{X: 1}})
	b.Run("kit", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		var buf bytes.Buffer
		for b.Loop() {
			var s sample
			if err := unmarshal(in, &s); err != nil {
				b.Fatal(err)
			}
			_, _ = encode(&buf, s)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			var s sample
			if err := json.Unmarshal(in, &s); err != nil {
				b.Fatal(err)
			}
			_, _ = plainJSON(s)
		}
	})
}
