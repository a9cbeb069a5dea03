package abi

import (
	"regexp"
	"strings"
)

var (
	toolName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	packageName = regexp.MustCompile(`^(@[a-z0-9][a-z0-9-]*/)?blade-tool-[a-z0-9]+(-[a-z0-9]+)*$`)
	toolCode    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	serviceName = regexp.MustCompile(`^x-[a-z0-9][a-z0-9-]*$`)
	// From semver.org, shortened to what a release of a tool carries.
	semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
)

// PackagePrefix starts the unscoped part of every community tool package.
const PackagePrefix = "blade-tool-"

// MCPPrefix is reserved for the tools of MCP servers.
const MCPPrefix = "mcp__"

// maxPackageName is the npm registry's limit.
const maxPackageName = 214

// ValidToolName reports whether name can name a tool: a letter, then at most 63
// letters, digits, underscores or hyphens (the providers' limit for function
// names). The reserved prefix is not judged here: it depends on the source.
func ValidToolName(name string) bool { return toolName.MatchString(name) }

// ValidPackageName reports whether name follows the community convention
// blade-tool-x or @scope/blade-tool-x, in lower-case kebab-case.
func ValidPackageName(name string) bool {
	return len(name) <= maxPackageName && packageName.MatchString(name)
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

// ValidToolCode reports whether code may be the code of a tool's own error.
func ValidToolCode(code string) bool { return toolCode.MatchString(code) }

// ValidVersion reports whether v is a semantic version.
func ValidVersion(v string) bool { return len(v) <= 64 && semver.MatchString(v) }

// EmbedderService reports whether name can name a service of the embedder: it
// starts with x-, so that no later version of the ABI takes the name away.
func EmbedderService(name string) bool { return len(name) <= 64 && serviceName.MatchString(name) }
