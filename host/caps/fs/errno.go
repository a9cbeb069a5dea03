package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"syscall"
)

// Errno is the error of a file operation. Values from EACCES to EXDEV have the
// meaning of POSIX; the Err values are this package's own. The zero value is not an
// error and is never returned.
type Errno uint8

// The errors of POSIX that operations of this package return.
const (
	EACCES Errno = iota + 1
	EAGAIN
	EBADF
	EBUSY
	EDQUOT
	EEXIST
	EFBIG
	EINTR
	EINVAL
	EIO
	EISDIR
	ELOOP
	EMFILE
	EMLINK
	ENAMETOOLONG
	ENFILE
	ENOENT
	ENOMEM
	ENOSPC
	ENOSYS
	ENOTDIR
	ENOTEMPTY
	ENOTSUP
	EOVERFLOW
	EPERM
	EROFS
	ESTALE
	ETXTBSY
	EXDEV
)

// Errors that only a confined file system has.
const (
	// ErrEscape: the path, or a link on the way, leads out of the grant.
	ErrEscape Errno = iota + 100
	// ErrOutside: an absolute path belongs to no granted folder.
	ErrOutside
	// ErrNotRegular: the path names a FIFO, device, socket or other special file.
	ErrNotRegular
	// ErrDenied: the path is protected by a rule of the grant.
	ErrDenied
	// ErrHardLinked: the file has other names, which may be outside of the grant.
	ErrHardLinked
	// ErrRevoked: the grant was revoked or closed.
	ErrRevoked
)

type errnoInfo struct {
	code, text string
	is         error
}

func (e Errno) info() errnoInfo {
	switch e {
	case EACCES:
		return errnoInfo{"permission_denied", "permission denied", iofs.ErrPermission}
	case EAGAIN:
		return errnoInfo{"try_again", "resource temporarily unavailable", nil}
	case EBADF:
		return errnoInfo{"bad_descriptor", "bad file descriptor", iofs.ErrClosed}
	case EBUSY:
		return errnoInfo{"busy", "device or resource busy", nil}
	case EDQUOT:
		return errnoInfo{"quota_exceeded", "quota of the grant exceeded", nil}
	case EEXIST:
		return errnoInfo{"already_exists", "file exists", iofs.ErrExist}
	case EFBIG:
		return errnoInfo{"file_too_large", "file too large", nil}
	case EINTR:
		return errnoInfo{"interrupted", "interrupted", nil}
	case EINVAL:
		return errnoInfo{"invalid_argument", "invalid argument", iofs.ErrInvalid}
	case EIO:
		return errnoInfo{"io_error", "input/output error", nil}
	case EISDIR:
		return errnoInfo{"is_directory", "is a directory", nil}
	case ELOOP:
		return errnoInfo{"symlink_loop", "is a symbolic link, or too many of them", nil}
	case EMFILE:
		return errnoInfo{"too_many_open", "too many open files", nil}
	case EMLINK:
		return errnoInfo{"too_many_links", "too many links", nil}
	case ENAMETOOLONG:
		return errnoInfo{"name_too_long", "file name too long", nil}
	case ENFILE:
		return errnoInfo{"too_many_open", "too many open files in the system", nil}
	}
	return e.info2()
}

func (e Errno) info2() errnoInfo {
	switch e {
	case ENOENT:
		return errnoInfo{"not_found", "no such file or directory", iofs.ErrNotExist}
	case ENOMEM:
		return errnoInfo{"out_of_memory", "cannot allocate memory", nil}
	case ENOSPC:
		return errnoInfo{"no_space", "no space left on device", nil}
	case ENOSYS:
		return errnoInfo{"not_implemented", "function not implemented", errors.ErrUnsupported}
	case ENOTDIR:
		return errnoInfo{"not_directory", "not a directory", nil}
	case ENOTEMPTY:
		return errnoInfo{"not_empty", "directory not empty", nil}
	case ENOTSUP:
		return errnoInfo{"not_supported", "operation not supported", errors.ErrUnsupported}
	case EOVERFLOW:
		return errnoInfo{"overflow", "value too large", nil}
	case EPERM:
		return errnoInfo{"not_permitted", "operation not permitted", iofs.ErrPermission}
	case EROFS:
		return errnoInfo{"read_only", "the grant is read-only", iofs.ErrPermission}
	case ESTALE:
		return errnoInfo{"stale", "stale file handle", nil}
	case ETXTBSY:
		return errnoInfo{"text_busy", "text file busy", nil}
	case EXDEV:
		return errnoInfo{"cross_grant", "the two paths are in different grants or file systems", nil}
	case ErrEscape:
		return errnoInfo{"symlink_escape", "the path leads out of the granted folder", iofs.ErrPermission}
	case ErrOutside:
		return errnoInfo{"path_outside_roots", "the path is in no granted folder", iofs.ErrPermission}
	case ErrNotRegular:
		return errnoInfo{"not_regular", "not a regular file or directory", nil}
	case ErrDenied:
		return errnoInfo{"path_protected", "the path is protected", iofs.ErrPermission}
	case ErrHardLinked:
		return errnoInfo{"hard_linked", "the file has other names, perhaps outside the granted folder", iofs.ErrPermission}
	case ErrRevoked:
		return errnoInfo{"grant_revoked", "the grant was revoked", iofs.ErrClosed}
	}
	return errnoInfo{"unknown", "unknown error", nil}
}

// Error is a short English text without a path.
func (e Errno) Error() string { return e.info().text }

// Code is a stable lower_snake name, for instance symlink_escape or path_outside_roots.
func (e Errno) Code() string { return e.info().code }

// Is makes errors.Is(err, fs.ErrNotExist) and the like work.
func (e Errno) Is(target error) bool {
	is := e.info().is
	return is != nil && target == is
}

// ErrnoOf returns the Errno in err's chain. Errors of the operating system are
// translated; what is unknown becomes EPERM, because os.Root has no exported
// sentinel for "path escapes". A nil err gives 0.
func ErrnoOf(err error) Errno {
	if err == nil {
		return 0
	}
	var own Errno
	if errors.As(err, &own) {
		return own
	}
	var sys syscall.Errno
	if errors.As(err, &sys) {
		if e := osErrno(sys); e != 0 {
			return e
		}
	}
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return ENOENT
	case errors.Is(err, iofs.ErrExist):
		return EEXIST
	case errors.Is(err, iofs.ErrPermission):
		return EACCES
	case errors.Is(err, os.ErrClosed):
		return EBADF
	case errors.Is(err, iofs.ErrInvalid):
		return EINVAL
	case errors.Is(err, errors.ErrUnsupported):
		return ENOTSUP
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrShortWrite), sys != 0:
		return EIO
	}
	return ErrEscape
}

// fail is ErrnoOf as an error, nil for nil.
func fail(err error) error {
	if err == nil {
		return nil
	}
	return ErrnoOf(err)
}
