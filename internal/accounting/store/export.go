package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// longRead bounds exports and backups.
const longRead = 6 * time.Hour

// Filter chooses jobs. Its zero value chooses all.
type Filter struct {
	// From and To choose the jobs that were in the cluster at a time between them: submitted before
	// To, and not ended before From. Zero times bound nothing.
	From, To time.Time
	// EndedFrom and EndedTo choose the jobs that ended between them, EndedTo excluded.
	EndedFrom, EndedTo time.Time
	Clusters           []string // any of them
	// Where is a condition in SQL over the columns of jobs. It is not for texts of strangers: it can
	// read whatever the store has.
	Where string
}

// condition returns the filter in SQL.
func (f *Filter) condition() string {
	at := func(t time.Time) string { return fmt.Sprintf("make_timestamp(%d)", t.UnixMicro()) }
	parts := []string{"true"}
	for _, bound := range []struct {
		t         time.Time
		condition string
	}{
		{f.To, "coalesce(submit_time, start_time, end_time) < %s"}, {f.From, "coalesce(end_time, start_time, submit_time) >= %s"},
		{f.EndedFrom, "end_time >= %s"}, {f.EndedTo, "end_time < %s"},
	} {
		if !bound.t.IsZero() {
			parts = append(parts, fmt.Sprintf(bound.condition, at(bound.t)))
		}
	}
	if len(f.Clusters) > 0 {
		var names []string
		for _, name := range f.Clusters {
			names = append(names, quote(name))
		}
		parts = append(parts, "cluster IN ("+strings.Join(names, ", ")+")")
	}
	if f.Where != "" {
		parts = append(parts, "(\n"+f.Where+"\n)") // a comment in it ends with its line
	}
	return strings.Join(parts, " AND ")
}

// Stored is a document of the store.
type Stored struct {
	Seq      int64
	Source   Source
	Cluster  string
	Document []byte
}

// Documents calls each with the documents of the jobs that a filter chooses, in the order of their
// arrival. each must not keep the document's bytes.
func (s *Store) Documents(ctx context.Context, f Filter, each func(d *Stored) error) error {
	return s.read(ctx, longRead, func(v *Snapshot) error {
		rows, err := v.Query("SELECT j.seq, j.source, j.cluster, d.document FROM jobs j JOIN documents d ON d.seq = j.seq WHERE j.seq IN (SELECT seq FROM jobs WHERE " +
			f.condition() + ") ORDER BY j.seq")
		if err != nil {
			return fmt.Errorf("reading jobs: %w", err)
		}
		defer rows.Close()
		var d Stored
		var text sql.RawBytes
		for rows.Next() {
			if err := rows.Scan(&d.Seq, &d.Source, &d.Cluster, &text); err != nil {
				return err
			}
			d.Document = text
			if err := each(&d); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Table is a file format of [Store.Export].
type Table string

// The formats.
const (
	Parquet Table = "parquet" // compressed with Zstandard
	CSV     Table = "csv"     // with a header, UTF-8
)

// A spreadsheet takes a text of a job such as =1+1 in a cell of CSV for a formula. DuckDB's COPY writes it as it is; a writer
// of CSV must write each text by inert.Cell, or all rows by inert.NewWriter.

// Export writes the jobs that a filter chooses, with all columns, into a file in the store's
// directory for temporary files, and returns its path and the number of jobs. The caller removes it.
func (s *Store) Export(ctx context.Context, f Filter, format Table) (path string, jobs int64, err error) {
	options := "FORMAT parquet, COMPRESSION zstd"
	if format == CSV {
		options = "FORMAT csv, HEADER"
	}
	path = filepath.Join(s.dir, temporary, rand.Text()+"."+string(format))
	err = s.read(ctx, longRead, func(v *Snapshot) error {
		result, err := v.conn.ExecContext(v.ctx, fmt.Sprintf("COPY (SELECT * FROM jobs WHERE %s ORDER BY seq) TO %s (%s)", f.condition(), quote(path), options))
		if err != nil {
			return err
		}
		jobs, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return "", 0, errors.Join(fmt.Errorf("exporting jobs: %w", err), removeIfThere(path))
	}
	return path, jobs, nil
}

// Backup writes a copy of the database, as it is now, into the store's directory for temporary
// files, and returns its path. The caller removes it. Neither readers nor the writer wait.
func (s *Store) Backup(ctx context.Context) (path string, err error) {
	name := "backup_" + rand.Text()
	path = filepath.Join(s.dir, temporary, name+".duckdb")
	s.mu.RLock()
	defer s.mu.RUnlock()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("copying the store: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err = conn.ExecContext(ctx, fmt.Sprintf("ATTACH %s AS %s (STORAGE_VERSION 'latest')", quote(path), name)); err == nil {
		_, err = conn.ExecContext(ctx, "COPY FROM DATABASE jobs TO "+name)
		_, end := conn.ExecContext(context.WithoutCancel(ctx), "DETACH "+name)
		err = errors.Join(err, end)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("copying the store: %w", err), removeIfThere(path))
	}
	return path, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
