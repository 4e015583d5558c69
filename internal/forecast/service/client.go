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
	// Pending is how many jobs there are of a list, with those that it leaves out.
	Pending int `json:"pending,omitempty"`
}

// RefusedError is the error of a server that gives no answer.
type RefusedError struct {
	Status int
	Text   string
}

func (e *RefusedError) Error() string { return e.Text }

// mostAnswered bounds an answer in bytes, and patience the time until it is complete.
const (
	mostAnswered = 64 << 20
	patience     = 30 * time.Second
)

// Ask asks a server about a job, or all tasks of an array. The server is a URL or the path of a socket, and
// authorization the value of the header, or "". The error is a [RefusedError] if the server gives no answer.
func Ask(ctx context.Context, server, authorization, id string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if !strings.Contains(server, "://") {
		path := server
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _,
			_ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
		server = "http://localhost"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimRight(server, "/")+"/v1/jobs/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	defer response.Body.Close() // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswered))
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	var a struct {
		Answer
		Error string `json:"error"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("asking the server: status %d, and not JSON of forecast serve: %w", response.StatusCode, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &RefusedError{response.StatusCode, a.Error}
	}
	unknown := func(j Job) bool { return j.Wait == nil && j.Start == nil }
	if a.Forecast.At == nil || slices.ContainsFunc(a.Jobs, unknown) {
		return nil, errors.New("asking the server: its JSON is not an answer of forecast serve")
	}
	return &a.Answer, nil
}
