package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/lockfile"
)

// lockSuffix is what the lock file's name has after the journal's.
const lockSuffix = "-lock"

// Files are all the files of a journal, by the path of its first one, links
// resolved: the folder is that of the lock files of its owners. Nobody else may
// write them, nor even open and close them: on some systems that takes the locks
// of the process away.
func Files(path string) ([]string, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", lockSuffix, ownersSuffix} {
		all = append(all, real+suffix)
	}
	return all, nil
}

// resolve is the one name of a file that may have several through links, so that
// all who have it open use the same files beside it. The file itself may be
// missing, its folder too.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", abi.NewError(abi.CodeIO, "the journal %s: %v", path, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case err == nil:
		return real, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", abi.NewError(abi.CodeIO, "the journal %s: %v", path, err).Because(err)
	}
	if target, err := os.Readlink(abs); err == nil {
		return "", abi.NewError(abi.CodeIO, "the journal %s is a link to %s, which does not exist; remove the link, or name the file itself", abs, target)
	}
	// A new file: what there is of the folders above it counts.
	for dir, rest := filepath.Dir(abs), filepath.Base(abs); ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest), nil
		}
		if dir == filepath.Dir(dir) {
			return abs, nil
		}
	}
}

// enter waits until no other store opens, writes, checkpoints or closes the file.
// SQLite has locks for that, but whatever closes one of its files in the process
// that holds them takes them away; this one stays.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.busy())
	defer cancel()
	l, err := lockfile.Acquire(ctx, s.path+lockSuffix)
	if err != nil {
		why := "another process kept it busy"
		if ctx.Err() == nil {
			why = err.Error()
		}
		return nil, abi.NewError(abi.CodeJournalWrite, "the journal %s was not written: %s", s.path, why).Because(err)
	}
	return func() { _ = l.Release() }, nil // nobody can do anything about it
}

func (s *Store) busy() time.Duration {
	if s.opt.Busy > 0 {
		return s.opt.Busy
	}
	return defaultBusy
}

const defaultBusy = 10 * time.Second
