package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	defer func() { err = errors.Join(err, giveBack(ctx, conn)) }()
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION"); err != nil {
		return err
	}
	if err := do(conn); err != nil {
		return err
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
	return errors.Is(err, errRow) && !broken(err) && !Outside(err) && !hasKind(err, "Out of Memory Error", "could not allocate")
}

// Outside reports whether the disk or the end of the caller's context is the cause of an error of [Store.Apply],
// with which the entries have nothing to do. Other errors of the database, such as one about its memory, may
// be the fault of an entry if they come again and again.
//
// The names of errors get lost where DuckDB wraps them, as in those of a commit.
func Outside(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrConnDone) ||
		hasKind(err, "IO Error", "INTERRUPT Error", "No space left on device", "Disk quota exceeded", "Input/output error", "Read-only file system",
			"Could not write", "Could not read", "Could not fsync", "Could not truncate", "Could not open", "Cannot open", "database is closed", "opening the database again")
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

// RowGroup is how many rows DuckDB writes together. A transaction of as many rows writes them once; smaller
// ones add to rows that are written again at the next checkpoint.
const RowGroup = 122_880

// Apply adds documents in one transaction: [Store.ApplyAll] of one part.
func (s *Store) Apply(ctx context.Context, entries []Entry) (Outcome, error) {
	part := &Part{Entries: entries}
	return s.ApplyAll(ctx, func() (next *Part, err error) {
		next, part = part, nil
		return next, nil
	})
}

// ApplyAll adds documents in one transaction. next returns one part of them after the other, and nil or an empty
// one at the end; a part is freed before the next call. Entries come in the order of their numbers.
// Those that an earlier transaction has applied are skipped, so that a caller that does not know how far it
// got can call it again: each document is applied exactly once.
//
// The same run of the same job is one row. Its document is replaced by a later one that differs,
// and the older one goes into the table superseded. An imported document does not replace one that
// Slurm sent, and a job's start does not replace its end. A record of a job that waited is replaced by
// a later record of a run of the same submission.
func (s *Store) ApplyAll(ctx context.Context, next func() (*Part, error)) (out Outcome, err error) {
	days := make(map[int64]bool)
	err = s.write(ctx, func(conn *sql.Conn) error {
		b := batch{ctx: ctx, conn: conn, out: &out, rules: map[string]int64{}, days: days}
		return b.applyAll(next)
	})
	if out.Added+out.Replaced >= releaseRows {
		release()
	}
	s.stale.add(days) // after an error too: it is not known whether it was committed
	if err != nil {
		return Outcome{}, fmt.Errorf("writing jobs to the store: %w", err)
	}
	return out, nil
}

// batch is one transaction of documents.
type batch struct {
	ctx     context.Context
	conn    *sql.Conn
	out     *Outcome
	rules   map[string]int64
	days    map[int64]bool // of the ends of jobs that it adds or removes; they have no cells
	applied int64          // the last document of earlier transactions
	records bool           // it has runs from other sources than Slurm's documents
}

// applyAll applies one part after the other, and notes how far the tables are.
func (b *batch) applyAll(next func() (*Part, error)) error {
	if err := b.conn.QueryRowContext(b.ctx, "SELECT seq FROM applied").Scan(&b.applied); err != nil {
		return err
	}
	for last := b.applied; ; {
		part, err := next()
		if err != nil {
			return err
		}
		if part == nil || len(part.Entries) == 0 {
			if last == b.applied {
				return nil
			}
			if err := b.dropWaiting(); err != nil {
				return err
			}
			return b.finish(last)
		}
		last = max(last, part.Entries[len(part.Entries)-1].Seq)
		err = b.apply(part)
		part.Free()
		if err != nil {
			return err
		}
	}
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

// apply applies a part.
func (b *batch) apply(p *Part) error {
	entries := p.Entries
	for len(entries) > 0 && entries[0].Seq <= b.applied {
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
	texts, err := b.documents(known)
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
			had := texts[old.seq]
			if old.at >= 0 {
				had = entries[old.at].Document
			}
			if bytes.Equal(had, e.Document) {
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
		b.records = b.records || !e.Source.Sent() && !e.Job.Start.IsZero()
	}
	last(lost, bySuccessor)
	days, err := b.remove(remove, bySuccessor)
	if err != nil {
		return err
	}
	for i := range entries {
		if keep[i] && !entries[i].Job.End.IsZero() {
			days[dayOf(entries[i].Job.End)] = true
		}
	}
	if err := b.dropCells(days); err != nil {
		return err
	}
	var made []*chunk
	if len(entries) == len(p.Entries) && !slices.Contains(keep, false) {
		made = p.jobs
	}
	return b.add(entries, keep, made, lost)
}

// last makes the row that a job keeps the successor of all its documents that were replaced. lost is in the
// order of arrival.
func last(lost []superseded, bySuccessor map[int64]int64) {
	final := make(map[int64]int64, len(lost))
	for i := len(lost) - 1; i >= 0; i-- {
		l := &lost[i]
		if by, ok := final[l.by]; ok {
			l.by = by
		}
		final[l.seq] = l.by
	}
	for seq, by := range bySuccessor {
		if by, ok := final[by]; ok {
			bySuccessor[seq] = by
		}
	}
}

// dropCells removes the cells of days, unless an earlier part has.
func (b *batch) dropCells(days map[int64]bool) error {
	var list []int64
	for day := range days {
		if !b.days[day] {
			list = append(list, day)
		}
	}
	maps.Copy(b.days, days)
	return dropCells(b.ctx, b.conn, list)
}

// standing returns what the tables have of the entries' runs.
func (b *batch) standing(entries []Entry) (map[runKey]standing, error) {
	if _, err := b.conn.ExecContext(b.ctx, "CREATE TEMP TABLE IF NOT EXISTS incoming (cluster VARCHAR, jobid BIGINT, run BIGINT)"); err != nil {
		return nil, err
	}
	err := b.append("temp", "incoming", []string{"cluster", "jobid", "run"}, func(to *rows) error {
		for i := range entries {
			if err := to.next(); err != nil {
				return err
			}
			j := &entries[i].Job
			to.cell(0).setText(j.Cluster)
			to.cell(1).setInt(j.JobID)
			to.cell(2).setInt(j.Run)
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

// mostNumbers is how many numbers of rows a statement has at most.
const mostNumbers = 1000

// documents returns the documents of rows of the tables, by their numbers.
func (b *batch) documents(of map[runKey]standing) (map[int64][]byte, error) {
	texts := make(map[int64][]byte, len(of))
	numbers := make([]int64, 0, len(of))
	for _, s := range of {
		numbers = append(numbers, s.seq)
	}
	slices.Sort(numbers) // rows that lie near each other are read together
	for part := range slices.Chunk(numbers, mostNumbers) {
		if err := b.readDocuments(part, texts); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func (b *batch) readDocuments(numbers []int64, to map[int64][]byte) error {
	var list strings.Builder
	for _, seq := range numbers {
		fmt.Fprintf(&list, ", %d", seq)
	}
	found, err := b.conn.QueryContext(b.ctx, fmt.Sprintf("SELECT seq, document FROM documents WHERE seq BETWEEN %d AND %d AND seq IN (%s)",
		numbers[0], numbers[len(numbers)-1], list.String()[2:]))
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var seq int64
		var text []byte
		if err := found.Scan(&seq, &text); err != nil {
			return err
		}
		to[seq] = text
	}
	return found.Err()
}

// dropWaiting removes the rows of jobs that waited when they were recorded, and of which later rows say that
// they ran. Slurm's documents are about ended runs, so only records have such jobs.
func (b *batch) dropWaiting() error {
	if !b.records {
		return nil
	}
	const waited = "state = 'PENDING' AND start_time IS NULL AND end_time IS NULL"
	var first int64 // the tables' order is that of seq, so rows before it are not read
	// min(seq) is an internal error of DuckDB 1.5 if all rows are of this transaction.
	switch err := b.conn.QueryRowContext(b.ctx, "SELECT seq FROM jobs WHERE "+waited+" ORDER BY seq LIMIT 1").Scan(&first); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	found, err := b.conn.QueryContext(b.ctx, `SELECT w.seq, max(r.seq) FROM (FROM jobs WHERE `+waited+`) w
		JOIN (FROM jobs WHERE seq > ? AND start_time IS NOT NULL) r USING (cluster, jobid, submit_time) WHERE r.seq > w.seq GROUP BY w.seq ORDER BY w.seq`, first)
	if err != nil {
		return err
	}
	defer found.Close()
	var remove []int64
	by := map[int64]int64{}
	for found.Next() {
		var seq, ran int64
		if err := found.Scan(&seq, &ran); err != nil {
			return err
		}
		remove = append(remove, seq)
		by[seq] = ran
		b.out.Replaced++
		if ran > b.applied { // not by an earlier transaction, which counted it
			b.out.Added--
		}
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return err
	}
	_, err = b.remove(remove, by) // no row has an end, so no cell changes
	return err
}

type superseded struct {
	seq, by  int64
	document []byte
}

// remove moves the documents of rows that are replaced to the table superseded. Those that such a row
// replaced before get its successor, so that [Store.Expire] finds them. It returns the days of the jobs' ends.
func (b *batch) remove(rows []int64, by map[int64]int64) (days map[int64]bool, err error) {
	days = make(map[int64]bool)
	for part := range slices.Chunk(rows, mostNumbers) {
		var list strings.Builder
		for i, seq := range part {
			if i > 0 {
				list.WriteString(", ")
			}
			fmt.Fprintf(&list, "(%d, %d)", seq, by[seq])
		}
		ended, err := readDays(b.ctx, b.conn, fmt.Sprintf(`SELECT DISTINCT %s::BIGINT FROM jobs WHERE end_time IS NOT NULL AND seq IN (SELECT seq FROM (VALUES %s) r(seq, "by"))`, dayOfEnd, list.String()))
		if err != nil {
			return nil, err
		}
		maps.Copy(days, ended)
		for _, statement := range []string{
			`UPDATE superseded SET "by" = r."by" FROM (VALUES %s) r(seq, "by") WHERE superseded."by" = r.seq`,
			`INSERT INTO superseded SELECT d.seq, r."by", d.document FROM documents d JOIN (VALUES %s) r(seq, "by") ON d.seq = r.seq`,
			`DELETE FROM documents WHERE seq IN (SELECT seq FROM (VALUES %s) r(seq, "by"))`,
			`DELETE FROM jobs WHERE seq IN (SELECT seq FROM (VALUES %s) r(seq, "by"))`,
		} {
			if _, err := b.conn.ExecContext(b.ctx, fmt.Sprintf(statement, list.String())); err != nil {
				return nil, err
			}
		}
	}
	return days, nil
}

// add appends the entries to keep. made are the rows of all entries, or nil.
func (b *batch) add(entries []Entry, keep []bool, made []*chunk, lost []superseded) error {
	// each appends a row for each entry to keep.
	each := func(set func(to *rows, e *Entry)) func(to *rows) error {
		return func(to *rows) error {
			for i := range entries {
				if !keep[i] {
					continue
				}
				if err := to.next(); err != nil {
					return err
				}
				set(to, &entries[i])
			}
			return nil
		}
	}
	jobs := each(func(to *rows, e *Entry) { to.set(e) })
	if made != nil {
		jobs = func(to *rows) error {
			for _, c := range made {
				if err := to.send(c); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := b.append("jobs", "jobs", columnNames(), jobs); err != nil {
		return err
	}
	err := b.append("jobs", "documents", []string{"seq", "document"}, each(func(to *rows, e *Entry) {
		to.cell(0).setInt(e.Seq)
		setBytes(to.cell(1), e.Document)
	}))
	if err != nil || len(lost) == 0 {
		return err
	}
	return b.append("jobs", "superseded", []string{"seq", "by", "document"}, func(to *rows) error {
		for _, l := range lost {
			if err := to.next(); err != nil {
				return err
			}
			to.cell(0).setInt(l.seq)
			to.cell(1).setInt(l.by)
			setBytes(to.cell(2), l.document)
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
func (b *batch) append(catalog, table string, columns []string, fill func(to *rows) error) error {
	return b.conn.Raw(func(raw any) error {
		to, err := openRows(raw, catalog, table, columns)
		if err != nil {
			return err
		}
		return to.close(fill(to))
	})
}
