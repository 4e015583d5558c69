package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/cli/accountingcmd"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/build"
)

const (
	batchDocuments = 5000     // in a bulk request
	batchBytes     = 16 << 20 // after which one is sent
)

// sender sends documents to the server in bulk requests.
type sender struct {
	ctx    context.Context
	c      *client
	source store.Source
	body   bytes.Buffer
	n      int // documents in the body
	all    int
}

func (s *sender) add(text []byte) error {
	s.body.WriteString("{\"index\":{}}\n")
	s.body.Write(text) // as JSON it has no line break
	s.body.WriteByte('\n')
	s.n++
	s.all++
	if s.n == batchDocuments || s.body.Len() > batchBytes {
		return s.flush()
	}
	return nil
}

func (s *sender) flush() error {
	if s.n == 0 {
		return nil
	}
	answer, err := s.c.stream(s.ctx, http.MethodPost, "/records/_bulk", &s.body, receive.SourceHeader, string(s.source))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer) // all of a request is kept, or none
	s.n = 0
	s.body.Reset()
	return errors.Join(err, answer.Close())
}

// wait waits until the store has all that was sent.
func (c *client) wait(ctx context.Context) (outcome store.Outcome, err error) {
	return outcome, c.get(ctx, "/_accounting/wait", &outcome)
}

// wait answers when the store has everything that was received until now.
func (s *site) wait(w http.ResponseWriter, r *http.Request) {
	if err := s.intake.Wait(r.Context(), s.intake.Status().Received); err != nil {
		receive.Fail(w, http.StatusServiceUnavailable, "store_exception", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.intake.Status().Outcome) // a client that has gone does not need it
}

// Import adds records to a data directory.
func (Service) Import(ctx context.Context, dir string, from accountingcmd.Records) (out *accountingcmd.Imported, err error) {
	c, err := connectNew(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	out = &accountingcmd.Imported{Rules: map[string]int{}}
	send := &sender{ctx: ctx, c: c}
	err = read(ctx, from, out.Rules, func(source store.Source, text []byte) error {
		if source != send.source {
			if err := send.flush(); err != nil {
				return err
			}
			send.source = source
		}
		return send.add(text)
	})
	if err == nil {
		err = send.flush()
	}
	if err != nil {
		return nil, err
	}
	after, err := c.wait(ctx)
	out.Records = send.all
	out.Added, out.Duplicate = after.Added-before.Added, after.Duplicate-before.Duplicate
	out.Replaced, out.Kept = after.Replaced-before.Replaced, after.Kept-before.Kept
	return out, err
}

// read calls each with the document of each job of the sources. It adds to the counts of rules.
func read(ctx context.Context, from accountingcmd.Records, rules map[string]int, each func(source store.Source, text []byte) error) error {
	opts := workload.ReadOptions{Cluster: from.ClusterName, Start: from.Start, End: from.End, Zone: from.Zone.Location()}
	opts.Record = func(record any) error {
		text, err := records.Document(record.(*finished.Job), from.ClusterName)
		if err != nil {
			return err
		}
		return each(store.Imported, text)
	}
	var list []string
	for _, source := range from.Sources {
		if from.From == string(build.Auto) && isRun(source) {
			if err := readRun(source, from, each); err != nil {
				return err
			}
			continue
		}
		list = append(list, source)
	}
	if len(list) == 0 {
		return nil
	}
	r, err := build.From(ctx, build.Kind(from.From), list[0], build.Options{Options: slurmdb.Options{ReadOptions: opts, Password: from.Password}, More: list[1:]})
	if err != nil {
		return err
	}
	for name, n := range r.Workload.Rules {
		rules[name] += n
	}
	return nil
}

// isRun reports whether a source is a run, or a workload that has the outcome of its jobs, and not
// accounting records.
func isRun(path string) bool {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		_, err := os.Stat(filepath.Join(path, "manifest.json"))
		return err == nil
	}
	if path == "-" {
		return false
	}
	if _, err := formats.DetectAccounting(path); err == nil {
		return false
	}
	_, err := formats.OpenRun(path)
	return err == nil
}

func readRun(path string, from accountingcmd.Records, each func(source store.Source, text []byte) error) error {
	r, err := formats.OpenRun(path)
	if err != nil {
		return err
	}
	name := from.ClusterName
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(filepath.Clean(path)), filepath.Ext(path))
	}
	rows, err := r.Jobs()
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		if from.End != 0 && row.Submit >= from.End || from.Start != 0 && row.End != 0 && row.End < from.Start {
			continue
		}
		text, err := records.RunDocument(row, name)
		if err != nil {
			return err
		}
		if err := each(store.FromRun, text); err != nil {
			return err
		}
	}
	return nil
}
