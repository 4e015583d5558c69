package receive

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// paced is a request's body whose client must send it in good time, so that slow clients do not hold
// connections and turns that others need. The client has times.body for the first smallBody bytes, and
// times.step for each further smallBody bytes. Time in which the server does not read does not count.
type paced struct {
	io.ReadCloser
	control  *http.ResponseController
	times    times
	read     int64     // bytes
	step     int64     // bytes read at which a new step begins
	deadline time.Time // of the step
	left     time.Time // when the last Read returned
}

// pace returns the request with a paced body. A body that is never read is paced too: net/http reads
// what is left of it before it answers.
func (t times) pace(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.ContentLength == 0 {
		return r
	}
	now := time.Now()
	p := &paced{ReadCloser: r.Body, control: http.NewResponseController(w), times: t, step: smallBody,
		deadline: now.Add(t.body), left: now}
	_ = p.control.SetReadDeadline(p.deadline) // not known in tests without a connection
	r = r.WithContext(r.Context())
	r.Body = p
	return r
}

// Read is [io.Reader.Read]. At the body's end the deadline ends, too: net/http goes on reading to
// see whether the client leaves.
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
