package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

func TestDoctor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	module := watGuest(t, head+isNull+`)`)
	compileHit(t, Options{CacheDir: dir}, module)
	r := newEngine(t, Options{CacheDir: dir, Reset: ResetMemcpy}).Doctor()
	if r.Reset != ResetMemcpy || r.ResetWhy == "" || r.Engine != "compiler" || r.Cache.Entries != 1 || r.Cache.Bad != 0 || r.Cache.Bytes == 0 || r.Cache.Limit != DefaultCacheSize {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(entryFiles(t, dir)[0], []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = newEngine(t, Options{CacheDir: dir, Interpreter: true}).Doctor()
	if r.Engine != "interpreter" || r.EngineWhy == "" || r.Cache.Bad != 1 {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"reset":"`) {
		t.Error(string(b), err)
	}
}

// The way of resetting can be forced, by option or environment; an unknown one is
// refused.
func TestResetOption(t *testing.T) {
	t.Setenv(resetEnv, ResetMemcpy)
	if mode := newEngine(t, Options{}).Doctor().Reset; mode != ResetMemcpy {
		t.Errorf("%s although %s says otherwise", mode, resetEnv)
	}
	t.Setenv(resetEnv, "magic")
	if _, err := New(Options{}); abi.CodeOf(err) != abi.CodeOptions {
		t.Error(err)
	}
	if _, err := New(Options{Reset: "magic"}); abi.CodeOf(err) != abi.CodeOptions {
		t.Error(err)
	}
	if len(resets(t)) == 1 {
		return
	}
	if mode := newEngine(t, Options{Reset: ResetCopyOnWrite}).Doctor().Reset; mode != ResetCopyOnWrite {
		t.Error(mode)
	}
}
