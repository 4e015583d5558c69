package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Expire removes jobs that ended before an instant, with their documents, and returns the number of jobs. Jobs
// without an end remain, and so do the jobs of runs, because their instants are virtual.
func (s *Store) Expire(ctx context.Context, before time.Time) (jobs int64, err error) {
	old := func(j *chosenRow) bool {
		return j.end.OK && j.end.N < before.UnixMicro() && Source(j.source) != FromRun
	}
	jobs, err = s.remove(ctx, func(p *part) bool { return !p.info.FirstEnd.IsZero() && p.info.FirstEnd.Before(before) }, old)
	if err != nil {
		return jobs, fmt.Errorf("removing old jobs from the store: %w", err)
	}
	return jobs, nil
}

// Remove removes the jobs that a filter chooses, with all their documents, including replaced documents. It
// returns the number of jobs. The filter must not have a condition in SQL.
func (s *Store) Remove(ctx context.Context, f Filter) (jobs int64, err error) {
	if f.Where != "" {
		return 0, errors.New("removing jobs from the store: the filter has a condition in SQL (want a filter without SQL)")
	}
	jobs, err = s.remove(ctx, func(p *part) bool { return p.info.Last > f.After }, f.has)
	if err != nil {
		return jobs, fmt.Errorf("removing jobs from the store: %w", err)
	}
	return jobs, nil
}

// remove removes the jobs for which the function old returns true, part by part. The function may reports whether a
// part can have such jobs.
func (s *Store) remove(ctx context.Context, may func(p *part) bool, old func(j *chosenRow) bool) (jobs int64, err error) {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	if err := s.sealSome(may); err != nil {
		return 0, err
	}
	v := s.View()
	defer v.Close()
	for _, p := range v.st.parts {
		if err := ctx.Err(); err != nil {
			return jobs, err
		}
		if !may(p) {
			continue
		}
		n, err := s.removeFrom(v, p, old)
		jobs += n
		if err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

// removeFrom rewrites a part without the jobs for which the function old returns true.
func (s *Store) removeFrom(v *View, p *part, old func(j *chosenRow) bool) (jobs int64, err error) {
	all, err := p.chosenRows()
	if err != nil {
		return 0, err
	}
	drop := make(map[int64]bool)
	var lost []chosenRow
	for i := range all {
		if j := &all[i]; old(j) {
			drop[j.seq] = true
			if !v.st.isGone(j.seq) {
				lost = append(lost, *j)
			}
		}
	}
	if len(drop) == 0 {
		return 0, nil
	}
	rows, err := p.keyed()
	if err != nil {
		return 0, err
	}
	from := []source{{part: p, rows: rows}}
	made, err := s.writePart(from, func(seq int64) bool { return drop[seq] })
	if err != nil {
		return 0, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	lost = slices.DeleteFunc(lost, func(j chosenRow) bool { _, gone := s.gone[j.seq]; return gone }) // replaced after the read
	if err := s.put(from, made, drop, int64(len(lost))); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range lost {
		s.totals.add(j.cluster, Source(j.source), -1)
	}
	return int64(len(lost)), nil
}

// sealSome makes the fresh rows durable if the function may returns true for one of the fresh parts.
func (s *Store) sealSome(may func(p *part) bool) error {
	v := s.View()
	defer v.Close()
	if !slices.ContainsFunc(v.st.fresh, func(b *batch) bool { return b.part != nil && may(b.part) }) {
		return nil
	}
	return s.seal(len(v.st.fresh))
}
