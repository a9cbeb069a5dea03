package search

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
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
		p := g.path(f)
		byPath[p] = f
		args = append(args, p)
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
		if hit[f] {
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
