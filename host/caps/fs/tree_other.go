//go:build !linux

package fs

func hasRawTree(*Grant) bool { return false }

func (t *Tree) rawRead(string, []byte) (n int, all, done bool, err error) {
	return 0, false, false, nil
}

func (t *Tree) rawFolder(string) (f *Folder, done bool, err error) { return nil, false, nil }

func (f *Folder) rawList(list []DirEntry) ([]DirEntry, error) { return list, nil }

func (f *Folder) rawLstat(string) (Info, error) { return Info{}, nil }
