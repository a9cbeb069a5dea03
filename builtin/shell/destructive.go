package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxNested bounds the command lines within command lines that are looked into.
	maxNested = 5
	// maxParsed bounds a line that is looked into, in bytes: a parser that recurses
	// for each of a million brackets would use up the stack of the whole process.
	maxParsed = 16 << 10
	// maxWords bounds the words of a command that runs another one.
	maxWords = 200
)

// destructive reports whether a command line has a command that throws data away
// or ends what it did not start. It only makes people be asked more often, so it
// errs on the side of yes: a line that cannot be read, or is very long, is
// destructive.
func destructive(line string) bool { return destructiveAt(line, 0) }

func destructiveAt(line string, depth int) bool {
	if depth > maxNested || len(line) > maxParsed {
		return true
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return true
	}
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			found = found || destroys(wordsOf(n.Args), depth)
		case *syntax.BinaryCmd:
			found = found || downloadToShell(n)
		case *syntax.Redirect:
			found = found || writesDevice(n)
		}
		return !found
	})
	return found
}

// unknown stands for a word whose text only the shell knows.
const unknown = "\x00"

func wordsOf(args []*syntax.Word) []string {
	out := make([]string, len(args))
	for i, w := range args {
		out[i] = roughly(w)
	}
	return out
}

// roughly is the text of a word as far as it is known: quotes and escapes are
// undone, a word with an expansion is unknown.
func roughly(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescaped(p.Value))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return unknown
				}
				b.WriteString(unescaped(lit.Value))
			}
		default:
			return unknown
		}
	}
	return b.String()
}

func unescaped(s string) string {
	if !strings.Contains(s, "\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// wrappers run the command in their arguments.
const wrappers = "sudo doas env xargs nice ionice nohup setsid timeout time command builtin exec stdbuf parallel watch chroot unshare busybox toybox su flock script"

// shells take a command line as the value of a flag, or as their arguments.
const shells = "bash sh dash zsh ksh fish eval"

// destroys judges one command, and the one that it runs.
func destroys(words []string, depth int) bool {
	if len(words) == 0 {
		return false
	}
	if words[0] == unknown {
		return true // whatever it is
	}
	switch name := program(words[0]); {
	case inList(shells, name):
		return nestedLine(words[1:], depth)
	case inList(wrappers, name):
		return wrapped(words[1:], depth)
	case name == "find":
		return findDestroys(words[1:], depth)
	}
	return destroysItself(words)
}

func program(word string) string { return path.Base(strings.ToLower(word)) }

// wrapped judges the arguments of a program that runs what they say. Which of them
// is the command is not known without all its flags, so each may be.
func wrapped(args []string, depth int) bool {
	if len(args) > maxWords {
		return true
	}
	for i, a := range args {
		if a != unknown && inList(shells, program(a)) {
			return nestedLine(args[i+1:], depth)
		}
		if a != unknown && destroysItself(args[i:]) {
			return true
		}
	}
	return false
}

// findDestroys judges what find does with what it finds.
func findDestroys(args []string, depth int) bool {
	for i, a := range args {
		if a == "-delete" {
			return true
		}
		if inList("-exec -execdir -ok -okdir", a) {
			run := args[i+1:]
			if end := slices.IndexFunc(run, func(w string) bool { return w == ";" || w == "+" }); end >= 0 {
				run = run[:end]
			}
			if wrapped(run, depth) {
				return true
			}
		}
	}
	return false
}

// destroysItself judges a command by its own name and arguments.
func destroysItself(words []string) bool {
	name := program(words[0])
	if inList("rm rmdir shred fdisk sfdisk parted wipefs truncate pkill killall format mkswap blkdiscard", name) || strings.HasPrefix(name, "mkfs") {
		return true
	}
	return destroysBy(name, words[1:])
}

// destroysBy judges the programs whose arguments decide.
func destroysBy(name string, args []string) bool {
	switch name {
	case "dd":
		return anyOf(args, func(a string) bool { return strings.HasPrefix(a, "of=") })
	case "git":
		return gitDestroys(args)
	case "kill":
		return anyOf(args, func(a string) bool { return inList("-9 -kill -sigkill kill sigkill 9", strings.ToLower(a)) })
	case "npm", "pnpm", "yarn", "cargo", "twine":
		return anyOf(args, func(a string) bool { return a == "publish" || a == "unpublish" || a == "upload" })
	case "psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "clickhouse-client":
		return anyOf(args, dropsTable)
	case "crontab":
		return anyOf(args, func(a string) bool { return a == "-r" })
	case "tee":
		return anyOf(args, blockDevice)
	}
	return false
}

func anyOf(list []string, f func(string) bool) bool {
	for _, s := range list {
		if f(s) {
			return true
		}
	}
	return false
}

func dropsTable(s string) bool {
	w := strings.Fields(strings.ToLower(s))
	for i := range w {
		if i+1 < len(w) && w[i] == "drop" && inList("table database schema", w[i+1]) || w[i] == "truncate" {
			return true
		}
	}
	return false
}

// gitDestroys knows the forms of git that lose work.
func gitDestroys(args []string) bool {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") { // global options
		if args[0] == "-C" || args[0] == "-c" {
			args = args[min(2, len(args)):]
			continue
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return false
	}
	has := func(short byte, long ...string) bool {
		return anyOf(args[1:], func(a string) bool {
			if strings.HasPrefix(a, "--") {
				name, _, _ := strings.Cut(a, "=")
				return anyOf(long, func(l string) bool { return name == l })
			}
			return short != 0 && strings.HasPrefix(a, "-") && strings.IndexByte(a, short) > 0
		})
	}
	switch args[0] {
	case "reset":
		return has(0, "--hard")
	case "push":
		return has('f', "--force", "--force-with-lease", "--delete", "--mirror") || has('d')
	case "clean":
		return has('f', "--force")
	case "branch", "tag":
		return has('D') || (has('d', "--delete") && has('f', "--force"))
	case "rm":
		return true
	case "checkout", "restore":
		return has('f', "--force")
	case "stash":
		return len(args) > 1 && (args[1] == "drop" || args[1] == "clear")
	}
	return false
}

// nestedLine looks into the command line that a shell is given.
func nestedLine(args []string, depth int) bool {
	if len(args) > maxWords {
		return true
	}
	for _, a := range args {
		if a == unknown {
			return true
		}
		if strings.HasPrefix(a, "-") {
			continue
		}
		if destructiveAt(a, depth+1) {
			return true
		}
	}
	return len(args) > 0 && destructiveAt(strings.Join(args, " "), depth+1) && !strings.HasPrefix(args[0], "-")
}

// downloadToShell finds curl … | sh.
func downloadToShell(n *syntax.BinaryCmd) bool {
	if n.Op != syntax.Pipe && n.Op != syntax.PipeAll {
		return false
	}
	return runs(n.X, "curl wget fetch aria2c") && runs(n.Y, shells+" python python3 node perl ruby")
}

// runs reports whether a statement has a command of this list, wrapped or not.
func runs(s *syntax.Stmt, list string) bool {
	found := false
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			for i, w := range wordsOf(c.Args) {
				name := program(w)
				if inList(list, name) {
					found = true
				}
				if i == 0 && !inList(wrappers, name) {
					break
				}
			}
		}
		return !found
	})
	return found
}

// writesDevice finds output that is sent to a disk.
func writesDevice(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
		return false
	}
	return r.Word != nil && blockDevice(roughly(r.Word))
}

func blockDevice(p string) bool {
	for _, prefix := range []string{"/dev/sd", "/dev/hd", "/dev/vd", "/dev/xvd", "/dev/nvme", "/dev/mmcblk", "/dev/disk", "/dev/mapper/", "/dev/md", "/dev/dm-", "/dev/loop", "/dev/mem", "/dev/kmem"} {
		if strings.HasPrefix(p, prefix) {
			return true
		}
	}
	return false
}
