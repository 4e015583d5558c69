package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Answer is an answer about jobs.
type Answer struct {
	Forecast Head  `json:"forecast"`
	Jobs     []Job `json:"jobs"`
	// Pending is the number of pending jobs, including those that the answer leaves out.
	Pending int `json:"pending,omitempty"`
}

// RefusedError is the error of a server that answers with an error status.
type RefusedError struct {
	Status int
	Text   string
}

func (e *RefusedError) Error() string { return e.Text }

// maxAnswerBytes bounds an answer in bytes, and patience the time until it is complete.
const (
	maxAnswerBytes = 64 << 20
	patience       = 30 * time.Second
)

// Server is a service to which requests can be sent.
type Server struct {
	// Address is a URL, or the path of a socket.
	Address string
	// Authorization is the value of the header, or "".
	Authorization string
}

// Ask requests the forecast of a job, or of all tasks of an array. The error is a [RefusedError] if
// the server answers with an error status.
func (s Server) Ask(ctx context.Context, id string) (*Answer, error) {
	var a Answer
	if err := s.get(ctx, "/v1/jobs/"+url.PathEscape(id), &a); err != nil {
		return nil, err
	}
	unknown := func(j Job) bool { return j.Wait == nil && j.Start == nil }
	if a.Forecast.At == nil || slices.ContainsFunc(a.Jobs, unknown) {
		return nil, errNotOurs
	}
	return &a, nil
}

// Sooner requests the changes with which a job would start sooner. It returns the errors of
// [Server.Ask].
func (s Server) Sooner(ctx context.Context, id string) (*Sooner, error) {
	var a Sooner
	if err := s.get(ctx, "/v1/jobs/"+url.PathEscape(id)+"/sooner", &a); err != nil {
		return nil, err
	}
	if a.Forecast.At == nil || a.Job == "" {
		return nil, errNotOurs
	}
	return &a, nil
}

// Machine says how long jobs that are submitted now would wait.
type Machine struct {
	Forecast Head  `json:"forecast"`
	Now      []Try `json:"submitted_now"`
}

// Machine requests the expected waits of jobs that are submitted now. It returns the errors of
// [Server.Ask].
func (s Server) Machine(ctx context.Context) (*Machine, error) {
	var m Machine
	if err := s.get(ctx, "/v1/machine", &m); err != nil {
		return nil, err
	}
	if m.Forecast.At == nil {
		return nil, errNotOurs
	}
	return &m, nil
}

// Class returns the forecast of jobs with a number of nodes in a partition; nil if there is no
// forecast. The partition may be "" if only one partition is known.
func (m *Machine) Class(partition string, nodes int) (found *Try) {
	for i := range m.Now {
		t := &m.Now[i]
		if partition == "" && t.Partition != m.Now[0].Partition {
			return nil
		}
		if (partition == "" || t.Partition == partition) && t.Size == sizeOf(nodes) {
			found = t
		}
	}
	return found
}

var errNotOurs = errors.New("asking the server: its JSON is not an answer of forecast serve")

// get reads the answer of a path.
func (s Server) get(ctx context.Context, path string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, server := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, s.Address
	if !strings.Contains(server, "://") {
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _,
			_ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Address)
		}}
		server = "http://localhost"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+path, nil)
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	if s.Authorization != "" {
		r.Header.Set("Authorization", s.Authorization)
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	defer response.Body.Close() // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	var refused struct {
		Error string `json:"error"`
	}
	err = json.Unmarshal(text, &refused)
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, to)
	}
	switch {
	case err != nil:
		return fmt.Errorf("asking the server: status %d, and not JSON of forecast serve: %w", response.StatusCode, err)
	case response.StatusCode != http.StatusOK:
		return &RefusedError{response.StatusCode, refused.Error}
	}
	return nil
}
