package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// write calls do within a transaction, which it commits unless do returns an error. One write runs
// at a time.
func (s *Store) write(ctx context.Context, do func(conn *sql.Conn) error) (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	db := s.current()
	defer func() {
		if err != nil && broken(err) {
			err = errors.Join(err, s.reopen(ctx, db))
		}
	}()
	if s.closed {
		return errors.New("the store is closed")
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION"); err != nil {
		return err
	}
	if err := do(conn); err != nil {
		_, end := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, end)
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// current returns the database.
func (s *Store) current() *sql.DB {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.db
}

// reopen replaces a database that refuses all work after a fatal error, such as a full disk. What
// was committed is in its files. It waits for reads that are under way, which the error ends too.
// Where somebody has replaced it before, it does nothing.
func (s *Store) reopen(ctx context.Context, old *sql.DB) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != old || s.closed {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return fmt.Errorf("opening the database again: %w", err)
	}
	return nil
}

// Outcome is what [Store.Apply] made of its entries.
type Outcome struct {
	Added     int // new jobs, and new runs of known jobs
	Duplicate int // documents that the store had
	Replaced  int // jobs whose document was replaced by a later one
	Kept      int // imported documents of jobs that Slurm had sent
	Skipped   int // entries that an earlier call has applied
}

// Add adds the outcome of another call.
func (o *Outcome) Add(more Outcome) {
	o.Added += more.Added
	o.Duplicate += more.Duplicate
	o.Replaced += more.Replaced
	o.Kept += more.Kept
	o.Skipped += more.Skipped
}

// errRow is the cause of the error of a row that could not be appended.
var errRow = errors.New("a row was refused")

// Refused reports whether an error of [Store.Apply] is about the entries: with the same entries, it
// will come again.
func Refused(err error) bool {
	return errors.Is(err, errRow) && !broken(err) && !hasKind(err, "IO Error", "Out of Memory Error", "INTERRUPT Error")
}

// broken reports whether the database refuses all work after an error.
func broken(err error) bool {
	return hasKind(err, "FATAL Error", "INTERNAL Error", "database has been invalidated", "database is closed")
}

// hasKind looks for the name of an error's kind. The driver keeps the text of every error, but the
// type of some only.
func hasKind(err error, names ...string) bool {
	text := err.Error()
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) })
}

// Checkpoint moves what was committed from the database's log into its file.
func (s *Store) Checkpoint(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	db := s.current()
	if _, err := db.ExecContext(ctx, "CHECKPOINT jobs"); err != nil {
		if broken(err) {
			err = errors.Join(err, s.reopen(ctx, db))
		}
		return fmt.Errorf("writing a checkpoint of the store: %w", err)
	}
	return nil
}

// The names in the table counts, beside those of package document.
const (
	CountDuplicate = "duplicate"
	CountReplaced  = "replaced"
	CountKept      = "kept_received"
)

// Apply adds documents in one transaction. Entries come in the order of their numbers. Those that
// an earlier call has applied are skipped, so that a caller that does not know how far it got can
// call it again: each document is applied exactly once.
//
// The same run of the same job is one row. Its document is replaced by a later one that differs,
// and the older one goes into the table superseded. An imported document does not replace one that
// Slurm sent, and a job's start does not replace its end.
func (s *Store) Apply(ctx context.Context, entries []Entry) (out Outcome, err error) {
	if len(entries) == 0 {
		return out, nil
	}
	err = s.write(ctx, func(conn *sql.Conn) error {
		out = Outcome{}
		b := batch{ctx: ctx, conn: conn, out: &out, rules: map[string]int64{}}
		return b.apply(entries)
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("writing jobs to the store: %w", err)
	}
	return out, nil
}

// batch is one call of Apply.
type batch struct {
	ctx   context.Context
	conn  *sql.Conn
	out   *Outcome
	rules map[string]int64
}

// runKey identifies a run of a job.
type runKey struct {
	cluster    string
	jobID, run int64
}

func keyOf(e *Entry) runKey { return runKey{e.Job.Cluster, e.Job.JobID, e.Job.Run} }

// standing is the row that a key has, in the tables or in the batch.
type standing struct {
	seq      int64
	source   Source
	finished bool
	at       int // index of the batch's entry; -1 for a row of the tables
}

func (b *batch) apply(entries []Entry) error {
	var applied int64
	if err := b.conn.QueryRowContext(b.ctx, "SELECT seq FROM applied").Scan(&applied); err != nil {
		return err
	}
	last := entries[len(entries)-1].Seq
	for len(entries) > 0 && entries[0].Seq <= applied {
		entries = entries[1:]
		b.out.Skipped++
	}
	if len(entries) == 0 {
		return nil
	}
	known, err := b.standing(entries)
	if err != nil {
		return err
	}
	keep := make([]bool, len(entries))
	var remove []int64 // rows of the tables
	bySuccessor := map[int64]int64{}
	var lost []superseded // entries of the batch itself
	for i := range entries {
		e := &entries[i]
		for _, name := range e.Job.Marks.Names() {
			b.rules[name]++
		}
		old, there := known[keyOf(e)]
		now := standing{e.Seq, e.Source, e.Job.Finished(), i}
		switch {
		case !there:
			b.out.Added++
		case old.source.Sent() && !e.Source.Sent():
			b.out.Kept++
			continue
		case old.finished && !now.finished:
			b.out.Duplicate++
			continue
		default:
			same, err := b.same(old, e, entries)
			if err != nil {
				return err
			}
			if same {
				b.out.Duplicate++
				continue
			}
			b.out.Replaced++
			if old.at >= 0 {
				keep[old.at] = false
				lost = append(lost, superseded{old.seq, e.Seq, entries[old.at].Document})
			} else {
				remove = append(remove, old.seq)
				bySuccessor[old.seq] = e.Seq
			}
		}
		keep[i] = true
		known[keyOf(e)] = now
	}
	if err := b.remove(remove, bySuccessor); err != nil {
		return err
	}
	if err := b.add(entries, keep, lost); err != nil {
		return err
	}
	return b.finish(last)
}

// standing returns what the tables have of the entries' runs.
func (b *batch) standing(entries []Entry) (map[runKey]standing, error) {
	if _, err := b.conn.ExecContext(b.ctx, "CREATE TEMP TABLE IF NOT EXISTS incoming (cluster VARCHAR, jobid BIGINT, run BIGINT)"); err != nil {
		return nil, err
	}
	err := b.append("temp", "incoming", []string{"cluster", "jobid", "run"}, func(row func(...driver.Value) error) error {
		for i := range entries {
			j := &entries[i].Job
			if err := row(j.Cluster, j.JobID, j.Run); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := b.conn.QueryContext(b.ctx, `SELECT j.cluster, j.jobid, j.run, j.seq, j.source, j.state IS NOT NULL OR j.end_time IS NOT NULL
		FROM jobs j SEMI JOIN incoming i ON j.jobid = i.jobid AND j.run = i.run AND j.cluster = i.cluster`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := make(map[runKey]standing)
	for rows.Next() {
		var key runKey
		at := standing{at: -1}
		if err := rows.Scan(&key.cluster, &key.jobID, &key.run, &at.seq, &at.source, &at.finished); err != nil {
			return nil, err
		}
		known[key] = at
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	_, err = b.conn.ExecContext(b.ctx, "DELETE FROM incoming")
	return known, err
}

// same reports whether an entry has the document of the standing row.
func (b *batch) same(old standing, e *Entry, entries []Entry) (bool, error) {
	if old.at >= 0 {
		return string(entries[old.at].Document) == string(e.Document), nil
	}
	var text []byte
	err := b.conn.QueryRowContext(b.ctx, "SELECT document FROM documents WHERE seq = ?", old.seq).Scan(&text)
	return string(text) == string(e.Document), err
}

type superseded struct {
	seq, by  int64
	document []byte
}

// remove moves the documents of rows that are replaced to the table superseded.
func (b *batch) remove(rows []int64, by map[int64]int64) error {
	const most = 1000 // numbers in a statement
	for len(rows) > 0 {
		part := rows[:min(most, len(rows))]
		rows = rows[len(part):]
		var list strings.Builder
		for i, seq := range part {
			if i > 0 {
				list.WriteString(", ")
			}
			fmt.Fprintf(&list, "(%d, %d)", seq, by[seq])
		}
		for _, statement := range []string{
			`INSERT INTO superseded SELECT d.seq, r."by", d.document FROM documents d JOIN (VALUES %s) r(seq, "by") ON d.seq = r.seq`,
			`DELETE FROM documents WHERE seq IN (SELECT seq FROM (VALUES %s) r(seq, "by"))`,
			`DELETE FROM jobs WHERE seq IN (SELECT seq FROM (VALUES %s) r(seq, "by"))`,
		} {
			if _, err := b.conn.ExecContext(b.ctx, fmt.Sprintf(statement, list.String())); err != nil {
				return err
			}
		}
	}
	return nil
}

// add appends the entries to keep.
func (b *batch) add(entries []Entry, keep []bool, lost []superseded) error {
	err := b.append("jobs", "jobs", columnNames(), func(row func(...driver.Value) error) error {
		values := make([]driver.Value, len(Columns))
		for i := range entries {
			if !keep[i] {
				continue
			}
			for c := range Columns {
				values[c] = Columns[c].value(&entries[i])
			}
			if err := row(values...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = b.append("jobs", "documents", []string{"seq", "document"}, func(row func(...driver.Value) error) error {
		for i := range entries {
			if keep[i] {
				if err := row(entries[i].Seq, entries[i].Document); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || len(lost) == 0 {
		return err
	}
	return b.append("jobs", "superseded", []string{"seq", "by", "document"}, func(row func(...driver.Value) error) error {
		for _, l := range lost {
			if err := row(l.seq, l.by, l.document); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish notes the counts and how far the tables are.
func (b *batch) finish(last int64) error {
	for name, n := range map[string]int{CountDuplicate: b.out.Duplicate, CountReplaced: b.out.Replaced, CountKept: b.out.Kept} {
		b.rules[name] += int64(n)
	}
	for name, n := range b.rules {
		if n == 0 {
			continue
		}
		_, err := b.conn.ExecContext(b.ctx, "INSERT INTO counts VALUES (?, ?) ON CONFLICT (rule) DO UPDATE SET documents = documents + excluded.documents", name, n)
		if err != nil {
			return err
		}
	}
	_, err := b.conn.ExecContext(b.ctx, "UPDATE applied SET seq = ?", last)
	return err
}

func columnNames() []string {
	names := make([]string, len(Columns))
	for i, c := range Columns {
		names[i] = c.Name
	}
	return names
}

// append appends rows to a table within the transaction.
func (b *batch) append(catalog, table string, columns []string, fill func(row func(...driver.Value) error) error) error {
	return b.conn.Raw(func(raw any) (err error) {
		appender, err := duckdb.NewAppenderWithColumns(raw.(driver.Conn), catalog, "main", table, columns)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, appender.Close()) }()
		return fill(func(values ...driver.Value) error {
			if err := appender.AppendRow(values...); err != nil {
				return fmt.Errorf("%w: %w", errRow, err)
			}
			return nil
		})
	})
}
