package agentloop

import "sync"

// Continuation follows the calls of one run of a loop and says whether the loop
// may end. The zero value asks for nothing. Safe for concurrent use.
type Continuation struct {
	// VerifyBeforeDone asks for a verification when something was changed and not
	// verified since.
	VerifyBeforeDone bool
	// Reminders bounds how often it asks in one run; 0 means once.
	Reminders int

	mu         sync.Mutex
	explored   bool
	mutated    bool
	verified   bool
	unexplored bool
	asked      int
}

// Started notes that a call starts. The first write or run of a run that has
// read nothing yet marks it as unexplored.
func (c *Continuation) Started(k Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k != KindWrite && k != KindRun {
		return
	}
	if !c.mutated && !c.explored {
		c.unexplored = true
	}
	c.mutated, c.verified = true, false
}

// Ended notes how a call ended.
func (c *Continuation) Ended(k Kind, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k {
	case KindRead:
		c.explored = c.explored || ok
	case KindVerify:
		c.verified = ok
	}
}

// Unexplored reports whether the run changed something before it read anything.
func (c *Continuation) Unexplored() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unexplored
}

// MayEnd is asked when the model stops. False means that the loop should remind
// the model to verify and go on; verifiers says how many verify tools it has.
func (c *Continuation) MayEnd(verifiers int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := max(c.Reminders, 1)
	if !c.VerifyBeforeDone || !c.mutated || c.verified || verifiers == 0 || c.asked >= most {
		return true
	}
	c.asked++
	return false
}
