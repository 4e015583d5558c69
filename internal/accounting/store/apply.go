package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"rmreplay/internal/accounting/columnar"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Names in a store's counts, in addition to the rule names of package document.
const (
	CountDuplicate = "duplicate"
	CountReplaced  = "replaced"
	CountKept      = "kept_received"
)

// tailRows is the highest number of rows that a fresh part (one that is not yet durable) can have and still be
// rewritten with additional rows. Rewriting takes up to 10 ms.
const tailRows = 1000

// maxFresh limits the rows that are not yet durable (fresh rows): [Store.Apply] waits for compaction when these rows
// would fill maxFresh parts.
const maxFresh = 4

// Apply adds documents in the order of their numbers. A view that is made later has all these documents. A document is
// durable once [Store.Durable] has reached its number; until then, a journal must keep the document. Entries that an
// earlier call applied are skipped: after an error, a caller can pass the same entries again, and each is applied
// exactly once.
//
// A run of a job has one row. A later, different document replaces the row. But an imported
// document does not replace one from Slurm, and the start of a job does not replace its end. A
// record of a waiting job is replaced by a later record of the same submission that has a run.
func (s *Store) Apply(ctx context.Context, entries []Entry) (out Outcome, err error) {
	prepared := prepare(entries)
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.room(ctx); err != nil {
		return out, fmt.Errorf("writing jobs to the store: %w", err)
	}
	a := &addition{s: s, next: s.successor(), counts: map[string]int64{}, gone: map[int64]int64{}, own: map[key]int{}}
	if err := a.take(prepared); err != nil {
		return out, fmt.Errorf("writing jobs to the store: %w", err)
	}
	if a.through == 0 {
		return a.out, nil
	}
	if err := a.finish(); err != nil {
		return out, fmt.Errorf("writing jobs to the store: %w", err)
	}
	s.wake()
	return a.out, nil
}

// room waits until fewer rows are fresh (not yet durable) than Apply allows.
func (s *Store) room(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.less.Broadcast)()
	for {
		rows := 0
		for _, b := range s.now.fresh {
			rows += len(b.rows)
		}
		switch {
		case s.isClosed():
			return errors.New("the store is closed")
		case rows < maxFresh*s.opts.partRows:
			return nil
		case s.fault != nil:
			return s.fault
		case ctx.Err() != nil:
			return ctx.Err()
		}
		s.less.Wait()
	}
}

// prepared is an entry with its key and the facts that decide whether it replaces a row.
type prepared struct {
	*Entry
	keyed
}

// prepare computes the keys of entries, in parallel on all processors.
func prepare(entries []Entry) []prepared {
	list := make([]prepared, len(entries))
	var group sync.WaitGroup
	workers := min(runtime.NumCPU(), len(entries)/64+1)
	for k := range workers {
		group.Go(func() {
			for i := k; i < len(entries); i += workers {
				e := &entries[i]
				list[i] = prepared{e, keyed{keyOf(e.Job.Cluster, e.Job.JobID, e.Job.Run), standing{e.Seq, digest(e.Document), traitsOf(e)}}}
			}
		})
	}
	group.Wait()
	return list
}

// addition is the state of one call of [Store.Apply].
type addition struct {
	s       *Store
	next    *state
	out     Outcome
	counts  map[string]int64
	rows    []prepared
	dropped []bool          // true for a row that a later entry of this call has replaced
	own     map[key]int     // key to position in rows
	gone    map[int64]int64 // maps the number of each replaced row of an earlier call to the number of the new document
	lost    []prepared      // the documents that replace rows of earlier calls; each has the cluster of its replaced row
	was     []keyed         // the replaced rows of earlier calls
	through int64           // number of the last entry
}

// take decides for each entry whether it is added, replaces a row, or is ignored.
func (a *addition) take(list []prepared) error {
	for i := range list {
		e := &list[i]
		if e.Seq <= a.next.applied {
			a.out.Skipped++
			continue
		}
		a.through = e.Seq
		for _, name := range e.Job.Marks.Names() {
			a.counts[name]++
		}
		if err := a.decide(e); err != nil {
			return err
		}
	}
	for name, n := range map[string]int{CountDuplicate: a.out.Duplicate, CountReplaced: a.out.Replaced, CountKept: a.out.Kept} {
		if n > 0 {
			a.counts[name] += int64(n)
		}
	}
	return nil
}

func (a *addition) decide(e *prepared) error {
	old, there, err := a.find(e.key)
	if err != nil {
		return err
	}
	switch {
	case !there:
		a.out.Added++
	case old.traits.source().Sent() && !e.Source.Sent():
		a.out.Kept++
		return nil
	case old.traits&ended != 0 && e.traits&ended == 0, old.digest == e.digest:
		a.out.Duplicate++
		return nil
	default:
		a.out.Replaced++
		a.replace(e.key, old, e)
	}
	a.own[e.key] = len(a.rows)
	a.rows, a.dropped = append(a.rows, *e), append(a.dropped, false)
	if e.Source.Sent() || e.Job.Start.IsZero() || e.Job.Submit.IsZero() {
		return nil
	}
	waited := keyOf(e.Job.Cluster, e.Job.JobID, -e.Job.Submit.Unix())
	old, there, err = a.find(waited)
	if err != nil || !there || old.traits&waiting == 0 {
		return err
	}
	a.out.Replaced++
	a.out.Added--
	a.replace(waited, old, e)
	delete(a.own, waited)
	return nil
}

// replace removes the row of a key because the entry e replaces it.
func (a *addition) replace(k key, old standing, e *prepared) {
	if at, ok := a.own[k]; ok {
		a.dropped[at] = true
		return
	}
	a.gone[old.seq] = e.Seq
	a.lost, a.was = append(a.lost, *e), append(a.was, keyed{k, old})
}

// find returns the standing of the row with a key.
func (a *addition) find(k key) (found standing, ok bool, err error) {
	if at, ok := a.own[k]; ok {
		return a.rows[at].standing, true, nil
	}
	if found, ok = a.s.recent[k]; ok && a.present(found.seq) {
		return found, true, nil
	}
	for _, p := range slices.Backward(a.next.parts) {
		if !p.filter.has(k) {
			continue
		}
		table, err := a.s.keys.get(p.paths[1])
		if err != nil {
			return found, false, err
		}
		ok := false
		table.find(k, func(s standing) {
			if a.present(s.seq) {
				found, ok = s, true
			}
		})
		if ok {
			return found, true, nil
		}
	}
	return standing{}, false, nil
}

func (a *addition) present(seq int64) bool {
	_, before := a.s.gone[seq]
	_, now := a.gone[seq]
	return !before && !now
}

// finish writes the rows, and publishes a state with these rows.
func (a *addition) finish() error {
	s, next := a.s, a.next
	var entries []Entry
	var rows []keyed
	for i := range a.rows {
		if !a.dropped[i] {
			entries, rows = append(entries, *a.rows[i].Entry), append(rows, a.rows[i].keyed)
		}
	}
	maps.Copy(s.gone, a.gone)
	undo := func(err error) error {
		for seq := range a.gone {
			delete(s.gone, seq)
		}
		return err
	}
	next.applied = a.through
	next.counts = maps.Clone(next.counts)
	for name, n := range a.counts {
		next.counts[name] += n
	}
	taken, err := s.append(next, entries, rows, a.through, a.counts)
	if err != nil {
		return undo(err)
	}
	for seq := range taken { // the last part was rewritten without these rows
		delete(s.gone, seq)
	}
	if len(a.gone)+len(taken) > 0 {
		if err := s.setGone(next); err != nil {
			maps.Copy(s.gone, taken)
			return undo(err)
		}
	}
	s.mu.Lock()
	for i := range entries {
		s.totals.add(entries[i].Job.Cluster, entries[i].Source, 1)
	}
	for i := range a.lost {
		s.totals.add(a.lost[i].Job.Cluster, a.was[i].traits.source(), -1)
	}
	s.mu.Unlock()
	s.publish(next)
	for _, row := range a.was {
		delete(s.recent, row.key)
	}
	for i := range rows {
		s.recent[rows[i].key] = rows[i].standing
	}
	return nil
}

// append adds a batch to a state. A small last batch is merged with the new batch, without the rows that have been
// replaced. taken maps the number of each row left out in this way to the number of the document that replaced it.
func (s *Store) append(next *state, entries []Entry, rows []keyed, through int64, counts map[string]int64) (taken map[int64]int64, err error) {
	taken = make(map[int64]int64)
	b := &batch{rows: rows, through: through, counts: counts}
	keep := next.fresh
	if n := len(keep); n > 0 && !keep[n-1].held && len(keep[n-1].rows)+len(rows) <= tailRows && (keep[n-1].entries != nil || keep[n-1].part == nil) {
		last := keep[n-1]
		var before []Entry
		var beforeRows []keyed
		for i := range last.rows {
			if by, ok := s.gone[last.rows[i].seq]; ok {
				taken[last.rows[i].seq] = by
				continue
			}
			before, beforeRows = append(before, last.entries[i]), append(beforeRows, last.rows[i])
		}
		entries, b.rows, b.counts = slices.Concat(before, entries), slices.Concat(beforeRows, rows), maps.Clone(last.counts)
		for name, n := range counts {
			b.counts[name] += n
		}
		keep = keep[:n-1]
	}
	if len(entries) > 0 {
		if b.part, err = s.writeFresh(entries); err != nil {
			return nil, err
		}
		if len(entries) < tailRows {
			b.entries = entries
		}
	}
	next.fresh = append(slices.Clip(keep), b)
	return taken, nil
}

// writeFresh writes the given entries into a fresh part, one that is not yet durable.
func (s *Store) writeFresh(entries []Entry) (*part, error) {
	s.named++
	path := s.path(freshDir, fmt.Sprintf("%d.parquet", s.named))
	p := &part{file: file{paths: []string{path}}, info: partInfo{First: entries[0].Seq, Last: entries[len(entries)-1].Seq, Rows: int64(len(entries))}}
	for i := range entries {
		p.info.extend(entries[i].Job.End)
	}
	var err error
	p.info.Jobs, err = jobLayout.Write(path, columnar.Quick, false, fillEntries(entries))
	return p, err
}

// extend widens the part's range of end times to include the instant in the parameter end, unless it is zero.
func (p *partInfo) extend(end time.Time) {
	if end.IsZero() {
		return
	}
	if p.FirstEnd.IsZero() || end.Before(p.FirstEnd) {
		p.FirstEnd = end
	}
	if end.After(p.LastEnd) {
		p.LastEnd = end
	}
}

// Row returns a document's values in the order of [Columns]: an int64, float64, string, UTC instant, or nil for each.
func Row(e *Entry) []any {
	row := make([]any, len(Columns))
	for i, c := range Columns {
		row[i] = valueOf(c.of(e), jobLayout.Columns[i].Kind)
	}
	return row
}

func valueOf(v parquet.Value, kind string) any {
	switch {
	case v.IsNull():
		return nil
	case kind == "TIMESTAMP":
		return time.UnixMicro(v.Int64()).UTC()
	case kind == "DOUBLE":
		return v.Double()
	case kind == "VARCHAR":
		return string(v.ByteArray())
	case kind == "BLOB":
		return slices.Clone(v.ByteArray())
	}
	return v.Int64()
}
