//go:build !linux

package engine

import "errors"

func newCopyOnWrite() (*resetter, error) {
	return nil, errors.New("it needs Linux 6.7 or newer")
}
