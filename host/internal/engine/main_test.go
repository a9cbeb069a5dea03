package engine

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// childEnv makes this test binary one of the processes that tests start.
const childEnv = "BLADEHOST_TEST_CHILD"

func TestMain(m *testing.M) {
	child := map[string]func() int{
		"compile": func() int { return CompileMain(os.Args[1:], os.Stdin, os.Stdout) },
		"hang":    func() int { select {} },
		"crash":   func() int { panic("the compiler broke") },
		"hungry":  hungryChild,
		"gorged":  gorgedChild,
		"words":   func() int { fmt.Print(`{"error":"no\nand more"}`); return childFailed },
		"nothing": func() int { return 0 },
		"load":    loadChild,
		"die":     dyingChild,
		"bench":   benchChild,
	}
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(child[name]())
	}
	os.Exit(m.Run())
}

// hungryChild takes more memory than it may.
func hungryChild() int {
	limitChild(256<<20, time.Minute)
	var kept [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		kept = append(kept, b)
		_ = kept
	}
}

// gorgedChild breaks without a word of memory while it holds nearly all it may have,
// as Go's collector does when it is refused some.
func gorgedChild() int {
	b := make([]byte, 200<<20)
	for i := range b {
		b[i] = 1
	}
	var nothing *int
	*nothing = int(b[0])
	return 0
}

// loadChild compiles the module of standard input in the cache folder of its
// argument and says whether it was there.
func loadChild() int {
	module, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	e, err := New(Options{CacheDir: os.Args[1]})
	if err != nil {
		panic(err)
	}
	p, err := e.Load(module)
	if err != nil {
		panic(err)
	}
	hit, err := p.Compile(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Print(hit)
	return 0
}

// dyingChild holds the lock of an entry and has written half of it, says so and
// waits for its end.
func dyingChild() int {
	c, err := openCache(os.Args[1], 0)
	if err != nil {
		panic(err)
	}
	if _, err := c.lock(context.Background(), os.Args[2]); err != nil {
		panic(err)
	}
	err = c.make(os.Args[2], "source", func(dir string) ([]byte, error) {
		if err := os.WriteFile(dir+"/half", make([]byte, 1000), 0o600); err != nil {
			return nil, err
		}
		fmt.Println("half")
		select {}
	})
	panic(err)
}
