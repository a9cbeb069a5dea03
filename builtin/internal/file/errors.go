package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// Codes of the file and search tools. Each has one type, except CodeNotANotebook, which is
// an execution_error where the file is no JSON at all.
const (
	CodeArguments      abi.Code = "invalid_arguments"    // validation_error
	CodeNoFilesystem   abi.Code = "no_filesystem"        // permission_denied
	CodeOutside        abi.Code = "path_outside_roots"   // permission_denied
	CodeEscape         abi.Code = "symlink_escape"       // permission_denied
	CodeProtected      abi.Code = "path_protected"       // permission_denied
	CodeProtectedName  abi.Code = "protected_name"       // permission_denied
	CodeNotRegular     abi.Code = "not_regular_file"     // execution_error
	CodeNotFound       abi.Code = "not_found"            // execution_error
	CodeIsDirectory    abi.Code = "is_directory"         // execution_error
	CodeBadImage       abi.Code = "damaged_image"        // execution_error
	CodeIO             abi.Code = "io_error"             // execution_error
	CodeAborted        abi.Code = "aborted"              // execution_error
	CodeTooLarge       abi.Code = "file_too_large"       // validation_error
	CodeEncoding       abi.Code = "unsupported_encoding" // validation_error
	CodeBase64         abi.Code = "bad_base64"           // validation_error
	CodeNotRead        abi.Code = "not_read"             // validation_error
	CodeNoSession      abi.Code = "no_session"           // validation_error
	CodeModified       abi.Code = "modified_externally"  // validation_error
	CodeNoChange       abi.Code = "no_change"            // validation_error
	CodeNotUnique      abi.Code = "not_unique"           // validation_error
	CodeNoMatch        abi.Code = "no_match"             // execution_error
	CodeNotANotebook   abi.Code = "not_a_notebook"       // validation_error
	CodeCellNotFound   abi.Code = "cell_not_found"       // validation_error
	CodeCellIDRequired abi.Code = "cell_id_required"     // validation_error
	CodeCellType       abi.Code = "cell_type_required"   // validation_error
	CodeNoSearchPath   abi.Code = "no_search_path"       // validation_error
	CodeNotADirectory  abi.Code = "not_a_directory"      // validation_error
	CodeBadRegex       abi.Code = "bad_regex"            // validation_error
	CodeUnknownType    abi.Code = "unknown_type"         // validation_error
	CodeTimeout        abi.Code = "timeout"              // timeout_error
)

// Error makes an error with a code of this package.
func Error(t abi.ErrorType, code abi.Code, format string, args ...any) *abi.Error {
	return &abi.Error{Message: fmt.Sprintf(format, args...), Type: t, Code: code}
}

// Invalid is the error for an argument that a schema cannot refuse; pointer is a JSON
// Pointer to it.
func Invalid(pointer, format string, args ...any) *abi.Error {
	e := Error(abi.TypeValidation, CodeArguments, format, args...)
	return e.With(abi.IssueDetails{Issues: []abi.Issue{{Pointer: pointer, Message: e.Message}}})
}

// Aborted is the error of a call whose context has ended, or nil while it has not.
func Aborted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return Error(abi.TypeExecution, CodeAborted, "the call was stopped before it was done").Because(context.Cause(ctx))
}

// failure is what is known of a failed operation, without anything from inside.
type failure struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Errno string `json:"errno"`
}

// Failed is the error of a file operation on a path. An *abi.Error stays as it is.
func Failed(op, path string, err error) *abi.Error {
	var own *abi.Error
	if errors.As(err, &own) {
		return own
	}
	errno := fs.ErrnoOf(err)
	e := describe(op, path, errno)
	return e.With(failure{Op: op, Path: path, Errno: errno.Code()}).Because(err)
}

func describe(op, path string, errno fs.Errno) *abi.Error {
	switch errno {
	case fs.ENOENT:
		return Error(abi.TypeExecution, CodeNotFound, "%s does not exist. Check the path; Glob finds files by name.", path)
	case fs.EISDIR:
		return Error(abi.TypeExecution, CodeIsDirectory, "%s is a directory, not a file. Name a file in it; Glob lists them.", path)
	case fs.ENOTDIR:
		return Error(abi.TypeExecution, CodeIO, "a part of the path %s is a file, not a directory. Check the path.", path)
	case fs.ErrNotRegular:
		return Error(abi.TypeExecution, CodeNotRegular, "%s is a device, pipe, socket or other special file; only regular files can be used.", path)
	case fs.ErrEscape:
		return Error(abi.TypePermission, CodeEscape, "%s leads through a symbolic link that is absolute or leads out of the workspace folders; such links are not followed. Use the path that it leads to, if that is inside, or have the link made a relative one.", path)
	case fs.ErrOutside:
		return Error(abi.TypePermission, CodeOutside, "%s is outside the workspace folders.", path)
	case fs.ErrDenied:
		return Error(abi.TypePermission, CodeProtected, "%s is protected and cannot be used by tools.", path)
	case fs.EROFS:
		return Error(abi.TypePermission, CodeProtected, "%s may only be read.", path)
	}
	return Error(abi.TypeExecution, CodeIO, "cannot %s %s: %s.", op, path, errno.Error())
}

// TooLarge is the error for a file with more bytes than a tool takes at once.
func TooLarge(t *Target, size, limit int64) error {
	return Error(abi.TypeValidation, CodeTooLarge, "%s has %d bytes; at most %d can be used at once. Read a part of it with offset and limit, or search it with Grep.", t.Path, size, limit).
		With(map[string]int64{"size": size, "limit": limit})
}
