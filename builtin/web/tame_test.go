package web

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// hostile are pages that are short and cost parsers or converters dearly.
func hostile() map[string]string {
	rep := strings.Repeat
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	return map[string]string{
		"colspan":              `<table><tr><th colspan=1000000000>a</th></tr><tr><td>b</td></tr></table>`,
		"rowspan":              `<table><tr><th rowspan=1000000000>a</th></tr><tr><td>b</td></tr></table>`,
		"both spans":           `<table><tr><th rowspan=65535 colspan=65535>a</th></tr><tr><td>b</td></tr></table>`,
		"many spans":           "<table>" + rep("<tr><td colspan=900 rowspan=900>a</td></tr>", 5000) + "</table>",
		"ragged":               "<table><tr>" + rep("<td>", 20000) + "</tr>" + rep("<tr><td>x", 30000) + "</table>",
		"wide cell":            "<table><tr><td>" + rep("w", 300<<10) + rep("<tr><td>x", 9000) + "</table>",
		"many tables":          rep("<table><tr><td colspan=1000>a</td></tr><tr><td>b</td></tr></table>", 7000),
		"nested tables":        rep("<table><tr><td>", 120) + rep("x<table><tr><td>y</table>", 2000),
		"nested, wide":         rep("<table><tr><td colspan=1000>", 30) + rep("<tr><td>y", 5000),
		"nested lists":         rep("<ul><li>", 200) + rep("x<br>", 80000),
		"nested quotes":        rep("<blockquote>", 400) + rep("x<p>", 80000),
		"items":                "<ol>" + rep("<li>x", 80000),
		"deep inline":          rep("<span>", 400) + rep("x<br>", 40000),
		"open formatting":      numbered(400, "<b x=%d>") + rep("<p>x", 100000),
		"formatting of a page": numbered(400, "<b><i><s><code x=%d>") + rep("</p>x", 90000),
		"in mathematics":       "<math><title>" + numbered(400, "<b x=%d>") + "</title></math>" + rep("<p>x", 100000),
		"in a choice":          numbered(400, "<b x=%d><select></b></select>") + rep("<p>x", 100000),
		"links":                rep("<a href=x>y</a>", 34000),
		"a long base":          "<base href='https://x.example/" + rep("b", 200<<10) + "/'>" + rep("<a href=x>y</a>", 18000),
		"headings":             rep("<h1>x", 90000),
		"emphasis":             rep("<em>x</em>", 50000),
		"breaks":               rep("<br>", 130000),
		"blanks":               "<p>" + rep(" \n", 250000),
		"code":                 "<pre>" + rep("`", 500000),
		"escapes":              rep("*_[]<p>", 70000),
		"definition":           "<dl>" + rep("<dt>x<dd>y", 40000),
		"commas":               rep("<div>a, b, c, d, e, f</div>", 15000),
		"captions":             rep("<table><caption>x", 25000),
	}
}

// A page that is short is converted with little memory and few steps, whatever it
// says: what is allocated in all stands for both.
func TestMarkdownBounds(t *testing.T) {
	address := "https://x.example/" + strings.Repeat("p", 7000) + "/?" + strings.Repeat("q", 900)
	for name, page := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			md, _, err := markdown(page, address, readerOptions{Links: true})
			runtime.ReadMemStats(&after)
			used := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MB allocated, %d KB out, %v", used, len(md)>>10, err)
			if used > 5000 { // most take less than 200; the race detector empties pools
				t.Errorf("%d MB were allocated", used)
			}
			if len(md) > maxMarkdown+maxMarkdown/2 {
				t.Errorf("%d bytes came out", len(md))
			}
		})
	}
}

// Tables that people write stay tables; those over the bounds become text, and lose
// no word.
func TestTables(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"plain":     {`<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>`, "| a | b |\n|---|---|\n| 1 | 2 |"},
		"spans":     {`<table><tr><th colspan=2>a</th></tr><tr><td rowspan=2>1</td><td>2</td></tr><tr><td>3</td></tr></table>`, "| a |  |\n|---|---|\n| 1 | 2 |\n|  | 3 |"},
		"bars":      {`<table><tr><th>a|b</th></tr><tr><td><code>c|d</code> <b>|</b></td></tr></table>`, "| a\\|b |\n|---|\n| `c\\|d` **\\|** |"},
		"bars out":  {`<p>a|b</p><table><tr><td><h2>c|d</h2></td></tr></table>`, "a|b\n\n## c|d"},
		"too wide":  {`<table><tr><th colspan=900>first</th></tr>` + strings.Repeat("<tr><td>x</td></tr>", 20) + `<tr><td>last|cell</td></tr></table>`, "last|cell"},
		"too wide ": {`<table><tr><th colspan=900>first</th></tr>` + strings.Repeat("<tr><td>x</td></tr>", 20) + `</table>`, "first"},
		"no number": {`<table><tr><th colspan=x rowspan=-1>a</th><th>b</th></tr></table>`, "| a | b |"},
		"too deep":  {strings.Repeat("<div>", 200) + "deep <b>words</b> here", "deep"},
		"quote":     {`<blockquote><table><tr><th>a|b</th></tr><tr><td>c</td></tr></table></blockquote>`, `> | a\|b |`},
	} {
		md, cut, err := markdown(c.page, "https://x.example/", readerOptions{})
		if err != nil || cut || !strings.Contains(md, c.want) {
			t.Errorf("%s: %.2000s, cut %v, %v; want %q in it", name, md, cut, err, c.want)
		}
	}
}

// What spans far counts as far as it spans, and rows that hang count once.
func TestCellsOf(t *testing.T) {
	for page, want := range map[string][2]int{
		`<table><tr><td>a<td>b<tr><td>c</table>`:                                           {6, 12},
		`<table><tr><td colspan=1000000000>a<tr><td>b</table>`:                             {3000, 5000},
		`<table><tr><td rowspan=1000000000>a</table>`:                                      {1000, 3000},
		`<table>` + strings.Repeat("<tr><td rowspan=2>a<td>b<tr><td>c", 500) + `</table>`:  {2000, 6000},
		`<table>` + strings.Repeat("<tr><td colspan=99 rowspan=99>a", 100) + `</table>`:    {maxCells, 1 << 40},
		`<table>` + strings.Repeat("<tr><td>a<td>b<td>c", 2000) + `</table>`:               {6000, 15000},
		`<table><tr>` + strings.Repeat("<td>", 200) + strings.Repeat("<tr><td>", 100) + ``: {20000, 40000},
	} {
		doc, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Data == "table" {
				if got := cellsOf(n); got < want[0] || got > want[1] {
					t.Errorf("%.60s: %d cells, want %v", page, got, want)
				}
			}
		}
	}
}

// Who asks for a page can leave before it is converted, and while it waits for its
// turn.
func TestExtractCancelled(t *testing.T) {
	f := local(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDeadline)
	if _, _, err := f.extract(ctx, hostile()["headings"], "https://x.example/", readerOptions{}); err != errDeadline { //nolint:errorlint // the cause itself
		t.Errorf("%v", err)
	}
	for range conversions {
		f.converting <- struct{}{} // waits for the one above, if it began
	}
	if _, _, err := f.extract(ctx, "x", "https://x.example/", readerOptions{}); err != errDeadline { //nolint:errorlint // the cause itself
		t.Errorf("%v", err)
	}
}

// An answer is kept while it is fresh, what it aged on its way included, and not at
// all if it is another for others.
func TestCacheFor(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	const most = 15 * time.Minute
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		header map[string][]string
		want   time.Duration
	}{
		"nothing said":       {nil, most},
		"max-age":            {map[string][]string{"Cache-Control": {"max-age=60"}}, time.Minute},
		"aged":               {map[string][]string{"Cache-Control": {"max-age=60"}, "Age": {"20"}}, 40 * time.Second},
		"aged over":          {map[string][]string{"Cache-Control": {"max-age=60"}, "Age": {"100"}}, 0},
		"aged beyond":        {map[string][]string{"Cache-Control": {"max-age=60"}, "Age": {"99999999999999999999"}}, 0},
		"aged in words":      {map[string][]string{"Cache-Control": {"max-age=60"}, "Age": {"old"}}, 0},
		"for long":           {map[string][]string{"Cache-Control": {"max-age=99999999999999999999"}}, most},
		"the shorter":        {map[string][]string{"Cache-Control": {"max-age=60, s-maxage=30"}}, 30 * time.Second},
		"twice":              {map[string][]string{"Cache-Control": {"max-age=60", "max-age=20"}}, 20 * time.Second},
		"no number":          {map[string][]string{"Cache-Control": {"max-age=-1"}}, 0},
		"negative":           {map[string][]string{"Cache-Control": {"max-age=1h"}}, 0},
		"expired":            {map[string][]string{"Expires": {date(-time.Hour)}}, 0},
		"expires":            {map[string][]string{"Expires": {date(time.Minute)}}, time.Minute},
		"expires, aged":      {map[string][]string{"Expires": {date(time.Minute)}, "Age": {"50"}}, 10 * time.Second},
		"by another clock":   {map[string][]string{"Expires": {date(-time.Hour)}, "Date": {date(-2 * time.Hour)}}, most},
		"expires, no date":   {map[string][]string{"Expires": {"0"}}, 0},
		"max-age goes first": {map[string][]string{"Expires": {"0"}, "Cache-Control": {"max-age=60"}}, time.Minute},
		"varies by all":      {map[string][]string{"Vary": {"*"}, "Cache-Control": {"max-age=60"}}, 0},
		"varies, among all":  {map[string][]string{"Vary": {"Accept", "Accept-Language, *"}}, 0},
		"varies":             {map[string][]string{"Vary": {"Accept-Encoding"}}, most},
		"of old":             {map[string][]string{"Pragma": {"no-cache"}}, 0},
	} {
		if got := cacheFor(&response{status: 200, header: c.header}, most, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A charset makes no text of what is none.
func TestIsText(t *testing.T) {
	binary := []byte("\x89PNG\r\n\x1a\n\x00\x01")
	for kind, want := range map[string]bool{
		"image/png; charset=utf-8": false, "application/pdf; charset=utf-8": false, "application/octet-stream; charset=utf-8": false, "; charset=utf-8": false, "application/zip;charset=binary": false, "image/png": false,
		"text/plain; charset=latin1": true, "application/json; charset=utf-8": true, "image/svg+xml; charset=utf-8": true, "application/ld+json": true,
	} {
		if got := isText(kind, binary); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if !isText("application/octet-stream; charset=utf-8", []byte("only words")) {
		t.Error("words of no known type are no text")
	}
}
