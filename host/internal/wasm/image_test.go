package wasm

import (
	"reflect"
	"strings"
	"testing"
)

func TestMarshal(t *testing.T) {
	for name, b := range map[string][]byte{"everything": full(), "nothing": mod(), "recursion": program(opCall, 0)} {
		t.Run(name, func(t *testing.T) {
			m, _ := mustRewrite(t, b, Options{})
			stored, err := Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Unmarshal(stored)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Marshal(back)
			if err != nil || string(again) != string(stored) {
				t.Errorf("stored twice: %v", err)
			}
			if !reflect.DeepEqual(back.Bytes, m.Bytes) || !reflect.DeepEqual(back.Image, m.Image) || !reflect.DeepEqual(back.Globals, m.Globals) || !reflect.DeepEqual(back.Info.Exports, m.Info.Exports) {
				t.Errorf("got  %+v\nwant %+v", back, m)
			}
			for n := range stored {
				if _, err := Unmarshal(stored[:n]); err == nil {
					t.Fatalf("accepted %d of %d bytes", n, len(stored))
				}
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	m, err := Rewrite(full(), Options{})
	if err != nil {
		f.Fatal(err)
	}
	stored, err := Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stored)
	f.Add([]byte(storedMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Unmarshal(b)
		if (m == nil) == (err == nil) {
			t.Errorf("%v, %v", m, err)
		}
	})
}

func TestWriteImage(t *testing.T) {
	m, _ := mustRewrite(t, full(), Options{})
	memory := make([]byte, 1<<16)
	if err := m.WriteImage(memory); err != nil || string(memory[8:13]) != "hello" {
		t.Errorf("%v, %q", err, memory[:16])
	}
	if err := m.WriteImage(memory[:10]); err == nil || !strings.Contains(err.Error(), "5 bytes at 8 reach past a memory of 10 bytes") {
		t.Errorf("%v", err)
	}
}
