package main

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
)

const (
	// largeModule and largeMemory are what a plugin should stay below, in bytes.
	largeModule = 16 << 20
	largeMemory = 64 << 20
)

// module checks the binary itself: PKG-04, V05 and V21.
func (c *checker) module() {
	info, err := host.Inspect(c.code)
	if err != nil {
		c.add("V05", sevError, "module", fixOf(abi.CodeOf(err)), "%v", err)
		return
	}
	c.foreign = slices.ContainsFunc(info.Imports, madeForExtism)
	c.runs = info.Problem == nil || info.Problem.Code == abi.CodeManifestMissing
	if !c.runs {
		c.add("V05", sevError, "module", fixOf(info.Problem.Code), "%s", info.Problem.Message)
	}
	if info.Size > largeModule {
		c.add("V21", sevWarn, "module", "strip it (Go: -ldflags='-s -w'; Rust: opt-level = \"s\", strip = true) and leave out what it does not use",
			"the module has %s; every user compiles and keeps it", sizeText(int64(info.Size)))
	}
	if m := int64(info.MemoryPages) << 16; m > largeMemory {
		c.add("V21", sevWarn, "module", "let the memory grow when it is needed", "the module takes %s of memory before its first call", sizeText(m))
	}
}

// fixOf is the advice of the table of codes.
func fixOf(code abi.Code) string {
	for _, d := range abi.Codes() {
		if d.Code == code {
			return strings.TrimPrefix(strings.TrimPrefix(d.Fix, "The plugin's author: "), "The tool's author: ") // who reads it is the author
		}
	}
	return "see abi/SPEC.md"
}

// describe starts the module twice and compares what it says: PKG-03, V04.
func (c *checker) describe(ctx context.Context) error {
	if c.section == nil && c.dir == "" {
		c.add("V04", sevError, "module", "bladehost build FILE.wasm -o OUT.wasm", "the module has no section %s", abi.ManifestSection)
	}
	if !c.runs {
		return nil
	}
	// A module made for another host may know its name and version from the section only.
	subject := c.code
	if c.foreign {
		subject = c.whole
	}
	var err error
	if c.told, err = c.h.Describe(ctx, subject); err == nil {
		var again []byte
		if again, err = c.h.Describe(ctx, subject); err == nil && !bytes.Equal(c.told, again) {
			c.add("V04", sevError, "module", "describe the plugin with constants: no time, no random numbers, no map in random order",
				"blade_describe answers differently when the module is loaded again")
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.runs = false
		c.add("V04", sevError, "module", fixOf(abi.CodeOf(err)), "%v", err)
		return nil
	}
	if c.section != nil && !bytes.Equal(c.section, c.told) {
		c.add("V04", sevError, "module", "bladehost build FILE.wasm -o OUT.wasm writes the section anew",
			"the section %s (%d bytes) is not what blade_describe answers (%d bytes): they differ at byte %d", abi.ManifestSection, len(c.section), len(c.told), differAt(c.section, c.told))
	}
	return nil
}

func differAt(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// keyPattern is what a credential of some service looks like.
type keyPattern struct {
	what string
	re   *regexp.Regexp
	// mixed asks for upper case, lower case and digits in it: the pattern alone
	// would find words.
	mixed bool
}

// keyPatterns are made at each use: once a process. Go stores constants one
// behind the other, so no pattern may ask for a border.
func keyPatterns() []keyPattern {
	return []keyPattern{
		{"an AWS access key", regexp.MustCompile(`(?:AKIA|ASIA)[0-9A-Z]{16}`), false},
		{"a GitHub token", regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{36}`), false},
		{"a GitHub token", regexp.MustCompile(`github_pat_[A-Za-z0-9_]{59}`), false},
		{"a GitLab token", regexp.MustCompile(`glpat-[A-Za-z0-9_-]{20}`), true},
		{"an API key", regexp.MustCompile(`sk-(?:proj-|svcacct-|ant-[a-z0-9]+-)?[A-Za-z0-9_-]{24,}`), true},
		{"a Stripe key", regexp.MustCompile(`[rs]k_live_[0-9A-Za-z]{24}`), false},
		{"a Slack token", regexp.MustCompile(`xox[abeoprs]-[0-9A-Za-z]{8,}-[0-9A-Za-z-]{8,}`), false},
		{"a Google API key", regexp.MustCompile(`AIza[0-9A-Za-z_-]{35}`), true},
		{"an npm token", regexp.MustCompile(`npm_[A-Za-z0-9]{36}`), true},
		{"a PyPI token", regexp.MustCompile(`pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50}`), false},
		{"a private key", regexp.MustCompile(`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{40}`), false},
	}
}

// credentials looks through the bytes of the module: PKG-08, V10.
func (c *checker) credentials() {
	for _, p := range keyPatterns() {
		seen := map[string]bool{}
		for _, at := range p.re.FindAllIndex(c.code, 16) {
			key := string(c.code[at[0]:at[1]])
			if seen[key] || (p.mixed && !mixed(key)) {
				continue
			}
			seen[key] = true
			c.add("V10", sevError, "module", "take it out and make it invalid at its service; ask for it as capabilities.secrets, the user gives it a value",
				"at byte %d there is what looks like %s: %.8s…", at[0], p.what, key)
		}
	}
	if i := bytes.Index(c.code, []byte("process.env")); i >= 0 {
		c.add("V10", sevWarn, "module", "ask for variables as capabilities.env and for tokens as capabilities.secrets",
			"at byte %d the text process.env: a plugin sees only variables that its manifest asks for", i)
	}
}

func mixed(s string) bool {
	var upper, lower, digit bool
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'A' && b <= 'Z':
			upper = true
		case b >= 'a' && b <= 'z':
			lower = true
		case b >= '0' && b <= '9':
			digit = true
		}
	}
	return upper && lower && digit
}
