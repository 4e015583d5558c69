package receive

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// paced is a request's body with a deadline for the client, so that slow clients do not occupy the few connections and
// the few permits for large bodies. The client has times.body for the first smallBody bytes, and times.step for each
// further smallBody bytes. Time during which the server does not read is not counted.
type paced struct {
	io.ReadCloser
	control  *http.ResponseController
	times    times
	read     int64     // bytes
	step     int64     // number of bytes at which the next step begins
	deadline time.Time // end of the current step
	left     time.Time // when the last Read returned
}

// pace returns the request with a paced body. This also limits a body that the handler never reads, because net/http
// reads the rest of such a body before it responds.
func (t times) pace(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.ContentLength == 0 {
		return r
	}
	now := time.Now()
	p := &paced{ReadCloser: r.Body, control: http.NewResponseController(w), times: t, step: smallBody,
		deadline: now.Add(t.body), left: now}
	_ = p.control.SetReadDeadline(p.deadline) // fails in tests without a connection
	r = r.WithContext(r.Context())
	r.Body = p
	return r
}

// Read implements [io.Reader]. At the end of the body it removes the deadline, because net/http
// continues to read in order to notice when the client disconnects.
func (p *paced) Read(b []byte) (int, error) {
	now := time.Now()
	p.deadline = p.deadline.Add(now.Sub(p.left))
	if p.read >= p.step {
		p.step += smallBody
		p.deadline = now.Add(p.times.step)
	}
	_ = p.control.SetReadDeadline(p.deadline)
	n, err := p.ReadCloser.Read(b)
	p.read += int64(n)
	p.left = time.Now()
	if errors.Is(err, io.EOF) {
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
