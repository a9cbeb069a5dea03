package wasm

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// SetCustom returns a copy of the module b in which the one custom section
// called name holds payload. It takes the place of the first section of that
// name, further ones are dropped; without any it goes to the end. All other
// bytes stay as they are. b must have passed [Scan]; a name that is empty, too
// long or not UTF-8 is refused.
func SetCustom(b []byte, name string, payload []byte) ([]byte, error) {
	lim := Limits{}.withDefaults()
	if name == "" || len(name) > lim.NameBytes || !utf8.ValidString(name) {
		return nil, refuse(Malformed, 0, "custom section: %s is not usable as a name", quote(name))
	}
	body := len(name) + len(payload) + binary.MaxVarintLen32
	sec := make([]byte, 0, body+1+binary.MaxVarintLen32)
	sec = appendSection(sec, secCustom, append(appendName(make([]byte, 0, body), name), payload...))
	return replaceCustom(b, name, sec)
}

// RemoveCustom returns a copy of the module b without custom sections called
// name. All other bytes stay as they are. b must have passed [Scan].
func RemoveCustom(b []byte, name string) ([]byte, error) {
	return replaceCustom(b, name, nil)
}

// FindCustom is [Info.Custom] without a scan: it reads nothing but the frames
// of the sections. The payload shares memory with b.
func FindCustom(b []byte, name string) (payload []byte, n int, err error) {
	sections, err := frames(b)
	if err != nil {
		return nil, 0, err
	}
	for _, s := range sections {
		if s.id != secCustom || s.name != name {
			continue
		}
		if n++; n == 1 {
			payload = s.body.of(b)
		}
	}
	return payload, n, nil
}

// frames finds the sections of a module that was scanned under limits which are
// not known here.
func frames(b []byte) ([]section, error) {
	if err := checkHeader(b); err != nil {
		return nil, err
	}
	return split(b, Limits{Customs: math.MaxInt, NameBytes: math.MaxInt})
}

func replaceCustom(b []byte, name string, sec []byte) ([]byte, error) {
	sections, err := frames(b)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b)+len(sec))
	out = append(out, b[:header]...)
	for _, s := range sections {
		if s.id == secCustom && s.name == name {
			out = append(out, sec...)
			sec = nil
			continue
		}
		out = append(out, s.whole.of(b)...)
	}
	return append(out, sec...), nil
}

func appendU32(o []byte, v uint32) []byte { return binary.AppendUvarint(o, uint64(v)) }

func appendS64(o []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(o, c)
		}
		o = append(o, c|0x80)
	}
}

func appendName(o []byte, s string) []byte {
	return append(appendU32(o, uint32(len(s))), s...)
}

func appendSection(o []byte, id byte, body []byte) []byte {
	return append(appendU32(append(o, id), uint32(len(body))), body...)
}
