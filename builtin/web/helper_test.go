package web

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSession = "s-test"

// local is WebFetch that may reach this machine.
func local(t testing.TB, o Options) *fetch {
	t.Helper()
	o.AllowPrivateNetwork = true
	return fetcher(t, o)
}

func fetcher(t testing.TB, o Options) *fetch {
	t.Helper()
	s := newShared(o)
	t.Cleanup(func() {
		if err := s.EndSession(context.Background(), testSession); err != nil {
			t.Error(err)
		}
	})
	return newFetch(s)
}

func config(in string) tool.Config {
	return tool.Config{Name: "WebFetch", Input: json.RawMessage(in), SessionID: testSession}
}

func run(ctx context.Context, t tool.Tool, c tool.Config) *abi.Result {
	r, err := t.Execute(ctx, tool.NewCall(c))
	if err != nil {
		return abi.Failure(abi.AsError(err))
	}
	return r
}

// input is the input of WebFetch for an address and more members.
func input(u string, more ...string) string {
	return `{"url":` + string(abi.String(u)) + strings.Join(append([]string{""}, more...), ",") + `}`
}

func get(t testing.TB, f *fetch, in string) *abi.Result {
	t.Helper()
	return run(t.Context(), f, config(in))
}

// ok is the answer that a model reads.
func ok(t testing.TB, r *abi.Result) fetchOut {
	t.Helper()
	var out fetchOut
	if r.IsError() {
		t.Fatalf("%s: %s", r.Error.Code, r.Error.Message)
	}
	if err := json.Unmarshal(r.Model, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func server(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// says answers with a body of a type.
func says(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// internet is a network of names: a resolver that knows some, and a proxy that
// leads every public address to one server.
type internet struct {
	names map[string]string // a name and its address
	proxy *url.URL
	// connects are the addresses that the proxy was asked for.
	mu       sync.Mutex
	connects []string
}

func newInternet(t testing.TB, h http.Handler, names map[string]string) *internet {
	t.Helper()
	web := httptest.NewServer(h)
	n := &internet{names: names}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.proxy = &url.URL{Scheme: "http", Host: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { n.tunnel(c, web.Listener.Addr().String()) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); web.CloseClientConnections(); web.Close(); wg.Wait() })
	return n
}

func (n *internet) tunnel(c net.Conn, to string) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	n.mu.Lock()
	n.connects = append(n.connects, req.Host)
	n.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{})
	go func() { _, _ = io.Copy(out, r); _ = out.Close(); close(done) }() // ends with the connection
	_, _ = io.Copy(c, out)
	_ = c.Close()
	<-done
}

// resolver answers for the names, and says of others that there are none.
func (n *internet) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go n.answer(b) // ends when the resolver closes its end
		return packets{a}, nil
	}}
}

// packets is a stream as the resolver expects it of TCP.
type packets struct{ net.Conn }

func (n *internet) answer(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil || len(q) < 12 {
			return
		}
		var labels []string
		i := 12
		for i < len(q) && q[i] != 0 {
			labels = append(labels, string(q[i+1:i+1+int(q[i])]))
			i += 1 + int(q[i])
		}
		kind := binary.BigEndian.Uint16(q[i+1:])
		msg := append([]byte(nil), q[:i+5]...)
		msg[2], msg[3] = 0x81, 0x80
		copy(msg[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
		addr, known := n.names[strings.ToLower(strings.Join(labels, "."))]
		ip := net.ParseIP(addr).To4()
		switch {
		case !known:
			msg[3] |= 3 // no such name
		case kind == 1 && ip != nil:
			msg[7] = 1
			msg = append(msg, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4)
			msg = append(msg, ip...)
		}
		out := binary.BigEndian.AppendUint16(nil, uint16(len(msg)))
		if _, err := c.Write(append(out, msg...)); err != nil {
			return
		}
	}
}
