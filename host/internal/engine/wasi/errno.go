package wasi

import "github.com/bladehost/bladehost/host/caps/fs"

// Errno is an error number of WASI preview 1. 0 is success.
type Errno uint16

// The error numbers that the host functions give.
const (
	ErrnoSuccess     Errno = 0
	ErrnoAcces       Errno = 2
	ErrnoAgain       Errno = 6
	ErrnoBadf        Errno = 8
	ErrnoBusy        Errno = 10
	ErrnoCanceled    Errno = 11
	ErrnoDquot       Errno = 19
	ErrnoExist       Errno = 20
	ErrnoFault       Errno = 21
	ErrnoFbig        Errno = 22
	ErrnoIlseq       Errno = 25
	ErrnoIntr        Errno = 27
	ErrnoInval       Errno = 28
	ErrnoIo          Errno = 29
	ErrnoIsdir       Errno = 31
	ErrnoLoop        Errno = 32
	ErrnoMfile       Errno = 33
	ErrnoMlink       Errno = 34
	ErrnoNametoolong Errno = 37
	ErrnoNfile       Errno = 41
	ErrnoNoent       Errno = 44
	ErrnoNomem       Errno = 48
	ErrnoNospc       Errno = 51
	ErrnoNosys       Errno = 52
	ErrnoNotdir      Errno = 54
	ErrnoNotempty    Errno = 55
	ErrnoNotsock     Errno = 57
	ErrnoNotsup      Errno = 58
	ErrnoOverflow    Errno = 61
	ErrnoPerm        Errno = 63
	ErrnoPipe        Errno = 64
	ErrnoRange       Errno = 68
	ErrnoRofs        Errno = 69
	ErrnoSpipe       Errno = 70
	ErrnoStale       Errno = 72
	ErrnoTxtbsy      Errno = 74
	ErrnoXdev        Errno = 75
	ErrnoNotcapable  Errno = 76
)

// errnoOf translates an error of package fs.
func errnoOf(err error) Errno {
	if err == nil {
		return ErrnoSuccess
	}
	switch fs.ErrnoOf(err) {
	case fs.EACCES, fs.ErrDenied:
		return ErrnoAcces
	case fs.EAGAIN:
		return ErrnoAgain
	case fs.EBADF:
		return ErrnoBadf
	case fs.EBUSY:
		return ErrnoBusy
	case fs.EDQUOT:
		return ErrnoDquot
	case fs.EEXIST:
		return ErrnoExist
	case fs.EFBIG:
		return ErrnoFbig
	case fs.EINTR:
		return ErrnoIntr
	case fs.EINVAL:
		return ErrnoInval
	case fs.EISDIR:
		return ErrnoIsdir
	case fs.ELOOP:
		return ErrnoLoop
	case fs.EMFILE:
		return ErrnoMfile
	case fs.EMLINK:
		return ErrnoMlink
	case fs.ENAMETOOLONG:
		return ErrnoNametoolong
	case fs.ENFILE:
		return ErrnoNfile
	case fs.ENOENT:
		return ErrnoNoent
	}
	return errnoOf2(fs.ErrnoOf(err))
}

func errnoOf2(e fs.Errno) Errno {
	switch e {
	case fs.ENOMEM:
		return ErrnoNomem
	case fs.ENOSPC:
		return ErrnoNospc
	case fs.ENOSYS:
		return ErrnoNosys
	case fs.ENOTDIR:
		return ErrnoNotdir
	case fs.ENOTEMPTY:
		return ErrnoNotempty
	case fs.ENOTSUP:
		return ErrnoNotsup
	case fs.EOVERFLOW:
		return ErrnoOverflow
	case fs.EPERM, fs.ErrEscape, fs.ErrHardLinked, fs.ErrNotRegular, fs.ErrOutside:
		return ErrnoPerm
	case fs.ErrRevoked:
		return ErrnoNotcapable
	case fs.EROFS:
		return ErrnoRofs
	case fs.ESTALE:
		return ErrnoStale
	case fs.ETXTBSY:
		return ErrnoTxtbsy
	case fs.EXDEV:
		return ErrnoXdev
	}
	return ErrnoIo
}
