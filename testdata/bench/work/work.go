// Package work is the tool that all Go rows of the benchmark run: it reads and
// prints JSON with encoding/json and does nothing else.
package work

import "encoding/json"

// In is the input of the tool.
type In struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	N    int      `json:"n"`
	Pad  string   `json:"pad"`
}

// Out is its answer.
type Out struct {
	Greeting string `json:"greeting"`
	N        int    `json:"n"`
	Pad      string `json:"pad"`
}

// Greet is the tool.
func Greet(in In) Out { return Out{Greeting: "Hello, " + in.Name, N: in.N + len(in.Args), Pad: in.Pad} }

// Run is the tool on bytes.
func Run(input []byte) ([]byte, error) {
	var in In
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	return json.Marshal(Greet(in))
}

// Input makes an input of about size bytes.
func Input(size int) []byte {
	in := In{Name: "Ada", Args: []string{"one", "two", "three"}, N: 42}
	b, _ := json.Marshal(in) // strings and numbers always have a JSON form
	pad := make([]byte, max(0, size-len(b)))
	for i := range pad {
		pad[i] = "abcdefghijklmnopqrstuvwxyz     "[i%31]
	}
	in.Pad = string(pad)
	b, _ = json.Marshal(in)
	return b
}
