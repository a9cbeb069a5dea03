package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hostPage = 4096

// pagemap lists the written pages of a mapping (PAGEMAP_SCAN, Linux 6.7).
type pagemap struct{ f *os.File }

// scanArg is struct pm_scan_arg, region is struct page_region of linux/fs.h.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyof, ret                              uint64
}

type region struct{ start, end, categories uint64 }

const (
	pagemapScan   = 0xc0606610
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsZero    = 1 << 5
)

// scan finds pages that hold bytes of their own: present or swapped out, and
// neither the image's nor the shared zero page. A page that was ever written is
// among them, so nothing is guessed. It returns how many regions it found and
// where it stopped.
func (p *pagemap) scan(arg *scanArg, vec []region, start, end uintptr) (n int, stopped uintptr, err error) {
	*arg = scanArg{
		size: uint64(unsafe.Sizeof(*arg)), start: uint64(start), end: uint64(end),
		vec: uint64(uintptr(unsafe.Pointer(&vec[0]))), vecLen: uint64(len(vec)),
		inverted: pageIsFile | pageIsZero, mask: pageIsFile | pageIsZero,
		anyof: pageIsPresent | pageIsSwapped, ret: pageIsPresent,
	}
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, p.f.Fd(), pagemapScan, uintptr(unsafe.Pointer(arg)))
	runtime.KeepAlive(vec)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(r), uintptr(arg.walkEnd), nil
}

// newCopyOnWrite tries on a small image whether the kernel can do it.
func newCopyOnWrite() (*resetter, error) {
	if os.Getpagesize() != hostPage {
		return nil, fmt.Errorf("the page size is %d", os.Getpagesize())
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	p := &pagemap{f}
	r := &resetter{ResetCopyOnWrite, func(content []byte) (imageStore, error) { return newMapped(p, content) }, f.Close}
	if err := tryCopyOnWrite(r); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func tryCopyOnWrite(r *resetter) error {
	content := bytes.Repeat([]byte{1}, 16*hostPage)
	s, err := r.store(content)
	if err != nil {
		return err
	}
	defer s.close()
	mem, err := s.memory(32 * hostPage)
	if err != nil {
		return err
	}
	defer mem.Free()
	m := mem.(*mappedMemory)
	b := m.Reallocate(32 * hostPage)
	_ = b[0] + b[20*hostPage] // read only: must not be listed
	b[3*hostPage], b[9*hostPage], b[25*hostPage] = 2, 2, 2
	if err := m.reset(uint64(len(b))); err != nil {
		return err
	}
	if m.pages != 3 || !bytes.Equal(b[:len(content)], content) || b[25*hostPage] != 0 {
		return errors.New("the kernel does not list written pages as expected")
	}
	return nil
}

// mapped is an image in a sealed memory file.
type mapped struct {
	p    *pagemap
	fd   int
	size uint64
	// view is the image, to copy from.
	view []byte
}

func newMapped(p *pagemap, content []byte) (_ *mapped, err error) {
	m := &mapped{p: p, size: uint64(len(content))}
	if m.fd, err = unix.MemfdCreate("bladehost-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, fmt.Errorf("make a memory file: %w", err)
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if err := unix.Ftruncate(m.fd, int64(len(content))); err != nil {
		return nil, fmt.Errorf("size a memory file: %w", err)
	}
	if err := m.fill(content); err != nil {
		return nil, fmt.Errorf("fill a memory file: %w", err)
	}
	// Nothing can change the image from here on.
	if _, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return nil, fmt.Errorf("seal a memory file: %w", err)
	}
	if len(content) > 0 {
		if m.view, err = unix.Mmap(m.fd, 0, len(content), unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
			return nil, fmt.Errorf("map a memory file: %w", err)
		}
	}
	return m, nil
}

// fill writes the pages that are not zero; the others take no memory.
func (m *mapped) fill(content []byte) error {
	var zero [hostPage]byte
	for at := 0; at < len(content); {
		end := at
		for end < len(content) && !bytes.Equal(content[end:end+hostPage], zero[:]) {
			end += hostPage
		}
		for from := at; from < end; {
			n, err := unix.Pwrite(m.fd, content[from:end], int64(from))
			if err != nil {
				return err
			}
			from += n
		}
		at = end + hostPage
	}
	return nil
}

func (m *mapped) close() {
	if m.view != nil {
		_ = unix.Munmap(m.view) // a mapping of ours: it cannot fail
		m.view = nil
	}
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
		m.fd = -1
	}
}

// memory reserves the address space up to the limit, so that growing never
// moves, and maps the image at its start.
func (m *mapped) memory(most uint64) (memory, error) {
	most = max(most, m.size, hostPage)
	all, err := unix.Mmap(-1, 0, int(most), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d MiB of address space: %w", most>>20, err)
	}
	_ = unix.Madvise(all, unix.MADV_NOHUGEPAGE) // a huge page is dear to reset; not every kernel has them
	if m.size > 0 {
		if _, err := unix.MmapPtr(m.fd, 0, unsafe.Pointer(&all[0]), uintptr(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE); err != nil {
			return nil, errors.Join(fmt.Errorf("map the image: %w", err), unix.Munmap(all))
		}
	}
	return &mappedMemory{image: m, all: all, high: m.size, b: bounds{least: m.size, most: most}}, nil
}

// mappedMemory is a copy-on-write mapping of an image, with room to grow.
type mappedMemory struct {
	b     bounds
	image *mapped
	all   []byte
	// high is how many bytes are accessible.
	high uint64
	arg  scanArg
	vec  []region
	// pages is how many pages the last reset put back, kept how many resets ago
	// all pages were given back.
	pages, kept int
}

const (
	// hotPages is how many written pages an instance keeps, so that the next call
	// takes no page fault on them.
	hotPages = 2048
	// relearn is after how many resets an instance with more than fewPages forgets
	// which pages are hot: a single large call must not burden all later ones.
	relearn, fewPages = 32, 64
)

func (m *mappedMemory) bounds() *bounds { return &m.b }

// Reallocate makes more of the reservation accessible.
func (m *mappedMemory) Reallocate(size uint64) []byte {
	if size = m.b.fit(size); size == 0 && m.b.least > 0 {
		return nil
	}
	if size > m.high {
		if err := unix.Mprotect(m.all[m.high:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.b.refused = true // the kernel's own limit
			return nil
		}
		m.high = size
	}
	return m.all[:size:size]
}

func (m *mappedMemory) reset(used uint64) error {
	if m.kept++; m.kept > relearn && m.pages > fewPages {
		return m.forget()
	}
	if m.vec == nil {
		m.vec = make([]region, 128)
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(m.all)))
	m.pages = 0
	for at, end := base, base+uintptr(used); at < end; {
		n, stopped, err := m.image.p.scan(&m.arg, m.vec, at, end)
		if err != nil || stopped <= at {
			return m.forget()
		}
		for _, r := range m.vec[:n] {
			from, to := r.start-uint64(base), r.end-uint64(base)
			if m.pages += int((to - from) / hostPage); m.pages > hotPages {
				return m.forget()
			}
			m.restore(from, to)
		}
		at = stopped
	}
	return nil
}

// restore puts the bytes from and to back.
func (m *mappedMemory) restore(from, to uint64) {
	if from < m.b.least {
		end := min(to, m.b.least)
		copy(m.all[from:end], m.image.view[from:end])
		from = end
	}
	if from < to {
		clear(m.all[from:to])
	}
}

// forget gives all written pages back: the mapping reads as the image again, and
// as zero beyond it.
func (m *mappedMemory) forget() error {
	m.kept, m.pages = 0, 0
	if m.high == 0 {
		return nil
	}
	if err := unix.Madvise(m.all[:m.high], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give pages back: %w", err)
	}
	return nil
}

// hugePage is the size of a huge page with pages of 4 KiB.
const hugePage = 2 << 20

// populate takes the page faults of whole pages in one call, and where it can with
// huge pages, which are asked for here only: elsewhere they would be dear to reset.
// A kernel without the one (before Linux 5.14) or the other takes them one by one.
func (m *mappedMemory) populate(from, to uint64) {
	base := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.all))))
	inner := func(size uint64) []byte {
		start, end := (base+from+size-1)/size*size-base, (base+to)/size*size-base
		if start >= end || end > m.high {
			return nil
		}
		return m.all[start:end]
	}
	if huge := inner(hugePage); huge != nil {
		_ = unix.Madvise(huge, unix.MADV_HUGEPAGE)
		defer func() { _ = unix.Madvise(huge, unix.MADV_NOHUGEPAGE) }()
	}
	if pages := inner(hostPage); pages != nil {
		_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
	}
}

func (m *mappedMemory) cool() {
	_ = m.forget() // it failed for none of its pages: they hold the image already
}

// Free returns the address space.
func (m *mappedMemory) Free() {
	if m.all != nil {
		_ = unix.Munmap(m.all)
		m.all = nil
	}
}
