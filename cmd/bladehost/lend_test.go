package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A grant that another process revokes ends the access of a running session.
func TestRevokedByAnotherProcess(t *testing.T) {
	env, dir := ownPlaces(t), t.TempDir()
	for _, args := range [][]string{{"install", plugins(t)["hash"]}, {"grant", "blade-tool-hash", "--allow-read", dir}} {
		if r := runCLI(t.Context(), env, "", args...); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := process(t, env, "session", "--auto-approve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	n := 0
	call := func() (status string) {
		n++
		id := fmt.Sprintf("c%d", n)
		input, _ := json.Marshal(map[string]string{"path": path})
		if _, err := fmt.Fprintf(in, `{"type":"call","id":%q,"tool":"Hash","input":%s}`+"\n", id, input); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			var l struct{ Type, ID, Status string }
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Type == "tool_result" && l.ID == id {
				return l.Status + " " + lines.Text()
			}
		}
		t.Fatal("the session ended")
		return ""
	}
	if got := call(); !strings.HasPrefix(got, "success") {
		t.Fatalf("with the grant: %s", got)
	}
	if r := runCLI(t.Context(), env, "", "grants", "revoke", "blade-tool-hash"); r.code != 0 {
		t.Fatal(r.err)
	}
	for { // the test's own deadline is the bound; it takes some 200 ms
		if got := call(); !strings.HasPrefix(got, "success") {
			break
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
