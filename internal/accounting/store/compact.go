package store

import (
	"errors"
	"fmt"
	"maps"
	"rmreplay/internal/accounting/columnar"
	"rmreplay/internal/accounting/rollup"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

const (
	// maxFreshParts is the highest number of parts that are not yet durable. Every part makes each question slower.
	maxFreshParts = 24
	// maxGoneShare is the divisor of a share: a part is rewritten when one row in maxGoneShare has been replaced.
	maxGoneShare = 20
	// fewParts is the number of neighbouring parts that are merged if their rows together fit into one part.
	fewParts        = 4
	pauseAfterFault = 5 * time.Second
)

func (s *Store) wake() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// compact is a goroutine that makes fresh rows durable, rewrites parts with replaced rows, and merges small neighbours.
func (s *Store) compact() {
	defer close(s.compacting)
	for {
		did, err := s.compactOnce(false)
		s.writing.Lock()
		s.fault = err
		s.less.Broadcast()
		s.writing.Unlock()
		var again <-chan time.Time
		if err != nil {
			s.opts.Report(fmt.Errorf("writing a part of the store: %w", err))
			again = time.After(pauseAfterFault)
		} else if did {
			again = time.After(0)
		}
		select {
		case <-s.stop:
			if err == nil {
				if err := s.Seal(); err != nil {
					s.opts.Report(fmt.Errorf("%w (the journal has its jobs)", err))
				}
			}
			return
		case <-again:
		case <-s.work:
			if err != nil { // for example, the disk is full
				select {
				case <-again:
				case <-s.stop:
					return
				}
			}
		}
	}
}

// compactOnce does the most urgent piece of work, and reports whether there was work to do.
func (s *Store) compactOnce(all bool) (did bool, err error) {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	v := s.View()
	defer v.Close()
	st := v.st
	rows, fresh := 0, 0
	for i, b := range st.fresh {
		rows += len(b.rows)
		if b.part != nil {
			fresh++
		}
		if rows >= s.opts.partRows {
			return true, s.seal(i + 1)
		}
	}
	if all && len(st.fresh) > 0 {
		return true, s.seal(len(st.fresh))
	}
	if fresh > maxFreshParts {
		return true, s.mergeFresh(st)
	}
	return s.compactParts(st)
}

// compactParts rewrites one part that has lost many rows, or merges several small neighbours.
func (s *Store) compactParts(st *state) (did bool, err error) {
	for i, p := range st.parts {
		lost := int64(0)
		for _, seq := range st.goneIn(p) {
			if s.isDurable(seq) {
				lost++
			}
		}
		if lost > 0 && lost*maxGoneShare >= p.info.Rows {
			return true, s.rewrite(st, i, i+1)
		}
	}
	for i := range st.parts {
		rows := int64(0)
		to := i
		for ; to < len(st.parts) && rows+st.parts[to].info.Rows <= int64(s.opts.partRows); to++ {
			rows += st.parts[to].info.Rows
		}
		if to-i >= fewParts {
			return true, s.rewrite(st, i, to)
		}
	}
	return false, nil
}

// isDurable reports whether the document that replaced a row is durable, so that the row can be deleted.
func (s *Store) isDurable(seq int64) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	by, ok := s.gone[seq]
	return ok && by <= s.durable.Applied
}

// source is a part whose rows are copied into another part.
type source struct {
	part *part
	rows []keyed                 // in the part's order
	anew map[int][]parquet.Value // by column: recomputed values that replace the part's; see [Store.renew]
}

// hold returns a view, and marks the first n batches of the view, so that no rows are added to these batches.
func (s *Store) hold(n int) *View {
	s.writing.Lock()
	defer s.writing.Unlock()
	v := s.View()
	for _, b := range v.st.fresh[:n] {
		b.entries, b.held = nil, true
	}
	return v
}

// seal writes the first n batches into one durable part.
func (s *Store) seal(n int) error {
	v := s.hold(n)
	defer v.Close()
	st, batches := v.st, v.st.fresh[:n]
	through := batches[len(batches)-1].through
	var from []source
	counts := map[string]int64{}
	for _, b := range batches {
		if b.part != nil {
			from = append(from, source{part: b.part, rows: b.rows})
		}
		for name, n := range b.counts {
			counts[name] += n
		}
	}
	drop := make(map[int64]bool)
	for _, row := range st.gone {
		drop[row.seq] = row.by <= through
	}
	p, err := s.writePart(from, func(seq int64) bool { return drop[seq] })
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.less.Broadcast()
	next := s.successor()
	next.fresh = slices.Clone(next.fresh[len(batches):])
	if p != nil {
		next.parts = append(slices.Clip(next.parts), p)
	}
	err = s.exchange(next, from, p, drop, func(m *manifest) {
		m.Applied = through
		for name, n := range counts {
			m.Counts[name] += n
		}
	})
	if err != nil {
		return err
	}
	for _, b := range batches {
		for _, row := range b.rows {
			if s.recent[row.key].seq == row.seq {
				delete(s.recent, row.key)
			}
		}
	}
	return nil
}

// forgetGone deletes rows from s.gone that the new part does not contain, and returns them.
func (s *Store) forgetGone(from []source, drop map[int64]bool) (dropped map[int64]int64) {
	dropped = make(map[int64]int64)
	for _, f := range from {
		for _, row := range f.rows {
			if by, ok := s.gone[row.seq]; ok && drop[row.seq] {
				dropped[row.seq] = by
				delete(s.gone, row.seq)
			}
		}
	}
	return dropped
}

// rewrite writes the durable parts with the indices from first to end-1 into one durable part.
func (s *Store) rewrite(st *state, first, end int) error {
	var from []source
	for _, p := range st.parts[first:end] {
		rows, err := p.keyed()
		if err != nil {
			return err
		}
		f := source{part: p, rows: rows}
		if s.durable.Format < Format {
			if err := f.renew(); err != nil {
				return err
			}
		}
		from = append(from, f)
	}
	drop := make(map[int64]bool)
	s.writing.Lock()
	applied := s.durable.Applied
	s.writing.Unlock()
	for _, row := range st.gone {
		drop[row.seq] = row.by <= applied
	}
	p, err := s.writePart(from, func(seq int64) bool { return drop[seq] })
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.put(from, p, drop, 0)
}

// put replaces the sources in the list from by the part p, which may be nil, and counts removed jobs. The caller holds
// s.writing.
func (s *Store) put(from []source, p *part, drop map[int64]bool, removed int64) error {
	next := s.successor()
	next.removed += removed
	at := slices.Index(next.parts, from[0].part)
	var put []*part
	if p != nil {
		put = []*part{p}
	}
	next.parts = slices.Concat(next.parts[:at], put, next.parts[at+len(from):])
	return s.exchange(next, from, p, drop, nil)
}

// exchange commits a state in which the part p has replaced the sources in the list from. The caller holds s.writing.
func (s *Store) exchange(next *state, from []source, p *part, drop map[int64]bool, change func(m *manifest)) (err error) {
	dropped := s.forgetGone(from, drop)
	if len(dropped) > 0 {
		err = s.setGone(next)
	}
	if err == nil {
		err = s.commit(next, change)
	}
	if err != nil {
		maps.Copy(s.gone, dropped)
		return errors.Join(err, p.remove())
	}
	return nil
}

// keyed returns the keys of a durable part's rows, in their order.
func (p *part) keyed() ([]keyed, error) {
	table, err := readKeys(p.paths[1])
	if err != nil {
		return nil, err
	}
	rows := make([]keyed, table.len())
	for i := range rows {
		rows[i] = table.at(i)
	}
	slices.SortFunc(rows, func(a, b keyed) int { return int(a.seq - b.seq) })
	if int64(len(rows)) != p.info.Rows {
		return nil, fmt.Errorf("reading %s: the file is damaged: it has %d keys (want %d)", p.paths[1], len(rows), p.info.Rows)
	}
	return rows, nil
}

// remove deletes the part's files. p may be nil.
func (p *part) remove() (err error) {
	if p == nil {
		return nil
	}
	p.forget()
	for _, path := range p.paths {
		err = errors.Join(err, columnar.Remove(path))
	}
	return err
}

// writePart writes the rows for which the function drop returns false into a new durable part. If there are no
// such rows, the result p is nil.
func (s *Store) writePart(from []source, drop func(seq int64) bool) (p *part, err error) {
	var rows []keyed
	for _, f := range from {
		for _, row := range f.rows {
			if !drop(row.seq) {
				rows = append(rows, row)
			}
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	s.writing.Lock()
	name := s.name()
	s.writing.Unlock()
	info := partInfo{Name: name, First: rows[0].seq, Last: rows[len(rows)-1].seq, Rows: int64(len(rows))}
	p = &part{info: info, file: file{paths: []string{s.path(jobsDir, name+".parquet"), s.path(keysDir, name+".keys"), s.path(cellsDir, name+".parquet")}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	if p.info.Jobs, err = s.copyRows(p.jobs(), columnar.Small, true, from, drop); err != nil {
		return nil, err
	}
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	if r.Rows() != p.info.Rows {
		return nil, fmt.Errorf("writing %s: %d rows (want %d)", p.jobs(), r.Rows(), p.info.Rows)
	}
	jobs, texts, err := rollup.Read(r)
	if err != nil {
		return nil, err
	}
	p.info.describe(jobs, texts, rows)
	if p.info.Cells, err = rollup.Write(p.paths[2], jobs, texts); err != nil {
		return nil, err
	}
	if p.info.Keys, err = writeKeys(p.paths[1], info.First, rows); err != nil {
		return nil, err
	}
	p.filter, err = readBloom(p.paths[1])
	return p, err
}

// describe counts the part's rows by cluster and by source, and finds the range of their end times.
func (p *partInfo) describe(jobs []rollup.Job, texts []string, rows []keyed) {
	p.Clusters, p.Sources = map[string]int64{}, map[Source]int64{}
	for i := range jobs {
		p.Clusters[texts[jobs[i].Cluster]]++
		p.Sources[rows[i].traits.source()]++
		if end := jobs[i].End; end.OK {
			p.extend(time.UnixMicro(end.N).UTC())
		}
	}
}

// copyRows writes a file with the rows of several parts, without the rows for which the function drop returns true.
func (s *Store) copyRows(path string, codec columnar.Codec, durable bool, from []source, drop func(seq int64) bool) (columnar.Sealed, error) {
	return jobLayout.Write(path, codec, durable, func(column int, put func([]parquet.Value) error) error {
		for _, f := range from {
			at := 0
			err := f.each(column, func(values []parquet.Value) (bool, error) {
				kept := values[:0]
				for _, v := range values {
					if !drop(f.rows[at].seq) {
						kept = append(kept, v)
					}
					at++
				}
				if len(kept) == 0 {
					return true, nil
				}
				return true, put(kept)
			})
			if err != nil {
				return err
			}
			if at != len(f.rows) {
				return fmt.Errorf("reading %s: the file is damaged: column %s has %d values (want %d)", f.part.jobs(), jobLayout.Columns[column].Name, at, len(f.rows))
			}
		}
		return nil
	})
}

// mergeFresh merges the run of neighbouring fresh parts that has the fewest rows.
func (s *Store) mergeFresh(st *state) error {
	const window = maxFreshParts / 2
	least, first := -1, 0
	for i := 0; i+window < len(st.fresh); i++ { // the last part is left out: it may still grow
		rows := 0
		for _, b := range st.fresh[i : i+window] {
			rows += len(b.rows)
		}
		if least < 0 || rows < least {
			least, first = rows, i
		}
	}
	batches := st.fresh[first : first+window]
	var from []source
	merged := &batch{through: batches[window-1].through, counts: map[string]int64{}}
	info := partInfo{}
	for _, b := range batches {
		for name, n := range b.counts {
			merged.counts[name] += n
		}
		if b.part == nil {
			continue
		}
		from = append(from, source{part: b.part, rows: b.rows})
		merged.rows = append(merged.rows, b.rows...)
		info.extend(b.part.info.FirstEnd)
		info.extend(b.part.info.LastEnd)
	}
	if len(merged.rows) > 0 {
		s.writing.Lock()
		s.named++
		path := s.path(freshDir, fmt.Sprintf("%d.parquet", s.named))
		s.writing.Unlock()
		info.First, info.Last, info.Rows = merged.rows[0].seq, merged.rows[len(merged.rows)-1].seq, int64(len(merged.rows))
		var err error
		if info.Jobs, err = s.copyRows(path, columnar.Quick, false, from, func(int64) bool { return false }); err != nil {
			return err
		}
		merged.part = &part{file: file{paths: []string{path}}, info: info}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	next := s.successor()
	at := slices.Index(next.fresh, batches[0])
	next.fresh = slices.Concat(next.fresh[:at], []*batch{merged}, next.fresh[at+window:])
	s.publish(next)
	return nil
}
