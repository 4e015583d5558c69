// Package store stores finished jobs in one directory.
//
// The table of jobs consists of parts: Parquet files that never change, in the order of arrival. A part is written
// completely, renamed to its final name, and then listed in store.json with its checksum. A part that replaces others
// is written in the same way. Questions cannot change the store: separate processes (package engine) answer them, and
// only read parts.
//
// The directory has the mode 0700, so that other users cannot reach its files:
//
//	lock        the process that has the store open
//	store.json  the list of parts, and the last arrival that they contain; always replaced as a whole
//	jobs/       parts: the columns of [Columns], and each job's unchanged document
//	keys/       for each part, the keys of its rows (keys.go)
//	cells/      for each part, precomputed counts of its jobs (package rollup)
//	gone/       numbers of rows that later documents replaced, until their part is rewritten
//	health/, health_counts/  figures of schedulers
//	fresh/      parts that the journal can restore, such as the last second's part; emptied at the start
//	tmp/        what queries spill to disk, and unfinished files; emptied at the start
//
// Only one process can open a store. Any number of goroutines read while one writes: a reader has a [View] of one
// state, and the state's files remain until the view is closed.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/output"
)

// Options configures [Open].
type Options struct {
	// ReadTime is the time limit of one [Store.Read]; 0 means 10 s.
	ReadTime time.Duration
	// Memory is the memory limit of all engines together, in MiB; 0 means 512.
	Memory int
	// Readers is the highest number of engines; 0 means 4.
	Readers int
	// Engine is the command that runs an engine, with its arguments; nil means the installed engine.
	Engine []string
	// Asked is called after each question; see package engine. It may be nil.
	Asked func(took time.Duration, err error)
	// Report is called with errors that the store recovers from. It may be nil.
	Report func(err error)

	partRows int // 0 means PartRows
}

// PartRows is the approximate number of rows in a part: when this many rows are not yet durable, they are written into
// a part.
const PartRows = 122_880

// The directories of a store.
const (
	jobsDir      = "jobs"
	keysDir      = "keys"
	cellsDir     = "cells"
	goneDir      = "gone"
	healthDir    = "health"
	countsDir    = "health_counts"
	freshDir     = "fresh"
	tempDir      = "tmp"
	manifestFile = "store.json"
	lockFile     = "lock"
)

var directories = []string{jobsDir, keysDir, cellsDir, goneDir, healthDir, countsDir, freshDir, tempDir}

// Format is the version of the directory's format. [Open] refuses a newer version.
const Format = 9

// ErrNewer says that a newer version of the program made the store.
var ErrNewer = errors.New("a newer version of the program made it")

// ErrAbsent says that a directory has no store.
var ErrAbsent = errors.New("there is no store of finished jobs")

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	dir  string
	opts Options
	lock *os.File
	pool *engine.Pool
	keys keyCache

	compacting chan struct{} // closed when the goroutine compact has ended
	work       chan struct{} // has an element when compact may have work
	stop       chan struct{}

	maintaining sync.Mutex // held while parts are replaced; to be locked before writing

	writing sync.Mutex // held while the next state is made
	durable manifest   // the contents of store.json
	gone    map[int64]int64
	recent  map[key]standing // the rows that are not yet durable
	named   int              // number of the last file in fresh/
	less    *sync.Cond       // its lock is writing; signals fewer fresh rows, or a change of fault
	fault   error            // why the last attempt to write a part failed; nil if it succeeded

	mu     sync.Mutex // guards the fields below
	now    *state
	totals totals
	closed bool
}

// totals counts the jobs of the current state.
type totals struct {
	jobs     int64
	clusters map[string]int64
	sources  map[Source]int64
}

// manifest is the file store.json.
type manifest struct {
	Format   int              `json:"format"`
	Applied  int64            `json:"applied"` // number of the last arrival that the parts contain or do not need
	Next     int64            `json:"next"`    // number for the name of the next file
	Parts    []partInfo       `json:"parts"`
	Gone     *namedFile       `json:"gone,omitempty"`
	Counts   map[string]int64 `json:"counts"` // events by the rule of package document or Count constant
	Clusters []Cluster        `json:"clusters"`
	Health   []healthInfo     `json:"health"`
	Migrated string           `json:"migrated,omitempty"` // result of the migration of an older store
}

type namedFile struct {
	Name string `json:"name"`
	columnar.Sealed
}

// partInfo is the entry of a part in store.json.
type partInfo struct {
	Name     string           `json:"name"` // name of the files in jobs/, keys/ and cells/, without the suffix
	First    int64            `json:"first"`
	Last     int64            `json:"last"` // numbers of its first and last row
	Rows     int64            `json:"rows"`
	FirstEnd time.Time        `json:"first_end,omitzero"`
	LastEnd  time.Time        `json:"last_end,omitzero"`
	Clusters map[string]int64 `json:"clusters"` // number of rows of each cluster
	Sources  map[Source]int64 `json:"sources"`
	Jobs     columnar.Sealed  `json:"jobs"`
	Keys     columnar.Sealed  `json:"keys"`
	Cells    columnar.Sealed  `json:"cells"`
}

// Open opens the store in a directory. It creates the directory and the store if they do not exist. It is an error if
// the directory has other contents. If another process has the store open, the error is a [*LockedError].
func Open(ctx context.Context, dir string, opts Options) (s *Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening the store: %w", err)
		}
	}()
	if opts.ReadTime == 0 {
		opts.ReadTime = 10 * time.Second
	}
	if opts.Memory == 0 {
		opts.Memory = 512
	}
	if opts.Readers == 0 {
		opts.Readers = 4
	}
	if opts.partRows == 0 {
		opts.partRows = PartRows
	}
	if opts.Report == nil {
		opts.Report = func(error) {}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if strings.ContainsAny(dir, "*?[") {
		return nil, fmt.Errorf("%s: the query engine treats *, ? and [ in a path as a pattern (want a path without these characters)", dir)
	}
	if err := errors.Join(output.Owned(dir), vacant(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	s = &Store{
		dir: dir, opts: opts, work: make(chan struct{}, 1), stop: make(chan struct{}), compacting: make(chan struct{}),
		gone: make(map[int64]int64), recent: make(map[key]standing), totals: totals{clusters: map[string]int64{}, sources: map[Source]int64{}},
	}
	s.less = sync.NewCond(&s.writing)
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), s.unlock())
	}
	s.pool = s.newPool("")
	go s.compact()
	return s, nil
}

func (s *Store) newPool(attach string) *engine.Pool {
	var dirs []string
	for _, name := range []string{jobsDir, cellsDir, goneDir, healthDir, countsDir, freshDir} {
		dirs = append(dirs, s.path(name))
	}
	return engine.New(engine.Options{
		Program: s.opts.Engine, Dirs: dirs, Temp: s.path(tempDir), MemoryMiB: s.opts.Memory, Engines: s.opts.Readers,
		Limit: s.opts.ReadTime, Asked: s.opts.Asked, Attach: attach,
	})
}

// path returns the path of a file of the store.
func (s *Store) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// Dir returns the store's directory.
func (s *Store) Dir() string { return s.dir }

// vacant returns an error if a directory has no store, but contains other files. Such a directory has another
// use, and its permissions must not change. An unfinished store may have a lock, directories and a journal.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	known := append([]string{lockFile, oldDatabase, oldDatabase + ".wal", "journal", "control.sock", "lost+found"}, directories...)
	foreign := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == manifestFile || name == oldDatabase:
			return nil
		case strings.HasPrefix(name, ".") || slices.Contains(known, name):
		case foreign == "":
			foreign = name
		}
	}
	if foreign != "" {
		return fmt.Errorf("%s: a directory with other files, such as %s (want a new directory, an empty one, or one with a store)", dir, foreign)
	}
	return nil
}

// Exists returns nil if a directory has a store, and otherwise [ErrAbsent].
func Exists(dir string) error {
	for _, name := range []string{manifestFile, oldDatabase} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return ErrAbsent
}

// load reads the store, and creates what is missing.
func (s *Store) load(ctx context.Context) error {
	for _, name := range []string{freshDir, tempDir} {
		if err := empty(s.path(name)); err != nil {
			return err
		}
	}
	for _, name := range directories {
		if err := os.MkdirAll(s.path(name), 0o700); err != nil {
			return err
		}
	}
	if _, err := os.Stat(s.path(oldDatabase)); err == nil {
		return s.migrate(ctx)
	}
	m, err := readManifest(s.path(manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s.begin()
	}
	if err != nil {
		return err
	}
	s.durable = m
	if s.durable.Format > Format {
		return fmt.Errorf("format %d (want at most %d): %w", s.durable.Format, Format, ErrNewer)
	}
	if s.durable.Counts == nil {
		s.durable.Counts = map[string]int64{}
	}
	for _, do := range []func() error{s.removeUnknown, s.adopt, s.renew} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func readManifest(path string) (m manifest, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w (want the file as it was written; a backup has it)", manifestFile, err)
	}
	return m, nil
}

// begin creates an empty store.
func (s *Store) begin() error {
	for _, name := range directories {
		if err := empty(s.path(name)); err != nil {
			return err
		}
	}
	s.durable = manifest{Format: Format, Counts: map[string]int64{}}
	if err := s.writeManifest(s.durable); err != nil {
		return err
	}
	return s.adopt()
}

// empty deletes a directory's contents. It refuses a symbolic link, which may lead to files of other users.
func empty(dir string) error {
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: not a directory (want a directory of the store; remove anything else)", dir)
	}
	names, err := os.ReadDir(dir)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name.Name())))
	}
	return err
}

// removeUnknown deletes files that store.json does not list. A process that was killed left them.
func (s *Store) removeUnknown() error {
	known := make(map[string]bool)
	for _, p := range s.durable.Parts {
		known[filepath.Join(jobsDir, p.Name+".parquet")], known[filepath.Join(keysDir, p.Name+".keys")], known[filepath.Join(cellsDir, p.Name+".parquet")] = true, true, true
	}
	if s.durable.Gone != nil {
		known[filepath.Join(goneDir, s.durable.Gone.Name)] = true
	}
	for _, h := range s.durable.Health {
		known[filepath.Join(healthDir, h.Name)], known[filepath.Join(countsDir, h.Name)] = true, true
	}
	for _, dir := range []string{jobsDir, keysDir, cellsDir, goneDir, healthDir, countsDir} {
		names, err := os.ReadDir(s.path(dir))
		if err != nil {
			return err
		}
		for _, name := range names {
			path := filepath.Join(dir, name.Name())
			if !known[path] {
				if err := os.Remove(s.path(path)); err != nil {
					return err
				}
			}
			delete(known, path)
		}
	}
	for path := range known {
		return fmt.Errorf("%s: it is missing (want all files that %s names; accounting verify lists them)", path, manifestFile)
	}
	return nil
}

// adopt makes the first state from store.json.
func (s *Store) adopt() error {
	next := &state{applied: s.durable.Applied, counts: maps.Clone(s.durable.Counts), clusters: s.durable.Clusters, health: s.openHealth(s.durable.Health)}
	for _, info := range s.durable.Parts {
		p, err := s.openPart(info)
		if err != nil {
			return err
		}
		next.parts = append(next.parts, p)
		s.totals.count(info, 1)
	}
	if s.durable.Gone != nil {
		rows, err := readGone(s.path(goneDir, s.durable.Gone.Name))
		if err != nil {
			return err
		}
		for _, row := range rows {
			s.gone[row.seq] = row.by
		}
		if err := s.setGone(next); err != nil {
			return err
		}
		if err := s.uncount(next); err != nil {
			return err
		}
	}
	s.publish(next)
	return nil
}

func (t *totals) count(p partInfo, sign int64) {
	t.jobs += sign * p.Rows
	for cluster, n := range p.Clusters {
		t.clusters[cluster] += sign * n
	}
	for source, n := range p.Sources {
		t.sources[source] += sign * n
	}
}

func (t *totals) add(cluster string, source Source, n int64) {
	t.jobs += n
	t.sources[source] += n
	if t.clusters[cluster] += n; t.clusters[cluster] == 0 {
		delete(t.clusters, cluster)
	}
	if t.sources[source] == 0 {
		delete(t.sources, source)
	}
}

// uncount subtracts replaced rows from the totals.
func (s *Store) uncount(st *state) error {
	for _, p := range st.parts {
		rows := st.goneIn(p)
		if len(rows) == 0 {
			continue
		}
		err := p.rowsOf(rows, []string{"cluster", "source"}, func(values []string) {
			s.totals.add(values[0], Source(values[1]), -1)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeManifest replaces store.json.
func (s *Store) writeManifest(m manifest) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	path := s.path(tempDir, manifestFile)
	if err := columnar.WriteDurable(path, append(text, '\n')); err != nil {
		return err
	}
	for _, dir := range directories {
		if err := syncDir(s.path(dir)); err != nil {
			return err
		}
	}
	if err := os.Rename(path, s.path(manifestFile)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// name returns the base name of a new file.
func (s *Store) name() string {
	s.durable.Next++
	return fmt.Sprintf("%08d", s.durable.Next)
}

// Close closes the store. Reads in progress end with an error. Fresh rows are written into parts, so that the next
// start need not read the journal.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.compacting
	s.pool.Close()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.less.Broadcast()
	return s.unlock()
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Applied returns the number of the last arrival that readers see.
func (s *Store) Applied() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.applied
}

// Durable returns the number of the last arrival that is durable in the store. A journal must keep the later arrivals.
func (s *Store) Durable() int64 {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.durable.Applied
}

// SetCluster adds a cluster, or replaces its description.
func (s *Store) SetCluster(c Cluster) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	next := s.successor()
	next.clusters = slices.DeleteFunc(slices.Clone(next.clusters), func(k Cluster) bool { return k.Name == c.Name })
	next.clusters = append(next.clusters, c)
	if err := s.commit(next, nil); err != nil {
		return fmt.Errorf("writing the description of the cluster %s: %w", c.Name, err)
	}
	return nil
}

// Summary describes the contents of a store.
type Summary struct {
	Jobs              int64
	FirstEnd, LastEnd time.Time // zero if no job has an end
	Clusters          map[string]int64
	Sources           map[string]int64
	Counts            map[string]int64
	Bytes             int64 // total size of all files
}

// Summary returns the store's [Summary].
func (s *Store) Summary() (sum Summary) {
	v := s.View()
	defer v.Close()
	s.mu.Lock()
	sum.Jobs, sum.Clusters, sum.Sources = s.totals.jobs, maps.Clone(s.totals.clusters), make(map[string]int64)
	for source, n := range s.totals.sources {
		sum.Sources[string(source)] = n
	}
	s.mu.Unlock()
	sum.Counts = maps.Clone(v.st.counts)
	for _, p := range v.st.all() {
		sum.Bytes += p.info.Jobs.Bytes + p.info.Keys.Bytes + p.info.Cells.Bytes
		if first := p.info.FirstEnd; !first.IsZero() && (sum.FirstEnd.IsZero() || first.Before(sum.FirstEnd)) {
			sum.FirstEnd = first
		}
		if p.info.LastEnd.After(sum.LastEnd) {
			sum.LastEnd = p.info.LastEnd
		}
	}
	for _, h := range v.st.health {
		sum.Bytes += h.info.Figures.Bytes + h.info.Counts.Bytes
	}
	return sum
}
