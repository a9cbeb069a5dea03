package shell

// guard has nothing to do here: the job of a command ends with this process.
type guard struct{}

func newGuard(string) *guard { return &guard{} }

func (*guard) add(int, string) {}
func (*guard) remove(int)      {}
func (*guard) close()          {}
