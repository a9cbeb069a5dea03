package wasi

import (
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// ModuleName is the import module.
const ModuleName = "wasi_snapshot_preview1"

// ExitError ends a guest that called proc_exit. The host function panics with it;
// wazero returns it, possibly wrapped, from the call. Use errors.As.
type ExitError struct {
	Code uint32
}

// Error says the exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("guest exited with code %d", e.Code) }

// Signature is the type of a host function.
type Signature struct {
	Params, Results []api.ValueType
}

// def is a host function: i is an i32, I an i64 parameter; it returns an errno, or
// nothing if void.
type def struct {
	name   string
	params string
	fn     func(c *call) Errno
	void   bool
}

func defs() []def {
	return []def{
		{name: "args_get", params: "ii", fn: argsGet},
		{name: "args_sizes_get", params: "ii", fn: argsSizesGet},
		{name: "environ_get", params: "ii", fn: environGet},
		{name: "environ_sizes_get", params: "ii", fn: environSizesGet},
		{name: "clock_res_get", params: "ii", fn: clockResGet},
		{name: "clock_time_get", params: "iIi", fn: clockTimeGet},
		{name: "fd_advise", params: "iIIi", fn: fdAdvise},
		{name: "fd_allocate", params: "iII", fn: fdAllocate},
		{name: "fd_close", params: "i", fn: fdClose},
		{name: "fd_datasync", params: "i", fn: fdDatasync},
		{name: "fd_fdstat_get", params: "ii", fn: fdFdstatGet},
		{name: "fd_fdstat_set_flags", params: "ii", fn: fdFdstatSetFlags},
		{name: "fd_fdstat_set_rights", params: "iII", fn: fdFdstatSetRights},
		{name: "fd_filestat_get", params: "ii", fn: fdFilestatGet},
		{name: "fd_filestat_set_size", params: "iI", fn: fdFilestatSetSize},
		{name: "fd_filestat_set_times", params: "iIIi", fn: fdFilestatSetTimes},
		{name: "fd_pread", params: "iiiIi", fn: fdPread},
		{name: "fd_prestat_get", params: "ii", fn: fdPrestatGet},
		{name: "fd_prestat_dir_name", params: "iii", fn: fdPrestatDirName},
		{name: "fd_pwrite", params: "iiiIi", fn: fdPwrite},
		{name: "fd_read", params: "iiii", fn: fdRead},
		{name: "fd_readdir", params: "iiiIi", fn: fdReaddir},
		{name: "fd_renumber", params: "ii", fn: fdRenumber},
		{name: "fd_seek", params: "iIii", fn: fdSeek},
		{name: "fd_sync", params: "i", fn: fdSync},
		{name: "fd_tell", params: "ii", fn: fdTell},
		{name: "fd_write", params: "iiii", fn: fdWrite},
		{name: "path_create_directory", params: "iii", fn: pathCreateDirectory},
		{name: "path_filestat_get", params: "iiiii", fn: pathFilestatGet},
		{name: "path_filestat_set_times", params: "iiiiIIi", fn: pathFilestatSetTimes},
		{name: "path_link", params: "iiiiiii", fn: pathLink},
		{name: "path_open", params: "iiiiiIIii", fn: pathOpen},
		{name: "path_readlink", params: "iiiiii", fn: pathReadlink},
		{name: "path_remove_directory", params: "iii", fn: pathRemoveDirectory},
		{name: "path_rename", params: "iiiiii", fn: pathRename},
		{name: "path_symlink", params: "iiiii", fn: pathSymlink},
		{name: "path_unlink_file", params: "iii", fn: pathUnlinkFile},
		{name: "poll_oneoff", params: "iiii", fn: pollOneoff},
		{name: "proc_exit", params: "i", fn: procExit, void: true},
		{name: "proc_raise", params: "i", fn: procRaise},
		{name: "random_get", params: "ii", fn: randomGet},
		{name: "sched_yield", params: "", fn: schedYield},
		{name: "sock_accept", params: "iii", fn: sockAny},
		{name: "sock_recv", params: "iiiiii", fn: sockAny},
		{name: "sock_send", params: "iiiii", fn: sockAny},
		{name: "sock_shutdown", params: "ii", fn: sockAny},
	}
}

func (d def) signature() Signature {
	var s Signature
	for _, p := range d.params {
		if p == 'I' {
			s.Params = append(s.Params, api.ValueTypeI64)
		} else {
			s.Params = append(s.Params, api.ValueTypeI32)
		}
	}
	if !d.void {
		s.Results = []api.ValueType{api.ValueTypeI32}
	}
	return s
}

// Signatures returns every function of the module by name.
func Signatures() map[string]Signature {
	m := make(map[string]Signature)
	for _, d := range defs() {
		m[d.name] = d.signature()
	}
	return m
}

// Instantiate puts the module wasi_snapshot_preview1 into r. stateOf finds the state
// of the instance that a call belongs to; for nil the functions return NOSYS. With
// names it has only those functions: each takes the runtime some time.
func Instantiate(ctx context.Context, r wazero.Runtime, stateOf func(context.Context) *State, names ...string) error {
	b := r.NewHostModuleBuilder(ModuleName)
	for _, d := range defs() {
		if len(names) > 0 && !slices.Contains(names, d.name) {
			continue
		}
		sig := d.signature()
		b = b.NewFunctionBuilder().WithGoModuleFunction(d.host(stateOf), sig.Params, sig.Results).Export(d.name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate %s: %w", ModuleName, err)
	}
	return nil
}

// host wraps the function for wazero. The call record of the state is used again, so
// that a call allocates nothing.
func (d def) host(stateOf func(context.Context) *State) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		s := stateOf(ctx)
		if s == nil {
			if d.void {
				panic(&ExitError{Code: uint32(stack[0])})
			}
			stack[0] = uint64(ErrnoNosys)
			return
		}
		if s.mod != mod {
			s.mod, s.mem = mod, mod.ExportedMemory("memory")
		}
		c := &s.c
		c.ctx, c.s, c.mem, c.stack = ctx, s, s.mem, stack
		e := d.fn(c)
		c.ctx = nil
		if !d.void {
			stack[0] = uint64(e)
		}
	}
}
