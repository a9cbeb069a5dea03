package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Each denied call leaves an audit record that says which and why.
func TestAuditDenied(t *testing.T) {
	var logged bytes.Buffer
	h := newHost(t, Options{Log: slog.New(slog.NewTextHandler(&lockedWriter{w: &logged}, nil))})
	s, err := h.NewSession(SessionOptions{ID: "s1", Mode: policy.ModePlan, Tools: []tool.Tool{fakeTool("T", writes)}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, do(t, s, Call{ID: "c1", Tool: "T"}), abi.CodeDeniedMode, abi.TypePermission)
	if want := `level=INFO msg=audit session=s1 call=c1 tool=T op=call target=T outcome="denied: DENIED_MODE"`; !strings.Contains(logged.String(), want) {
		t.Errorf("no %s in %s", want, logged.String())
	}
}
