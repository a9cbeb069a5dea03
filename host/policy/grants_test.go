package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

var (
	digestA = strings.Repeat("a", 64)
	digestB = strings.Repeat("b", 64)
)

func grant(kind GrantKind, value string) Grant {
	g := Grant{Plugin: "blade-tool-x", Digest: digestA, Kind: kind, Value: value, Scope: ScopePlugin}
	if kind == GrantRead || kind == GrantWrite {
		g.Real = value
	}
	return g
}

func TestGrantsAreKept(t *testing.T) {
	s := OpenGrants(filepath.Join(t.TempDir(), "config", "grants.json"))
	if list, err := s.List(); err != nil || list != nil {
		t.Fatal(list, err)
	}
	past := time.Now().Add(-time.Hour)
	old := grant(GrantEnv, "OLD")
	old.Expires = &past
	if err := s.Add(t.Context(), grant(GrantRead, "/w"), grant(GrantNet, "api.example.com"), grant(GrantNet, "api.example.com"), old); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 { // the expired one was not kept
		t.Fatal(list, err)
	}
	fi, err := os.Stat(s.path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
	set := Effective(list, "blade-tool-x", digestA, "", time.Now())
	if got := set.Values(GrantNet); len(got) != 1 || set.Values(GrantEnv) != nil {
		t.Errorf("%v %v", got, set.Values(GrantEnv))
	}
	// Bound to name and digest.
	if other := Effective(list, "blade-tool-x", digestB, "", time.Now()); other.Values(GrantNet) != nil || len(other.Stale) != 2 {
		t.Errorf("%+v", other)
	}
	if other := Effective(list, "blade-tool-y", digestA, "", time.Now()); other.Values(GrantNet) != nil || other.Stale != nil {
		t.Errorf("%+v", other)
	}
	gone, err := s.Revoke(t.Context(), func(g Grant) bool { return g.Kind == GrantNet })
	if err != nil || len(gone) != 1 {
		t.Fatal(gone, err)
	}
	if list, _ = s.List(); len(list) != 1 || list[0].Kind != GrantRead {
		t.Errorf("%v", list)
	}
}

// Deny wins, also over a module that is not installed yet.
func TestDenyWins(t *testing.T) {
	deny := grant(GrantNet, "api.example.com")
	deny.Deny, deny.Digest = true, digestB
	set := Effective([]Grant{grant(GrantNet, "api.example.com"), grant(GrantNet, "b.example.com"), deny}, "blade-tool-x", digestA, "", time.Now())
	if got := set.Values(GrantNet); len(got) != 1 || got[0] != "b.example.com" || set.Denied(GrantNet)[0] != "api.example.com" {
		t.Errorf("%v %v", got, set.Denied(GrantNet))
	}
	if why := set.Why(GrantNet, "api.example.com"); len(why) != 2 || !strings.HasPrefix(why[0], "denied by") {
		t.Errorf("%v", why)
	}
	set = Effective([]Grant{grant(GrantWrite, "/w"), grant(GrantRead, "/other")}, "blade-tool-x", digestA, "", time.Now())
	if why := set.Why(GrantRead, "/w/sub/file"); len(why) != 1 || !strings.Contains(why[0], "--allow-write /w") {
		t.Errorf("%v", why)
	}
	if why := set.Why(GrantRead, "/w-evil/file"); why != nil {
		t.Errorf("%v", why)
	}
}

// A grant or a denial for one tool is about that tool alone; who asks for all tools is
// never told that something is granted which one of them is denied.
func TestGrantsForOneTool(t *testing.T) {
	one := func(g Grant, name string) Grant {
		g.Scope, g.Tool = ScopeTool, name
		return g
	}
	denied := one(grant(GrantNet, "all.example.com"), "B")
	denied.Deny, denied.Digest = true, digestB
	list := []Grant{grant(GrantNet, "all.example.com"), one(grant(GrantNet, "a.example.com"), "A"), denied}
	for _, c := range []struct{ tool, all, a string }{{"A", "yes", "yes"}, {"B", "no", "no"}, {"C", "yes", "no"}, {"", "no", "no"}} {
		set := Effective(list, "blade-tool-x", digestA, c.tool, time.Now())
		for value, want := range map[string]string{"all.example.com": c.all, "a.example.com": c.a} {
			if got := set.Allows(GrantNet, value); got != (want == "yes") {
				t.Errorf("%q may reach %s: %v", c.tool, value, got)
			}
		}
	}
}

// A file that could not have been written here grants nothing.
func TestHostileGrantFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grants.json")
	s := OpenGrants(path)
	row := func(change string) string {
		g := `{"id":"g-1","plugin":"blade-tool-x","sha256":"` + digestA + `","kind":"net","value":"a.example.com","scope":"plugin","created":"2026-01-01T00:00:00Z"}`
		return `{"version":1,"grants":[` + strings.Replace(g, `"kind":"net"`, change, 1) + `]}`
	}
	for name, text := range map[string]string{
		"no JSON": `{`, "newer": `{"version":2,"grants":[]}`, "unknown member": `{"version":1,"grants":[],"all":true}`, "double key": `{"version":1,"version":1,"grants":[]}`,
		"unknown kind": row(`"kind":"everything"`), "no kind": row(`"kind":""`), "folder without a real path": row(`"kind":"read"`),
		"scope session": strings.Replace(row(`"kind":"net"`), `"scope":"plugin"`, `"scope":"session"`, 1),
		"short digest":  strings.Replace(row(`"kind":"net"`), digestA, "aa", 1), "odd plugin": strings.Replace(row(`"kind":"net"`), "blade-tool-x", "../x", 1),
		"huge": strings.Repeat(" ", maxGrantFile+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := s.List(); abi.CodeOf(err) != abi.CodeIO || list != nil {
			t.Errorf("%s: %v %v", name, list, err)
		}
		if err := s.Add(t.Context(), grant(GrantNet, "b.example.com")); err == nil {
			t.Errorf("%s: it was replaced", name)
		}
	}
	if err := os.WriteFile(path, []byte(row(`"kind":"net"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
	for _, bad := range []Grant{grant("odd", "x"), grant(GrantNet, ""), {Plugin: "blade-tool-x", Digest: digestA, Kind: GrantRead, Value: "/w", Scope: ScopePlugin}, {Plugin: "x", Digest: digestA, Kind: GrantNet, Value: "a", Scope: ScopePlugin}} {
		if err := OpenGrants(filepath.Join(t.TempDir(), "g")).Add(t.Context(), bad); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestGrantsByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants.json")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := OpenGrants(path).Add(t.Context(), grant(GrantEnv, "V"+string(rune('a'+i)))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := OpenGrants(path).List(); err != nil || len(list) != 20 {
		t.Errorf("%d %v", len(list), err)
	}
}

func TestWatchSeesARevocation(t *testing.T) {
	s := OpenGrants(filepath.Join(t.TempDir(), "grants.json"))
	if err := s.Add(t.Context(), grant(GrantEnv, "A")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Int64
	told := make(chan struct{}, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Watch(ctx, time.Millisecond, func() { seen.Add(1); told <- struct{}{} })
	}()
	<-told // it watches
	if _, err := OpenGrants(s.path).Revoke(t.Context(), func(Grant) bool { return true }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("the revocation was not seen")
	}
	cancel()
	<-done
}

// The end of a grant is noticed like a revocation, though nobody changes the file.
func TestWatchSeesAnExpiry(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := OpenGrants(filepath.Join(dir, "grants.json"))
		g := grant(GrantEnv, "A")
		until := time.Now().Add(time.Hour)
		g.Expires = &until
		if err := s.Add(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var seen []time.Time
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Watch(ctx, time.Second, func() { seen = append(seen, time.Now()) })
		}()
		time.Sleep(2 * time.Hour)
		cancel()
		<-done
		if len(seen) != 2 || seen[1].Before(until) || seen[1].Sub(until) > 2*time.Second {
			t.Errorf("it looked at %v, the end is %v", seen, until)
		}
		if set := Effective([]Grant{g}, "blade-tool-x", digestA, "A", seen[1]); set.Values(GrantEnv) != nil {
			t.Error("it counts after its end")
		}
	})
}

// A decision of the rules and the mode stays within two microseconds.
func BenchmarkDecision(b *testing.B) {
	rules := RulesFrom("x", []string{"Read:/w/*", "Bash:git *"}, []string{"Write"}, []string{"Bash:rm *", "*:/etc/*"})
	sig := Signature{Tool: "Read", Content: "/w/a/b.txt"}
	var m Memory
	b.ReportAllocs()
	for b.Loop() {
		says, _ := rules.Judge(sig)
		_, _ = ModeDefault.Judge(toolBehavior, m.Approved(sig))
		if says != "allow" {
			b.Fatal(says)
		}
	}
}

var toolBehavior = tool.Behavior{Kind: abi.KindReadOnly, ReadOnly: true}

func TestAsked(t *testing.T) {
	m := &abi.Manifest{Capabilities: &abi.Capabilities{
		FS:      &abi.FSRequest{Write: true},
		HTTP:    &abi.HTTPRequest{Hosts: []string{"b.example", "a.example"}, Methods: []string{"POST", "GET"}},
		Secrets: []abi.SecretRequest{{Name: "T", Hosts: []string{"b.example"}}},
		Env:     []abi.EnvRequest{{Name: "HOME"}},
	}}
	want := []string{"reach a.example (GET, POST)", "reach b.example (GET, POST)", "read folders", "see the variable HOME", "use the secret T at b.example", "write folders"}
	if got := Asked(m); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Asked(&abi.Manifest{}); got == nil || len(got) != 0 {
		t.Errorf("%q", got)
	}
	// To have asked for nothing is kept in the file of grants.
	nothing := grant(GrantNet, "a.example")
	nothing.Asked = Asked(&abi.Manifest{})
	b, err := json.Marshal(nothing)
	if err != nil {
		t.Fatal(err)
	}
	var back Grant
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if _, _, known := Effective([]Grant{back}, "blade-tool-x", digestB, "", time.Now()).AskedBefore(); !known {
		t.Errorf("%s does not say that nothing was asked for", b)
	}
	// The last grant says what the other module asked for.
	older, newer := grant(GrantNet, "a.example"), grant(GrantNet, "b.example")
	older.Asked, newer.Asked = []string{"x"}, []string{"y"}
	newer.Created = older.Created.Add(time.Hour)
	set := Effective([]Grant{newer, older, grant(GrantEnv, "A")}, "blade-tool-x", digestB, "", time.Now())
	if asked, digest, known := set.AskedBefore(); !known || digest != digestA || asked[0] != "y" {
		t.Errorf("%q %s %v", asked, digest, known)
	}
	if _, _, known := Effective([]Grant{grant(GrantEnv, "A")}, "blade-tool-x", digestB, "", time.Now()).AskedBefore(); known {
		t.Error("known from a grant that does not say")
	}
}

// Hosts are compared as they are when a request is judged, denials too.
func TestWhyOfHosts(t *testing.T) {
	deny := grant(GrantNet, "*.bad.example.com")
	deny.Deny, deny.ID = true, "g-deny"
	set := Effective([]Grant{grant(GrantNet, "*.example.com"), deny}, "blade-tool-x", digestA, "", time.Now())
	set.Covers = func(host, pattern string) bool {
		return strings.HasSuffix(strings.ToLower(host), strings.TrimPrefix(pattern, "*"))
	}
	for host, allowed := range map[string]bool{"api.example.com": true, "API.example.com": true, "x.bad.example.com": false, "example.org": false} {
		if got := set.Allows(GrantNet, host); got != allowed {
			t.Errorf("%s: %v %q", host, got, set.Why(GrantNet, host))
		}
	}
	if set.Denies(GrantNet, "x.bad.example.com") != "g-deny" {
		t.Error("the denial is not named")
	}
}

// The same grant again never ends earlier than it did.
func TestLaterExpiryStays(t *testing.T) {
	soon, late := time.Now().Add(time.Hour).UTC(), time.Now().Add(2*time.Hour).UTC()
	for _, c := range []struct {
		name          string
		first, second *time.Time
		want          *time.Time
	}{{"forever, then an hour", nil, &soon, nil}, {"an hour, then forever", &soon, nil, nil}, {"two hours, then one", &late, &soon, &late}, {"one hour, then two", &soon, &late, &late}} {
		s := OpenGrants(filepath.Join(t.TempDir(), "grants.json"))
		for _, e := range []*time.Time{c.first, c.second} {
			g := grant(GrantNet, "a.example.com")
			g.Expires = e
			if err := s.Add(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.List()
		if err != nil || len(list) != 1 || (list[0].Expires == nil) != (c.want == nil) || c.want != nil && !list[0].Expires.Equal(*c.want) {
			t.Errorf("%s: %+v %v", c.name, list, err)
		}
	}
}
