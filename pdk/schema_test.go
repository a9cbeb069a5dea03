package pdk_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/pdk"
)

type level string

func (level) JSONSchema() json.RawMessage { return json.RawMessage(`{"enum":["low","high"]}`) }

type base struct {
	ID string `json:"id"`
}

type all struct {
	base
	Text     string            `json:"text" jsonschema:"A text." minLength:"1" maxLength:"10" pattern:"^a"`
	Choice   string            `json:"choice" enum:"a,b" default:"a"`
	N        int               `json:"n,omitempty" minimum:"-1" maximum:"5" enum:"1,2"`
	U        uint8             `json:"u,omitzero"`
	F        float64           `json:"f" default:"0.5"`
	B        *bool             `json:"b"`
	Bytes    []byte            `json:"bytes"`
	List     []string          `json:"list,omitempty" minItems:"1" maxItems:"3"`
	Pair     [2]int            `json:"pair"`
	Map      map[string]int    `json:"map"`
	Any      any               `json:"any"`
	Raw      json.RawMessage   `json:"raw"`
	Num      json.Number       `json:"num"`
	When     time.Time         `json:"when" jsonschema:"When."`
	Level    level             `json:"level" jsonschema:"How." default:"low"`
	Inner    struct{ X int }   `json:"inner"`
	Choices  []string          `json:"choices,omitempty" enum:"x,y"`
	Maps     []map[string]bool `json:"maps"`
	Email    string            `json:"email" format:"email"`
	NoTag    int
	Skipped  int `json:"-"`
	unseen   int
	Untagged string `json:",omitempty"`
}

func TestSchemaOf(t *testing.T) {
	_ = all{}.unseen
	got, err := pdk.SchemaOf[all]()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"id":{"type":"string"},` +
		`"text":{"type":"string","description":"A text.","minLength":1,"maxLength":10,"pattern":"^a"},` +
		`"choice":{"type":"string","enum":["a","b"],"default":"a"},` +
		`"n":{"type":"integer","enum":[1,2],"minimum":-1,"maximum":5},` +
		`"u":{"type":"integer","minimum":0},` +
		`"f":{"type":"number","default":0.5},` +
		`"b":{"type":"boolean"},` +
		`"bytes":{"type":"string","contentEncoding":"base64"},` +
		`"list":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string"}},` +
		`"pair":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"integer"}},` +
		`"map":{"type":"object","additionalProperties":{"type":"integer"}},` +
		`"any":{},"raw":{},"num":{"type":"number"},` +
		`"when":{"type":"string","description":"When.","format":"date-time"},` +
		`"level":{"default":"low","description":"How.","enum":["low","high"]},` +
		`"inner":{"type":"object","properties":{"X":{"type":"integer"}},"required":["X"],"additionalProperties":false},` +
		`"choices":{"type":"array","items":{"type":"string","enum":["x","y"]}},` +
		`"maps":{"type":"array","items":{"type":"object","additionalProperties":{"type":"boolean"}}},` +
		`"email":{"type":"string","format":"email"},` +
		`"NoTag":{"type":"integer"},"Untagged":{"type":"string"}},` +
		`"required":["id","text","bytes","pair","map","any","raw","num","when","inner","maps","email","NoTag"],"additionalProperties":false}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

type recursive struct {
	Next *recursive `json:"next"`
}

func TestSchemaOfOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		got  func() (json.RawMessage, error)
		want string // or, of an error, what it says
	}{
		{"no fields", pdk.SchemaOf[struct{}], `{"type":"object","properties":{},"additionalProperties":false}`},
		{"a pointer", pdk.SchemaOf[*base], `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`},
		{"a type twice, not in itself", pdk.SchemaOf[struct{ A, B base }], `{"type":"object","properties":{"A":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},"B":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["A","B"],"additionalProperties":false}`},
		{"a map", pdk.SchemaOf[map[string]any], `{"type":"object","additionalProperties":{}}`},
		{"a type in itself", pdk.SchemaOf[recursive], "contains itself"},
		{"a channel", pdk.SchemaOf[struct{ C chan int }], "field C: the type chan int has no JSON form"},
		{"a map by numbers", pdk.SchemaOf[map[int]int], "are no strings"},
		{"a bad limit", pdk.SchemaOf[struct {
			A int `minimum:"x"`
		}], "no number"},
		{"a bad default", pdk.SchemaOf[struct {
			A int `default:"x"`
		}], "no JSON"},
		{"a bad enum", pdk.SchemaOf[struct {
			A bool `enum:"yes,no"`
		}], "no JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.got()
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestMustSchema(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	pdk.MustSchema[func()]()
}
