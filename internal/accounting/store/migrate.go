package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/engine"
)

// oldDatabase is the DuckDB database of a store of format 3 or older. After a migration, it stays in the directory
// under the name migrated.
const (
	oldDatabase = "jobs.duckdb"
	migrated    = "jobs.duckdb.migrated"
)

// migrationStep is the number of arrivals that are read at a time.
const migrationStep = 5000

// maxAhead is the longest time by which a job may end after its document arrived from Slurm: clocks differ by at most
// a day. Periods of pages count back from the newest end, so an end far in the future would leave pages empty.
const maxAhead = 24 * time.Hour

// ParseArrival parses a document that arrived. The parameter cluster is used if the document does not name a cluster.
func ParseArrival(seq int64, arrived time.Time, source Source, index, cluster string, text []byte) Entry {
	e := Entry{Seq: seq, Arrived: arrived, Source: source, Index: index, Document: text, Job: document.Parse(text, cluster)}
	if source.Sent() {
		e.Job.EndBy(arrived.Add(maxAhead))
	}
	return e
}

// migration counts what was found in an old store.
type migration struct {
	jobs    int64
	unnamed int64   // jobs whose documents do not name a cluster; the old table names the cluster
	damaged []int64 // arrivals with an invalid source, instant or cluster
	missing int64   // rows without a document
}

// migrate converts an old store. Rows are recomputed from their documents. Only an arrival's instant, source and
// index come from the old table, and the cluster if the document does not name it. If the process is killed, the next
// start repeats the migration.
func (s *Store) migrate(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.opts.Report(fmt.Errorf("an older version of rmreplay made the directory; its jobs are read again (%s stays as %s)", oldDatabase, migrated))
	s.pool = s.newPool(s.path(oldDatabase))
	defer s.pool.Close()
	var m migration
	var applied int64
	counts := map[string]int64{}
	ask := func(do func(q *engine.Questioner) error) error { return s.pool.Read(ctx, engine.Tables{}, do) }
	var first, last sql.NullInt64
	err := ask(func(q *engine.Questioner) error {
		if err := q.Scan("SELECT seq FROM old.applied", nil, &applied); err != nil {
			return err
		}
		if err := q.Scan("SELECT min(seq), max(seq) FROM old.jobs", nil, &first, &last); err != nil {
			return err
		}
		return eachRow(q, "SELECT rule, documents FROM old.counts", func(rows *sql.Rows) error {
			var rule string
			var n int64
			err := rows.Scan(&rule, &n)
			counts[rule] = n
			return err
		})
	})
	for from := first.Int64; err == nil && first.Valid && from <= last.Int64; from += migrationStep {
		err = s.migrateJobs(ctx, ask, &m, from, from+migrationStep)
	}
	if err == nil {
		err = errors.Join(s.migrateClusters(ask), s.migrateHealth(ask))
	}
	for did := true; err == nil && did; {
		did, err = s.compactOnce(true)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", oldDatabase, err)
	}
	next := s.successor()
	next.applied, next.counts = max(applied, next.applied), counts
	err = s.commit(next, func(d *manifest) { d.Applied, d.Counts, d.Migrated = next.applied, counts, m.String() })
	if err != nil {
		return err
	}
	s.opts.Report(errors.New(m.String()))
	if err := os.Rename(s.path(oldDatabase), s.path(migrated)); err != nil {
		return err
	}
	if err := os.Rename(s.path(oldDatabase+".wal"), s.path(migrated+".wal")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(s.dir)
}

func eachRow(q *engine.Questioner, query string, do func(rows *sql.Rows) error, args ...any) (err error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// migrateJobs converts the arrivals whose number is in the interval [from, to).
func (s *Store) migrateJobs(ctx context.Context, ask func(func(q *engine.Questioner) error) error, m *migration, from, to int64) error {
	var entries []Entry
	var step migration
	err := ask(func(q *engine.Questioner) error {
		entries, step = nil, migration{}
		const query = `SELECT j.seq, j.arrived, j.source, j.collection, j.cluster, d.document FROM old.jobs j LEFT JOIN old.documents d ON d.seq = j.seq
			AND d.seq >= ? AND d.seq < ? WHERE j.seq >= ? AND j.seq < ? ORDER BY j.seq`
		return eachRow(q, query, func(rows *sql.Rows) error {
			var seq int64
			var arrived time.Time
			var source, cluster []byte
			var index, text sql.Null[[]byte]
			if err := rows.Scan(&seq, &arrived, &source, &index, &cluster, &text); err != nil {
				return err
			}
			if !text.Valid {
				step.missing++
				return nil
			}
			entries = append(entries, step.entry(seq, arrived, string(source), string(index.V), string(cluster), text.V))
			return nil
		}, from, to, from, to)
	})
	if err != nil {
		return err
	}
	m.add(&step)
	m.jobs += int64(len(entries))
	if _, err := s.Apply(ctx, entries); err != nil {
		return err
	}
	for did := true; err == nil && did; {
		did, err = s.compactOnce(false)
	}
	return err
}

// entry recomputes an entry from a document. The entry gets the values that only the old table has, if they are
// valid. If one of them is not valid, the method replaces it, and lists the arrival as damaged.
func (m *migration) entry(seq int64, arrived time.Time, source, index, cluster string, text []byte) Entry {
	broken := !slices.Contains(sources, Source(source)) || !utf8.ValidString(cluster) || strings.ContainsRune(cluster, 0) || arrived.Year() < 2000 || arrived.Year() > 2200
	if broken {
		m.damaged = append(m.damaged, seq)
	}
	if !slices.Contains(sources, Source(source)) {
		source = string(Imported)
	}
	e := ParseArrival(seq, arrived.UTC(), Source(source), index, strings.ToValidUTF8(cluster, "\ufffd"), text)
	if e.Job.Marks&document.NoCluster != 0 {
		m.unnamed++
	}
	return e
}

func (m *migration) add(step *migration) {
	m.unnamed += step.unnamed
	m.missing += step.missing
	m.damaged = append(m.damaged, step.damaged...)
}

// String describes the result for the user.
func (m *migration) String() string {
	text := fmt.Sprintf("%d jobs of %s were read anew from their documents", m.jobs, oldDatabase)
	if m.unnamed > 0 {
		text += fmt.Sprintf("; %d documents name no cluster, and keep the cluster of the old table", m.unnamed)
	}
	if m.missing > 0 {
		text += fmt.Sprintf("; %d rows had no document, and are lost (accounting reconcile finds jobs that are missing)", m.missing)
	}
	if n := len(m.damaged); n > 0 {
		text += fmt.Sprintf("; %d rows of the old table have an impossible source, instant or cluster: arrivals %v", n, m.damaged[:min(n, 20)])
	}
	return text
}

func (s *Store) migrateClusters(ask func(func(q *engine.Questioner) error) error) error {
	var list []Cluster
	err := ask(func(q *engine.Questioner) error {
		list = nil
		return eachRow(q, "SELECT cluster, kind, nodes, cpus, gpus, coalesce(description, '') FROM old.clusters ORDER BY 1", func(rows *sql.Rows) error {
			var c Cluster
			var nodes, cpus, gpus sql.NullInt64
			err := rows.Scan(&c.Name, &c.Kind, &nodes, &cpus, &gpus, &c.Description)
			c.Nodes, c.CPUs, c.GPUs = document.Int{Value: nodes.Int64, Known: nodes.Valid}, document.Int{Value: cpus.Int64, Known: cpus.Valid}, document.Int{Value: gpus.Int64, Known: gpus.Valid}
			list = append(list, c)
			return err
		})
	})
	for _, c := range list {
		err = errors.Join(err, s.SetCluster(c))
	}
	return err
}

// migrateHealth copies the figures of schedulers.
func (s *Store) migrateHealth(ask func(func(q *engine.Questioner) error) error) error {
	var figures []figureRow
	var counts []countRow
	err := ask(func(q *engine.Questioner) error {
		figures, counts = nil, nil
		var tables int
		if err := q.Scan("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'old' AND table_name IN ('health', 'health_counts')", nil, &tables); err != nil || tables < 2 {
			return err
		}
		err := eachRow(q, "SELECT * FROM old.health ORDER BY until, cluster", func(rows *sql.Rows) error {
			var f figureRow
			var until time.Time
			to := f.fields()
			to[1] = &until
			err := rows.Scan(to...)
			f.Until = until.UnixMicro()
			figures = append(figures, f)
			return err
		})
		if err != nil {
			return err
		}
		return eachRow(q, "SELECT * FROM old.health_counts ORDER BY until, cluster", func(rows *sql.Rows) error {
			var c countRow
			var until time.Time
			err := rows.Scan(&c.Cluster, &until, &c.Kind, &c.Name, &c.Count, &c.Micros)
			c.Until = until.UnixMicro()
			counts = append(counts, c)
			return err
		})
	})
	if err != nil {
		return err
	}
	at := 0
	for part := range slices.Chunk(figures, maxFigures) {
		end := at
		for end < len(counts) && counts[end].Until <= part[len(part)-1].Until {
			end++
		}
		if _, err := s.changeHealth(part, counts[at:end], func(string, int64) bool { return false }); err != nil {
			return err
		}
		at = end
	}
	return nil
}
