package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

const (
	// window is the highest number of hits without search_after (index.max_result_window).
	window = 10_000
	// chunk is the number of documents, without the jobs' scripts, in the response to one request.
	chunk = 5000
)

// Jobs returns the jobs of a page.
func (c *Cluster) Jobs(ctx context.Context, p question.Page) ([]question.Job, error) {
	list, err := c.list(ctx, p)
	if err != nil {
		return nil, remote(err)
	}
	return shown(list, p), nil
}

// shown sets Values of the jobs to the columns of a page, as the store defines these columns. If several documents
// describe the same run, only the last document remains, in the place of the first.
func shown(jobs []question.Job, p question.Page) (list []question.Job) {
	at := make(map[string]int)
	for _, job := range jobs {
		read := document.Parse(job.Document, job.Cluster)
		e := store.Entry{Arrived: read.End, Source: store.Received, Document: job.Document, Job: read}
		job.Values = nil
		row := store.Row(&e)
		for _, name := range p.Columns {
			job.Values = append(job.Values, valueOf(&e, row, name, p.Clock))
		}
		id := store.ID(&read)
		if n, ok := at[id]; ok {
			list[n] = job
			continue
		}
		at[id] = len(list)
		list = append(list, job)
	}
	return list
}

// valueOf returns the value of a field of a document.
func valueOf(e *store.Entry, row []any, name string, clock question.Clock) any {
	j := &e.Job
	switch {
	case name == "id":
		return question.Cut(store.ID(j))
	case name == "limit_used":
		if used, ok := j.LimitUsed(); ok {
			return used
		}
	case name == "hour" && !j.Submit.IsZero():
		return clock.WeekHour(j.Submit) % 24
	case name == "weekday" && !j.Submit.IsZero():
		return (clock.WeekHour(j.Submit)/24 + 1) % 7 // clock's weeks begin on Monday
	}
	if i := slices.Index(question.Columns, name); i >= 0 {
		if text, ok := row[i].(string); ok {
			return question.Cut(text)
		}
		return row[i]
	}
	return nil
}

// list returns the documents of a page, without the jobs' scripts. If the page is sorted by a
// column of [ifRan], jobs that never ran come last, even if Slurm's documents of these jobs have a
// value in the column.
func (c *Cluster) list(ctx context.Context, p question.Page) ([]question.Job, error) {
	if !ifRan[p.Sort] {
		jobs, _, err := c.listed(ctx, p)
		return jobs, err
	}
	started := question.Known{Column: "start_time"}
	where := p.Where
	p.Where = question.All{where, started}
	jobs, total, err := c.listed(ctx, p)
	if err != nil || len(jobs) == p.Most {
		return jobs, err
	}
	p.Where, p.Sort = question.All{where, question.Not{Of: started}}, "jobid"
	p.From, p.Most = max(0, p.From-total), p.Most-len(jobs)
	others, _, err := c.listed(ctx, p)
	return append(jobs, others...), err
}

// listed returns the documents of a page, without the jobs' scripts, and the number of jobs that
// match p.Where.
func (c *Cluster) listed(ctx context.Context, p question.Page) (jobs []question.Job, total int, err error) {
	if p.From+min(p.Most, chunk) > window {
		return nil, 0, fmt.Errorf("the Elasticsearch cluster returns only the first %d jobs of a list (want filters, or "+
			"another order)", window)
	}
	known, err := c.known(ctx)
	if err != nil {
		return nil, 0, err
	}
	where, err := known.filter(p.Where)
	if err != nil {
		return nil, 0, err
	}
	order, err := known.order(p)
	if err != nil {
		return nil, 0, err
	}
	var after []any
	for len(jobs) < p.Most {
		body := object{
			"size": min(chunk, p.Most-len(jobs)), "query": where, "sort": order, "track_total_hits": ifRan[p.Sort],
			"_source": object{"excludes": []string{"script"}},
		}
		if after != nil {
			body["search_after"] = after
		} else {
			body["from"] = p.From
		}
		f, err := c.search(ctx, body)
		if err != nil {
			return nil, 0, err
		}
		total = int(f.Hits.Total.Value)
		for _, h := range f.Hits.Hits {
			job, err := h.job()
			if err != nil {
				return nil, 0, err
			}
			jobs, after = append(jobs, *job), h.Sort
		}
		if len(f.Hits.Hits) < body["size"].(int) {
			break
		}
	}
	return jobs, total, nil
}

// order returns the order of a page. Jobs with equal values in the page's column are sorted by
// number and times; otherwise search_after could skip a job. If the cluster has two documents of a
// job, search_after may skip one of them.
func (f *fields) order(p question.Page) (list []object, err error) {
	direction := map[bool]string{true: "desc", false: "asc"}[p.Descending]
	for i, column := range []string{p.Sort, "jobid", "submit_time", "start_time", "end_time"} {
		field, err := f.of(column)
		if err != nil {
			if i > 0 {
				continue
			}
			return nil, err
		}
		if field.name != "" && (i == 0 || column != p.Sort) {
			by := object{"order": direction, "missing": "_last"}
			if field.kind != "" {
				// Without unmapped_type, sorting fails in indices that lack the field.
				by["unmapped_type"] = field.kind
			}
			list = append(list, object{field.name: by})
		}
	}
	if len(list) == 0 {
		list = []object{{"_doc": object{}}}
	}
	return list, nil
}

// Job returns a job's document from the cluster's indices, by the ID in [question.Job]. It returns
// nil if no document has this ID.
func (c *Cluster) Job(ctx context.Context, id string) (*question.Job, error) {
	index, own, ok := strings.Cut(id, "/")
	if !ok {
		return nil, nil
	}
	where := []object{{"ids": object{"values": []string{own}}}, {"term": object{"_index": object{"value": index}}}}
	f, err := c.search(ctx, object{"size": 1, "query": object{"bool": object{"filter": where}}})
	if err != nil || len(f.Hits.Hits) == 0 {
		return nil, remote(err)
	}
	job, err := f.Hits.Hits[0].job()
	if err != nil {
		return nil, remote(err)
	}
	return &shown([]question.Job{*job}, question.Page{Columns: question.Columns})[0], nil
}

// job converts a hit to a job with the document that Slurm or a record wrote.
func (h *hit) job() (*question.Job, error) {
	job := &question.Job{ID: h.Index + "/" + h.ID, Cluster: h.Index, Document: h.Source}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(h.Source, &members); err != nil {
		return nil, fmt.Errorf("the Elasticsearch cluster's document %s: %w", job.ID, err)
	}
	text, ok := members[forward.Member]
	if !ok {
		return job, nil
	}
	var own struct {
		Cluster string `json:"cluster"`
	}
	if json.Unmarshal(text, &own) == nil && own.Cluster != "" {
		job.Cluster = own.Cluster
	}
	delete(members, forward.Member)
	var err error
	job.Document, err = json.Marshal(members)
	return job, err
}
