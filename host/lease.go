package host

import (
	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// LeaseWatcher is a SessionOptions.Runtime that tells when its lease is lost.
// Then the session is quarantined: running tools are cancelled with the reason
// lease lost, nothing new starts, and nothing more is recorded, for the session
// belongs to somebody else.
type LeaseWatcher interface {
	tool.Runtime
	// Lost is closed when the lease is lost, once.
	Lost() <-chan struct{}
	// Err says why, with a code that starts with DURABLE_EXECUTION_LEASE_.
	Err() error
}

// watchLease waits for the loss of the lease, or for the end of the session.
func (s *Session) watchLease() {
	w, ok := s.opt.Runtime.(LeaseWatcher)
	if !ok {
		return
	}
	go func() { // ends with the session's close, which need not wait for it
		select {
		case <-w.Lost():
			err := w.Err()
			if err == nil {
				err = abi.NewError(abi.CodeLeaseStale, "the lease of the session was lost")
			}
			s.Quarantine(abi.AsError(err))
		case <-s.gone:
		}
	}()
}

// owned asserts the lease once the tool has ended: what it returned does not
// count if the session belongs to somebody else by now.
func (r *run) owned() {
	if r.started {
		r.lease()
	}
}
