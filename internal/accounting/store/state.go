package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/rollup"
)

// file is files that are removed when no state has them any more.
type file struct {
	paths []string
	refs  int // states that have it; guarded by Store.mu
}

// part is a part, durable or fresh.
type part struct {
	file
	info   partInfo
	filter bloom // of a durable one

	mu     sync.Mutex
	opened *columnar.Reader
}

// batch is what a call of [Store.Apply] added: the rows of a fresh part, which are durable in the journal alone.
type batch struct {
	part    *part   // nil without rows
	rows    []keyed // its rows, in their order
	entries []Entry // the rows' entries, as long as more rows may be added; guarded by Store.writing
	held    bool    // no rows may be added any more; guarded by Store.writing
	through int64   // all arrivals up to this one are in this batch or in what is before it
	counts  map[string]int64
}

// state is what the store consists of at an instant. It does not change.
type state struct {
	number   uint64
	parts    []*part // durable ones, in the order of their rows' numbers; fresh ones are behind them
	fresh    []*batch
	gone     []goneRow // ascending
	goneFile *file     // has gone; nil if it is empty
	applied  int64
	removed  int64 // jobs that were removed since the store was opened
	counts   map[string]int64
	clusters []Cluster
	health   []*healthPart

	refs int // views, guarded by Store.mu
	once sync.Once
	made engine.Tables
}

// goneRow is a row that the document by has replaced.
type goneRow struct{ seq, by int64 }

// all returns all parts in the order of their rows' numbers.
func (st *state) all() []*part {
	list := slices.Clone(st.parts)
	for _, b := range st.fresh {
		if b.part != nil {
			list = append(list, b.part)
		}
	}
	return list
}

func (st *state) files() (list []*file) {
	for _, p := range st.all() {
		list = append(list, &p.file)
	}
	for _, h := range st.health {
		list = append(list, &h.file)
	}
	if st.goneFile != nil {
		list = append(list, st.goneFile)
	}
	return list
}

// goneIn returns the rows of a part that are gone, by their numbers.
func (st *state) goneIn(p *part) (seqs []int64) {
	from := sort.Search(len(st.gone), func(i int) bool { return st.gone[i].seq >= p.info.First })
	for _, row := range st.gone[from:] {
		if row.seq > p.info.Last {
			break
		}
		seqs = append(seqs, row.seq)
	}
	return seqs
}

func (st *state) isGone(seq int64) bool {
	_, found := slices.BinarySearchFunc(st.gone, seq, func(row goneRow, seq int64) int { return cmp.Compare(row.seq, seq) })
	return found
}

// successor returns a copy of the current state, which the caller changes and publishes.
func (s *Store) successor() *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	return &state{
		number: now.number, parts: now.parts, fresh: now.fresh, gone: now.gone, goneFile: now.goneFile,
		applied: now.applied, removed: now.removed, counts: now.counts, clusters: now.clusters, health: now.health,
	}
}

// publish makes a state the current one.
func (s *Store) publish(next *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next.number++
	for _, f := range next.files() {
		f.refs++
	}
	old := s.now
	s.now = next
	if old != nil && old.refs == 0 {
		s.drop(old)
	}
}

// drop removes the files that only a state had which nobody views.
func (s *Store) drop(old *state) {
	for _, p := range old.all() {
		if p.refs == 1 {
			p.forget()
		}
	}
	for _, f := range old.files() {
		if f.refs--; f.refs == 0 {
			for _, path := range f.paths {
				if err := columnar.Remove(path); err != nil {
					s.opts.Report(fmt.Errorf("removing a file that is not needed any more: %w", err)) // the next start removes it
				}
			}
		}
	}
}

// commit writes store.json for a state and publishes it. change changes what store.json has beside the state's
// parts, clusters and figures; it may be nil.
func (s *Store) commit(next *state, change func(m *manifest)) error {
	m := s.durable
	m.Counts = maps.Clone(m.Counts)
	if change != nil {
		change(&m)
	}
	m.Clusters, m.Parts, m.Health = next.clusters, nil, nil
	for _, p := range next.parts {
		m.Parts = append(m.Parts, p.info)
	}
	for _, h := range next.health {
		m.Health = append(m.Health, h.info)
	}
	// What an arrival has replaced that is not durable yet comes again with that arrival.
	var rows []goneRow
	for _, row := range next.gone {
		if row.by <= m.Applied {
			rows = append(rows, row)
		}
	}
	m.Gone = nil
	if len(rows) > 0 {
		name := s.name() + ".parquet"
		m.Next = s.durable.Next
		sum, err := writeGone(s.path(goneDir, name), rows, true)
		if err != nil {
			return err
		}
		m.Gone = &namedFile{name, sum}
	}
	m.Next = max(m.Next, s.durable.Next)
	if err := s.writeManifest(m); err != nil {
		if m.Gone != nil {
			err = errors.Join(err, columnar.Remove(s.path(goneDir, m.Gone.Name)))
		}
		return err
	}
	if old := s.durable.Gone; old != nil {
		// States have files of their own, in fresh/.
		if err := columnar.Remove(s.path(goneDir, old.Name)); err != nil {
			s.opts.Report(err)
		}
	}
	s.durable = m
	s.publish(next)
	return nil
}

// goneLayout is the form of a file of rows that are gone.
var goneLayout = columnar.New(columnar.Column{Name: "seq", Kind: "BIGINT", Null: false, Plain: true}, columnar.Column{Name: "by", Kind: "BIGINT", Null: false, Plain: true})

func writeGone(path string, rows []goneRow, durable bool) (columnar.Sealed, error) {
	return goneLayout.Write(path, columnar.Small, durable, func(column int, put func([]parquet.Value) error) error {
		values := make([]parquet.Value, len(rows))
		for i, row := range rows {
			values[i] = goneLayout.Leveled(column, columnar.Int([]int64{row.seq, row.by}[column]))
		}
		return put(values)
	})
}

func readGone(path string) (rows []goneRow, err error) {
	r, err := goneLayout.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	rows = make([]goneRow, r.Rows())
	for column, to := range []func(row *goneRow) *int64{func(row *goneRow) *int64 { return &row.seq }, func(row *goneRow) *int64 { return &row.by }} {
		i := 0
		err := r.Each(column, 0, func(values []parquet.Value) (bool, error) {
			for _, v := range values {
				*to(&rows[i]) = v.Int64()
				i++
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// setGone gives a state the rows that are gone now, and a file with them for the engines.
func (s *Store) setGone(next *state) error {
	rows := make([]goneRow, 0, len(s.gone))
	for seq, by := range s.gone {
		rows = append(rows, goneRow{seq, by})
	}
	slices.SortFunc(rows, func(a, b goneRow) int { return cmp.Compare(a.seq, b.seq) })
	next.gone, next.goneFile = rows, nil
	if len(rows) == 0 {
		return nil
	}
	s.named++
	path := s.path(freshDir, fmt.Sprintf("gone-%d.parquet", s.named))
	next.goneFile = &file{paths: []string{path}}
	_, err := writeGone(path, rows, false)
	return err
}

// openPart returns the part that store.json describes.
func (s *Store) openPart(info partInfo) (*part, error) {
	p := &part{info: info, file: file{paths: []string{
		s.path(jobsDir, info.Name+".parquet"), s.path(keysDir, info.Name+".keys"), s.path(cellsDir, info.Name+".parquet"),
	}}}
	for i, want := range []columnar.Sealed{info.Jobs, info.Keys, info.Cells} {
		found, err := os.Stat(p.paths[i])
		if err != nil {
			return nil, err
		}
		if found.Size() != want.Bytes {
			return nil, fmt.Errorf("%s: %d bytes (want %d: it is damaged; accounting verify says what is lost)", p.paths[i], found.Size(), want.Bytes)
		}
	}
	var err error
	p.filter, err = readBloom(p.paths[1])
	return p, err
}

// jobs returns the path of the part's rows.
func (p *part) jobs() string { return p.paths[0] }

// reader returns the part's reader, which [part.forget] closes.
func (p *part) reader() (*columnar.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened == nil {
		r, err := jobLayout.Open(p.jobs())
		if err != nil {
			return nil, err
		}
		p.opened = r
	}
	return p.opened, nil
}

// forget closes the part's reader.
func (p *part) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened != nil {
		_ = p.opened.Close() // it has only read
		p.opened = nil
	}
}

// emptyJobs selects no row, with the columns of a part.
var emptyJobs = func() string {
	var list []string
	for _, c := range jobLayout.Columns {
		list = append(list, fmt.Sprintf(`NULL::%s AS "%s"`, c.Kind, c.Name))
	}
	return "SELECT " + strings.Join(list, ", ") + " WHERE false"
}()

func readParquet(paths []string) string {
	var list []string
	for _, path := range paths {
		list = append(list, quote(path))
	}
	return "read_parquet([" + strings.Join(list, ", ") + "])"
}

// tables returns the views that questions see:
//
//	jobs            all jobs: [Columns], id, and document as it came
//	tight           the jobs that the views daily_NAME count in advance
//	loose           all other jobs
//	daily_NAME      the cells of a [rollup.Rollup], with day (since 1970; NULL for jobs without an end) and cluster
//	health, health_counts  figures of schedulers
func (st *state) tables() engine.Tables {
	st.once.Do(func() {
		var clean, cells, other []string
		for _, p := range st.parts {
			if len(st.goneIn(p)) > 0 {
				other = append(other, p.jobs())
			} else {
				clean, cells = append(clean, p.jobs()), append(cells, p.paths[2])
			}
		}
		for _, b := range st.fresh {
			if b.part != nil {
				other = append(other, b.part.jobs())
			}
		}
		tight, loose := emptyJobs, emptyJobs
		if len(clean) > 0 {
			tight = "FROM " + readParquet(clean)
		}
		if len(other) > 0 {
			loose = "FROM " + readParquet(other)
			if st.goneFile != nil {
				loose += " WHERE seq NOT IN (SELECT seq FROM " + readParquet(st.goneFile.paths) + ")"
			}
		}
		all := tight + " UNION ALL " + loose
		switch {
		case len(other) == 0:
			all = tight
		case len(clean) == 0:
			all = loose
		case st.goneFile == nil:
			all = "FROM " + readParquet(append(clean, other...))
		}
		var setup []string
		for _, v := range [][2]string{{"jobs", all}, {"tight", tight}, {"loose", loose}} {
			setup = append(setup, "CREATE OR REPLACE TEMP VIEW "+v[0]+" AS SELECT *, "+idExpression+" AS id FROM ("+v[1]+")")
		}
		for _, name := range rollup.Names() {
			setup = append(setup, "CREATE OR REPLACE TEMP VIEW daily_"+name+" AS "+cellsView(rollup.Rollups[name], cells))
		}
		st.made = engine.Tables{Version: st.number, Setup: append(setup, healthViews(st.health)...)}
	})
	return st.made
}

const idExpression = "cluster || ':' || jobid || ':' || run"

// cellsView returns the SQL of a rollup's cells in files.
func cellsView(r *rollup.Rollup, paths []string) string {
	names, _ := r.Columns()
	names = append([]string{"day", "cluster"}, names...)
	if len(paths) == 0 {
		var list []string
		for _, name := range names {
			list = append(list, "NULL::"+rollup.Layout.Columns[rollup.Layout.Index(name)].Kind+" AS "+name)
		}
		return "SELECT " + strings.Join(list, ", ") + " WHERE false"
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM " + readParquet(paths) + " WHERE rollup = " + quote(r.Name)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
