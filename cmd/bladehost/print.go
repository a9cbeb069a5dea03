package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/bladehost/bladehost/abi"
)

// ANSI colours, used on a terminal only and not where NO_COLOR is set.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

func (a *app) paint(tty bool, colour, s string) string {
	if !tty || a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// printable removes what a terminal would act on from text that a stranger
// wrote: control characters except line ends and tabs, and marks that change the
// direction of writing.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
			return -1
		}
		return r
	}, s)
}

// writeJSON writes one line of JSON.
func writeJSON(w io.Writer, v any) {
	b, err := abi.Marshal(v)
	if err != nil {
		b = abi.String(err.Error())
	}
	_, _ = w.Write(append(b, '\n')) // a reader that is gone shows in the exit of the pipe
}

// table writes rows in columns.
func (a *app) table(head []string, rows [][]string) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, r := range append([][]string{head}, rows...) {
		for i := range r {
			r[i] = strings.ReplaceAll(printable(r[i]), "\n", " ")
		}
		_, _ = w.Write([]byte(strings.Join(r, "\t") + "\n")) // a Builder takes everything
	}
	_ = w.Flush()
	return a.text(b.String())
}

// text writes a command's result.
func (a *app) text(s string) error {
	if _, err := io.WriteString(a.out, s); err != nil {
		return abi.NewError(abi.CodeIO, "the output cannot be written: %v", err)
	}
	return nil
}

func (a *app) line(s string) error { return a.text(s + "\n") }

// note tells a person something beside the result.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.err, printable(fmt.Sprintf(format, args...))) // nobody left to tell
}
