package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// AffectedPaths are the paths that an input names: the values at the
// definition's pathParams, or, without those, the string members called path,
// file, directory or ending in _path or Path, and the strings of the arrays
// paths and files. One with blanks around it is named with and without them,
// because the tool may use it either way; doubles are left out.
func AffectedPaths(spec *abi.ToolSpec, doc any) []string {
	var out []string
	seen := map[string]bool{}
	add := func(v any) {
		raw, _ := v.(string)
		trimmed := strings.TrimSpace(raw)
		if trimmed == "" {
			return
		}
		for _, s := range []string{raw, trimmed} {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	if len(spec.PathParams) > 0 {
		for _, p := range spec.PathParams {
			v, _ := tool.Pointer(doc, p)
			addAll(v, add)
		}
		return out
	}
	obj, _ := doc.(map[string]any)
	keys := make([]string, 0, len(obj))
	for k := range obj {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		switch {
		case k == "path", k == "file", k == "directory", strings.HasSuffix(k, "_path"), strings.HasSuffix(k, "Path"):
			add(obj[k])
		case k == "paths", k == "files":
			addAll(obj[k], add)
		}
	}
	return out
}

func addAll(v any, add func(any)) {
	if list, ok := v.([]any); ok {
		for _, x := range list {
			add(x)
		}
		return
	}
	add(v)
}

// PathVerdict is what path safety says about one path.
type PathVerdict struct {
	Path string
	// Real is the path after links, as far as it exists.
	Real string
	// Behavior is allow, ask or deny; Reason says why it is not allow.
	Behavior tool.PermissionBehavior
	Reason   string
}

// Paths judges paths against the folders a call may touch.
type Paths struct {
	// Roots are the folders that are allowed, as the user wrote them. Without
	// any, only protected and sensitive paths are judged.
	Roots []string
	// Cwd is where relative paths start.
	Cwd string
}

// Judge judges one path. explicit says that an allow rule covers the call.
func (p Paths) Judge(path string, explicit bool) PathVerdict {
	v := PathVerdict{Path: path, Behavior: tool.PermissionAllow}
	deny := func(reason string) PathVerdict {
		v.Behavior, v.Reason = tool.PermissionDeny, reason
		return v
	}
	if strings.ContainsRune(path, 0) {
		return deny("it contains a NUL byte")
	}
	abs := path
	if !filepath.IsAbs(abs) {
		if p.Cwd == "" {
			if len(p.Roots) == 0 {
				return p.sensitive(v, path, explicit)
			}
			return deny("it is relative and the session has no current folder")
		}
		abs = p.Cwd + string(filepath.Separator) + abs // not cleaned: see realPath
	}
	v = p.judgeReal(v, abs, explicit)
	// A tool that cleans a path before it opens it means something else by ".."
	// behind a link: then both are judged.
	if clean := filepath.Clean(abs); v.Behavior != tool.PermissionDeny && hasParent(abs) {
		if c := p.judgeReal(PathVerdict{Path: path, Behavior: tool.PermissionAllow}, clean, explicit); c.Behavior != tool.PermissionAllow {
			return c
		}
	}
	return v
}

// hasParent reports whether a path has a component "..".
func hasParent(path string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..")
}

// judgeReal judges where a path that starts at the top leads.
func (p Paths) judgeReal(v PathVerdict, abs string, explicit bool) PathVerdict {
	deny := func(reason string) PathVerdict {
		v.Behavior, v.Reason = tool.PermissionDeny, reason
		return v
	}
	real, err := realPath(abs)
	if err != nil {
		return deny(err.Error())
	}
	v.Real = real
	inside := false
	for _, r := range p.Roots {
		if root, err := realPath(r); err == nil && within(root, real) {
			inside = true
			break
		}
	}
	if len(p.Roots) > 0 && !inside {
		return deny("it is outside the allowed folders (" + strings.Join(p.Roots, ", ") + ")")
	}
	if !inside && systemPath(real) {
		return deny("it is a folder of the operating system")
	}
	return p.sensitive(v, real, explicit)
}

func (p Paths) sensitive(v PathVerdict, path string, explicit bool) PathVerdict {
	switch Sensitivity(path) {
	case SensitiveHigh:
		v.Behavior, v.Reason = tool.PermissionDeny, "it usually holds credentials; only an allow rule for it makes it possible"
		if explicit {
			v.Behavior, v.Reason = tool.PermissionAsk, "it usually holds credentials"
		}
	case SensitiveMedium:
		v.Behavior, v.Reason = tool.PermissionAsk, "it may hold secrets"
	}
	return v
}

// within reports whether path is root or below it, by components.
func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

var errDangling = errors.New("it is a link that leads nowhere")

var errRelative = errors.New("it does not start at the top of the file system")

// realPath follows the links of a path as far as it exists and keeps the rest. It
// goes component by component, as the kernel does: ".." behind a link is the folder
// above the one that the link leads to. Windows takes ".." away first, and so does it
// there. It is for a decision and its explanation; what enforces it is the file
// system capability, which never opens by path name again.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errRelative
	}
	const sep = string(filepath.Separator)
	if runtime.GOOS == "windows" {
		path = filepath.Clean(path)
	}
	vol := filepath.VolumeName(path)
	at, rest := vol+sep, "" // what is there, links followed, and what is not
	for c := range strings.SplitSeq(filepath.ToSlash(path[len(vol):]), "/") {
		switch {
		case c == "" || c == ".":
			continue
		case c == ".." && rest == "":
			at = filepath.Dir(at)
			continue
		case c == "..":
			if rest = filepath.Dir(rest); rest == "." {
				rest = ""
			}
			continue
		case rest != "":
			rest += sep + c
			continue
		}
		next := filepath.Join(at, c)
		fi, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			rest = c
			continue
		case err != nil:
			return "", errors.New("it cannot be resolved: " + reasonOf(err))
		case fi.Mode()&(fs.ModeSymlink|fs.ModeIrregular) == 0:
			at = next
			continue
		}
		switch at, err = filepath.EvalSymlinks(next); {
		case errors.Is(err, fs.ErrNotExist):
			return "", errDangling
		case err != nil:
			return "", errors.New("it cannot be resolved: " + reasonOf(err))
		}
	}
	if runtime.GOOS == "windows" { // short names
		if long, err := filepath.EvalSymlinks(at); err == nil {
			at = long
		}
	}
	return filepath.Join(at, rest), nil
}

func reasonOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func systemPath(p string) bool {
	if runtime.GOOS == "windows" {
		low := strings.ToLower(filepath.ToSlash(p))
		for _, dir := range []string{"/windows", "/program files", "/program files (x86)", "/programdata"} {
			if i := strings.Index(low, dir); i == 2 && (len(low) == i+len(dir) || low[i+len(dir)] == '/') {
				return true
			}
		}
		return false
	}
	for _, dir := range []string{"/etc", "/sys", "/proc", "/dev", "/boot", "/root"} {
		if within(dir, p) {
			return true
		}
	}
	return false
}

// Sensitive is how likely a file holds credentials, judged by its name.
type Sensitive string

// Levels; the zero value means not sensitive. Low is for information only.
const (
	SensitiveLow    Sensitive = "low"
	SensitiveMedium Sensitive = "medium"
	SensitiveHigh   Sensitive = "high"
)

// SensitiveHigh and the others by the whole name, its start and its end, in lower case.
var (
	highNames   = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "keystore", "pgpass", ".pgpass", "my.cnf", ".my.cnf"}
	highEnds    = []string{".pem", ".key", ".p12", ".pfx", ".ppk", "credentials.json"}
	mediumNames = []string{".env", ".npmrc", ".pypirc", ".dockercfg", ".netrc", ".git-credentials", "config.toml"}
	lowEnds     = []string{".sqlite", ".sqlite3", ".db", ".sql"}
	// highFolders are high themselves, with all that is in them.
	highFolders = []string{"/.ssh/", "/.aws/", "/.kube/", "/.config/gcloud/", "/.gnupg/"}
)

// Sensitivity judges a path by its base name and folders, in any letter case.
func Sensitivity(path string) Sensitive {
	slashed := "/" + strings.TrimPrefix(strings.ToLower(filepath.ToSlash(path)), "/")
	i := strings.LastIndexByte(slashed, '/')
	return sensitivityIn(slashed[:i])(slashed[i+1:])
}

// SensitivityIn is Sensitivity for many names in one folder, whose path is clean.
func SensitivityIn(folder string) func(name string) Sensitive {
	slashed := "/" + strings.TrimPrefix(strings.ToLower(filepath.ToSlash(folder)), "/")
	judge := sensitivityIn(strings.TrimSuffix(slashed, "/"))
	return func(name string) Sensitive { return judge(strings.ToLower(name)) }
}

// sensitivityIn takes a folder and names in lower case, the folder with a slash before
// each of its elements.
func sensitivityIn(folder string) func(name string) Sensitive {
	for _, f := range highFolders {
		if strings.Contains(folder+"/", f) {
			return func(string) Sensitive { return SensitiveHigh }
		}
	}
	return func(name string) Sensitive {
		for _, f := range highFolders {
			if before, ok := strings.CutSuffix(f, "/"+name+"/"); ok && strings.HasSuffix(folder, before) {
				return SensitiveHigh
			}
		}
		if name == "config.json" && strings.HasSuffix(folder, "/.docker") {
			return SensitiveMedium
		}
		return sensitiveName(name)
	}
}

func sensitiveName(name string) Sensitive {
	ends := func(s string) bool { return strings.HasSuffix(name, s) }
	switch {
	case strings.Contains(name, "\n"): // no rule speaks of several lines
		return ""
	case slices.Contains(highNames, name), slices.ContainsFunc(highEnds, ends), strings.HasPrefix(name, "service-account") && ends(".json"):
		return SensitiveHigh
	case slices.Contains(mediumNames, name), strings.HasPrefix(name, ".env."), strings.HasPrefix(name, "secrets."):
		return SensitiveMedium
	case slices.ContainsFunc(lowEnds, ends):
		return SensitiveLow
	}
	return ""
}
