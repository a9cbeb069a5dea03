package host

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/internal/guesttest"
	"github.com/bladehost/bladehost/host/tool"
)

const theSecret = "s3cret-Value/+42"

// memorySource is a source whose secrets a test changes.
type memorySource struct {
	mu sync.Mutex
	m  map[string]string
}

func (s *memorySource) Get(_ context.Context, name string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[name]
	return v, ok, nil
}

func (s *memorySource) set(name, v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[name] = v
}

// apiServer answers with what it was sent, in every form a server may echo it.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		w.Header().Set("X-Echo", auth)
		switch r.URL.Path {
		case "/big":
			for range 20 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("token " + auth))
			_ = z.Close()
		case "/slow":
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprintf(w, "%s %s|%s|%s|%q", r.Method, auth, base64.StdEncoding.EncodeToString([]byte(auth)), url.QueryEscape(auth), auth)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func netSession(t testing.TB, h *Host, g Grants, change ...func(*SessionOptions)) *Session {
	t.Helper()
	p := loadGuest(t, h, guesttest.Go(t, "..", "./host/testdata/guests/net"), PluginOptions{Trust: tool.TrustWorkspace})
	opt := SessionOptions{AutoApprove: true, Plugins: []Attachment{{Plugin: p, Grants: g}}}
	for _, c := range change {
		c(&opt)
	}
	return sessionOn(t, h, opt)
}

func request(t *testing.T, s *Session, body string) *abi.Result {
	t.Helper()
	return do(t, s, Call{Tool: "Request", Input: in(body)})
}

// PKG-09: a guest reaches what it declares and the user granted, nothing else.
func TestGuestRequests(t *testing.T) {
	srv := apiServer(t)
	u, _ := url.Parse(srv.URL)
	h := newHost(t, Options{})
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	g := Grants{Net: []string{u.Host, "api.example.com", "other.example.net"}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}
	s := netSession(t, h, g)
	r := request(t, s, fmt.Sprintf(`{"url":%q,"method":"POST","body":"x"}`, srv.URL))
	wantOK(t, r)
	if !strings.Contains(string(r.Data), `"status":200`) || !strings.Contains(string(r.Data), "POST") {
		t.Errorf("%s", r.Data)
	}
	effects, _ := r.Metadata["hostEffects"].([]tool.HostEffect)
	if len(effects) != 1 || effects[0].Op != "request" || effects[0].Status != "200" || !strings.HasPrefix(effects[0].Target, "POST "+srv.URL) {
		t.Errorf("effects %+v", effects)
	}
	for _, c := range []struct{ body, code, says string }{
		{`{"url":"https://x.example.org/"}`, "not_granted", "--allow-net x.example.org"},
		{`{"url":"https://other.example.net/"}`, "not_declared", "declares"},
		{fmt.Sprintf(`{"url":%q,"method":"DELETE"}`, srv.URL), "not_granted", "DELETE"},
		{`{"url":"http://127.0.0.1:1/"}`, "not_granted", "--allow-net 127.0.0.1:1"},
		{`{"url":"http://127.0.0.1.nip.io/"}`, "not_declared", ""},
		{`{"url":"file:///etc/passwd"}`, "invalid_request", "scheme"},
		{`{"url":"http://2130706433/"}`, "invalid_request", "odd form"},
		{fmt.Sprintf(`{"url":%q,"headers":{"Host":"x"}}`, srv.URL), "invalid_request", "Host"},
	} {
		r := request(t, s, c.body)
		if r.Error == nil || string(r.Error.Code) != c.code || !strings.Contains(r.Error.Message, c.says) {
			t.Errorf("%s: %+v", c.body, r.Error)
		}
	}
	r = request(t, s, fmt.Sprintf(`{"url":%q,"stream":true}`, srv.URL+"/big"))
	wantOK(t, r)
	if !strings.Contains(string(r.Data), `"bytes":20971520`) {
		t.Errorf("%s", r.Data)
	}
	if r = request(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/big")); r.Error == nil || !strings.Contains(r.Error.Message, "over") {
		t.Errorf("a body over the limit: %+v", r.Error)
	}
	if r = request(t, s, fmt.Sprintf(`{"url":%q,"timeoutMs":50}`, srv.URL+"/slow")); r.Error == nil || r.Error.Type != abi.TypeNetwork {
		t.Errorf("a slow server: %+v", r.Error)
	}
	r = do(t, s, Call{Tool: "Request", Input: in(fmt.Sprintf(`{"url":%q}`, srv.URL+"/slow")), Timeout: 100 * time.Millisecond})
	wantCode(t, r, abi.CodeTimeoutRan, abi.TypeTimeout)
}

// WSM-09: the value of a secret is nowhere but in the request to its host.
func TestSecretNowhere(t *testing.T) {
	srv := apiServer(t)
	u, _ := url.Parse(srv.URL)
	dir := t.TempDir()
	var logged bytes.Buffer
	var mu sync.Mutex
	var events []byte
	h := newHost(t, Options{CacheDir: filepath.Join(dir, "cache"), ArtifactDir: filepath.Join(dir, "artifacts"),
		Log: slog.New(slog.NewTextHandler(&lockedWriter{w: &logged}, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))})
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	g := Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}
	led := &ledger{rec: &recorder{}}
	s := netSession(t, h, g, func(o *SessionOptions) {
		o.Lifecycle, o.ExtendedEvents, o.KeepPayloads = led, true, true
		o.Events = func(e Event) {
			b, _ := json.Marshal(e)
			mu.Lock()
			defer mu.Unlock()
			events = append(events, b...)
		}
	})
	var yields, results []byte
	for _, path := range []string{"/", "/gzip"} {
		x := s.Start(t.Context(), Call{Tool: "Request", Input: in(fmt.Sprintf(`{"url":%q,"headers":{"authorization":"Bearer {{secret:TOKEN}}"}}`, srv.URL+path))})
		for y := range x.Yields() {
			b, _ := abi.Marshal(y)
			yields = append(yields, b...)
		}
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantOK(t, r)
		if !strings.Contains(string(r.Data), "[secret:TOKEN]") {
			t.Fatalf("the secret did not reach the server, or was not marked: %s", r.Data)
		}
		b, _ := abi.Marshal(r)
		results = append(results, b...)
	}
	for _, want := range []string{`msg=audit`, `op=request target="GET ` + srv.URL, `op="secret TOKEN" target="GET ` + srv.URL, "outcome=used plugin="} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	settled, _ := json.Marshal(led.settled)
	hist, _ := json.Marshal(s.History())
	places := map[string][]byte{"results": results, "yields": yields, "events": events, "log": logged.Bytes(), "lifecycle": settled, "history": hist}
	files := 0
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			files++
			places["file "+filepath.Base(p)] = b
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
	for name, b := range places {
		for form, text := range map[string]string{"plain": theSecret, "base64": base64.StdEncoding.EncodeToString([]byte("Bearer " + theSecret)), "url": url.QueryEscape(theSecret), "part": theSecret[2:12]} {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s holds the secret (%s)", name, form)
			}
		}
		t.Logf("searched %s: %d bytes", name, len(b))
	}
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// D-39: a read-only tool of a plugin that may also write runs unasked, and can
// send only what reads.
func TestReadOnlyRequests(t *testing.T) {
	srv := apiServer(t)
	u, _ := url.Parse(srv.URL)
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	g := Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}
	s := netSession(t, newHost(t, Options{}), g, func(o *SessionOptions) { o.AutoApprove = false })
	call := func(tool, method string) *abi.Result {
		return do(t, s, Call{Tool: tool, Input: in(fmt.Sprintf(`{"url":%q,"method":%q}`, srv.URL, method))})
	}
	wantOK(t, call("Read", "GET"))
	r := call("Read", "POST")
	if r.Error == nil || !strings.Contains(r.Error.Message, "Read is read-only") {
		t.Errorf("a POST of a read-only tool: %+v", r.Error)
	}
	wantCode(t, call("Request", "GET"), abi.CodeNoConfirm, abi.TypePermission)
}

// A missing required secret refuses the call before anything starts, and the
// next call works once it is there.
func TestRequiredSecret(t *testing.T) {
	srv := apiServer(t)
	u, _ := url.Parse(srv.URL)
	h := newHost(t, Options{})
	src := &memorySource{m: map[string]string{}}
	led := &ledger{rec: &recorder{}}
	s := netSession(t, h, Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}, func(o *SessionOptions) { o.Lifecycle = led })
	body := fmt.Sprintf(`{"url":%q}`, srv.URL)
	wantCode(t, request(t, s, body), abi.CodeSecretMissing, abi.TypePermission)
	if len(led.started) != 0 {
		t.Error("the tool was started")
	}
	src.set("TOKEN", theSecret)
	wantOK(t, request(t, s, body))
	if r := do(t, s, Call{Tool: "Exists", Input: in(`{"name":"TOKEN"}`)}); string(r.Data) != "true" {
		t.Errorf("%s", r.Data)
	}
	if r := do(t, s, Call{Tool: "Exists", Input: in(`{"name":"OTHER"}`)}); string(r.Data) != "false" {
		t.Errorf("%s", r.Data)
	}
	ungranted := netSession(t, newHost(t, Options{}), Grants{Net: []string{u.Host}, SecretSources: []secrets.Source{src}})
	wantCode(t, request(t, ungranted, body), abi.CodeSecretMissing, abi.TypePermission)
}

// Settings come from the user, fit the schema, and get its defaults.
func TestSettings(t *testing.T) {
	h := newHost(t, Options{})
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	with := func(config string) Grants {
		g := Grants{Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}
		if config != "" {
			g.Config = in(config)
		}
		return g
	}
	for config, want := range map[string]string{"": `{"base":"https://api.example.com"}`, `{"base":"https://ghe.corp","size":3}`: `{"base":"https://ghe.corp","size":3}`} {
		if r := do(t, netSession(t, h, with(config)), Call{Tool: "Settings"}); string(r.Data) != want {
			t.Errorf("%s: %s %v", config, r.Data, r.Error)
		}
	}
	p := loadGuest(t, h, guesttest.Go(t, "..", "./host/testdata/guests/net"), PluginOptions{})
	for _, bad := range []Grants{with(`{"size":"x"}`), with(`{"nope":1}`), {Net: []string{"*"}}, {Net: []string{"http://x"}}} {
		if _, err := h.NewSession(SessionOptions{Plugins: []Attachment{{Plugin: p, Grants: bad}}}); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A grant that is revoked ends the requests that are on their way.
func TestRevokedNetwork(t *testing.T) {
	srv := apiServer(t)
	u, _ := url.Parse(srv.URL)
	h := newHost(t, Options{})
	src := &memorySource{m: map[string]string{"TOKEN": theSecret}}
	g := Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{src}}
	s := netSession(t, h, g)
	wantOK(t, request(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL)))
	x := s.Start(t.Context(), Call{Tool: "Request", Input: in(fmt.Sprintf(`{"url":%q}`, srv.URL+"/slow"))})
	e, _ := s.reg.Load().lookup("Request")
	for e.guest.network.client.Active() == 0 {
		time.Sleep(time.Millisecond) // the guest is on its way to the request
	}
	if err := s.UpdateGrants("blade-tool-net", Grants{SecretSources: g.SecretSources}); err != nil {
		t.Fatal(err)
	}
	r, err := x.Result()
	if err != nil || r.Error == nil || r.Error.Code != "not_granted" {
		t.Errorf("%+v %v", r.Error, err)
	}
	wantCode(t, request(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL)), abi.CodeSecretMissing, abi.TypePermission)
	if err := s.UpdateGrants("blade-tool-nope", g); abi.CodeOf(err) != abi.CodeNotInstalled {
		t.Errorf("%v", err)
	}
	if err := s.UpdateGrants("blade-tool-net", g); err != nil {
		t.Fatal(err)
	}
	wantOK(t, request(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL)))
}
