package lockfile

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Try(path); ok || err != nil {
		t.Fatalf("a held lock was given again: %v %v", ok, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Acquire(ctx, path); err == nil {
		t.Fatal("a held lock was given again")
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l2, ok, err := Try(path)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	_ = l2.Release()
}
