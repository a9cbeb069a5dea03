package shell

import (
	"slices"
	"strings"
)

// commandRule says which forms of one program only read.
type commandRule struct {
	// short are the short flags, by letter; a star behind a letter says that the
	// flag takes a value.
	short string
	// long are the long flags, each in full: programs accept prefixes, we do not.
	long string
	// digits allows flags such as -20.
	digits bool
	// most bounds the operands; -1 does not.
	most int
	// check replaces the rules above, for programs with a grammar of their own.
	check func(args []string) bool
	// noPaths says that the operands are no paths, so they need no look at where
	// they lead.
	noPaths bool
	// noAt refuses operands that begin with an at sign: they name a file of more
	// arguments.
	noAt bool
}

// ruleFor is the rule of a program, or nil for one that never narrows.
//
// Left out on purpose: everything that runs programs named in its arguments, its
// environment or its configuration (env, xargs, awk, sed, less, man, tar, most of
// git), everything that may write (tee, file -C, xxd), everything that never ends
// (tail -f), and the builtins of the shell that change its state. Flags that follow
// links on the way (grep -R, ls -L, du -L, find -L) are no rule's: where a command
// looks is judged by its operands.
func ruleFor(name string) *commandRule {
	if r, ok := textRules(name); ok {
		return &r
	}
	if r, ok := fileRules(name); ok {
		return &r
	}
	if r, ok := systemRules(name); ok {
		return &r
	}
	return nil
}

// textRules are programs that print parts of files.
func textRules(name string) (commandRule, bool) {
	switch name {
	case "cat":
		return commandRule{short: "AbeEnstTuv", long: "number number-nonblank show-all show-ends show-tabs show-nonprinting squeeze-blank", most: -1}, true
	case "head":
		return commandRule{short: "n*c*qvz", long: "lines bytes quiet silent verbose zero-terminated", digits: true, most: -1}, true
	case "tail":
		return commandRule{short: "n*c*qvz", long: "lines bytes quiet silent verbose zero-terminated", digits: true, most: -1}, true
	case "wc":
		return commandRule{short: "clmLw", long: "bytes chars lines words max-line-length", most: -1}, true
	case "nl":
		return commandRule{short: "b*n*w*", most: 1}, true
	case "cut":
		return commandRule{short: "b*c*d*f*sz", long: "bytes characters delimiter fields only-delimited complement output-delimiter", most: -1}, true
	case "tr":
		return commandRule{short: "cCdst", long: "complement delete squeeze-repeats truncate-set1", most: 2, noPaths: true}, true
	case "sort": // -o, -T, -S and --compress-program write or run
		return commandRule{short: "bdfghiMnrRsuVzk*t*", long: "reverse numeric-sort unique key field-separator ignore-case human-numeric-sort version-sort", most: -1}, true
	case "uniq": // a second operand is a file that is written
		return commandRule{short: "cdiuz", long: "count repeated unique ignore-case", most: 1}, true
	case "cmp":
		return commandRule{short: "bls", long: "print-bytes verbose quiet silent", most: 2}, true
	case "comm":
		return commandRule{short: "123z", long: "total zero-terminated", most: 2}, true
	case "diff":
		return commandRule{short: "abBcdeEiIlnNpqrstuUwWyZ", long: "brief unified recursive ignore-all-space ignore-case report-identical-files text", most: 2}, true
	case "grep", "egrep", "fgrep":
		return commandRule{short: "aA*bB*cC*e*EFhHiIlLm*nopPqrsvwxzZ", digits: true, most: -1,
			long: "color colour context count extended-regexp fixed-strings ignore-case include exclude exclude-dir invert-match line-number files-with-matches files-without-match only-matching recursive word-regexp line-regexp max-count after-context before-context with-filename no-filename no-messages regexp perl-regexp basic-regexp text quiet silent null"}, true
	case "rg": // --pre and --hostname-bin run programs
		return commandRule{short: "A*B*C*cFg*hHiIlm*nNoPqsSt*T*UvwxV", most: -1,
			long: "after-context before-context context count count-matches fixed-strings glob iglob no-filename with-filename ignore-case files files-with-matches files-without-match max-count max-depth line-number no-line-number only-matching pcre2 quiet case-sensitive smart-case type type-not multiline multiline-dotall invert-match word-regexp line-regexp hidden no-ignore json sort sortr stats trim heading no-heading color type-list no-config"}, true
	case "strings":
		return commandRule{short: "an*t*e*", long: "all bytes radix encoding", most: -1, noAt: true}, true
	case "od":
		return commandRule{short: "abcdfilosxvA*j*N*t*w", most: -1}, true
	case "hexdump":
		return commandRule{short: "bcCdoxvn*s*", most: -1}, true
	case "md5sum", "sha1sum", "sha256sum", "sha512sum":
		return commandRule{short: "bt", long: "binary text tag", most: -1}, true
	case "cksum":
		return commandRule{most: -1}, true
	}
	return commandRule{}, false
}

// fileRules are programs that tell about files and folders.
func fileRules(name string) (commandRule, bool) {
	switch name {
	case "ls":
		return commandRule{short: "1aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ", most: -1,
			long: "all almost-all color colour directory human-readable recursive reverse size sort time full-time group-directories-first inode classify si numeric-uid-gid literal quote-name"}, true
	case "stat":
		return commandRule{short: "c*fLt", long: "format dereference terse printf file-system", most: -1}, true
	case "du":
		return commandRule{short: "abcd*hkmsSx", long: "all apparent-size human-readable max-depth summarize total bytes one-file-system si", most: -1}, true
	case "df":
		return commandRule{short: "ahiHklPT", long: "all human-readable inodes local portability print-type total", most: -1}, true
	case "basename":
		return commandRule{short: "as*z", long: "multiple suffix zero", most: -1, noPaths: true}, true
	case "dirname":
		return commandRule{short: "z", long: "zero", most: -1, noPaths: true}, true
	case "realpath":
		return commandRule{short: "eLmPqsz", long: "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero", most: -1}, true
	case "readlink":
		return commandRule{short: "efmnqsvz", long: "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero", most: -1}, true
	case "tree": // -o writes, and -R may
		return commandRule{short: "adfhiL*psugD", long: "dirsfirst noreport filelimit du si", most: -1}, true
	case "find":
		return commandRule{check: findReads}, true
	case "git":
		return commandRule{check: gitReads}, true
	case "which":
		return commandRule{short: "a", most: -1, noPaths: true}, true
	}
	return commandRule{}, false
}

// systemRules are programs that tell about the machine, and those that only
// print their operands.
func systemRules(name string) (commandRule, bool) {
	switch name {
	case "pwd":
		return commandRule{short: "LP"}, true
	case "true", "false":
		return commandRule{noPaths: true}, true
	case "echo", "printf":
		check := echoAsBuiltin
		if name == "printf" {
			check = printfAsBuiltin
		}
		return commandRule{check: check, noPaths: true}, true
	case "whoami", "nproc", "arch", "hostname":
		return commandRule{}, true
	case "id":
		return commandRule{short: "Ggnruz", long: "group groups name real user zero", most: 1, noPaths: true}, true
	case "uname":
		return commandRule{short: "amnoprsv", long: "all kernel-name nodename kernel-release kernel-version machine operating-system"}, true
	case "uptime":
		return commandRule{short: "ps", long: "pretty since"}, true
	case "free":
		return commandRule{short: "bkmghltw", long: "bytes kibi mebi gibi human lohi total wide si"}, true
	case "lscpu":
		return commandRule{}, true
	case "ps": // e and -E show the environment of other programs
		return commandRule{check: psReads, noPaths: true}, true
	case "date": // -s and a bare operand set the clock
		return commandRule{check: dateReads, noPaths: true}, true
	}
	return commandRule{}, false
}

// allows reports whether the rule covers these words, the program's name first.
func (r *commandRule) allows(words []string) bool {
	if r == nil {
		return false
	}
	if r.check != nil {
		return r.check(words[1:])
	}
	operands, ok := r.operands(words[1:])
	return ok && (r.most < 0 || len(operands) <= r.most)
}

// operands are the words that are no flags and no values of flags, if the rule allows
// the flags.
func (r *commandRule) operands(args []string) (out []string, ok bool) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			out = append(out, args[i+1:]...)
			i = len(args)
		case a == "-": // standard input
			return nil, false
		case strings.HasPrefix(a, "--"):
			name, _, _ := strings.Cut(a[2:], "=")
			if !inList(r.long, name) {
				return nil, false
			}
		case strings.HasPrefix(a, "-"):
			ok, next := r.shortFlags(a[1:])
			if !ok {
				return nil, false
			}
			if next {
				i++
			}
		default:
			out = append(out, a)
		}
	}
	if r.noAt && slices.ContainsFunc(out, func(a string) bool { return strings.HasPrefix(a, "@") }) {
		return nil, false
	}
	return out, true
}

// shortFlags judges a bundle of short flags and reports whether the value of the
// last one is the next word.
func (r *commandRule) shortFlags(bundle string) (ok, next bool) {
	for j := range len(bundle) {
		if r.digits && bundle[j] >= '0' && bundle[j] <= '9' {
			continue
		}
		k := strings.IndexByte(r.short, bundle[j])
		if k < 0 || bundle[j] == '*' {
			return false, false
		}
		if k+1 < len(r.short) && r.short[k+1] == '*' {
			return true, j+1 == len(bundle)
		}
	}
	return true, false
}

func inList(list, word string) bool {
	if word == "" {
		return false
	}
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

const (
	findWithValue = "-name -iname -path -ipath -wholename -iwholename -type -maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newer -user -group -perm -regex -iregex -links -inum"
	findAlone     = "-print -print0 -o -or -a -and -not ! ( ) -empty -depth -xdev -mount -prune -ls -readable -writable -executable -true -false"
)

// findReads takes start folders and the predicates that only test and print:
// those that run programs, delete or write files are not in the lists.
func findReads(args []string) bool {
	i := 0
	for i < len(args) && args[i] != "" && args[i][0] != '-' && args[i] != "(" && args[i] != "!" && args[i] != ")" && args[i] != "," {
		i++
	}
	for ; i < len(args); i++ {
		switch {
		case inList(findWithValue, args[i]):
			if i++; i >= len(args) {
				return false
			}
		case inList(findAlone, args[i]):
		default:
			return false
		}
	}
	return true
}

// echoAsBuiltin takes what the program echo prints as the builtin does: options
// are where they differ.
func echoAsBuiltin(args []string) bool {
	if len(args) > 0 && args[0] == "-n" {
		args = args[1:]
	}
	return len(args) == 0 || !strings.HasPrefix(args[0], "-")
}

// printfAsBuiltin takes formats whose directives the program and the builtin
// know alike.
func printfAsBuiltin(args []string) bool {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return false
	}
	format := args[0]
	for i := 0; i < len(format); i++ {
		if format[i] == '\\' {
			n := sameEscape(format[i+1:])
			if n == 0 {
				return false
			}
			i += n
			continue
		}
		if format[i] != '%' {
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			continue
		}
		for i < len(format) && strings.IndexByte("-+ 0123456789.", format[i]) >= 0 {
			i++
		}
		if i >= len(format) || strings.IndexByte("sdiuoxXcfeEgG", format[i]) < 0 {
			return false
		}
	}
	return widths(format)
}

// sameEscape is how long an escape is behind its backslash, or 0 for one that the two
// may print differently.
func sameEscape(s string) int {
	switch {
	case s == "":
		return 0
	case strings.IndexByte(`ntrabfv"\\`, s[0]) >= 0:
		return 1
	case s[0] == 'x' && len(s) > 2 && isHex(s[1]) && isHex(s[2]):
		return 3
	}
	return 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// widths refuses field widths of more than four digits: they make gigabytes.
func widths(format string) bool {
	run := 0
	for i := range len(format) {
		if format[i] < '0' || format[i] > '9' {
			run = 0
			continue
		}
		if run++; run > 4 {
			return false
		}
	}
	return true
}

// psReads takes the forms of ps that show no environment.
func psReads(args []string) bool {
	for _, a := range args {
		if !inList("-A -a -e -f -F -H -j -l -x -ef -eF -aux -ejH --forest aux ax a x u auxf axf", a) {
			return false
		}
	}
	return true
}

func dateReads(args []string) bool {
	for _, a := range args {
		if !strings.HasPrefix(a, "+") && a != "-u" && a != "-R" && a != "-I" && a != "--utc" && a != "--rfc-email" {
			return false
		}
	}
	return true
}

// The forms of git that narrow. Only subcommands whose way to run other programs
// can be shut off are here; see gitSafe for how they are run.
const (
	gitStatusFlags = "-s --short -b --branch --porcelain --porcelain=v1 --porcelain=v2 --long -z -u -uno -unormal -uall --untracked-files --untracked-files=no --untracked-files=normal --untracked-files=all --ignored --show-stash --no-renames"
	gitDiffFlags   = "--stat --numstat --shortstat --name-only --name-status --cached --staged --summary --check -w -b -p -u --patch --ignore-all-space --ignore-space-change --no-color --color --color=always --color=never --raw -z --minimal --patience --histogram --no-renames -R --exit-code --quiet --full-index --binary -U0 -U1 -U3 -U5 -U10 --unified=0 --unified=1 --unified=3 --unified=5 --unified=10"
	gitBranchFlags = "-a --all -r --remotes -v -vv --verbose --list --show-current --no-color --color"
)

func gitReads(args []string) bool {
	if len(args) == 0 {
		return false
	}
	flags, operands := "", true
	switch args[0] {
	case "status":
		flags = gitStatusFlags
	case "diff":
		flags = gitDiffFlags
	case "branch": // an operand makes a branch
		flags, operands = gitBranchFlags, false
	default:
		return false
	}
	for i, a := range args[1:] {
		switch {
		case a == "--":
			return operands || i == len(args)-2
		case strings.HasPrefix(a, "-"):
			if !inList(flags, a) {
				return false
			}
		case !operands:
			return false
		}
	}
	return true
}
