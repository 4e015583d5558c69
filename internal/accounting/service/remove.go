package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
)

// removal is the body of a request to remove or anonymize jobs.
type removal struct {
	Filter store.Filter
	As     string // new name of the users of anonymized jobs; empty to remove the jobs
	DryRun bool
}

// remove removes, anonymizes or counts the jobs in a request.
func (s *site) remove(w http.ResponseWriter, r *http.Request) {
	var asked removal
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		receive.Fail(w, http.StatusBadRequest, "parse_exception", err.Error())
		return
	}
	removed := Removed{DryRun: asked.DryRun}
	var err error
	switch {
	case asked.DryRun:
		v := s.intake.Store().View()
		defer v.Close()
		err = v.Each(r.Context(), asked.Filter, func(*store.Stored) error { removed.Jobs++; return nil })
	case asked.As != "":
		removed.Jobs, err = s.anonymize(r.Context(), asked)
	default:
		removed.Jobs, err = s.intake.Remove(r.Context(), asked.Filter)
	}
	if err != nil {
		receive.Fail(w, http.StatusInternalServerError, "remove_exception", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(removed) // an error means that the client has disconnected
}

// anonymize anonymizes the jobs in a request.
func (s *site) anonymize(ctx context.Context, asked removal) (jobs int64, err error) {
	a, err := document.NewAnonymizer(asked.Filter.Users, asked.As)
	if err != nil {
		return 0, err
	}
	return s.intake.Anonymize(ctx, asked.Filter, func(d *store.Stored) ([]byte, error) {
		return a.Document(d.Document, d.Cluster)
	})
}

// Remove removes or anonymizes jobs in a data directory.
func (Service) Remove(ctx context.Context, dir string, opts Remove) (out *Removed, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.wait(ctx); err != nil {
		return nil, err
	}
	asked := removal{As: opts.As, DryRun: opts.DryRun}
	asked.Filter = store.Filter{Users: opts.Users, EndedFrom: at(opts.Start), EndedTo: at(opts.End)}
	if opts.ClusterName != "" {
		if err := c.knows(ctx, dir, opts.ClusterName); err != nil {
			return nil, err
		}
		asked.Filter.Clusters = []string{opts.ClusterName}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	answer, err := c.stream(ctx, http.MethodPost, "/_accounting/remove", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer answer.Close() // the body was only read
	out = new(Removed)
	return out, json.NewDecoder(answer).Decode(out)
}
