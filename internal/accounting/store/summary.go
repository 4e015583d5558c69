package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Summary is what a store holds.
type Summary struct {
	Jobs              int64
	FirstEnd, LastEnd time.Time // zero without a job that ended
	Clusters, Sources map[string]int64
	Counts            map[string]int64 // of the table counts
	Bytes             int64            // of the database's files
}

// Summary returns what the store holds.
func (s *Store) Summary(ctx context.Context) (sum Summary, err error) {
	err = s.Read(ctx, func(v *Snapshot) error {
		var first, last sql.NullTime
		if err := v.One("SELECT count(*), min(end_time), max(end_time) FROM jobs", nil, &sum.Jobs, &first, &last); err != nil {
			return err
		}
		sum.FirstEnd, sum.LastEnd = first.Time, last.Time
		for query, to := range map[string]*map[string]int64{
			"SELECT cluster, count(*) FROM jobs GROUP BY ALL": &sum.Clusters,
			"SELECT source, count(*) FROM jobs GROUP BY ALL":  &sum.Sources,
			"SELECT rule, documents FROM counts":              &sum.Counts,
		} {
			if *to, err = v.counts(query); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range []string{database, database + ".wal"} {
		if info, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			sum.Bytes += info.Size()
		}
	}
	return sum, err
}

// counts runs a query of names and numbers.
func (v *Snapshot) counts(query string) (map[string]int64, error) {
	rows, err := v.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := make(map[string]int64)
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, rows.Err()
}

// Expire removes the jobs that ended before an instant, with their documents, and returns their
// number. Jobs without an end stay, and so do those of runs: their instants are virtual.
func (s *Store) Expire(ctx context.Context, before time.Time) (jobs int64, err error) {
	days := make(map[int64]bool)
	old := fmt.Sprintf("FROM jobs WHERE end_time < make_timestamp(%d) AND source <> %s", before.UnixMicro(), quote(string(FromRun)))
	err = s.write(ctx, func(conn *sql.Conn) error {
		clear(days)
		ended, err := readDays(ctx, conn, fmt.Sprintf("SELECT DISTINCT %s::BIGINT %s", dayOfEnd, old))
		if err != nil {
			return err
		}
		maps.Copy(days, ended)
		if err := dropCells(ctx, conn, slices.Collect(maps.Keys(days))); err != nil {
			return err
		}
		for _, statement := range []string{
			`DELETE FROM superseded WHERE "by" IN (SELECT seq ` + old + `)`,
			`DELETE FROM documents WHERE seq IN (SELECT seq ` + old + `)`,
			`DELETE ` + old,
		} {
			result, err := conn.ExecContext(ctx, statement)
			if err != nil {
				return err
			}
			if jobs, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		return nil
	})
	s.stale.add(days) // its last day may have jobs that stay
	if err != nil {
		return 0, fmt.Errorf("removing old jobs from the store: %w", err)
	}
	return jobs, nil
}
