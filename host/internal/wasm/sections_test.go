package wasm

import (
	"bytes"
	"strings"
	"testing"
)

func TestSetCustom(t *testing.T) {
	code := sec(secType, vec())
	tests := []struct {
		name     string
		in, want []byte
	}{
		{"appends", mod(code, custom("a", "1")), mod(code, custom("a", "1"), custom("m", "new"))},
		{"replaces in place", mod(custom("m", "old"), code), mod(custom("m", "new"), code)},
		{"replaces the first, drops the rest", mod(custom("m", "1"), code, custom("m", "2"), custom("z", "")), mod(custom("m", "new"), code, custom("z", ""))},
		{"into an empty module", mod(), mod(custom("m", "new"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := bytes.Clone(tt.in)
			got, err := SetCustom(tt.in, "m", []byte("new"))
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Fatalf("got %x, %v\nwant %x", got, err, tt.want)
			}
			if !bytes.Equal(before, tt.in) {
				t.Error("the input was changed")
			}
		})
	}
}

func TestSetCustomKeepsForeignEncoding(t *testing.T) {
	odd := raw(secType, 0x81, 0x80, 0x00, 0x00) // a length longer than need be
	got, err := SetCustom(mod(odd), "m", nil)
	if want := mod(odd, custom("m", "")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}

func TestRemoveCustom(t *testing.T) {
	got, err := RemoveCustom(mod(custom("m", "1"), custom("n", ""), custom("m", "2")), "m")
	if want := mod(custom("n", "")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}

func TestSetCustomRefuses(t *testing.T) {
	for name, call := range map[string]func() ([]byte, error){
		"no module":     func() ([]byte, error) { return SetCustom([]byte("text"), "m", nil) },
		"empty name":    func() ([]byte, error) { return SetCustom(mod(), "", nil) },
		"not UTF-8":     func() ([]byte, error) { return SetCustom(mod(), "\xff", nil) },
		"long name":     func() ([]byte, error) { return SetCustom(mod(), strings.Repeat("x", 10_001), nil) },
		"cut module":    func() ([]byte, error) { return SetCustom(full()[:30], "m", nil) },
		"remove in cut": func() ([]byte, error) { return RemoveCustom(full()[:30], "m") },
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := call(); err == nil || ReasonOf(err) == "" || b != nil {
				t.Errorf("got %x, %v", b, err)
			}
		})
	}
}

func TestFindCustom(t *testing.T) {
	b := full()
	info, err := Scan(b, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "middle", "last", "none"} {
		want, n := info.Custom(name)
		got, k, err := FindCustom(b, name)
		if err != nil || k != n || !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, %d, %v, want %q, %d", name, got, k, err, want, n)
		}
	}
	if _, _, err := FindCustom([]byte("no"), "x"); ReasonOf(err) != NotWasm {
		t.Errorf("got %v", err)
	}
}

// FuzzSetCustom: the payload comes back, every other section stays as it is.
func FuzzSetCustom(f *testing.F) {
	f.Add(full(), "first", []byte("payload"))
	f.Add(full(), "blade.manifest", []byte("{}"))
	f.Add(mod(), "name", []byte{})
	f.Fuzz(func(t *testing.T, b []byte, name string, payload []byte) {
		before, err := Scan(b, Limits{})
		if err != nil || name == "name" {
			return
		}
		out, err := SetCustom(b, name, payload)
		if err != nil {
			if ReasonOf(err) != Malformed {
				t.Fatal(err)
			}
			return
		}
		after, err := Scan(out, Limits{Customs: 65, Size: 65 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if got, n := after.Custom(name); n != 1 || !bytes.Equal(got, payload) {
			t.Fatalf("got %d sections, %q", n, got)
		}
		a, errA := RemoveCustom(b, name)
		z, errZ := RemoveCustom(out, name)
		if errA != nil || errZ != nil || !bytes.Equal(a, z) {
			t.Fatal("another section changed")
		}
		if _, n := before.Custom(name); n == 1 {
			old, _ := before.Custom(name)
			if back, err := SetCustom(out, name, old); err != nil || len(back) > len(b) {
				t.Fatal("setting the old payload does not give the old module back", err)
			}
		}
	})
}
