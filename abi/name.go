package abi

import "strings"

// The names are judged by hand-written scanners, not regular expressions: this
// package is linked into every guest.

// PackagePrefix starts the unscoped part of every community tool package.
const PackagePrefix = "blade-tool-"

// MCPPrefix is reserved for the tools of MCP servers.
const MCPPrefix = "mcp__"

// maxPackageName is the npm registry's limit.
const maxPackageName = 214

// ValidToolName reports whether name can name a tool: a letter, then at most 63
// letters, digits, underscores or hyphens (the providers' limit for function
// names). The reserved prefix is not judged here: it depends on the source.
func ValidToolName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && letter(name[0]) &&
		all(name[1:], func(c byte) bool { return letter(c) || digit(c) || c == '_' || c == '-' })
}

// ValidPackageName reports whether name follows the community convention
// blade-tool-x or @scope/blade-tool-x, in lower-case kebab-case.
func ValidPackageName(name string) bool {
	if len(name) > maxPackageName {
		return false
	}
	if scoped, ok := strings.CutPrefix(name, "@"); ok {
		scope, rest, found := strings.Cut(scoped, "/")
		if !found || scope == "" || scope[0] == '-' || !all(scope, kebab) {
			return false
		}
		name = rest
	}
	capability, ok := strings.CutPrefix(name, PackagePrefix)
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(capability, "-") {
		if part == "" || !all(part, lowerDigit) {
			return false
		}
	}
	return true
}

// GenericPackageName reports whether a valid package name says nothing about
// what the tool is for, such as blade-tool-utils.
func GenericPackageName(name string) bool {
	_, capability, _ := strings.Cut(name, PackagePrefix)
	switch capability {
	case "tool", "tools", "util", "utils", "helper", "helpers", "common", "misc", "core", "test", "my", "plugin":
		return true
	}
	return false
}

// ValidToolCode reports whether code may be the code of a tool's own error: a
// lower-case letter, then at most 63 lower-case letters, digits or underscores.
func ValidToolCode(code string) bool {
	return len(code) >= 1 && len(code) <= 64 && lower(code[0]) &&
		all(code[1:], func(c byte) bool { return lowerDigit(c) || c == '_' })
}

// ValidVersion reports whether v is a semantic version (semver.org 2.0.0) of at
// most 64 characters.
func ValidVersion(v string) bool {
	if len(v) > 64 {
		return false
	}
	v, build, hasBuild := strings.Cut(v, "+")
	if hasBuild && !identifiers(build, false) {
		return false
	}
	v, pre, hasPre := strings.Cut(v, "-")
	if hasPre && !identifiers(pre, true) {
		return false
	}
	parts := strings.Split(v, ".")
	if len(parts) != 3 {
		return false
	}
	for _, p := range parts {
		if p == "" || !all(p, digit) || leadingZero(p) {
			return false
		}
	}
	return true
}

// identifiers judges the dot-separated part behind - or + of a version. Numbers
// of a pre-release have no leading zero.
func identifiers(s string, pre bool) bool {
	for p := range strings.SplitSeq(s, ".") {
		if p == "" || !all(p, func(c byte) bool { return letter(c) || digit(c) || c == '-' }) {
			return false
		}
		if pre && all(p, digit) && leadingZero(p) {
			return false
		}
	}
	return true
}

// EmbedderService reports whether name can name a service of the embedder: it
// starts with x-, so that no later version of the ABI takes the name away.
func EmbedderService(name string) bool {
	rest, ok := strings.CutPrefix(name, "x-")
	return ok && len(name) <= 64 && rest != "" && rest[0] != '-' && all(rest, kebab)
}

// ValidEnvName reports whether name can name an environment variable or a
// secret: a letter or underscore, then letters, digits or underscores.
func ValidEnvName(name string) bool {
	return len(name) >= 1 && len(name) <= 256 && !digit(name[0]) &&
		all(name, func(c byte) bool { return letter(c) || digit(c) || c == '_' })
}

func lower(c byte) bool      { return c >= 'a' && c <= 'z' }
func digit(c byte) bool      { return c >= '0' && c <= '9' }
func letter(c byte) bool     { return lower(c) || c >= 'A' && c <= 'Z' }
func lowerDigit(c byte) bool { return lower(c) || digit(c) }
func kebab(c byte) bool      { return lowerDigit(c) || c == '-' }

func leadingZero(s string) bool { return len(s) > 1 && s[0] == '0' }

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}
