package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"mime"
	nethttp "net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	nethtml "golang.org/x/net/html"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/http"
)

// page is an answer as it is shown.
type page struct {
	status  int
	header  map[string][]string
	url     string
	chain   []string
	hops    []string // the addresses of the chain
	kind    string   // the content type
	charset string   // of the text, as it came
	body    string
	length  int // of the body before it was cut, in bytes
	base64  bool
	cut     bool
}

func (p *page) size() int64 {
	n := len(p.body) + len(p.url) + 512
	for k, v := range p.header {
		n += len(k) + len(strings.Join(v, ""))
	}
	return int64(n)
}

// render makes the page of an answer.
func (f *fetch) render(ctx context.Context, in fetchIn, res *response) (*page, error) {
	p := &page{status: res.status, header: res.header, url: res.url, chain: res.chain, cut: res.cut}
	for _, c := range res.chain {
		_, u, _ := strings.Cut(c, " → ")
		p.hops = append(p.hops, u)
	}
	if v := headerOf(res.header, "Content-Type"); len(v) > 0 {
		p.kind = v[0]
	}
	if !isText(p.kind, res.body) {
		p.length = len(res.body)
		body := res.body
		if most := f.lim.MaxText / 4 * 3; len(body) > most {
			body, p.cut = body[:most], true
		}
		p.body, p.base64 = base64.StdEncoding.EncodeToString(body), true
		return p, nil
	}
	text, charset := http.DecodeText(res.body, p.kind)
	p.charset = charset
	if in.Extract && res.status < 400 && isHTML(p.kind, text) {
		md, cut, err := f.extract(ctx, text, res.url, in.Reader)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, failure(abi.TypeExecution, codeMarkdown, "the page of %s cannot be read as HTML: %v; fetch it without extract_content", hostOf(res.url), err)
		}
		text, p.kind, p.charset, p.cut = md, "text/markdown", "utf-8", p.cut || cut
	}
	p.length = len(text)
	if short := firstUnits(text, f.lim.MaxText); short != text {
		text, p.cut = short, true
	}
	p.body = text
	return p, nil
}

// conversions bounds the pages that are converted at once.
const conversions = 2

// extract is markdown for a caller that leaves when ctx ends. The work itself cannot be
// stopped: it goes on to its end, which the bounds of markdown keep near, and until
// then takes one of few places.
func (f *fetch) extract(ctx context.Context, text, address string, opt readerOptions) (md string, cut bool, err error) {
	select {
	case f.converting <- struct{}{}:
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
	type outcome struct {
		md  string
		cut bool
		err error
	}
	done := make(chan outcome, 1)
	go func() { // ends soon; nobody has to wait for it, because it touches nothing of the call
		defer func() { <-f.converting }()
		var o outcome
		o.md, o.cut, o.err = markdown(text, address, opt)
		done <- o
	}()
	select {
	case o := <-done:
		return o.md, o.cut, o.err
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
}

// isText judges by the content type, and by the bytes where that says nothing.
func isText(kind string, body []byte) bool {
	media, _, _ := mime.ParseMediaType(kind) // a charset does not make text of it
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") {
		return true
	}
	switch media {
	case "application/json", "application/xml", "application/javascript", "application/ecmascript", "application/x-javascript", "application/x-www-form-urlencoded", "application/yaml", "application/x-yaml", "application/toml", "application/sql", "application/graphql", "application/x-ndjson", "application/rtf":
		return true
	case "", "application/octet-stream", "binary/octet-stream":
		return len(body) == 0 || strings.HasPrefix(nethttp.DetectContentType(body), "text/")
	}
	return false
}

func isHTML(kind, text string) bool {
	media, _, _ := mime.ParseMediaType(kind)
	return media == "text/html" || media == "application/xhtml+xml" || (media == "" && strings.HasPrefix(nethttp.DetectContentType([]byte(text[:min(len(text), 512)])), "text/html"))
}

// maxHTML bounds the HTML that is converted, in bytes and without scripts and
// styles: a long page of text, and at worst a few seconds of work for the
// converters, which cannot be stopped in the middle; see tame for what else is
// bounded. They do not escape Markdown in the text: what escapes needs the square of
// the length, and models read the text better without.
const maxHTML = 512 << 10

// maxMarkdown bounds what comes out, in bytes.
const maxMarkdown = 4 << 20

// unread are elements that no reader sees.
var unread = [...]string{"script", "style", "svg", "noscript", "template"}

// readable is HTML without comments and without the elements that no reader sees,
// in one pass.
func readable(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := ""
		if strings.HasPrefix(s, "<!--") {
			end = "-->"
		}
		for _, name := range unread {
			if n := len(name); len(s) > n+1 && strings.EqualFold(s[1:n+1], name) && strings.IndexByte(" \t\r\n\f/>", s[n+1]) >= 0 {
				end = "</" + name
			}
		}
		if end == "" {
			b.WriteByte('<')
			s = s[1:]
			continue
		}
		i = indexFold(s, end)
		if i < 0 {
			return b.String() // it is never closed
		}
		s = s[i+len(end):]
		if end != "-->" {
			if i = strings.IndexByte(s, '>'); i < 0 {
				return b.String()
			}
			s = s[i+1:]
		}
	}
}

// indexFold is where a marker is in s, in letters of either case.
func indexFold(s, marker string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], marker[0])
		if i < 0 {
			return -1
		}
		if at += i; len(s)-at < len(marker) {
			return -1
		}
		if strings.EqualFold(s[at:at+len(marker)], marker) {
			return at
		}
	}
}

// markdown is the main content of a page: its title, where it is from, and the
// text. Converters are libraries that read hostile bytes, so a panic is an error.
// It reports whether the page was too long to be read to its end.
func markdown(text, address string, opt readerOptions) (md string, cut bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it is too strange: %v", v)
		}
	}()
	if text = readable(text); len(text) > maxHTML {
		text, cut = strings.ToValidUTF8(text[:maxHTML], ""), true
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", false, err
	}
	text, more := flat(text)
	cut = cut || more
	doc, err := nethtml.Parse(strings.NewReader(text))
	if err != nil {
		return "", false, err
	}
	tame(doc)
	title, content := mainContent(text, doc, u)
	tables := table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)) // a wide cell would widen its whole column
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), strikethrough.NewStrikethroughPlugin(), tables))
	raw, err := conv.ConvertNode(content, converter.WithDomain(u.Scheme+"://"+u.Host))
	if err != nil {
		return "", false, err
	}
	if len(raw) > maxMarkdown {
		raw, cut = raw[:maxMarkdown], true
	}
	out := withPipes(strings.ToValidUTF8(string(raw), ""))
	var b strings.Builder
	if title != "" {
		b.WriteString("# " + title + "\n\n")
	}
	b.WriteString("Source: " + address + "\n\n---\n\n" + strings.TrimSpace(out) + "\n")
	if opt.Links {
		b.WriteString(linkList(out))
	}
	return b.String(), cut, nil
}

// titleTag finds the title where the page has no more than that.
var titleTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`) })

// maxTitle is the longest title that is taken for one, in bytes. A bound in the pattern
// would take every process milliseconds to compile.
const maxTitle = 2000

// mainContent is the title and the article of a page, or all of it where there is
// no article.
func mainContent(text string, doc *nethtml.Node, u *url.URL) (title string, content *nethtml.Node) {
	if m := titleTag().FindStringSubmatch(text); m != nil && len(m[1]) <= maxTitle {
		title = oneLine(html.UnescapeString(m[1]))
	}
	at := *u // what is relative is joined to it, so a long one would be repeated
	if at.RawQuery, at.Fragment = "", ""; len(at.EscapedPath()) > maxPath {
		at.Path, at.RawPath = "/", ""
	}
	article, err := readability.FromDocument(doc, &at)
	if err != nil || article.Node == nil {
		return title, doc
	}
	if t := oneLine(article.Title()); t != "" && len(t) <= maxTitle {
		title = t
	}
	return title, article.Node
}

// maxPath is the longest path of a page that relative addresses are joined to, in
// bytes.
const maxPath = 1000

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\]\((https?://[^\s)]+)`) })

// linkList lists each link of a text once.
func linkList(md string) string {
	var seen []string
	for _, m := range link().FindAllStringSubmatch(md, 1000) {
		if !slices.Contains(seen, m[1]) {
			seen = append(seen, m[1])
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return "\n## Links\n\n- " + strings.Join(seen, "\n- ") + "\n"
}

// fetchOut is what a model reads.
type fetchOut struct {
	Status     int               `json:"status"`
	StatusText string            `json:"status_text"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body"`
	Encoding   string            `json:"encoding,omitempty"`
	Truncated  bool              `json:"truncated,omitempty"`
	URL        string            `json:"url"`
	Redirected bool              `json:"redirected"`
	Redirects  int               `json:"redirect_count"`
	Chain      []string          `json:"redirect_chain"`
	Kind       string            `json:"content_type,omitempty"`
	Time       int64             `json:"response_time"`
}

func (f *fetch) result(in fetchIn, p *page, cached bool, took time.Duration) (*abi.Result, error) {
	out := fetchOut{
		Status: p.status, StatusText: nethttp.StatusText(p.status), Body: p.body, Truncated: p.cut, URL: p.url,
		Redirected: len(p.chain) > 0, Redirects: len(p.chain), Chain: p.chain, Kind: p.kind, Time: took.Milliseconds(),
	}
	if p.base64 {
		out.Encoding = "base64"
	}
	if in.Return {
		out.Headers = map[string]string{}
		for k, v := range p.header {
			out.Headers[strings.ToLower(k)] = strings.Join(v, ", ")
		}
	}
	summary := fmt.Sprintf("%s %s - %d", in.Method, hostOf(in.URL), p.status)
	meta := map[string]any{
		"url": in.URL, "method": in.Method, "status": p.status, "response_time": out.Time, "content_length": p.length, "redirected": out.Redirected,
		"redirect_count": out.Redirects, "final_url": p.url, "content_type": p.kind, "redirect_chain": p.chain, "summary": summary,
	}
	for key, set := range map[string]bool{"cached": cached, "truncated": p.cut} {
		if set {
			meta[key] = true
		}
	}
	if p.charset != "" && p.charset != "utf-8" {
		meta["charset"] = p.charset
	}
	r := &abi.Result{Metadata: meta, Display: &abi.Display{Summary: summary}}
	if p.status >= 400 {
		return f.statusError(r, out, meta), nil
	}
	raw, err := abi.Marshal(out)
	if err != nil {
		return nil, err
	}
	r.Status, r.Model, r.Data = abi.StatusSuccess, raw, raw
	return r, nil
}

// maxErrorBody is how much of the body of an error a model is shown.
const maxErrorBody = 4000

// statusError is the result for a status of 400 or more.
func (f *fetch) statusError(r *abi.Result, out fetchOut, meta map[string]any) *abi.Result {
	details := map[string]any{"response_body": out.Body}
	for k, v := range meta {
		details[k] = v
	}
	text := fmt.Sprintf("%s answered with status %d %s", hostOf(out.URL), out.Status, out.StatusText)
	r.Status, r.Error = abi.StatusError, failure(abi.TypeExecution, codeStatus, "%s", text).With(details)
	if body := strings.TrimSpace(out.Body); body != "" && out.Encoding == "" {
		text += ":\n\n" + firstUnits(body, maxErrorBody)
	}
	r.Model = abi.String(text)
	return r
}

// firstUnits is the longest beginning of s that has at most n UTF-16 code units.
func firstUnits(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i, r := range s {
		if n -= 1; utf8.RuneLen(r) == 4 {
			n--
		}
		if n < 0 {
			return s[:i]
		}
	}
	return s
}
