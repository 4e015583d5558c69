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

// View is a reader's view of one state of the store; later writes do not change it. Its methods need no engine.
type View struct {
	s  *Store
	st *state
}

// View returns a view of the current state. The caller must close it.
func (s *Store) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.refs++
	return &View{s, s.now}
}

// Close releases the state, so that its files can be deleted.
func (v *View) Close() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.st.refs--; v.st.refs == 0 && v.st != v.s.now {
		v.s.drop(v.st)
	}
}

// Applied returns the number of the last arrival in the view.
func (v *View) Applied() int64 { return v.st.applied }

// Content identifies the set of jobs in a state: states with different jobs have different contents.
type Content struct{ applied, removed int64 }

// Content returns the [Content] of the view's state.
func (v *View) Content() Content { return Content{v.st.applied, v.st.removed} }

// Counts returns the number of events, by the name of a rule of package document or of a Count constant.
func (v *View) Counts() map[string]int64 { return maps.Clone(v.st.counts) }

// Clusters returns the descriptions of clusters and runs.
func (v *View) Clusters() []Cluster { return slices.Clone(v.st.clusters) }

// HasHealth reports whether the store has figures of schedulers.
func (v *View) HasHealth() bool { return len(v.st.health) > 0 }

// Document returns the unchanged document of an arrival. ok is false if the view does not have it.
func (v *View) Document(seq int64) (text []byte, ok bool, err error) {
	err = v.Documents([]int64{seq}, func(_ int64, document []byte) error {
		text, ok = slices.Clone(document), true
		return nil
	})
	return text, ok, err
}

// Documents calls the function do with the documents of arrivals, in the order of their numbers. It skips arrivals that
// the view does not have. The function do must not keep the document's bytes.
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

// documents calls the function do with the documents of the rows with the given numbers, which must ascend.
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

// rowsOf calls the function do with the values of columns, as texts, for the rows with the given numbers.
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

// Snapshot is the argument of the function that [Store.Read] calls: a view, and an engine to query it.
type Snapshot struct {
	*View
	q *engine.Questioner
}

// Query runs a query. The caller closes the rows. Values must be passed in args, not inside the query.
func (v *Snapshot) Query(query string, args ...any) (*sql.Rows, error) {
	return v.q.Query(query, args...)
}

// Scan runs a query that returns one row, and scans this row. The parameter to has pointers to the
// variables for the columns.
func (v *Snapshot) Scan(text string, args []any, to ...any) error { return v.q.Scan(text, args, to...) }

// All runs a query and returns its rows, with the values as DuckDB's driver returns them.
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

// Read calls the function do with a snapshot of the store and a separate engine. After [Options.ReadTime] the read
// fails with an error that wraps [engine.ErrTime]. Queries can neither write nor open other files. The function do may
// be called a second time: Read restarts a long read on an engine for long reads, where it does not delay other reads.
func (s *Store) Read(ctx context.Context, do func(v *Snapshot) error) error {
	v := s.View()
	defer v.Close()
	return v.Ask(ctx, do)
}

// Ask is like [Store.Read], but on the state of this view.
func (v *View) Ask(ctx context.Context, do func(v *Snapshot) error) error {
	return v.s.pool.Read(ctx, v.st.tables(), func(q *engine.Questioner) error { return do(&Snapshot{v, q}) })
}

// Filter chooses jobs. The zero value chooses all jobs.
type Filter struct {
	// From and To choose the jobs that were pending or running at some time in this interval: submitted before To,
	// and not ended before From. A zero time is no bound.
	From, To time.Time
	// EndedFrom and EndedTo choose the jobs that ended in this interval, EndedTo excluded. A zero time is no bound.
	EndedFrom, EndedTo time.Time
	Clusters           []string // empty for all clusters
	Users              []string // names; empty for all users
	After              int64    // only arrivals with a higher number
	Through            int64    // only arrivals with this number or a lower one; 0 for all
	// Where is a condition in SQL on the columns of jobs. It needs an engine. It must not come from untrusted users,
	// because it can read everything in the store.
	Where string
}

// chosenColumns are the columns that a [Filter] without Where needs.
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

// choose returns the rows of a part that a filter chooses, and their positions in the part.
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

// where returns the numbers of the rows that match f.Where; nil if the filter has no Where.
func (v *View) where(ctx context.Context, p *part, f *Filter) (found map[int64]bool, err error) {
	if f.Where == "" {
		return nil, nil
	}
	err = v.Ask(ctx, func(snapshot *Snapshot) error {
		found = make(map[int64]bool)
		// The newline before ")" ends a comment in the condition.
		rows, err := snapshot.All(fmt.Sprintf("SELECT seq FROM jobs WHERE seq BETWEEN %d AND %d AND (\n%s\n)", p.info.First, p.info.Last, f.Where))
		for _, row := range rows {
			found[row[0].(int64)] = true
		}
		return err
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
		j.submit = columnar.Some(v.Int64())
	case "start_time":
		j.start = columnar.Some(v.Int64())
	case "end_time":
		j.end = columnar.Some(v.Int64())
	}
}

// Stored is a document in the store.
type Stored struct {
	Seq      int64
	Arrived  time.Time
	Source   Source
	Index    string // name of the index that Slurm sent the document to; "" if unknown
	Cluster  string
	Document []byte
}

// Entry returns the entry from which the document was stored. The entry has its own copy of the bytes.
func (d *Stored) Entry() Entry {
	return ParseArrival(d.Seq, d.Arrived, d.Source, d.Index, d.Cluster, slices.Clone(d.Document))
}

// Each calls the function do with the documents of the jobs that a filter chooses, in the order of arrival. That
// function must not keep the document's bytes.
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
