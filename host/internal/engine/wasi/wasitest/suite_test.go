package wasitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeSuite lays out programs and specifications as the public suite does.
func fakeSuite(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if from, ok := strings.CutPrefix(text, "copy:"); ok {
			b, err := os.ReadFile(filepath.Join("..", "testdata", from))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func suiteFiles() map[string]string {
	const c, old = "tests/c/testsuite/wasm32-wasip1/", "tests/rust/testsuite/"
	return map[string]string{
		c + "manifest.json":               `{"name":"x"}`,
		c + "root.wasm":                   "copy:fd.wasm",
		c + "root.json":                   `{"root":"fs-tests.dir","args":["read_write"],"unknown":1}`,
		c + "fs-tests.dir/file":           "x",
		c + "fs-tests.dir/d/left.cleanup": "x",
		c + "exit.wasm":                   "copy:misc.wasm",
		c + "exit.json":                   `{"root":"fs-tests.dir","args":["exit"],"exit_code":33,"stdout":""}`,
		c + "ops.wasm":                    "copy:misc.wasm",
		c + "ops.json":                    `{"operations":[{"type":"run","args":["stdio"],"root":"fs-tests.dir"},{"type":"write","id":"stdin","payload":"input"},{"type":"read","id":"stderr","payload":"err"},{"type":"wait","exit_code":0}]}`,
		old + "dirs.wasm":                 "copy:libc.wasm",
		old + "dirs.json":                 `{"dirs":["w"],"args":["files"],"stdout":"fine\n"}`,
		old + "w/x":                       "",
		old + "bare.wasm":                 "copy:misc.wasm",
		"tests/rust/testsuite/wasm32-wasip3/a.wasm": "copy:misc.wasm",
		"tests/c/testsuite/component.wasm":          "\x00asm\x0d\x00\x01\x00",
	}
}

func TestSuiteLayouts(t *testing.T) {
	dir := fakeSuite(t, suiteFiles())
	list, err := findCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]error{}
	for _, c := range list {
		got[c.name] = c.run(t.TempDir())
	}
	for _, name := range []string{"c/root", "c/exit", "c/ops", "rust/dirs"} {
		if err, ok := got[name]; !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if err := got["rust/bare"]; err == nil || !strings.Contains(err.Error(), "exit 2") {
		t.Errorf("a program without a specification that fails: %v", err)
	}
	if len(got) != 5 {
		t.Errorf("cases: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "tests/c/testsuite/wasm32-wasip1/fs-tests.dir/f")); err == nil {
		t.Error("a program wrote into the checkout")
	}
}

func TestSuiteMisses(t *testing.T) {
	dir := fakeSuite(t, map[string]string{
		"a.wasm": "copy:misc.wasm", "a.json": `{"args":["exit"],"exit_code":1}`,
		"b.wasm": "copy:misc.wasm", "b.json": `{"args":["exit"],"exit_code":33,"stdout":"x"}`,
		"c.wasm": "copy:misc.wasm", "c.json": `{"args":["exit"],"exit_code":33,"stderr":"x"}`,
		"d.wasm": "copy:misc.wasm", "d.json": `{"root":"none"}`,
	})
	list, err := findCases(dir)
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for _, c := range list {
		if err := c.run(t.TempDir()); err == nil {
			t.Errorf("%s passes", c.name)
		}
	}
	for _, bad := range []string{`{"operations":[{"type":"connect"}]}`, `{`} {
		if _, err := findCases(fakeSuite(t, map[string]string{"a.wasm": "copy:misc.wasm", "a.json": bad})); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

func TestRunSuite(t *testing.T) {
	files := suiteFiles()
	delete(files, "tests/rust/testsuite/bare.wasm")
	RunSuite(t, fakeSuite(t, files))
}
