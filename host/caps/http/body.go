package http

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// freeRatio is how many decoded bytes may come before the ratio counts: short
// answers compress well.
const freeRatio = 1 << 20

// rateWindow is how often the rate of a body is judged.
const rateWindow = 10 * time.Second

// decode undoes the encoding that we asked for; the header then tells of the
// decoded body. Whoever must be able to read it gets no other encoding.
func (b *body) decode(h http.Header, mustRead bool) error {
	b.since = time.Now()
	b.dec = received{b}
	enc := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ", ")))
	if mustRead && !readableEncoding(enc) {
		return b.fail(abi.NewError(abi.CodeNetFailed, "the answer is encoded as %s, which was not asked for and cannot be looked through for secrets", brief(enc)))
	}
	switch enc {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return nil // not asked for: the caller gets it as it is
	}
	z, err := gzip.NewReader(b.dec)
	if err == io.EOF {
		b.dec = strings.NewReader("")
		return nil
	}
	if err != nil {
		return b.fail(abi.NewError(abi.CodeNetFailed, "the answer says that it is gzip, and is not"))
	}
	b.dec, b.decoded = z, true
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	return nil
}

// received counts what came over the wire and judges how fast.
type received struct{ b *body }

func (r received) Read(p []byte) (int, error) {
	b := r.b
	n, err := b.r.Read(p)
	b.in += int64(n)
	if now := time.Now(); now.Sub(b.since) >= rateWindow {
		if rate := (b.in - b.mark) * int64(time.Second) / int64(now.Sub(b.since)); rate < b.lim.MinRate && err == nil {
			return n, abi.NewError(abi.CodeNetLimit, "the answer comes too slowly: %d bytes a second", rate)
		}
		b.since, b.mark = now, b.in
	}
	return n, err
}

// Read gives decoded bytes.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.dec.Read(p)
	b.out += int64(n)
	switch {
	case b.out > b.most:
		return 0, b.fail(abi.NewError(abi.CodeNetLimit, "the answer is over %d bytes", b.most))
	case b.decoded && b.out > freeRatio && b.out > b.in*b.lim.MaxRatio:
		return 0, b.fail(abi.NewError(abi.CodeNetLimit, "the answer unpacks to more than %d times its size", b.lim.MaxRatio))
	case err != nil && err != io.EOF:
		return n, b.fail(err)
	}
	return n, err
}

// Close ends the exchange.
func (b *body) Close() error {
	var err error
	b.closeOnce.Do(func() {
		err = b.r.Close()
		b.cancel()
	})
	return err
}
