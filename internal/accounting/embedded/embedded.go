// Package embedded answers questions about finished jobs from the store. It compiles each question
// to an SQL statement over the table of jobs ([plan.overJobs]), or over a rollup if possible.
//
// A rollup is a table of sums over the jobs of whole days; its rows are called cells. A statement can use a rollup if
// the rollup has columns ([cells]) for all keys and measures of the question. It reads the cells of the whole days in
// the range of time, and jobs for the rest of the range ([plan.overCells], [span.split]).
package embedded

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/quantity"
)

// Source answers questions from a store.
type Source struct {
	store *store.Store
	kept  kept
}

// New returns the source of a store.
func New(s *store.Store) *Source { return &Source{store: s} }

// Ask answers questions. All answers describe the same state of the store.
func (s *Source) Ask(ctx context.Context, questions ...question.Question) ([]question.Answer, error) {
	v := s.store.View()
	defer v.Close()
	answers, content := make([]question.Answer, len(questions)), v.Content()
	missing := make(map[int]*plan)
	statements := make([]part, len(questions))
	for i, q := range questions {
		p, err := newPlan(q)
		if err != nil {
			return nil, err
		}
		if statements[i], err = p.overJobs(); err != nil {
			return nil, err
		}
		if rows, ok := s.kept.get(content, statements[i].key()); ok {
			answers[i] = p.answer(rows)
		} else {
			missing[i] = p
		}
	}
	if len(missing) == 0 {
		return answers, nil
	}
	err := v.Ask(ctx, func(v *store.Snapshot) error {
		for i, p := range missing {
			statement := statements[i]
			if cells, ok := p.overCells(); ok {
				statement = cells
			}
			rows, err := read(v, statement)
			if err != nil {
				return err
			}
			s.kept.put(content, statements[i].key(), rows)
			answers[i] = p.answer(rows)
		}
		return nil
	})
	return answers, err
}

// answer converts the rows of the statement into an answer.
func (p *plan) answer(rows [][]any) (a question.Answer) {
	wide := len(p.buckets) + len(p.Measures)
	var inside [][]any
	for _, row := range rows {
		outer := slices.IndexFunc(p.buckets, func(b *bucket) bool {
			n, ok := row[slices.Index(p.buckets, b)].(int64)
			return b.end > 0 && (!ok || n < b.low || n >= b.end)
		})
		switch {
		case outer < 0:
			inside = append(inside, row)
		case outer == 0 && p.Counted():
			jobs, _ := row[wide].(int64)
			a.Outside += jobs
		}
	}
	var names []string
	for _, b := range p.buckets {
		if b.values != nil && !b.values.First {
			names = append(names, b.values.Column)
		}
	}
	left := int64(0)
	if p.texts() {
		inside, left = p.choose(inside, 0)
	}
	for _, row := range inside {
		a.Rows = append(a.Rows, row[:wide])
	}
	switch {
	case len(names) > 0 && len(rows) > maxGroups:
		a.Notes = []string{fmt.Sprintf("There are so many values of %s that jobs with rare values are left out.",
			strings.Join(names, " or "))}
	case len(names) > 0 && left > 0:
		a.Notes = []string{fmt.Sprintf("%s with other values of %s left out.",
			quantity.Counted(int(left), "job is", "jobs are"), strings.Join(names, " or "))}
	}
	return a
}

// texts reports whether the question has a [question.Values].
func (p *plan) texts() bool {
	return slices.ContainsFunc(p.buckets, func(b *bucket) bool { return b.values != nil })
}

// read returns the rows of a statement.
func read(v *store.Snapshot, p part) ([][]any, error) { return v.All(p.text, p.args...) }

// maxFirstRows is the largest number of requested rows for which [Source.Jobs] first searches only the
// end of the range of time.
const maxFirstRows = 1000

// Jobs returns the jobs of a page. A job's ID is the number of its arrival.
func (s *Source) Jobs(ctx context.Context, page question.Page) (jobs []question.Job, err error) {
	p, err := newPlan(question.Question{Where: page.Where, Clock: page.Clock})
	if err != nil {
		return nil, err
	}
	err = s.store.Read(ctx, func(v *store.Snapshot) error {
		whole := p.span
		if rows := page.From + page.Most; page.Sort == "end_time" && page.Descending && rows <= maxFirstRows &&
			!whole.from.IsZero() && !whole.until.IsZero() {
			p.span.from = whole.until.Add(-whole.until.Sub(whole.from) / 30) // this part of the range probably has enough jobs
			if jobs, err = p.jobs(v, page); err != nil || len(jobs) == page.Most {
				return err
			}
			p.span = whole
		}
		jobs, err = p.jobs(v, page)
		return err
	})
	return jobs, err
}

// jobs runs the statement of a page.
func (p *plan) jobs(v *store.Snapshot, page question.Page) (jobs []question.Job, err error) {
	order, err := p.columns.column(page.Sort)
	if err != nil {
		return nil, err
	}
	direction := map[bool]string{true: "DESC", false: "ASC"}[page.Descending]
	list, shown := []string{"seq AS c"}, []string{"c"}
	for i, name := range page.Columns {
		sql, err := p.columns.column(name)
		if err != nil {
			return nil, err
		}
		own := fmt.Sprintf("c%d", i)
		list = append(list, sql+" AS "+own)
		if question.Fields[name].Type == question.Text {
			own = cut(own)
		}
		shown = append(shown, own)
	}
	where, err := p.where()
	if err != nil {
		return nil, err
	}
	chosen := join(where, " AND ", "true")
	// The outer statement cuts texts, so only the texts of the page's jobs are cut. DuckDB keeps the
	// order of the inner statement (preserve_insertion_order).
	text := fmt.Sprintf("SELECT %s FROM jobs WHERE %s ORDER BY %s %s NULLS LAST, seq %[4]s LIMIT %d OFFSET %d",
		strings.Join(list, ", "), chosen.text, order, direction, page.Most, page.From)
	rows, err := read(v, part{"SELECT " + strings.Join(shown, ", ") + " FROM (" + text + ")", chosen.args})
	for _, row := range rows {
		jobs = append(jobs, question.Job{ID: fmt.Sprint(row[0]), Values: row[1:]})
	}
	return jobs, err
}

// cut returns SQL that does the same as [question.Cut].
func cut(text string) string {
	return fmt.Sprintf("CASE WHEN length(%s) > %d THEN left(%[1]s, %[2]d) || '…' ELSE %[1]s END",
		text, question.LongestText)
}

// Job returns the job with an ID and the store's columns; nil if the store does not have the job.
func (s *Source) Job(ctx context.Context, id string) (job *question.Job, err error) {
	seq, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return nil, &question.AbsentError{Column: id, Why: "not a number of a job's arrival"}
	}
	p, err := newPlan(question.Question{Where: question.Compare{Column: "seq", Op: "=", Value: float64(seq)}})
	if err != nil {
		return nil, err
	}
	err = s.store.Read(ctx, func(v *store.Snapshot) error {
		jobs, err := p.jobs(v, question.Page{Columns: question.Columns, Sort: "seq", Most: 1})
		if err != nil || len(jobs) == 0 {
			return err
		}
		job = &jobs[0]
		job.Document, _, err = v.Document(seq)
		return err
	})
	return job, err
}
