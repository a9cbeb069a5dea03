package pdk

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Path makes a path of the input absolute: a relative one starts from the
// call's folder. It does not look at the disk.
func Path(ctx context.Context, p string) (string, error) {
	if p == "" {
		return "", Invalid("bad_path", "the path is empty")
	}
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	info, err := Info(ctx)
	if err != nil {
		return "", err
	}
	if info.Cwd == "" {
		return "", Invalid("bad_path", "%q is a relative path and the call has no folder to start from: give an absolute path, or grant a folder with --allow-read DIR", p)
	}
	return path.Join(info.Cwd, p), nil
}

// Codes of FileError.
const (
	CodeNotGranted  = "not_granted"
	CodeNotFound    = "not_found"
	CodeIsDirectory = "is_directory"
	CodePermission  = "permission_denied"
	CodeFile        = "file_error"
)

// FileError makes the error of a failed file operation, for the model and the
// user: not_granted where no granted folder holds the path (with the flag that
// grants it), not_found, is_directory, permission_denied, else file_error. Path
// is absolute; write says whether the operation was to change something.
func FileError(ctx context.Context, p string, write bool, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	flag, verb := "--allow-read", "read"
	if write {
		flag, verb = "--allow-write", "changed"
	}
	if info, infoErr := Info(ctx); infoErr == nil && !within(info.Roots, p) {
		dir := path.Dir(p)
		return Errorf(CodeNotGranted, "%s may not be %s: no granted folder holds it; run with %s %s", p, verb, flag, dir).
			With(map[string]any{"path": p, "flag": flag, "folder": dir})
	}
	details := map[string]any{"path": p}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Invalid(CodeNotFound, "%s does not exist", p).With(details)
	case errors.Is(err, syscall.EISDIR):
		return Invalid(CodeIsDirectory, "%s is a folder", p).With(details)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return Errorf(CodePermission, "%s may not be %s: the folder is granted, but not for this, or the operating system refuses", p, verb).With(details)
	}
	return Errorf(CodeFile, "%s: %w", p, cause(err)).With(details)
}

// cause is err without the operation and the path that os puts around it.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func within(roots []string, p string) bool {
	for _, r := range roots {
		if r == "/" || p == r || strings.HasPrefix(p, strings.TrimSuffix(r, "/")+"/") {
			return true
		}
	}
	return false
}
