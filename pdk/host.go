package pdk

// Host is the other side of the ABI: the seven functions of abi.ImportModule.
// Tools do not use it. In a module it is the imports; in a unit test package
// pdktest implements it. The bytes passed to a method are not kept.
type Host interface {
	// Take copies bytes of a slot into buf and returns their number.
	Take(slot uint32, buf []byte) int
	// Call asks a service; the answer is as abi.PackCall makes it.
	Call(name string, frame []byte) uint64
	// Yield sends one yield and returns abi.YieldOK or another answer.
	Yield(b []byte) int32
	// Ret hands over the result.
	Ret(status int32, b []byte)
	// Log writes one line to the host's log.
	Log(level int32, text string)
	// Cancelled is an abi.Cancel.
	Cancelled() int32
	// Deadline is the milliseconds left, or -1.
	Deadline() int64
}
