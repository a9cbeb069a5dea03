package host

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
)

// A server that makes a header's name of a secret does not show it.
func TestSecretAsHeaderName(t *testing.T) {
	const value = "0123456789abcdef"
	res := &caphttp.Response{Header: http.Header{value: {"1"}}, Body: io.NopCloser(bytes.NewReader(nil))}
	ans, err := (&run{}).httpAnswer(abi.HTTPRequestHead{}, res, secrets.NewScrubber(map[string]string{value: "T"}))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(ans.Head, []byte(value)) || !bytes.Contains(ans.Head, []byte("[secret:T]")) {
		t.Errorf("%s", ans.Head)
	}
	ans.Release()
}
