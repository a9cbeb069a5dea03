// Package fs is the file-system capability: folders that a user granted, lent to
// guests (through WASI) and to the native file tools.
//
// A [Grant] is one granted folder. A [View] is a counted use of a grant by one
// guest instance, call or session. A [Dir] is where path operations start, a
// [File] is an open file or directory.
//
//	Open ── *Grant ── View ── *View ── Root ── *Dir ── OpenFile ── *File
//	          │ Revoke: every later operation fails with ErrRevoked
//	          └ two grants never share: rename and link between them fail with EXDEV
//
// Containment rests on [os.Root]: every directory on the way is opened relative
// to its parent without following links by host name, and the last name is acted
// on relative to the directory that was really opened. There is no
// resolve-then-use. On Linux and macOS the last step is one *at system call, elsewhere
// it is the method of os.Root of the same name. Where Linux has openat2, the kernel
// itself keeps the way to the directory beneath the root, in one call.
//
// Only regular files and directories can be opened. FIFOs, devices and sockets are
// refused before open and, against races, again after it; nothing here blocks.
//
// What this package cannot see: where the other names of a hard-linked file are
// (Options.RefuseHardLinked refuses to write such a file in place), and bind mounts below it (pseudo file systems such as /proc are
// refused there too). Directories that another program moves out of the grant while
// they are open stay usable through their descriptor.
//
// Errors are [Errno] values; they match [io/fs.ErrNotExist] and its kin with
// [errors.Is]. All types are safe for use by several goroutines.
package fs
