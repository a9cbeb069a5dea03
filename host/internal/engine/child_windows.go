package engine

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// limitMemory puts this process into a job with a limit. The job lives as long as
// the process; where it cannot be made, the look at the memory has to do.
func limitMemory(n int64) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY},
		ProcessMemoryLimit:    uintptr(n),
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		_ = windows.CloseHandle(job)
	}
}

func peakMemory(*os.ProcessState) int64 { return 0 }
