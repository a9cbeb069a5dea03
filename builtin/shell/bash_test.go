package shell

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	b := newBench(t, Options{})
	t.Logf("%+v", b.line("echo hi"))
	t.Logf("%+v", b.line("echo out; echo err >&2; exit 3"))
	t.Logf("%+v", b.run(t.Context(), `{"command":"sleep 30 & setsid sleep 31 & env -i setsid -f sleep 32; echo a; sleep 20","timeout":1000}`))
	t.Logf("%+v", b.line("git status; pwd; seq 1 200 | tail -3; ps -ef | grep sleep"))
}
