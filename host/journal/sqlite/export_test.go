package sqlite

// Failing lets the calls that make a new file fail: link, rename and the sync of
// the folder. A nil function is the real one.
func (o Options) Failing(link, rename func(from, to string) error, syncDir func(string) error) Options {
	o.files = files{link, rename, syncDir}
	return o
}

// Paged bounds the bytes of a page.
func (o Options) Paged(n int64) Options {
	o.page = n
	return o
}
