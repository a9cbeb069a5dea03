package shell

import (
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tree is a command in a job of its own. The job ends all its processes when its
// last handle is closed, so also when this process ends. What the command starts
// before it is put into the job, in the moment after its start, is not in it.
type tree struct {
	p   *os.Process
	job windows.Handle
}

func ownTree() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// launch starts a command as the root of a tree.
func launch(cmd *exec.Cmd, _ string) (*tree, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newTree(cmd.Process), nil
}

func newTree(p *os.Process) *tree {
	t := &tree{p: p}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return t
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var h windows.Handle
		if h, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid)); err == nil {
			err = windows.AssignProcessToJobObject(job, h)
			_ = windows.CloseHandle(h)
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return t
	}
	t.job = job
	return t
}

func (t *tree) mark() string { return "" }

// release ends what is left in the job.
func (t *tree) release() {
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
	}
}

// end ends the tree at once: this system has no polite signal for it.
func (t *tree) end(_ time.Duration, exited <-chan struct{}) {
	t.sweep()
	_ = t.p.Kill()
	select {
	case <-exited:
	case <-time.After(killGrace):
	}
}

func (t *tree) sweep() {
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
}

func signalOf(*os.ProcessState) string { return "" }
