package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/rollup"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Verified is the result of [View.Verify].
type Verified struct {
	Parts    int
	Jobs     int64
	Bytes    int64
	Problems []string // each says what is wrong, and where
	Migrated string   // result of the migration of an older store; empty without a migration
}

// maxProblems is the highest number of problems that are listed for a part.
const maxProblems = 20

// Verify reads the whole store and checks its consistency: files with their checksums, columns with the jobs'
// documents, keys and cells with the jobs. The function progress is called with the number of parts read and of all
// parts.
func (v *View) Verify(ctx context.Context, progress func(done, all int)) (*Verified, error) {
	out := &Verified{Migrated: v.s.migratedText()}
	known := make(map[key]int64)
	parts := v.st.all()
	for i, p := range parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := &checking{v: v, p: p, known: known}
		if err := c.check(); err != nil {
			c.fault("%v", err)
		}
		if c.faults > maxProblems {
			c.problems = append(c.problems, fmt.Sprintf("%s: %d more", p.jobs(), c.faults-maxProblems))
		}
		out.Parts++
		out.Jobs += p.info.Rows - int64(len(v.st.goneIn(p)))
		out.Bytes += p.info.Jobs.Bytes + p.info.Keys.Bytes + p.info.Cells.Bytes
		out.Problems = append(out.Problems, c.problems...)
		progress(i+1, len(parts))
	}
	if err := v.s.checkGone(); err != nil {
		out.Problems = append(out.Problems, err.Error())
	}
	for _, h := range v.st.health {
		for i, want := range []columnar.Sealed{h.info.Figures, h.info.Counts} {
			if err := want.Check(h.paths[i]); err != nil {
				out.Problems = append(out.Problems, err.Error())
			}
			out.Bytes += want.Bytes
		}
	}
	return out, nil
}

// Damaged checks the files of a store against their checksums, without opening the store, and returns what is wrong.
func Damaged(dir string) (problems []string) {
	m, err := readManifest(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil // there is no store, or opening it reports the error
	}
	check := func(want columnar.Sealed, elements ...string) {
		if err := want.Check(filepath.Join(append([]string{dir}, elements...)...)); err != nil {
			problems = append(problems, err.Error())
		}
	}
	for _, p := range m.Parts {
		check(p.Jobs, jobsDir, p.Name+".parquet")
		check(p.Keys, keysDir, p.Name+".keys")
		check(p.Cells, cellsDir, p.Name+".parquet")
	}
	if m.Gone != nil {
		check(m.Gone.Sealed, goneDir, m.Gone.Name)
	}
	for _, h := range m.Health {
		check(h.Figures, healthDir, h.Name)
		check(h.Counts, countsDir, h.Name)
	}
	return problems
}

// checkGone checks the file of replaced rows against its checksum.
func (s *Store) checkGone() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.durable.Gone == nil {
		return nil
	}
	return s.durable.Gone.Check(s.path(goneDir, s.durable.Gone.Name))
}

func (s *Store) migratedText() string {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.durable.Migrated
}

// checking is the check of one part.
type checking struct {
	v        *View
	p        *part
	known    map[key]int64 // the rows of all parts that have not been replaced
	faults   int
	problems []string
}

func (c *checking) fault(format string, args ...any) {
	if c.faults++; c.faults <= maxProblems {
		c.problems = append(c.problems, c.p.jobs()+": "+fmt.Sprintf(format, args...))
	}
}

func (c *checking) check() error {
	for i, want := range []columnar.Sealed{c.p.info.Jobs, c.p.info.Keys, c.p.info.Cells}[:len(c.p.paths)] {
		if err := want.Check(c.p.paths[i]); err != nil {
			return err
		}
	}
	keys, err := c.rows()
	if err != nil || len(c.p.paths) == 1 {
		return err
	}
	rows, err := c.p.keyed()
	if err != nil {
		return err
	}
	for i, row := range rows {
		if i >= len(keys) || keys[i] != row {
			c.fault("row %d: its key is not the one in %s", i+1, c.p.paths[1])
			break
		}
	}
	return c.cells()
}

// cells recomputes the part's cells and compares them.
func (c *checking) cells() (err error) {
	r, err := c.p.reader()
	if err != nil {
		return err
	}
	jobs, texts, err := rollup.Read(r)
	if err != nil {
		return err
	}
	path := c.v.s.path(tempDir, "verify-"+filepath.Base(c.p.paths[2]))
	found, err := rollup.Write(path, jobs, texts)
	if err == nil && found != c.p.info.Cells {
		c.fault("%s: its counts are not those of the jobs", c.p.paths[2])
	}
	return errors.Join(err, columnar.Remove(path))
}

// rows compares each row with its document, and returns the keys of all rows.
func (c *checking) rows() (keys []keyed, err error) {
	r, err := c.p.reader()
	if err != nil {
		return nil, err
	}
	if r.Rows() != c.p.info.Rows {
		return nil, fmt.Errorf("%d rows (want %d)", r.Rows(), c.p.info.Rows)
	}
	const step = 2048
	for from := int64(0); from < r.Rows(); from += step {
		rows := make([]int64, 0, step)
		for row := from; row < min(from+step, r.Rows()); row++ {
			rows = append(rows, row)
		}
		values := make([][]any, len(rows))
		for column, l := range jobLayout.Columns {
			err := r.Values(column, rows, func(i int, v parquet.Value) error {
				values[i] = append(values[i], valueOf(v, l.Kind))
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		for i := range values {
			keys = append(keys, c.row(from+int64(i), values[i]))
		}
	}
	return keys, nil
}

func (c *checking) row(at int64, have []any) keyed {
	text := func(name string) string { s, _ := have[jobLayout.Index(name)].(string); return s }
	seq, _ := have[jobLayout.Index("seq")].(int64)
	arrived, _ := have[jobLayout.Index("arrived")].(time.Time)
	body, _ := have[documentColumn].([]byte)
	e := ParseArrival(seq, arrived, Source(text("source")), text("collection"), text("cluster"), body)
	for i, want := range Row(&e) {
		if have[i] != want {
			c.fault("row %d, arrival %d: %s is %v (want %v, as the document says)", at+1, seq, Columns[i].Name, have[i], want)
		}
	}
	k := keyed{keyOf(e.Job.Cluster, e.Job.JobID, e.Job.Run), standing{seq, digest(body), traitsOf(&e)}}
	if !c.v.st.isGone(seq) {
		if other, ok := c.known[k.key]; ok {
			c.fault("row %d, arrival %d: the same run of the same job as arrival %d", at+1, seq, other)
		}
		c.known[k.key] = seq
	}
	return k
}
