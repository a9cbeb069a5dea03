package fs

import (
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"testing"
)

func TestErrno(t *testing.T) {
	seen := map[string]Errno{}
	for _, e := range []Errno{EACCES, EAGAIN, EBADF, EBUSY, EDQUOT, EEXIST, EFBIG, EINTR, EINVAL, EIO, EISDIR, ELOOP, EMLINK,
		ENAMETOOLONG, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, ENOTEMPTY, ENOTSUP, EOVERFLOW, EPERM, EROFS, ESTALE,
		ETXTBSY, EXDEV, ErrEscape, ErrOutside, ErrNotRegular, ErrDenied, ErrHardLinked, ErrRevoked} {
		if prev, dup := seen[e.Code()]; dup || e.Code() == "unknown" || e.Error() == "" {
			t.Errorf("%d: code %q also of %d", e, e.Code(), prev)
		}
		seen[e.Code()] = e
		if ErrnoOf(fmt.Errorf("x: %w", e)) != e {
			t.Errorf("%v does not survive wrapping", e)
		}
	}
	for err, want := range map[error]Errno{iofs.ErrNotExist: ENOENT, iofs.ErrExist: EEXIST, os.ErrClosed: EBADF, io.ErrClosedPipe: ErrEscape} {
		if ErrnoOf(err) != want {
			t.Errorf("%v: %v", err, ErrnoOf(err))
		}
	}
}
