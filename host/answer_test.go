package host

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
)

// secretVault lends the secret T; use uses it.
func secretVault(t *testing.T, value string) (v *secrets.Vault, use func()) {
	t.Helper()
	v = secrets.NewVault([]secrets.Source{&memorySource{m: map[string]string{"T": value}}}, []secrets.Grant{{Name: "T", Hosts: []string{"a.example"}}}, caphttp.Covers)
	return v, func() {
		if got, err := v.Fill(t.Context(), "a.example:443", "{{secret:T}}"); err != nil || got != value {
			t.Errorf("%q %v", got, err)
		}
	}
}

// A server that makes a header's name of a secret does not show it.
func TestSecretAsHeaderName(t *testing.T) {
	const value = "0123456789abcdef"
	v, use := secretVault(t, value)
	use()
	res := &caphttp.Response{Header: http.Header{value: {"1"}}, Body: io.NopCloser(bytes.NewReader(nil))}
	ans, err := (&run{}).httpAnswer(abi.HTTPRequestHead{}, res, v)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(ans.Head, []byte(value)) || !bytes.Contains(ans.Head, []byte("[secret:T]")) {
		t.Errorf("%s", ans.Head)
	}
	ans.Release()
}

// lateBody has the secret, which is used for the first time while it is read.
type lateBody struct {
	parts []func() string
}

func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	part := b.parts[0]
	b.parts = b.parts[1:]
	return copy(p, part()), nil
}

func (b *lateBody) Close() error { return nil }

// A secret that another call uses while an answer comes is taken out of that, too.
func TestSecretUsedLate(t *testing.T) {
	const value = "0123456789abcdef"
	body := func(use func()) *lateBody {
		return &lateBody{[]func() string{
			func() string { return "before " },
			func() string { use(); return "it is 01234567" },
			func() string { return "89abcdef, and " + value + " after" },
		}}
	}
	const want = "before it is [secret:T], and [secret:T] after"
	v, use := secretVault(t, value)
	ans, err := (&run{}).httpAnswer(abi.HTTPRequestHead{}, &caphttp.Response{Length: -1, Body: body(use)}, v)
	if err != nil || string(ans.Body) != want {
		t.Errorf("%q, %v", ans.Body, err)
	}
	v, use = secretVault(t, value)
	got, err := io.ReadAll(v.Reader(body(use)))
	if err != nil || string(got) != want {
		t.Errorf("as a stream: %q, %v", got, err)
	}
	var none *secrets.Vault
	if got, err := io.ReadAll(none.Reader(strings.NewReader(value))); err != nil || string(got) != value {
		t.Errorf("without secrets: %q, %v", got, err)
	}
}
