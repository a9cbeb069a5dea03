package filesystem

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/builtin/internal/search"
	"github.com/bladehost/bladehost/host"
)

// sources makes a tree of n source files, the same each time: some 7 KB each on average, in folders of folders,
// with what is ignored and hidden among them.
func sources(n int) map[string]string {
	r := rand.New(rand.NewPCG(31, 32))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	syllables := strings.Fields("re ad wri te buf fer con text han dle par se to ken stre am er ror val ue no de lis t map ke y lo ck")
	var names []string
	for range 3000 {
		var w strings.Builder
		for k := range 1 + r.IntN(4) {
			s := pick(syllables)
			if k > 0 || r.IntN(3) == 0 {
				s = strings.ToUpper(s[:1]) + s[1:]
			}
			w.WriteString(s)
		}
		names = append(names, w.String())
	}
	common := []string{"\treturn %s\n", "\tif %s != nil {\n", "\t}\n", "}\n\n", "// %s tells %s from %s.\n", "\t%s := %s(%s)\n", "\tfor _, %s := range %s {\n", "\t\t%s.%s = %s\n", "\t\t%s[%s] = append(%s, %s)\n", "import \"%s/%s\"\n", "const %s = \"%s %s %s\"\n"}
	rare := []string{"func %s(ctx context.Context, %s int) error {\n", "\t%s = %s()\n", "\treturn %sNotFoundError\n", "// %s: größer als 日本 %s\n", "\tn, err := %s.ReadFrom(%s)\n", "\t_, err = %s.WriteTo(%s)\r\n"}
	line := func(b *strings.Builder) {
		form := pick(common)
		if r.IntN(60) == 0 {
			if form = pick(rare); strings.Contains(form, "From") && r.IntN(4) > 0 {
				form = common[0]
			}
		}
		for s := range strings.SplitSeq(form, "%s") {
			if b.WriteString(s); !strings.HasSuffix(s, "\n") {
				b.WriteString(pick(names))
			}
		}
	}
	files := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "*.gen.go\n/target/\nvendor/**/testdata\n!keep.gen.go\ndocs/_*/\n"}
	var dirs []string
	for i := range max(1, n/14) {
		d := fmt.Sprintf("%s%d", pick(names), i)
		if len(dirs) > 0 && r.IntN(10) > 0 {
			if up := pick(dirs); strings.Count(up, "/") < 7 {
				d = up + "/" + d
			}
		}
		dirs = append(dirs, d)
		if r.IntN(40) == 0 {
			files[d+"/.gitignore"] = "*.out\n/local\ncache-*/\n"
		}
	}
	exts := []string{".go", ".go", ".go", ".ts", ".js", ".py", ".md", ".c", ".json", ".gen.go", ".out"}
	for i := range n {
		var b strings.Builder
		size := 200 + int(7000*r.ExpFloat64())
		for b.Len() < size {
			line(&b)
		}
		files[fmt.Sprintf("%s/%s%d%s", pick(dirs), pick(names), i, pick(exts))] = b.String()
	}
	return files
}

// against runs ours and ripgrep in turns, and reports the medians of both, in milliseconds, and those of the ratios of
// the pairs: of the time, and of the work of the processors, which others on the machine do not change as much.
func against(b *testing.B, ours func(), args ...string) {
	rg := search.LookRipgrep("")
	if rg == "" {
		b.Skip("ripgrep is not installed")
	}
	var work time.Duration
	theirs := func() {
		cmd := exec.CommandContext(b.Context(), rg, append([]string{"--no-config"}, args...)...)
		if out, err := cmd.Output(); err != nil && (cmd.ProcessState.ExitCode() != 1 || len(out) > 0) {
			b.Fatal(err)
		}
		work = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	timed := func(f func()) float64 {
		start := time.Now()
		f()
		return float64(time.Since(start)) / 1e6
	}
	ours() // what is made once, and the caches of the system
	var x, y, ratio, works []float64
	for b.Loop() {
		before := cpuTime()
		x = append(x, timed(ours))
		worked := cpuTime() - before
		y = append(y, timed(theirs))
		ratio = append(ratio, x[len(x)-1]/y[len(y)-1])
		works = append(works, float64(worked)/float64(work))
	}
	for unit, list := range map[string][]float64{"ms-ours": x, "ms-rg": y, "x-rg": ratio, "x-rg-work": works} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], unit)
	}
	b.ReportMetric(x[0]/y[0], "x-rg-min")
	b.ReportMetric(0, "ns/op")
}

// searchers are rooms over one tree whose Grep searches by itself, and with ripgrep's help.
func searchers(b *testing.B) (native, helped *room) {
	native = newRoom(b, sources(10_000), Options{StateDir: b.TempDir(), Ripgrep: "-"})
	helped = newRoom(b, nil, Options{StateDir: b.TempDir()})
	helped.root = native.root
	helped.s = helped.session("helped", native.root)
	return native, helped
}

// BenchmarkGrepAgainstRipgrep: a whole call of Grep in a session, beside ripgrep as a user starts it.
func BenchmarkGrepAgainstRipgrep(b *testing.B) {
	native, helped := searchers(b)
	modes := []struct {
		name string
		more map[string]any
		args []string
	}{
		{"files", nil, []string{"-l"}},
		{"count", map[string]any{"output_mode": "count"}, []string{"-c"}},
		{"content", map[string]any{"output_mode": "content"}, []string{"-n"}},
		{"context", map[string]any{"output_mode": "content", "-C": 2}, []string{"-n", "-C2"}},
	}
	for _, c := range []struct {
		name, pattern string
		fold          bool
	}{
		{"literal", `ReadFrom`, false}, {"absent", `noSuchThing`, false}, {"fold", `readfrom`, true}, {"prefix", `func \w+\(ctx`, false},
		{"suffix", `[A-Z]\w+Error\b`, false}, {"words", `\w+\s+=\s+\w+\(\)\s*$`, false}, {"either", `ReadFrom|WriteTo|größer`, false}, {"foldclass", `read[a-z]+\(`, true},
	} {
		for _, m := range modes {
			for way, r := range map[string]*room{"native": native, "helped": helped} {
				in := map[string]any{"pattern": c.pattern, "-i": c.fold}
				for k, v := range m.more {
					in[k] = v
				}
				args := append([]string{"-e", c.pattern, r.root}, m.args...)
				if c.fold {
					args = append(args, "-i")
				}
				call := host.Call{Tool: "Grep", Input: r.input(in)}
				b.Run(filepath.ToSlash(filepath.Join(c.name, m.name, way)), func(b *testing.B) {
					against(b, func() {
						if res := r.runIn(r.s, call); res.IsError() {
							b.Fatal(res.Error)
						}
					}, args...)
				})
			}
		}
	}
}

// BenchmarkGlobAgainstRipgrep: a whole call of Glob in a session, beside ripgrep's list.
func BenchmarkGlobAgainstRipgrep(b *testing.B) {
	native, _ := searchers(b)
	for _, c := range []struct {
		name, pattern string
		most          int
	}{{"all", "**/*.go", 1000}, {"few", "**/re*.md", 100}, {"deep", "{r,w,R,W}*/**/*.{ts,js}", 100}, {"every", "**", 100}} {
		b.Run(c.name, func(b *testing.B) {
			call := host.Call{Tool: "Glob", Input: native.input(map[string]any{"pattern": c.pattern, "max_results": c.most})}
			against(b, func() {
				if res := native.runIn(native.s, call); res.IsError() {
					b.Fatal(res.Error)
				}
			}, "--files", "-g", c.pattern, native.root)
		})
	}
}
