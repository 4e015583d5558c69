package web

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
)

// size is what is known of a cluster, or of a run that stands beside clusters.
type size struct {
	Name        string    `json:"name"`
	Kind        string    `json:"kind,omitempty"`
	Jobs        int64     `json:"jobs"`
	Oldest      time.Time `json:"oldest,omitzero"` // end of a job
	Newest      time.Time `json:"newest,omitzero"` // end of a job
	Nodes       *int64    `json:"nodes,omitempty"`
	CPUs        *int64    `json:"cpus,omitempty"`
	GPUs        *int64    `json:"gpus,omitempty"`
	Description string    `json:"description,omitempty"`

	every time.Duration // usual interval of figures of its scheduler
}

// sizes are the clusters of a store, in the order of their names.
type sizes struct {
	list    []size
	applied int64 // the last arrival that the store has
}

// named returns the names of the clusters. Jobs without one are in none of them, and cannot stand beside others.
func (s *sizes) named() (names []string) {
	for _, c := range s.list {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// version changes whenever the jobs do.
func (s *sizes) version() [2]int64 {
	v := [2]int64{s.applied, 0}
	for _, c := range s.list {
		v[1] += c.Jobs // retention removes jobs
	}
	return v
}

// extent returns the ends of the oldest and of the newest job of some clusters, or of all without
// names. It is the last 30 days without jobs.
func (s *sizes) extent(names []string, now time.Time) (oldest, newest time.Time) {
	for _, c := range s.list {
		if len(names) > 0 && !slices.Contains(names, c.Name) || c.Newest.IsZero() {
			continue
		}
		if oldest.IsZero() || c.Oldest.Before(oldest) {
			oldest = c.Oldest
		}
		if c.Newest.After(newest) {
			newest = c.Newest
		}
	}
	if newest.IsZero() {
		return now.AddDate(0, 0, -30), now
	}
	return oldest, newest
}

// capacity returns the number of processors of the clusters of which a filter can choose jobs; 0 if one of them is
// not known. Clusters without jobs count if no other is chosen.
func (s *sizes) capacity(chosen question.Filter) (cpus int64) {
	list := slices.DeleteFunc(slices.Clone(s.list), func(c size) bool { can, _ := possible(chosen, c.Name); return !can })
	anyJobs := slices.ContainsFunc(list, func(c size) bool { return c.Jobs > 0 })
	for _, c := range list {
		if anyJobs && c.Jobs == 0 {
			continue
		}
		if c.CPUs == nil || *c.CPUs <= 0 {
			return 0
		}
		cpus += *c.CPUs
	}
	return cpus
}

// possible reports whether a filter can hold for a job of a cluster, and whether it can fail. Nothing else is known of
// the job.
func possible(f question.Filter, cluster string) (holds, fails bool) {
	switch f := f.(type) {
	case question.All:
		holds = true
		for _, part := range f {
			can, cannot := possible(part, cluster)
			holds, fails = holds && can, fails || cannot
		}
		return holds, fails
	case question.Any:
		fails = true
		for _, part := range f {
			can, cannot := possible(part, cluster)
			holds, fails = holds || can, fails && cannot
		}
		return holds, fails
	case question.Not:
		fails, holds = possible(f.Of, cluster)
		return holds, fails
	case question.Compare:
		if f.Column == "cluster" {
			order := cmp.Compare(cluster, f.Value.(string))
			holds = strings.Contains(f.Op, "=") && order == 0 || strings.Contains(f.Op, "<") && order < 0 || strings.Contains(f.Op, ">") && order > 0
			return holds, !holds
		}
	case question.Like:
		if f.Column == "cluster" {
			holds = likeRegexp(f).MatchString(cluster)
			return holds, !holds
		}
	}
	return true, true
}

// likeRegexp returns the regular expression of a pattern.
func likeRegexp(l question.Like) *regexp.Regexp {
	text := regexp.QuoteMeta(l.Pattern)
	text = strings.NewReplacer(`\\\\`, `\\`, `\\\*`, `\*`, `\\\?`, `\?`, `\*`, ".*", `\?`, ".").Replace(text)
	return regexp.MustCompile(map[bool]string{true: "(?i)"}[l.AnyCase] + "(?s)^" + text + "$")
}

// sizesCache keeps the sizes for a moment: every panel needs them, and they are about all jobs.
type sizesCache struct {
	mu     sync.Mutex
	kept   *sizes
	expire time.Time
}

// get returns the sizes as they were at most some seconds ago, or finds them. Where that takes long,
// they are kept longer.
func (c *sizesCache) get(find func() (*sizes, error)) (*sizes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := time.Now()
	if c.kept != nil && begin.Before(c.expire) {
		return c.kept, nil
	}
	found, err := find()
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	c.kept, c.expire = found, time.Now().Add(max(2*time.Second, 50*took))
	return found, nil
}

// known returns the sizes of the clusters that the pages are about.
func (v *server) known(ctx context.Context) (*sizes, error) {
	return v.sizes.get(func() (*sizes, error) {
		if v.jobs != nil {
			return v.sizesOf(ctx, v.now())
		}
		return sizesIn(ctx, v.store, v.now())
	})
}

// sizesIn returns the clusters of a store.
func sizesIn(ctx context.Context, s *store.Store, now time.Time) (*sizes, error) {
	found := &sizes{list: []size{}}
	err := s.Read(ctx, func(v *store.Snapshot) (err error) {
		if err := v.One("SELECT seq FROM applied", nil, &found.applied); err != nil {
			return err
		}
		days, err := v.RolledUp()
		if err != nil {
			return err
		}
		// Clocks go wrong. Ends that cannot be would make every chart empty.
		oldest, newest := " >= TIMESTAMP '2000-01-01'", " <= "+timestamp(now.Add(24*time.Hour))
		jobs := "SELECT cluster, count(*) AS jobs, min(end_time) FILTER (end_time" + oldest + ") AS first_end, max(end_time) FILTER (end_time" + newest + ") AS last_end FROM jobs WHERE "
		counted := jobs + "true GROUP BY cluster"
		if cells, gaps, ok := split(days, time.Time{}, time.Time{}, time.Time{}, true); ok {
			counted = "SELECT cluster, jobs, first_end, last_end FROM daily_cluster WHERE " + cells
			for _, gap := range gaps {
				counted += " UNION ALL " + jobs + gap + " GROUP BY cluster"
			}
		}
		rows, err := v.Query(`SELECT coalesce(j.cluster, c.cluster), c.kind, coalesce(j.jobs, 0), j.oldest, j.newest, c.nodes, c.cpus, c.gpus, c.description
			FROM (SELECT cluster, sum(jobs)::BIGINT AS jobs, min(first_end) FILTER (first_end` + oldest + `) AS oldest, max(last_end) FILTER (last_end` + newest + `) AS newest
				FROM (` + counted + `) GROUP BY cluster) j
			FULL JOIN clusters c USING (cluster) ORDER BY 1`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var one size
			var kind, description sql.NullString
			var oldest, newest sql.NullTime
			if err := rows.Scan(&one.Name, &kind, &one.Jobs, &oldest, &newest, &one.Nodes, &one.CPUs, &one.GPUs, &description); err != nil {
				return err
			}
			one.Kind, one.Description, one.Oldest, one.Newest = kind.String, description.String, oldest.Time, newest.Time
			if one.Newest.Before(one.Oldest) {
				one.Oldest = one.Newest
			}
			found.list = append(found.list, one)
		}
		return rows.Err()
	})
	return found, err
}

// The limits of what [answers] keeps.
const (
	mostKept     = 500  // answers
	mostKeptRows = 5000 // of an answer
)

// answers keeps the answers of queries until the jobs change: many readers look at the same page, and
// pages load themselves anew.
type answers struct {
	mu      sync.Mutex
	version [2]int64
	kept    map[string][][]any
}

// key names a query with its values.
func (c condition) key() string { return fmt.Sprintf("%s%q", c.sql, c.args) }

// get returns a copy of the answer of a query, if it is known.
func (a *answers) get(version [2]int64, query condition) ([][]any, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, ok := a.kept[query.key()]
	if !ok || a.version != version {
		return nil, false
	}
	return cloneRows(raw), true
}

// put keeps a copy of an answer.
func (a *answers) put(version [2]int64, query condition, raw [][]any) {
	if len(raw) > mostKeptRows {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil || a.version != version || len(a.kept) >= mostKept {
		a.kept, a.version = make(map[string][][]any), version
	}
	a.kept[query.key()] = cloneRows(raw)
}

// cloneRows copies rows, which panels change.
func cloneRows(rows [][]any) [][]any {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
	}
	return out
}
