package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/engine"
)

// View is one state of the store, whatever is written meanwhile. Its methods do not need an engine.
type View struct {
	s  *Store
	st *state
}

// View returns the store as it is now. The caller closes it.
func (s *Store) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.refs++
	return &View{s, s.now}
}

// Close lets go of the state.
func (v *View) Close() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.st.refs--; v.st.refs == 0 && v.st != v.s.now {
		v.s.drop(v.st)
	}
}

// Applied returns the number of the last arrival that the state knows of.
func (v *View) Applied() int64 { return v.st.applied }

// Content differs between states that have different jobs.
type Content struct{ applied, removed int64 }

// Content returns the [Content] of the view's state.
func (v *View) Content() Content { return Content{v.st.applied, v.st.removed} }

// Counts returns how often something happened, by the name of a rule of package document, or by a Count constant.
func (v *View) Counts() map[string]int64 { return maps.Clone(v.st.counts) }

// Clusters returns what is known of clusters and runs beside their jobs.
func (v *View) Clusters() []Cluster { return slices.Clone(v.st.clusters) }

// HasHealth reports whether the store has figures of schedulers.
func (v *View) HasHealth() bool { return len(v.st.health) > 0 }

// Document returns the document of an arrival as it came, and false if there is none.
func (v *View) Document(seq int64) (text []byte, ok bool, err error) {
	err = v.Documents([]int64{seq}, func(_ int64, document []byte) error {
		text, ok = slices.Clone(document), true
		return nil
	})
	return text, ok, err
}

// Documents calls do with the documents of arrivals, in the order of their numbers. Those that are not there are left
// out. do must not keep the document's bytes.
func (v *View) Documents(seqs []int64, do func(seq int64, document []byte) error) error {
	seqs = slices.Clone(seqs)
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	seqs = slices.DeleteFunc(seqs, v.st.isGone)
	for _, p := range v.st.all() {
		from, _ := slices.BinarySearch(seqs, p.info.First)
		to, _ := slices.BinarySearch(seqs, p.info.Last+1)
		if from < to {
			if err := p.documents(seqs[from:to], do); err != nil {
				return fmt.Errorf("reading documents: %w", err)
			}
		}
	}
	return nil
}

// documents calls do with the documents of rows, by their numbers, which ascend.
func (p *part) documents(seqs []int64, do func(seq int64, document []byte) error) error {
	found, rows, err := p.find(seqs)
	if err != nil {
		return err
	}
	r, err := p.reader()
	if err != nil {
		return err
	}
	return r.Values(documentColumn, rows, func(i int, v parquet.Value) error { return do(found[i], v.ByteArray()) })
}

// find returns which of the given numbers the part has, and the positions of their rows.
func (p *part) find(seqs []int64) (found, rows []int64, err error) {
	if p.info.Last-p.info.First+1 == p.info.Rows {
		for _, seq := range seqs {
			found, rows = append(found, seq), append(rows, seq-p.info.First)
		}
		return found, rows, nil
	}
	all, err := p.seqs()
	if err != nil {
		return nil, nil, err
	}
	for _, seq := range seqs {
		if at, ok := slices.BinarySearch(all, seq); ok {
			found, rows = append(found, seq), append(rows, int64(at))
		}
	}
	return found, rows, nil
}

// seqs returns the numbers of the part's rows.
func (p *part) seqs() ([]int64, error) {
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	all := make([]int64, 0, r.Rows())
	err = r.Each(jobLayout.Index("seq"), 0, func(values []parquet.Value) (bool, error) {
		for _, v := range values {
			all = append(all, v.Int64())
		}
		return true, nil
	})
	return all, err
}

// rowsOf calls do with the texts of columns of rows, by their numbers.
func (p *part) rowsOf(seqs []int64, columns []string, do func(values []string)) error {
	_, rows, err := p.find(seqs)
	if err != nil {
		return err
	}
	r, err := p.reader()
	if err != nil {
		return err
	}
	texts := make([][]string, len(rows))
	for _, name := range columns {
		err := r.Values(jobLayout.Index(name), rows, func(i int, v parquet.Value) error {
			texts[i] = append(texts[i], string(v.ByteArray()))
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, values := range texts {
		do(values)
	}
	return nil
}

// Snapshot is what a [Store.Read] sees: a view, and an engine that answers questions about it.
type Snapshot struct {
	*View
	q *engine.Questioner
}

// Query runs a query. The caller closes the rows. Values go into args, never into the query's text.
func (v *Snapshot) Query(query string, args ...any) (*sql.Rows, error) {
	return v.q.Query(query, args...)
}

// One runs a query of one row and scans it into the variables that to points to.
func (v *Snapshot) One(query string, args []any, to ...any) error { return v.q.One(query, args, to...) }

// All runs a query and returns its rows, with the values as the driver of DuckDB returns them.
func (v *Snapshot) All(query string, args ...any) (list [][]any, err error) {
	rows, err := v.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, to := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// Read calls do with a snapshot of the store, and with an engine of its own. A read ends with an error that wraps
// [engine.ErrTime] after [Options.ReadTime]. The queries can neither write nor reach files of others. do may be
// called again: a read that takes long begins again on an engine for long reads, so that it does not disturb others.
func (s *Store) Read(ctx context.Context, do func(v *Snapshot) error) error {
	v := s.View()
	defer v.Close()
	return v.Ask(ctx, do)
}

// Ask is [Store.Read] of a view.
func (v *View) Ask(ctx context.Context, do func(v *Snapshot) error) error {
	return v.s.pool.Read(ctx, v.st.tables(), func(q *engine.Questioner) error { return do(&Snapshot{v, q}) })
}

// Filter chooses jobs. Its zero value chooses all.
type Filter struct {
	// From and To choose the jobs that were in the cluster at a time between them: submitted before
	// To, and not ended before From. Zero times bound nothing.
	From, To time.Time
	// EndedFrom and EndedTo choose the jobs that ended between them, EndedTo excluded.
	EndedFrom, EndedTo time.Time
	Clusters           []string // any of them
	Users              []string // any of these names
	After              int64    // only arrivals behind this one
	Through            int64    // only arrivals up to this one; 0 for all
	// Where is a condition in SQL over the columns of jobs. It needs an engine. It must not be a text
	// of strangers, because it can read everything in the store.
	Where string
}

// chosenColumns are the columns that a [Filter] looks at, beside Where.
var chosenColumns = []string{"seq", "arrived", "source", "collection", "cluster", "user_name", "submit_time", "start_time",
	"end_time"}

// chosenRow has the values of chosenColumns.
type chosenRow struct {
	seq, arrived           int64
	source, index, cluster string
	user                   string
	submit, start, end     columnar.Optional
}

// has reports whether the filter chooses a job.
func (f *Filter) has(j *chosenRow) bool {
	first := func(list ...columnar.Optional) columnar.Optional {
		return list[max(0, slices.IndexFunc(list, func(o columnar.Optional) bool { return o.OK }))]
	}
	before := func(o columnar.Optional, t time.Time) bool { return o.OK && o.N < t.UnixMicro() }
	from := func(o columnar.Optional, t time.Time) bool { return o.OK && o.N >= t.UnixMicro() }
	return j.seq > f.After && (f.Through == 0 || j.seq <= f.Through) &&
		(f.To.IsZero() || before(first(j.submit, j.start, j.end), f.To)) && (f.From.IsZero() || from(first(j.end, j.start, j.submit), f.From)) &&
		(f.EndedFrom.IsZero() || from(j.end, f.EndedFrom)) && (f.EndedTo.IsZero() || before(j.end, f.EndedTo)) &&
		(len(f.Clusters) == 0 || slices.Contains(f.Clusters, j.cluster)) &&
		(len(f.Users) == 0 || slices.Contains(f.Users, j.user))
}

// choose returns the rows of a part that a filter chooses, and their positions.
func (v *View) choose(ctx context.Context, p *part, f *Filter) (chosen []chosenRow, rows []int64, err error) {
	if p.info.Last <= f.After {
		return nil, nil, nil
	}
	all, err := p.chosenRows()
	if err != nil {
		return nil, nil, err
	}
	where, err := v.where(ctx, p, f)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if j := &all[i]; !v.st.isGone(j.seq) && (where == nil || where[j.seq]) && f.has(j) {
			chosen, rows = append(chosen, *j), append(rows, int64(i))
		}
	}
	return chosen, rows, nil
}

// where returns the rows for which the filter's condition holds; nil without one.
func (v *View) where(ctx context.Context, p *part, f *Filter) (found map[int64]bool, err error) {
	if f.Where == "" {
		return nil, nil
	}
	err = v.Ask(ctx, func(snapshot *Snapshot) (err error) {
		found = make(map[int64]bool)
		// A comment in the condition ends with its line.
		rows, err := snapshot.Query(fmt.Sprintf("SELECT seq FROM jobs WHERE seq BETWEEN %d AND %d AND (\n%s\n)", p.info.First, p.info.Last, f.Where))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var seq int64
			if err := rows.Scan(&seq); err != nil {
				return err
			}
			found[seq] = true
		}
		return rows.Err()
	})
	return found, err
}

func (p *part) chosenRows() ([]chosenRow, error) {
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	all := make([]chosenRow, r.Rows())
	for _, name := range chosenColumns {
		at := 0
		err := r.Each(jobLayout.Index(name), 0, func(values []parquet.Value) (bool, error) {
			for i := range values {
				all[at].set(name, &values[i])
				at++
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (j *chosenRow) set(column string, v *parquet.Value) {
	if v.IsNull() {
		return
	}
	switch column {
	case "seq":
		j.seq = v.Int64()
	case "arrived":
		j.arrived = v.Int64()
	case "collection":
		j.index = string(v.ByteArray())
	case "source":
		j.source = string(v.ByteArray())
	case "cluster":
		j.cluster = string(v.ByteArray())
	case "user_name":
		j.user = string(v.ByteArray())
	case "submit_time":
		j.submit = columnar.Known(v.Int64())
	case "start_time":
		j.start = columnar.Known(v.Int64())
	case "end_time":
		j.end = columnar.Known(v.Int64())
	}
}

// Stored is a document of the store.
type Stored struct {
	Seq      int64
	Arrived  time.Time
	Source   Source
	Index    string // name of the index that it was sent to; "" if that is not known
	Cluster  string
	Document []byte
}

// Entry returns the entry that the document was, with its own bytes.
func (d *Stored) Entry() Entry {
	return ParseArrival(d.Seq, d.Arrived, d.Source, d.Index, d.Cluster, slices.Clone(d.Document))
}

// Each calls do with the documents of the jobs that a filter chooses, in the order of their arrival. do must not keep
// the document's bytes.
func (v *View) Each(ctx context.Context, f Filter, do func(d *Stored) error) error {
	if v.s.isClosed() {
		return errors.New("reading jobs: the store is closed")
	}
	for _, p := range v.st.all() {
		chosen, rows, err := v.choose(ctx, p, &f)
		if err != nil {
			return fmt.Errorf("reading jobs: %w", err)
		}
		if len(rows) == 0 {
			continue
		}
		r, err := p.reader()
		if err != nil {
			return fmt.Errorf("reading jobs: %w", err)
		}
		err = r.Values(documentColumn, rows, func(i int, value parquet.Value) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			j := &chosen[i]
			return do(&Stored{j.seq, time.UnixMicro(j.arrived).UTC(), Source(j.source), j.index, j.cluster, value.ByteArray()})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
