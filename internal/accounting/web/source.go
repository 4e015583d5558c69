package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// Source has the jobs of pages that are not about the store's.
type Source interface {
	// Ask answers a question. It returns a [question.AbsentError] for a column that no job has.
	Ask(ctx context.Context, q question.Question) (*question.Answer, error)
	// Jobs returns a page's jobs, at most as many as it asks for.
	Jobs(ctx context.Context, p question.Page) ([]question.Job, error)
	// Job returns a job by its ID, and nil if there is none.
	Job(ctx context.Context, id string) (*question.Job, error)
}

// unsource makes the errors of a source those of this server.
func unsource(err error) error {
	var absent *question.AbsentError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &absent):
		return bad(err)
	}
	return &statusError{http.StatusBadGateway, err}
}

// askSource is ask of a panel about a source's jobs.
func (v *server) askSource(ctx context.Context, p *panel, r *request, s *sizes) (*table, error) {
	if p.name == "table" {
		return v.tableOf(ctx, p, r, s)
	}
	var answers [][][]any
	var notes []string
	view := question.View{Chosen: r.chosen, From: r.from, Until: r.until, Whole: r.whole, Edges: r.buckets().edges, Zone: r.zone}
	for _, q := range question.Panels[p.name].Questions(view) {
		a, err := v.jobs.Ask(ctx, q)
		var absent *question.AbsentError
		if errors.As(err, &absent) {
			return &table{Columns: []column{{"none", "not available", "", word}}, notes: []string{"This cannot be shown. " + absent.Error() + "."}, absent: true}, nil
		}
		if err != nil {
			return nil, unsource(err)
		}
		answers, notes = append(answers, a.Rows), append(notes, a.Notes...)
	}
	raw := answers[0]
	if convert := question.Panels[p.name].Rows; convert != nil {
		raw = convert(view, answers)
	}
	t := p.shape(r, s, raw)
	if p.name == "week" {
		for i := range t.links {
			t.links[i] = r.url(func(url.Values) {}) // no source filters by hours of a week
		}
	}
	slices.Sort(notes)
	t.notes = append(t.notes, slices.Compact(notes)...)
	return t, nil
}

// tableOf returns the table of jobs of a source. The jobs go into a store in memory, so that a column
// means the same as in the store on disk.
func (v *server) tableOf(ctx context.Context, p *panel, r *request, s *sizes) (*table, error) {
	jobs, err := v.jobs.Jobs(ctx, question.Page{Where: question.View{Chosen: r.chosen, From: r.from, Until: r.until, Whole: r.whole}.Ended(), Sort: r.sort, Descending: r.descending, From: r.page * r.rows, Most: r.rows + 1})
	if err != nil {
		return nil, unsource(err)
	}
	more := len(jobs) > r.rows
	jobs = jobs[:min(len(jobs), r.rows)]
	var raw [][]any
	err = within(ctx, jobs, func(memory *store.Store) error {
		return memory.Read(ctx, func(snapshot *store.Snapshot) (err error) {
			raw, err = readRows(snapshot, r.list(condition{sql: "true"}, "ORDER BY seq"))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for _, row := range raw {
		row[0] = jobs[row[0].(int64)-1].ID
	}
	t := p.shape(r, s, raw)
	t.more = more
	return t, nil
}

// within calls do with a store in memory that has jobs, numbered from 1.
func within(ctx context.Context, jobs []question.Job, do func(s *store.Store) error) (err error) {
	s, err := store.Open(ctx, "", store.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var entries []store.Entry
	for i, job := range jobs {
		read := document.Parse(job.Document, job.Cluster)
		entries = append(entries, store.Entry{Seq: int64(i) + 1, Arrived: read.End, Source: store.Received, Document: job.Document, Job: read})
	}
	if len(entries) == 0 {
		return do(s)
	}
	if _, err := s.Apply(ctx, entries); err != nil {
		return fmt.Errorf("reading the jobs of the cluster: %w", err)
	}
	return do(s)
}

// sizesOf returns the clusters of a source. The store knows the sizes of some.
func (v *server) sizesOf(ctx context.Context, now time.Time) (*sizes, error) {
	sane := question.All{
		question.Compare{Column: "end_time", Op: ">=", Value: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
		question.Compare{Column: "end_time", Op: "<=", Value: now.Add(24 * time.Hour)},
	}
	a, err := v.jobs.Ask(ctx, question.Question{Where: question.All{}, By: []question.Key{question.Values{Column: "cluster", Most: 1000}},
		Measures: []question.Measure{{Kind: question.Count}, {Kind: question.Least, Column: "end_time", Where: sane}, {Kind: question.Most, Column: "end_time", Where: sane}}})
	if err != nil {
		return nil, unsource(err)
	}
	found := &sizes{list: []size{}}
	for _, row := range a.Rows {
		one := size{Name: row[0].(string), Jobs: row[1].(int64)}
		if row[2] != nil && row[3] != nil {
			one.Oldest, one.Newest = time.UnixMilli(int64(value(row[2]))).UTC(), time.UnixMilli(int64(value(row[3]))).UTC()
		}
		found.list = append(found.list, one)
	}
	slices.SortFunc(found.list, func(a, b size) int { return cmp.Compare(a.Name, b.Name) })
	return found, v.store.Read(ctx, func(snapshot *store.Snapshot) error {
		for i := range found.list {
			c := &found.list[i]
			raw, err := readRows(snapshot, condition{"SELECT kind, nodes, cpus, gpus FROM clusters WHERE cluster = ?", []any{c.Name}})
			if err != nil || len(raw) == 0 {
				return err
			}
			c.Kind, _ = raw[0][0].(string)
			for k, to := range []**int64{&c.Nodes, &c.CPUs, &c.GPUs} {
				if n, ok := raw[0][k+1].(int64); ok {
					*to = &n
				}
			}
		}
		return nil
	})
}
