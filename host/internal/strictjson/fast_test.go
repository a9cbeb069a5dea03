package strictjson

import (
	"bytes"
	"strings"
	"testing"
)

// What passes at once is what passes the decoder; the rest is left to the decoder.
func TestPlainly(t *testing.T) {
	long := strings.Repeat("the quick brown fox ", 10)
	for _, c := range []struct {
		in   string
		want bool
	}{
		{`{}`, true}, {`[]`, true}, {` { "a" : [ 1 , -2.5 , "x" , true , false, null ] } `, true}, {`"` + long + `"`, true},
		{`"` + long + `é` + long + `\n\"` + long + `"`, true}, {"\"\u007f \u2028\"", true}, {`0`, true}, {`-0`, true}, {`0.5`, true},
		{`{"a":1,"b":{"a":1}}`, true}, {`[{"a":1},{"a":1}]`, true},
		{`{"a":1,"a":2}`, false}, {`{"a":1,"\u0061":2}`, false}, {`{"a\n":1}`, false},
		{`"` + long + "\x01" + `"`, false}, {`"` + long + "\xff" + `"`, false}, {`"` + long, false}, {`"\u0041"`, false}, {`"\x"`, false}, {`"\`, false},
		{`01`, false}, {`-`, false}, {`1.`, false}, {`.5`, false}, {`1e5`, false}, {`+1`, false}, {`1234567890123456789`, false}, {`NaN`, false},
		{`tru`, false}, {`truex`, false}, {`{} {}`, false}, {``, false}, {` `, false}, {`{"a"}`, false}, {`{"a":}`, false}, {`{"a":1,}`, false}, {`[1,]`, false}, {`[1 2]`, false}, {`{a:1}`, false}, {`{`, false}, {`[`, false}, {`]`, false},
		{"\ufeff{}", false}, {strings.Repeat("[", plainDepth+2) + strings.Repeat("]", plainDepth+2), false},
	} {
		if got := plainly([]byte(c.in)); got != c.want {
			t.Errorf("plainly(%.60q) = %v", c.in, got)
		}
	}
}

// Every byte in every place of a word is seen.
func TestOrdinary(t *testing.T) {
	for c := range 256 {
		for at := range 24 {
			b := bytes.Repeat([]byte("~"), 24)
			b[at] = byte(c)
			want := 24
			if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
				want = at
			}
			if got := ordinary(b); got != want {
				t.Fatalf("byte %#x at %d: %d", c, at, got)
			}
		}
	}
}

// FuzzPlainly: nothing passes that the decoder refuses.
func FuzzPlainly(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,"x\n",-0.25]}`, `{"a":1,"a":2}`, "\"12345678\xff\"", "\"1234567\x1f89\"", `[[[0]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if plainly(b) {
			if err := check(b); err != nil {
				t.Fatalf("%q: %v", b, err)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	text := []byte(`{"greeting":"Hello","n":42,"pad":"` + strings.Repeat("abcdefghijklmnopqrstuvwxyz     ", 2000) + `"}`)
	for name, f := range map[string]func([]byte) error{"as it is": Check, "by the decoder": check} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := f(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
