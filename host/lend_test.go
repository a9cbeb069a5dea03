package host

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// filled is a folder with one file f in it, which holds a text.
func filled(t testing.TB, text string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// installedOdd is the odd guest as one that the user installed.
func installedOdd(t testing.TB, h *Host) *Plugin {
	t.Helper()
	_ = odd(t, h, tool.TrustWorkspace) // signs it
	p, err := h.LoadPlugin(oddModule.b, PluginOptions{Trust: tool.TrustWorkspace, Origin: "blade-tool-odd"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func reads(t testing.TB, s *Session, name, dir string, own ...*ToolGrants) *abi.Result {
	t.Helper()
	c := Call{Tool: name, Input: mustJSON(map[string]string{"op": "read", "where": filepath.Join(dir, "f")})}
	for _, g := range own {
		c.Grants = g
	}
	return do(t, s, c)
}

// failed wants an error of the host's, or that a guest made of one.
func failed(t testing.TB, r *abi.Result, code abi.Code) {
	t.Helper()
	if r.Error == nil || !strings.EqualFold(string(r.Error.Code), string(code)) {
		t.Errorf("got %s %+v, want %s", r.Data, r.Error, code)
	}
}

// Each tool has what the plugin is lent and what it is lent itself, and nothing of
// what another tool is.
func TestToolGrants(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	common, a, b := filled(t, "common"), filled(t, "a"), filled(t, "b")
	s := sessionOn(t, h, SessionOptions{AutoApprove: true, Plugins: []Attachment{{Plugin: installedOdd(t, h), Grants: Grants{
		Folders: []*capfs.Grant{folder(t, common, false)}, Env: map[string]string{"LISTED": "all", "LISTED_TOO": "all"},
		Tools: map[string]ToolGrants{
			"Files":       {Folders: []*capfs.Grant{folder(t, a, true), folder(t, common, true)}},
			"JudgedFiles": {Folders: []*capfs.Grant{folder(t, b, false)}},
			"Env":         {Env: map[string]string{"LISTED": "mine"}},
		},
	}}}})
	for _, c := range []struct {
		tool, dir string
		ok        bool
	}{{"Files", common, true}, {"Files", a, true}, {"Files", b, false}, {"JudgedFiles", common, true}, {"JudgedFiles", b, true}, {"JudgedFiles", a, false}} {
		r := reads(t, s, c.tool, c.dir)
		if r.IsError() == c.ok {
			t.Errorf("%s of %s: %+v", c.tool, c.dir, r.Error)
		}
	}
	if r := reads(t, s, "JudgedFiles", a); r.Error == nil || !strings.HasSuffix(r.Error.Message, "; grant it with --allow-write "+a+", or for good with: bladehost grant blade-tool-odd --tool JudgedFiles --allow-write "+a) {
		t.Errorf("%+v", r.Error)
	}
	write := mustJSON(map[string]string{"op": "write", "where": filepath.Join(common, "new"), "text": "x"})
	if r := do(t, s, Call{Tool: "Files", Input: write}); !r.IsError() {
		t.Error("the folder of the tool did not take the plugin's place")
	}
	wantOK(t, do(t, s, Call{Tool: "JudgedFiles", Input: write}))
	env := func(name string) string { return string(do(t, s, Call{Tool: name}).Data) }
	if got := env("Env"); !strings.Contains(got, "LISTED=mine") || !strings.Contains(got, "LISTED_TOO=all") {
		t.Errorf("Env sees %s", got)
	}
	if got := env("Info"); !strings.Contains(got, `"LISTED":"all"`) || strings.Contains(got, a) || strings.Contains(got, b) || !strings.Contains(got, common) {
		t.Errorf("Info is told %s", got)
	}
}

// Calls of two tools at once never run in an instance that has the other's folder.
func TestToolGrantsAtOnce(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	dirs := map[string]string{"Files": filled(t, "a"), "Env": filled(t, "b")}
	one := func(dir string) ToolGrants { return ToolGrants{Folders: []*capfs.Grant{folder(t, dir, false)}} }
	s := sessionOn(t, h, SessionOptions{Mode: policy.ModeYolo, Plugins: []Attachment{{Plugin: installedOdd(t, h), Grants: Grants{
		Tools: map[string]ToolGrants{"Files": one(dirs["Files"]), "JudgedFiles": one(dirs["Env"])},
	}}}})
	dirs["JudgedFiles"] = dirs["Env"]
	var wg sync.WaitGroup
	for name, other := range map[string]string{"Files": "JudgedFiles", "JudgedFiles": "Files"} {
		for range 4 {
			wg.Go(func() {
				for range 25 {
					if r := reads(t, s, name, dirs[name]); r.IsError() {
						t.Errorf("%s cannot read its own folder: %v", name, r.Error)
					}
					if r := reads(t, s, name, dirs[other]); !r.IsError() {
						t.Errorf("%s read the folder of %s", name, other)
					}
				}
			})
		}
	}
	wg.Wait()
}

// lastSeen is a server that tells which credential it saw last; /wait answers when the
// request is given up.
func lastSeen(t *testing.T) (srv *httptest.Server, host string, waits chan string) {
	t.Helper()
	var mu sync.Mutex
	last := ""
	waits = make(chan string, 10)
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if a := r.Header.Get("Authorization"); a != "" {
			last = a
		}
		_, _ = fmt.Fprintf(w, "saw %s", last)
		mu.Unlock()
		if r.URL.Path == "/wait" {
			w.(http.Flusher).Flush()
			waits <- r.URL.RawQuery
			<-r.Context().Done()
		}
	}))
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL)
	return srv, u.Host, waits
}

// Hosts and secrets of one tool are no other's; what one tool used of a secret is taken
// out of what another one gets.
func TestToolGrantsOfNetwork(t *testing.T) {
	srv, host, _ := lastSeen(t)
	src := &memorySource{m: map[string]string{"TOKEN": theSecret, "OTHER": "0ther-Value"}}
	base := Grants{SecretSources: []secrets.Source{src}, Secrets: []secrets.Grant{{Name: "TOKEN"}}}
	base.Tools = map[string]ToolGrants{"Request": {Net: []string{host}, Secrets: []secrets.Grant{{Name: "OTHER"}}}}
	h := newHost(t, Options{})
	s := netSession(t, h, base)
	call := func(name, secret string) *abi.Result {
		return do(t, s, Call{Tool: name, Input: in(fmt.Sprintf(`{"url":%q,"headers":{"Authorization":%q}}`, srv.URL, secret))})
	}
	wantOK(t, call("Request", "{{secret:OTHER}}"))
	failed(t, call("Read", ""), abi.CodeNotGranted)
	exists := func(name string) string {
		return string(do(t, s, Call{Tool: "Exists", Input: in(fmt.Sprintf(`{"name":%q}`, name))}).Data)
	}
	if exists("TOKEN") != "true" || exists("OTHER") != "false" {
		t.Errorf("Exists is told %s %s", exists("TOKEN"), exists("OTHER"))
	}
	base.Net = []string{host}
	update := func(g Grants) {
		t.Helper()
		if err := s.UpdateGrants("blade-tool-net", g); err != nil {
			t.Fatal(err)
		}
	}
	update(base)
	if r := call("Read", "{{secret:OTHER}}"); r.Error == nil || !strings.Contains(r.Error.Message, "the secret OTHER was not granted") {
		t.Errorf("%+v %s", r.Error, r.Data)
	}
	r := call("Read", "")
	wantOK(t, r)
	if strings.Contains(string(r.Data), "0ther-Value") || !strings.Contains(string(r.Data), "saw ") {
		t.Errorf("Read was shown %s", r.Data)
	}
	base.Tools = map[string]ToolGrants{"Read": {DenyNet: []string{host}, Secrets: []secrets.Grant{{Name: "OTHER"}}}, "Request": {Secrets: []secrets.Grant{{Name: "OTHER", Hosts: []string{"api.example.com"}}}}}
	update(base)
	failed(t, call("Read", ""), abi.CodeNetBlocked)
	wantOK(t, call("Request", "{{secret:TOKEN}}"))
	if r := call("Request", "{{secret:OTHER}}"); r.Error == nil || !strings.Contains(r.Error.Message, "may not be sent to") {
		t.Errorf("%+v", r.Error)
	}
	base.Secrets, base.Tools = nil, map[string]ToolGrants{"Request": {Secrets: []secrets.Grant{{Name: "TOKEN"}}}}
	update(base)
	wantOK(t, call("Request", ""))
	wantCode(t, call("Read", ""), abi.CodeSecretMissing, abi.TypePermission)
}

// A grant that is taken back from one tool ends its running requests and leaves
// another's alone; so does a denial, also for a call that was lent something once.
func TestToolGrantsAreTakenBack(t *testing.T) {
	srv, host, waits := lastSeen(t)
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	both := Grants{SecretSources: []secrets.Source{src}, Secrets: []secrets.Grant{{Name: "TOKEN"}}}
	both.Tools = map[string]ToolGrants{"Request": {Net: []string{host}}, "Read": {Net: []string{host}}}
	s := netSession(t, newHost(t, Options{}), both)
	start := func(name string, own *ToolGrants) *Execution {
		x := s.Start(t.Context(), Call{Tool: name, Grants: own, Input: in(fmt.Sprintf(`{"url":%q}`, srv.URL+"/wait"))})
		select {
		case <-waits:
		case <-x.Done():
			r, err := x.Result()
			t.Fatalf("%s: %+v %v", name, r.Error, err)
		}
		return x
	}
	ended := func(x *Execution, code abi.Code) {
		t.Helper()
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		failed(t, r, code)
	}
	request, read := start("Request", nil), start("Read", nil)
	none := both
	none.Tools = map[string]ToolGrants{"Read": both.Tools["Read"]}
	if err := s.UpdateGrants("blade-tool-net", none); err != nil {
		t.Fatal(err)
	}
	ended(request, abi.CodeNotGranted)
	once := start("Request", &ToolGrants{Net: []string{host}})
	select {
	case <-read.Done():
		t.Error("the other tool's request ended, too")
	case <-once.Done():
		t.Error("the call that was lent the host ended")
	default:
	}
	none.Tools = map[string]ToolGrants{"Read": both.Tools["Read"], "Request": {DenyNet: []string{host}}}
	if err := s.UpdateGrants("blade-tool-net", none); err != nil {
		t.Fatal(err)
	}
	ended(once, abi.CodeNetBlocked)
	none.Tools = map[string]ToolGrants{"Read": both.Tools["Read"], "Nope": {}}
	if err := s.UpdateGrants("blade-tool-net", none); abi.CodeOf(err) != abi.CodeOptions {
		t.Errorf("%v", err)
	}
	ended(read, abi.CodeNotGranted) // what cannot be meant grants nothing
}

// What is granted for one call counts for no other, not even one at the same time.
func TestGrantedOnce(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	dir, other := filled(t, "once"), filled(t, "other")
	s := sessionOn(t, h, SessionOptions{AutoApprove: true, Tools: []tool.Tool{fakeTool("Native", readOnly)}, Plugins: []Attachment{{Plugin: installedOdd(t, h)}}})
	once := &ToolGrants{Folders: []*capfs.Grant{folder(t, dir, true)}}
	for _, name := range []string{"Files", "JudgedFiles"} {
		if r := reads(t, s, name, dir); !r.IsError() {
			t.Errorf("%s before: %s", name, r.Data)
		}
		wantOK(t, reads(t, s, name, dir, once))
		if r := reads(t, s, name, other, once); !r.IsError() {
			t.Errorf("%s read another folder: %s", name, r.Data)
		}
		if r := reads(t, s, name, dir); !r.IsError() {
			t.Errorf("%s after: %s", name, r.Data)
		}
	}
	var wg sync.WaitGroup
	for k := range 40 {
		wg.Go(func() {
			if r := reads(t, s, "Files", dir, []*ToolGrants{nil, once}[k%2]); r.IsError() != (k%2 == 0) {
				t.Errorf("call %d: %+v", k, r.Error)
			}
		})
	}
	wg.Wait()
	failed(t, do(t, s, Call{Tool: "Native", Grants: once}), abi.CodeOptions)
	failed(t, do(t, s, Call{Tool: "Files", Grants: &ToolGrants{Net: []string{"*"}}}), abi.CodeOptions)
	e, _ := s.reg.Load().lookup("Files")
	if n := len(e.guest.of.lent); n != len(e.guest.manifest.Tools) {
		t.Errorf("%d are lent something after the calls", n)
	}
}

// Other folders and variables count from the next call on.
func TestOtherFoldersCountAtOnce(t *testing.T) {
	h := newHost(t, Options{CacheDir: guestCache(t)})
	a, b := filled(t, "a"), filled(t, "b")
	s := sessionOn(t, h, SessionOptions{AutoApprove: true, Plugins: []Attachment{{Plugin: installedOdd(t, h), Grants: Grants{Folders: []*capfs.Grant{folder(t, a, false)}}}}})
	wantOK(t, reads(t, s, "Files", a))
	if err := s.UpdateGrants("blade-tool-odd", Grants{Folders: []*capfs.Grant{folder(t, b, false)}, Env: map[string]string{"LISTED": "now"}}); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"Files": a, "JudgedFiles": a} {
		if r := reads(t, s, name, dir); !r.IsError() {
			t.Errorf("%s: %s", name, r.Data)
		}
	}
	wantOK(t, reads(t, s, "Files", b))
	wantOK(t, reads(t, s, "JudgedFiles", b))
	if got := string(do(t, s, Call{Tool: "Env"}).Data); !strings.Contains(got, "LISTED=now") {
		t.Errorf("%s", got)
	}
}

func TestGrantsForNoTool(t *testing.T) {
	h := newHost(t, Options{})
	p := loadGuest(t, h, guesttest.Go(t, "..", "./host/testdata/guests/net"), PluginOptions{})
	for _, bad := range []Grants{{Tools: map[string]ToolGrants{"Nope": {}}}, {Tools: map[string]ToolGrants{"Read": {DenyNet: []string{"*"}}}}} {
		if _, err := h.NewSession(SessionOptions{Plugins: []Attachment{{Plugin: p, Grants: bad}}}); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b.c": "/a/b.c", "": "''", "/a b": "'/a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "*.x": "'*.x'", "~": "'~'", `a\b`: `'a\b'`} {
		if got := posixWord(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
