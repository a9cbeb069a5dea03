// Package shell has the built-in tools that run commands: Bash and KillShell. It
// also answers for the background shells that TaskOutput reads (see Shell.Output).
//
// A command runs in a fresh bash, in a session and process group of its own, with
// a short environment, and everything it started is ended with it. A command line
// that is one simple command known to read only (see readOnly) is run without a
// shell: the words that were judged are the words that run. That judgement informs
// permissions and scheduling; it is not a sandbox.
package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures the shell tools.
type Options struct {
	// Bash is the bash to run; empty means the one in the host's PATH.
	Bash string
	// ReadOnlyDirs are the folders where the programs of read-only commands are
	// looked for, in this order. Nil means those of the system; with an empty list, and
	// on Windows, nothing counts as read-only. Folders that a session may write to do
	// not belong here.
	ReadOnlyDirs []string
	// PassEnv names variables of the host's environment that commands get beside
	// PATH, HOME, LANG, LC_*, TERM, TMPDIR, USER, LOGNAME, SHELL and TZ. Nil passes
	// no others.
	PassEnv []string
	// MaxBackground bounds the background shells that a session has running; 0
	// means 32.
	MaxBackground int
}

// maxBackground is the default of Options.MaxBackground: a session that needs more
// at once has most likely lost count.
const maxBackground = 32

// Tools are the tools of the group shell.
func Tools(o Options) []tool.Tool { return New(o).Tools() }

// Shell is what the shell tools share: the background shells of each session, and
// how commands are started. It is safe for concurrent use.
type Shell struct {
	opt   Options
	guard *guard
	tag   string // begins the tag of every command
	calls atomic.Uint64

	mu       sync.Mutex
	sessions map[string]map[string]*background
	agreed   map[string]bool // see agree
}

// New makes a Shell.
func New(o Options) *Shell {
	if o.MaxBackground == 0 {
		o.MaxBackground = maxBackground
	}
	if o.ReadOnlyDirs == nil {
		o.ReadOnlyDirs = systemDirs()
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	s := &Shell{opt: o, tag: hex.EncodeToString(b[:]) + ".", sessions: map[string]map[string]*background{}, agreed: map[string]bool{}}
	s.guard = newGuard(tagName + "=" + s.tag)
	return s
}

// Tools are Bash and KillShell over these background shells.
func (s *Shell) Tools() []tool.Tool { return []tool.Tool{newBash(s), newKillShell(s)} }

// systemDirs are where systems keep the programs that come with them.
func systemDirs() []string {
	if runtime.GOOS == "windows" {
		return []string{}
	}
	return []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}
}

// tagName is the environment variable that marks what a command starts.
const tagName = "BLADEHOST_CALL"

func (s *Shell) newTag() string { return s.tag + strconv.FormatUint(s.calls.Add(1), 10) }

// bash is the path of bash.
func (s *Shell) bash() (string, error) {
	name := s.opt.Bash
	if name == "" {
		name = "bash"
	}
	p, err := exec.LookPath(name) // never in the current folder
	if err != nil {
		return "", err
	}
	return filepath.Abs(p)
}

// program is the path of a program of a read-only command.
func (s *Shell) program(name string) (string, error) {
	for _, dir := range s.opt.ReadOnlyDirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// failure makes an error of these tools.
func failure(kind abi.ErrorType, code abi.Code, message string) *abi.Error {
	return &abi.Error{Type: kind, Code: code, Message: message}
}

// Codes of the shell tools.
const (
	codeNoFilesystem abi.Code = "no_filesystem"
	codeOutside      abi.Code = "path_outside_roots"
	codeLink         abi.Code = "symlink_escape"
	codeNoCwd        abi.Code = "no_working_directory"
	codeCwdMissing   abi.Code = "cwd_not_found"
	codeSpawn        abi.Code = "spawn_failed"
	codeTimeout      abi.Code = "timeout"
	codeAborted      abi.Code = "aborted"
	codeNoShell      abi.Code = "shell_not_found"
	codeKill         abi.Code = "kill_failed"
	codeNoSession    abi.Code = "no_session"
	codeTooMany      abi.Code = "too_many_shells"
	codeRepository   abi.Code = "unsafe_repository"
)

// EndSession ends the background shells of a session, with everything they
// started.
func (s *Shell) EndSession(ctx context.Context, sessionID string) error {
	s.mu.Lock()
	list := s.sessions[sessionID]
	delete(s.sessions, sessionID)
	empty := len(s.sessions) == 0
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(func() { b.kill() }) // bounded by the graces; waited for below
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }() // ends soon after the shells
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if empty {
		s.guard.close()
	}
	return nil
}
