package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"rmreplay/internal/accounting/store"
)

// Info describes the contents of a data directory.
func (Service) Info(ctx context.Context, dir string) (info *Info, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if c.own { // otherwise only the first jobs of the journal would be in the tables
		settling, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		_, _ = c.wait(settling) // if this fails, the response lists the documents that are not in the tables, and the reason
	}
	info = new(Info)
	return info, c.get(ctx, "/_accounting/info", info)
}

// info responds with the contents of the data directory.
func (s *site) info(w http.ResponseWriter, _ *http.Request) {
	status := s.intake.Status() // read before the summary, so that the summary has all applied documents
	summary := s.intake.Store().Summary()
	info := Info{
		Jobs: summary.Jobs, Clusters: summary.Clusters, Sources: summary.Sources, Counts: summary.Counts,
		Received: status.Received, Applied: status.Applied, JournalBytes: status.Journal, DatabaseBytes: summary.Bytes,
		SchemaVersion: store.Format, PID: os.Getpid(), Doubts: map[string]string{},
	}
	view := s.intake.Store().View()
	defer view.Close()
	for _, c := range view.Clusters() {
		if c.Doubt != "" {
			info.Doubts[c.Name] = c.Doubt
		}
	}
	if !summary.FirstEnd.IsZero() {
		info.FirstEnd, info.LastEnd = &summary.FirstEnd, &summary.LastEnd
	}
	if status.Fault != nil {
		info.Fault = status.Fault.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(info) // an error means that the client has disconnected
}
