package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"rmreplay/internal/accounting/store"
)

// verifying is a line of the response to a request to verify: the progress or, at the end, the
// result.
type verifying struct {
	Done  int             `json:"done"`
	All   int             `json:"all"`
	Found *store.Verified `json:"found,omitempty"`
	Error string          `json:"error,omitempty"`
}

// verify verifies the whole store.
func (s *site) verify(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	view := s.intake.Store().View()
	defer view.Close()
	found, err := view.Verify(r.Context(), func(done, all int) {
		_ = lines.Encode(verifying{Done: done, All: all}) // the context ends when the client disconnects
		_ = http.NewResponseController(w).Flush()
	})
	last := verifying{Found: found}
	if err != nil {
		last.Error = err.Error()
	}
	_ = lines.Encode(last)
}

// Verify verifies a data directory. The function progress is called with the number of parts read
// and of all parts.
func (Service) Verify(ctx context.Context, dir string, progress func(done, all int)) (out *Verified, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		// A damaged store may be impossible to open.
		if problems := store.Damaged(dir); len(problems) > 0 {
			return &Verified{Problems: problems}, nil
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.wait(ctx); err != nil {
		return nil, err
	}
	answer, err := c.stream(ctx, http.MethodPost, "/_accounting/verify", nil)
	if err != nil {
		return nil, err
	}
	defer answer.Close() // the body was only read
	for lines := json.NewDecoder(answer); ; {
		var line verifying
		if err := lines.Decode(&line); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", dir, unexpected(err))
		}
		switch {
		case line.Error != "":
			return nil, errors.New(line.Error)
		case line.Found != nil:
			f := line.Found
			if f.Problems == nil {
				f.Problems = []string{}
			}
			return &Verified{Parts: f.Parts, Jobs: f.Jobs, Bytes: f.Bytes, Problems: f.Problems, Migrated: f.Migrated}, nil
		}
		progress(line.Done, line.All)
	}
}
