package search

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/builtin/internal/file"
)

// argBytes bounds the names that one run of ripgrep gets, in bytes: systems bound the arguments of
// a process, Windows to 32 K.
func argBytes() int {
	if runtime.GOOS == "windows" {
		return 24 << 10
	}
	return 512 << 10
}

// narrow asks ripgrep which of the files may match and leaves the others out. What ripgrep says is
// only a hint: every file that it names is searched here, through the workspace's own
// folders, so the answer is the same with and without it. It reports false, and leaves the list as it is, where
// ripgrep could not be asked.
func (g *grep) narrow(program string) bool {
	if g.sort(); g.ctx.Err() != nil {
		return false
	}
	var kept []string
	for at := 0; at < len(g.files); {
		to, size := at, 0
		for to < len(g.files) && (to == at || size < argBytes()) {
			size += len(g.q.Start.Path) + len(g.files[to]) + 2
			to++
		}
		part, ok := g.ask(program, g.files[at:to])
		if !ok {
			return false
		}
		kept = append(kept, part...)
		at = to
	}
	g.files = kept
	return true
}

// Limits of what ripgrep is asked.
const (
	// maxAsked is the largest file that ripgrep is asked about, in bytes: it would hold a line of any length.
	maxAsked = 64 << 20
	// sniffedFrom is the size from which on files are looked at before: ripgrep has to read all of a file
	// that is no text, and here its start is enough.
	sniffedFrom = 256 << 10
)

// sort takes the files out that are no text, and notes those that are not ripgrep's. Sizes are a hint, as
// all that ripgrep is told.
func (g *grep) sort() {
	type verdict struct{ drop, own bool }
	verdicts := make([]verdict, len(g.files))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(func() { // waited for below
			s := &searcher{g: g}
			defer s.close()
			for g.ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(g.files) {
					return
				}
				st, err := os.Lstat(g.path(g.files[i]))
				if err == nil && st.Mode().IsRegular() && st.Size() >= sniffedFrom {
					verdicts[i] = verdict{s.noText(g.files[i]), st.Size() > maxAsked}
				}
			}
		})
	}
	wg.Wait()
	if g.ctx.Err() != nil {
		return
	}
	kept := g.files[:0]
	g.own = map[string]bool{}
	for i, f := range g.files {
		if !verdicts[i].drop {
			kept = append(kept, f)
			if verdicts[i].own {
				g.own[f] = true
			}
		}
	}
	g.files = kept
}

// noText reports whether the start of a file shows that it is not searched. One that cannot be read is
// left to the search, which counts it.
func (s *searcher) noText(rel string) bool {
	f, err := s.open(rel)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	if cap(s.buf) < binarySniff {
		s.buf = make([]byte, 0, binarySniff)
	}
	head, err := fillUp(f, s.buf[:0], binarySniff, s.g.stoppedNow)
	if err != nil && err != io.EOF {
		return false
	}
	if e, _ := file.SniffEncoding(head[:min(len(head), 3)]); e == file.UTF16LE || e == file.UTF16BE {
		return false
	}
	return bytes.IndexByte(head, 0) >= 0
}

// ask runs ripgrep once.
func (g *grep) ask(program string, files []string) ([]string, bool) {
	args := []string{"--no-config", "--no-ignore", "--hidden", "--text", "--files-with-matches", "--null",
		"--color=never", "--no-messages", "--case-sensitive"}
	if g.q.Multiline {
		args = append(args, "--multiline")
	}
	args = append(args, "-e", g.re.rust, "--")
	byPath := make(map[string]string, len(files))
	for _, f := range files {
		if g.own[f] {
			continue
		}
		p := g.path(f)
		byPath[p] = f
		args = append(args, p)
	}
	if len(byPath) == 0 {
		return files, true
	}
	cmd := exec.CommandContext(g.ctx, program, args...)
	cmd.Dir = filepath.VolumeName(g.q.Start.Path) + string(filepath.Separator)
	cmd.WaitDelay = time.Second
	if runtime.GOOS != "windows" {
		cmd.Env = []string{} // it needs none
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			return nil, false // it failed; 1 means no match
		}
	}
	hit := map[string]bool{}
	for name := range bytes.SplitSeq(out.Bytes(), []byte{0}) {
		hit[byPath[string(name)]] = true
	}
	var kept []string
	for _, f := range files {
		if hit[f] || g.own[f] {
			kept = append(kept, f)
		}
	}
	return kept, true
}

// LookRipgrep finds the program that an option names: empty means rg in PATH, "-" none.
func LookRipgrep(option string) string {
	if option == "-" {
		return ""
	}
	if option == "" {
		option = "rg"
	}
	p, err := exec.LookPath(option)
	if err != nil || !filepath.IsAbs(p) {
		return ""
	}
	return p
}
