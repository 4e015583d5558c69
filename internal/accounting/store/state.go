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

// file is a set of files that are deleted when no state refers to them.
type file struct {
	paths []string
	refs  int // number of states that refer to the files; guarded by Store.mu
}

// part is a part of the table jobs, durable or fresh.
type part struct {
	file
	info   partInfo
	filter bloom // nil for a fresh part

	mu     sync.Mutex
	opened *columnar.Reader
}

// batch is what calls of [Store.Apply] added: a fresh part, whose rows only the journal makes durable.
type batch struct {
	part    *part   // nil for a batch without rows
	rows    []keyed // the part's rows, in the part's order
	entries []Entry // the rows' entries while the batch may grow; guarded by Store.writing
	held    bool    // no rows may be added; guarded by Store.writing
	through int64   // this batch, earlier batches and parts contain all arrivals up to this number
	counts  map[string]int64
}

// state is an immutable description of the store's contents at an instant.
type state struct {
	number   uint64
	parts    []*part // durable parts, in the order of their rows' numbers; fresh parts come after them
	fresh    []*batch
	gone     []goneRow // replaced rows, by ascending number
	goneFile *file     // the file of the list gone; nil if the list is empty
	applied  int64
	removed  int64 // number of jobs that were removed since the store was opened
	counts   map[string]int64
	clusters []Cluster
	health   []*healthPart

	refs int // number of views of this state; guarded by Store.mu
	once sync.Once
	made engine.Tables
}

// goneRow is the number of a row, and the number of the document that replaced it.
type goneRow struct{ seq, by int64 }

// all returns the durable and the fresh parts in the order of their rows' numbers.
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

// goneIn returns the numbers of a part's rows that have been replaced.
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

// successor returns a copy of the current state. The caller changes and publishes the copy.
func (s *Store) successor() *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	return &state{
		number: now.number, parts: now.parts, fresh: now.fresh, gone: now.gone, goneFile: now.goneFile,
		applied: now.applied, removed: now.removed, counts: now.counts, clusters: now.clusters, health: now.health,
	}
}

// publish makes the parameter next the current state.
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

// drop deletes the files that only this state refers to, after its last view was closed.
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

// commit writes store.json for a state and publishes the state. The function change, which may be
// nil, can change the other contents of store.json, such as counts.
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
	// Leave out a replacement by an arrival that is not durable yet. After a crash, the journal repeats this arrival,
	// which then replaces the row again.
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
		// States do not use this file. Each state has its own file in fresh/.
		if err := columnar.Remove(s.path(goneDir, old.Name)); err != nil {
			s.opts.Report(err)
		}
	}
	s.durable = m
	s.publish(next)
	return nil
}

// goneLayout describes a file of replaced rows.
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

// setGone puts the rows of s.gone into a state, and writes them into a file for the engines.
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

// openPart opens a part that store.json describes.
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
			return nil, fmt.Errorf("%s: the file is damaged: it has %d bytes (want %d; accounting verify says what is lost)", p.paths[i], found.Size(), want.Bytes)
		}
	}
	var err error
	p.filter, err = readBloom(p.paths[1])
	return p, err
}

// jobs returns the path of the file with the part's rows.
func (p *part) jobs() string { return p.paths[0] }

// reader returns the part's reader, and opens the part if necessary. [part.forget] closes the reader.
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
		_ = p.opened.Close() // the file was only read
		p.opened = nil
	}
}

// emptyJobs is a SELECT with the columns of a part and without rows.
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

// tables returns the views that queries see:
//
//	jobs            all jobs: the columns of [Columns], id, and the unchanged document
//	tight           the jobs that are included in the precomputed views daily_NAME
//	loose           all other jobs
//	daily_NAME      cells of a [rollup.Rollup], with day (since 1970; NULL for jobs without an end) and cluster
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

// cellsView returns a SELECT of a rollup's cells from files.
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
