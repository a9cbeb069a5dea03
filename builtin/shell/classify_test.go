package shell

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// handed reads a table of handed cases.
func handed[T any](t testing.TB, file string) (rows []T) {
	t.Helper()
	f, err := os.Open(filepath.FromSlash("../../testdata/builtin/" + file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var row T
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return rows
}

type judged struct {
	Cmd    string `json:"cmd"`
	Expect string `json:"expect"`
	Why    string `json:"why"`
}

type classified struct {
	Command string `json:"command"`
	Effect  string `json:"seed74_sideEffect"`
	Why     string `json:"seed74_why"`
}

// BLT-11: every handed line is judged as it is handed, and so are the ones below.
func TestReadOnlyHanded(t *testing.T) {
	for _, c := range handed[judged](t, "bash-cases.jsonl") {
		if _, ok := readOnly(c.Cmd); ok != (c.Expect == "ro") {
			t.Errorf("%q: read-only is %v, want %s: %s", c.Cmd, ok, c.Expect, c.Why)
		}
	}
	for _, c := range handed[classified](t, "bash-classification.jsonl") {
		if _, ok := readOnly(c.Command); ok != (c.Effect == "pure") {
			t.Errorf("%q: read-only is %v, want %s: %s", c.Command, ok, c.Effect, c.Why)
		}
	}
}

// BLT-11: more lines that must not narrow, by the trick they use.
func TestReadOnlyRefuses(t *testing.T) {
	for trick, lines := range map[string][]string{
		"field separator": {"cat$IFS/etc/passwd", "cat${IFS}x"},
		"expansion":       {`ls $HOME`, `ls "$HOME"`, `ls ${x}`, `ls $((1))`, `ls $'x'`, `ls ~`, `ls ~root`, `cat a~ ~`},
		"substitution":    {`echo $(id)`, "echo `id`", `echo "$(id)"`, `echo <(id)`, `cat >(id)`, `echo ${x:-$(id)}`},
		"redirection":     {"ls >x", "ls>x", "ls 1>&2", "ls >| x", "ls <> x", "cat 3<x", "ls &>>x", "ls >&2", "echo x>'a b'"},
		"list":            {"ls;", "ls &", "ls && true", "ls | cat", "ls |& cat", "ls\nls", "ls;;", "ls ; # x"},
		"compound":        {"[ -f x ]", "[[ -f x ]]", "for i in a; do ls; done", "while false; do ls; done", "f() { ls; }", "coproc ls", "select x in a; do ls; done", "case x in x) ls;; esac", "let x=1"},
		"assignment":      {"A=1 ls", "A=1", "PATH=. ls", "a[0]=1 ls", "A+=1 ls"},
		"quoting": {`ls $"x"`, `ls 'a`, `ls "a`, `ls a\`, `l\s`, `"ls" "a\
b"`},
		"glob and brace":   {"ls *", "ls ?", "ls [a]", "ls {a,b}", "ls {1..9}", "ls !(x)", "ls a*b"},
		"history":          {"echo !!", "echo !x", `echo "!x"`, "ls ^a"},
		"joined flag":      {"sort -ro out a", "sort -k1 -oout", "sort -T/tmp a", "sort --files0-from=x", "sort -S1K a", "uniq a b", "uniq -c a b", "tail -5f x", "tail -F x", "tail --retry x", "tail --pid=1 x"},
		"prefix of a flag": {"sort --out=x a", "sort --compress=x", "tail --fol x", "grep --fil=x y"},
		"find":             {"find . -exec id +", "find . -ok id", "find . -okdir id", "find . -fprint x", "find . -fprint0 x", "find . -files0-from x", "find . -name", "find -D exec .", "find . -newerXY x", "find . , -delete", "find . -type f -delete"},
		"git":              {"git", "git -c a=b status", "git --git-dir=x status", "git -p status", "git status --foo", "git diff --output=x", "git diff --ext-diff", "git diff --textconv", "git diff -O x", "git diff -Gx", "git branch x", "git branch -d x", "git branch -m a b", "git branch --edit-description", "git branch --list x", "git log -p", "git show", "git stash list", "git remote -v", "git config -l", "git fetch", "git grep -O x", "git blame x", "git diff --no-index a b --output=c", "git branch -- x"},
		"rg":               {"rg --pre=x y", "rg -z x", "rg --hostname-bin x y", "rg --search-zip x", "rg -f pats x", "rg --ignore-file=x y"},
		"program by path":  {"/bin/ls", "./ls", "../ls", "bin/ls", "~/ls"},
		"shells, wrappers": {"sh -c ls", "dash x", "zsh", "ksh", "env ls", "env", "nohup ls", "setsid ls", "sudo ls", "stdbuf -o0 ls", "watch ls", "script x", "busybox ls", "exec ls", "eval ls", "command ls", "builtin echo", "time ls", "coproc ls", "trap ls EXIT", "enable -f x y", "hash -p /x ls", "mapfile x", "read x", "printf -v x y", "test x", "type ls", "exit", "return", "shopt -s x", "ulimit -c 1", "umask 0", "cd /", "pushd /", "kill 1", "wait", "fg"},
		"writes":           {"tee x", "date -s x", "date 010203", "date --set=x", "hostname x", "hostname -F x", "file -C x", "xxd a b", "split x", "csplit x y", "cp a b", "install a b", "ln -s a b", "mkdir x", "mktemp", "touch x", "tar c x", "tree -o x", "tree -R", "diff --to-file=x a", "locate -U x", "truncate x"},
		"standard input":   {"cat -", "wc -", "sort -", "head -n1 -"},
		"odd characters":   {"ls\u00a0x", "ls\u2003x", "ls\u2028rm", "ls\u0085rm", "ls \u202ex", "ls \ufeff", "ls\x00", "ls\x0brm", "ls\x0crm", "ls \x7f", "ls \xff", "ls\u3000x", "ls \u200d", "ls\ufffd"},
		"long":             {"ls " + strings.Repeat("a ", maxJudged/2), strings.Repeat("true;", 60) + "rm x"},
		"follows links":    {"grep -R x .", "grep -nR x", "grep -Rr x", "grep --dereference-recursive x", "ls -L", "ls -LR x", "ls --dereference", "du -L", "du -aL x", "du --dereference", "find -L .", "find . -follow", "rg -L x", "rg --follow x", "tree -l", "diff --no-dereference a b"},
		"more arguments":   {"strings @x", "strings -a @/etc/passwd", "strings -- @x"},
		"printf escapes":   {`printf "a\cb"`, `printf '\u00e9'`, `printf '\U1F600'`, `printf '\101'`, `printf '\0'`, `printf '\x4'`, `printf '\xzz'`, `printf '\e'`, `printf '\q'`, `printf 'a\'`, `printf "%s\c" x`},
		"printf":           {"printf", "printf %n x", "printf %q x", "printf '%(%s)T'", "printf %*d 9 1", "printf %99999d 1", "printf --help", "printf %", `printf "%b" x`},
		"echo":             {"echo -e x", "echo -E x", "echo -ne x", "echo --help", "echo -n -e x"},
		"other":            {"awk 1 x", "sed p x", "xargs ls", "less x", "man ls", "vi x", "python x", "perl x", "node x", "ruby x", "php x", "jq . x", "make", "curl x", "ssh x", "docker ps", "ps e", "ps eww", "ps auxe", "ps -E", "ps -o environ", "ps axe", "ps -ewwo args", "ls --hyperlink=x", "ls --zero --unknown", "printenv", "id -Z x y"},
	} {
		for _, l := range lines {
			if argv, ok := readOnly(l); ok {
				t.Errorf("%s: %q narrows to %q", trick, l, argv)
			}
		}
	}
}

// Lines that narrow, and the words that bash makes of them.
func TestReadOnlyWords(t *testing.T) {
	for line, want := range map[string][]string{
		"  ls\t-la  x  ":              {"ls", "-la", "x"},
		`cat 'a b' "c d" e'f'"g"`:     {"cat", "a b", "c d", "efg"},
		`grep -n "a\"b\\c\d" x`:       {"grep", "-n", `a"b\c\d`, "x"},
		`printf "\xe4\xb8\x96\n"`:     {"printf", `\xe4\xb8\x96\n`},
		"find . -name x -o -name y":   {"find", ".", "-name", "x", "-o", "-name", "y"},
		`find . -name '*.go'`:         {"find", ".", "-name", "*.go"},
		"cat -- -n":                   {"cat", "--", "-n"},
		"echo a = b":                  {"echo", "a", "=", "b"},
		"git diff HEAD -- a b":        {"git", "diff", "HEAD", "--", "a", "b"},
		"git branch -vv":              {"git", "branch", "-vv"},
		"rg -n --glob '*.go' foo src": {"rg", "-n", "--glob", "*.go", "foo", "src"},
		`printf "a\n\t%s\\\\" x`:      {"printf", `a\n\t%s\\`, "x"},
		"date -u +%s":                 {"date", "-u", "+%s"},
		"cat naïve.txt 日本":            {"cat", "naïve.txt", "日本"},
		`echo ''`:                     {"echo", ""},
		"head -20 x":                  {"head", "-20", "x"},
		"ps aux":                      {"ps", "aux"},
		"ps -ef":                      {"ps", "-ef"},
	} {
		argv, ok := readOnly(line)
		if !ok || strings.Join(argv, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("%q: %q %v, want %q", line, argv, ok, want)
		}
	}
}

// Every rule refuses the flags that are known to write, run or wait, whatever
// else it allows.
func TestRulesKeepOut(t *testing.T) {
	for _, name := range strings.Fields("sort uniq tail grep egrep fgrep rg find tree diff od hexdump du df ls date hostname git") {
		for _, flag := range []string{"-o", "--output=x", "--output", "-i", "--in-place", "--exec", "-exec", "--compress-program=x", "--pre=x", "--follow", "-delete", "--to-command=x", "-F"} {
			if allowed := map[string]string{"grep": "-o -i -F -exec", "egrep": "-o -i -F -exec", "fgrep": "-o -i -F -exec", "rg": "-o -i -F", "od": "-o -i", "uniq": "-i", "diff": "-i -delete", "du": "-delete", "df": "-i", "tree": "-i", "hexdump": "-o", "sort": "-i", "ls": "-o -i -F"}; inList(allowed[name], flag) {
				continue
			}
			if _, ok := readOnly(name + " " + flag + " x"); ok {
				t.Errorf("%s %s x narrows", name, flag)
			}
		}
	}
}

// splitter asks the real bash how it splits lines: a program in the place of the
// command prints its words, for many lines in one process. Each line is given as a
// variable to eval, in a folder without files and without anything to run.
const splitter = `
function no-such-command-here() { printf '%s\0' no-such-command-here "$@"; }
PATH=
while IFS= read -r -d '' line; do
	( eval "$line" ) </dev/null 2>/dev/null
	printf '\1\0'
done
`

// askBash gives the words that bash makes of each line, with the first word
// replaced by one that bash cannot know: the judged names are programs and
// builtins, and this is about how words are split.
func askBash(t testing.TB, lines []string) [][]string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash on this machine")
	}
	cmd := exec.Command(bash, "--norc", "--noprofile", "-c", splitter)
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\x00") + "\x00")
	cmd.Env = []string{"LC_ALL=C.UTF-8", "HOME=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	var words []string
	for w := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if string(w) == "\x01" {
			all, words = append(all, words), nil
			continue
		}
		words = append(words, string(w))
	}
	if len(all) != len(lines) {
		t.Fatalf("bash answered for %d of %d lines", len(all), len(lines))
	}
	return all
}

// mutate changes a line in a few places.
func mutate(r *rand.Rand, line string) string {
	bits := []string{" ", "\t", "'", `"`, `\`, "$", "`", "(", ")", "{", "}", "[", "]", "*", "?", "!", "~", "#", ";", "&", "|", "<", ">", "=", "-", "--", "\n", "\r", "^", ",", "%", "+", "$(id)", "${x}", "a", "x y", "''", `""`, "\u00a0", "\u200b", "é", "\\\n", "-o", ">f", "2>", "<<E", "&&", "||", `$'`, `$"`, "@", ":", "/", ".", "0", "1"}
	b := []byte(line)
	for range 1 + r.IntN(4) {
		i := r.IntN(len(b) + 1)
		switch r.IntN(4) {
		case 0:
			if i < len(b) {
				b = append(b[:i:i], b[i+1:]...)
			}
		case 1:
			j := r.IntN(len(b) + 1)
			if i < j {
				b = append(b[:j:j], append(append([]byte{}, b[i:j]...), b[j:]...)...)
			}
		default:
			b = append(b[:i:i], append([]byte(bits[r.IntN(len(bits))]), b[i:]...)...)
		}
	}
	return string(b)
}

// seeds are lines to mutate.
func seeds(t testing.TB) (out []string) {
	for _, c := range handed[judged](t, "bash-cases.jsonl") {
		out = append(out, c.Cmd)
	}
	for _, c := range handed[classified](t, "bash-classification.jsonl") {
		out = append(out, c.Command)
	}
	return append(out, `grep -n "a b" 'c d' e`, `cat "a\"b" 'c'`, `find . -name '*.go' -type f`, `printf "\x41 %s" b`, `echo a  b	c`, `diff -u "a b" c`, `git diff --stat HEAD`)
}

// BLT-11: 100,000 mutated lines. Whatever narrows is one command for bash too, with
// exactly the words that were judged.
func TestReadOnlyAgainstBash(t *testing.T) {
	const lines = 100000
	r := rand.New(rand.NewPCG(1, 2))
	from := seeds(t)
	var good []string
	for _, l := range from {
		if _, ok := readOnly(l); ok {
			good = append(good, l)
		}
	}
	var asked []string
	var want [][]string
	for i := range lines {
		l := mutate(r, from[r.IntN(len(from))])
		if i%2 == 0 { // nearer to what narrows
			l = mutate(r, good[r.IntN(len(good))])
		}
		if argv, ok := readOnly(l); ok {
			asked, want = append(asked, l), append(want, argv)
		}
	}
	if len(asked) < 1000 {
		t.Fatalf("only %d of %d lines narrow: the mutations are too wild to show anything", len(asked), lines)
	}
	for i, got := range askBash(t, replaceName(asked, want)) {
		if len(got) == 0 || got[0] != notACommand || strings.Join(got[1:], "\x00") != strings.Join(want[i][1:], "\x00") {
			t.Errorf("%q: judged as %q, bash makes %q of it", asked[i], want[i], got)
		}
	}
	t.Logf("%d of %d lines narrow", len(asked), lines)
}

const notACommand = "no-such-command-here"

// replaceName puts a name that bash does not know in the place of the command's.
// The name is written in plain letters at the beginning of the line or in quotes;
// where it is spelled in pieces, a function call is made of it instead.
func replaceName(lines []string, words [][]string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		trimmed := strings.TrimLeft(l, " \t")
		rest, ok := strings.CutPrefix(trimmed, words[i][0])
		if ok && (rest == "" || strings.ContainsRune(" \t", rune(rest[0]))) {
			out[i] = notACommand + rest
			continue
		}
		// Spelled with quotes: take all up to the first blank outside of them.
		out[i] = notACommand + afterFirstWord(trimmed)
	}
	return out
}

func afterFirstWord(s string) string {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote == 0 && (c == ' ' || c == '\t'):
			return s[i:]
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == '"' && c == '\\':
			i++
		case c == quote:
			quote = 0
		}
	}
	return ""
}

// FuzzReadOnly: what narrows has words without special meaning, is the same line
// for bash, and is never longer than the limit. Run with bash it asks it too.
func FuzzReadOnly(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv, ok := readOnly(line)
		_, _, _ = destructive(line), category(line), ruleSuggestion(line)
		if !ok {
			return
		}
		if len(line) > maxJudged || len(argv) == 0 || ruleFor(argv[0]) == nil || strings.ContainsAny(line, "\n\r\x00") {
			t.Fatalf("%q: %q", line, argv)
		}
		// Quoted again in the plainest way, it is the same command.
		again := argv[0]
		for _, a := range argv[1:] {
			again += " '" + strings.ReplaceAll(a, "'", `'"'"'`) + "'"
		}
		if argv2, ok := readOnly(again); len(again) <= maxJudged && (!ok || fmt.Sprint(argv2) != fmt.Sprint(argv)) {
			t.Fatalf("%q: %q became %q: %q", line, argv, again, argv2)
		}
		if got := askBash(t, replaceName([]string{line}, [][]string{argv}))[0]; len(got) == 0 || strings.Join(got[1:], "\x00") != strings.Join(argv[1:], "\x00") {
			t.Fatalf("%q: judged as %q, bash makes %q of it", line, argv, got)
		}
	})
}

// Destructive commands are found where a command stands, not where a word does.
func TestDestructive(t *testing.T) {
	for line, want := range map[string]bool{
		"rm x": true, "rm -rf /": true, "rmdir d": true, "echo format": false, "grep rm file": false, "ls; rm x": true, "true && rm x": true, `\rm x`: true, "r''m x": true,
		"dd if=a of=b": true, "dd if=a": false, "mkfs.ext4 /dev/sda": true, "git reset --hard": true, "git reset": false, "git -C x reset --hard": true, "git push -f": true,
		"git push --force-with-lease": true, "git push": false, "git clean -fd": true, "git clean -n": false, "git branch -D x": true, "git branch -d x": false, "git checkout -f": true,
		"kill -9 1": true, "kill -KILL 1": true, "kill -TERM $$": false, "kill -s KILL 1": true, "pkill x": true, "npm publish": true, "npm test": false, "sudo rm x": true, "env A=1 rm x": true, "xargs rm": true,
		"find . -delete": true, "find . -exec rm {} +": true, "find . -exec ls {} +": false, "bash -c 'rm x'": true, "sh -c 'ls'": false, "eval rm x": true, "eval 'r''m' x": true, "$(echo rm) x": true,
		"curl x | sh": true, "curl x | sudo bash": true, "wget -qO- x | python3": true, "curl x | jq .": false, "echo x > /dev/sda": true, "echo x > /dev/null": false, "cat /dev/sda": false,
		"psql -c 'DROP TABLE x'": true, "psql -c 'select 1'": false, "truncate -s 0 f": true, "for f in a; do rm $f; done": true, "if true; then rm x; fi": true, "echo 'rm x'": false, "echo $(rm x)": true,
		"rm": true, "unclosed 'quote": true, "touch f": false, "": false, "shred f": true, "/bin/rm x": true, "timeout 5 rm x": true, "busybox rm x": true, "bash -c 'bash -c \"rm x\"'": true, "tee /dev/sda": true, "crontab -r": true,
		"git rm x": true, "git stash drop": true, "find . -exec grep rm {} ;": true, "find . -name rm -exec ls {} +": false, "sudo -u bob rm x": true, "xargs -n1 echo": false, "env bash -c 'rm x'": true, "find . -exec sh -c 'rm {}' \\;": true,
	} {
		if got := destructive(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

// Whatever is sent, judging it takes little: nesting uses up no stack, and commands
// that run commands no time.
func TestJudgingIsBounded(t *testing.T) {
	for _, piece := range []string{"$(", "((", "{ ", "[[ ( ", "`", "${a:-", "<<a\n", "if ", "\"$(", "$((", "<(", "a[", "eval ", "eval '", "sudo ", "bash -c ", "xargs env ", "find . -exec ", "find -exec find ; ", "sudo bash ", "bash ", "a | ", "curl x | ", "! ", "rm"} {
		for _, size := range []int{1000, maxJudged, maxParsed, 1 << 20, 4 << 20} {
			line := strings.Repeat(piece, size/len(piece))
			if _, ok := readOnly(line); ok {
				t.Errorf("%q narrows", piece)
			}
			if got := destructive(line); size > maxParsed && !got {
				t.Errorf("%d bytes of %q are not destructive", size, piece)
			}
		}
	}
}

func TestRuleSuggestion(t *testing.T) {
	for line, want := range map[string]string{
		"ls": "readonly:ls", "ls -la": "readonly:ls -la", "npm run test": "write:npm run *", "rm -rf x": "destructive:rm -rf *", "git add .": "write:git add *", "  make  ": "write:make", "": "write:",
	} {
		if got := ruleSuggestion(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
