package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/quantity"
)

// size describes a cluster, or a run that is shown like a cluster.
type size struct {
	Name        string    `json:"name"`
	Kind        string    `json:"kind,omitempty"`
	Jobs        int64     `json:"jobs"`
	Oldest      time.Time `json:"oldest,omitzero"` // first end of a job
	Newest      time.Time `json:"newest,omitzero"` // last end of a job
	Nodes       *int64    `json:"nodes,omitempty"`
	CPUs        *int64    `json:"cpus,omitempty"`
	GPUs        *int64    `json:"gpus,omitempty"`
	Description string    `json:"description,omitempty"`
	Doubt       string    `json:"not_valid_reason,omitempty"` // why the run is not valid

	every             time.Duration // median interval of the scheduler's figures
	answered          time.Time     // end of the first interval of the scheduler's figures
	frozen, simulated bool          // as in [store.Cluster]
	window            time.Time     // as in [store.Cluster]
	begin             time.Time     // as in [store.Cluster]; zero for a site
}

// begins returns the second in which a run's workload began, or else the oldest second that is known.
// slurmctld of a run starts minutes before the workload.
func (c *size) begins() time.Time {
	if c.begin.IsZero() {
		return c.Oldest.Truncate(time.Second)
	}
	return c.begin.Truncate(time.Second)
}

// sizes are all clusters, in the order of their names.
type sizes struct{ list []size }

// maxShown is the highest number of clusters that a page lists.
const maxShown = 100

// largest returns the clusters with the given names and the clusters with the most jobs, in the
// order of their names. The result more is the number of clusters that it leaves out.
func (s *sizes) largest(limit int, names ...string) (list []size, more int) {
	list = slices.Clone(s.list)
	if len(list) > limit {
		wanted := func(c size) int {
			if slices.Contains(names, c.Name) {
				return 1
			}
			return 0
		}
		slices.SortStableFunc(list, func(a, b size) int { return cmp.Or(wanted(b)-wanted(a), cmp.Compare(b.Jobs, a.Jobs)) })
		list, more = list[:limit], len(list)-limit
		slices.SortFunc(list, func(a, b size) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list, more
}

// named returns the clusters' names that are not empty. Only these clusters can be compared.
func (s *sizes) named() (names []string) {
	for _, c := range s.list {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// extent returns the first and the last end of a job in the named clusters. An empty list means all
// clusters. If there are no jobs, extent returns the last 30 days.
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

// matching returns the clusters whose jobs can match a filter. Clusters without jobs are among them only if all these
// clusters have no jobs.
func (s *sizes) matching(chosen question.Filter) []size {
	list := slices.DeleteFunc(slices.Clone(s.list), func(c size) bool {
		can, _ := question.Possible(chosen, "cluster", c.Name)
		return !can
	})
	if slices.ContainsFunc(list, func(c size) bool { return c.Jobs > 0 }) {
		list = slices.DeleteFunc(list, func(c size) bool { return c.Jobs == 0 })
	}
	return list
}

// capacity returns the number of processors of the clusters whose jobs can match a filter. If the number of some of
// these clusters is unknown, it returns 0 and their names.
func (s *sizes) capacity(chosen question.Filter) (cpus int64, unknown []string) {
	for _, c := range s.matching(chosen) {
		if c.CPUs == nil || *c.CPUs <= 0 {
			unknown = append(unknown, orUnknown(c.Name))
		} else {
			cpus += *c.CPUs
		}
	}
	if len(unknown) > 0 {
		cpus = 0
	}
	return cpus, unknown
}

// addedUp returns a note that the numbers are sums over clusters and runs. The note is empty if the filter
// can match jobs of only one of them, or if no run is among them. A run may repeat jobs of a cluster.
func (s *sizes) addedUp(chosen question.Filter) string {
	var clusters, runs []string
	for _, c := range s.list {
		if can, _ := question.Possible(chosen, "cluster", c.Name); !can || c.Jobs == 0 {
			continue
		}
		if c.Kind == kindRun {
			runs = append(runs, orUnknown(c.Name))
		} else {
			clusters = append(clusters, orUnknown(c.Name))
		}
	}
	const most = 5
	names := func(kind string, list []string) (text []string) {
		if len(list) > most {
			return []string{fmt.Sprintf("%d %ss", len(list), kind)}
		}
		for _, name := range list {
			text = append(text, "the "+kind+" "+name)
		}
		return text
	}
	list := append(names("cluster", clusters), names("run", runs)...)
	if len(runs) == 0 || len(clusters)+len(runs) < 2 {
		return ""
	}
	last := len(list) - 1
	text := list[last]
	if last > 0 {
		text = strings.Join(list[:last], ", ") + " and " + text
	}
	return "The numbers are sums over " + text + ". A run may count the jobs of a cluster again: choose one cluster or " +
		"run above."
}

// doubts names the runs that are not valid, with the reasons. It considers the clusters named a and
// b of a comparison, and otherwise all clusters whose jobs the request's filter can choose.
func (s *sizes) doubts(r *request) (list []string) {
	const most = 5
	sides, others := r.sides(), 0
	for _, c := range s.list {
		shown, _ := question.Possible(r.chosen, "cluster", c.Name)
		if sides != nil {
			shown = slices.Contains(sides, c.Name)
		}
		switch {
		case !shown || c.Doubt == "":
		case len(list) == most:
			others++
		default:
			list = append(list, fmt.Sprintf("The run %s is not valid: %s.", c.Name, c.Doubt))
		}
	}
	if others > 0 {
		list = append(list, quantity.Counted(others, "other run is not valid.", "other runs are not valid."))
	}
	return list
}

// onlyRuns reports whether there are clusters, and all of them are runs.
func (s *sizes) onlyRuns() bool {
	return len(s.list) > 0 && !slices.ContainsFunc(s.list, func(c size) bool { return c.Kind != kindRun })
}

// have reports whether all names are names of clusters.
func (s *sizes) have(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.named(), name) })
}

// kindRun is the [store.Cluster] kind of a run.
const kindRun = "run"

// sizesCache stores the sizes for a short time, because every panel needs them, and finding them counts all jobs.
type sizesCache struct {
	mu     sync.Mutex
	kept   *sizes
	expire time.Time
}

// get returns sizes that are at most half a second old, or at most 20 times as old as finding them
// took. Otherwise, it calls the function find.
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
	c.kept, c.expire = found, time.Now().Add(max(time.Second/2, 20*took))
	return found, nil
}

// maxClusters is the highest number of clusters that the pages distinguish: the clusters with the most jobs.
const maxClusters = 10_000

// known returns the sizes of the clusters that the pages can show.
func (v *server) known(ctx context.Context) (*sizes, error) {
	return v.sizes.get(func() (*sizes, error) { return v.findSizes(ctx) })
}

// findSizes gets the clusters that have jobs from the source, and adds the store's descriptions of these clusters.
func (v *server) findSizes(ctx context.Context) (*sizes, error) {
	by := []question.Key{question.Values{Column: "cluster", Most: maxClusters}}
	count := question.Measure{Kind: question.Count}
	jobs := question.Measure{Kind: question.Count, Where: question.Not{Of: question.Lost{}}}
	first, last := question.Measure{Kind: question.Least, Column: "end_time"},
		question.Measure{Kind: question.Most, Column: "end_time"}
	answers, err := v.jobs.Ask(ctx, question.Question{By: by, Measures: []question.Measure{count, jobs}},
		question.Question{Where: sane("end_time", v.now()), By: by, Measures: []question.Measure{count, first, last}})
	if err != nil {
		return nil, err
	}
	all := make(map[string]*size)
	of := func(name string) *size {
		if all[name] == nil {
			all[name] = &size{Name: name}
		}
		return all[name]
	}
	for _, row := range answers[0].Rows {
		of(row[0].(string)).Jobs = row[2].(int64)
	}
	for _, row := range answers[1].Rows {
		c := of(row[0].(string))
		c.Oldest, c.Newest = time.UnixMilli(int64(value(row[2]))).UTC(), time.UnixMilli(int64(value(row[3]))).UTC()
	}
	view := v.store.View()
	defer view.Close()
	for _, known := range view.Clusters() {
		c := of(known.Name)
		c.Kind, c.Description, c.Doubt, c.begin = known.Kind, known.Description, known.Doubt, known.Begin
		c.Nodes, c.CPUs, c.GPUs = knownOr(known.Nodes), knownOr(known.CPUs), knownOr(known.GPUs)
	}
	found := &sizes{list: []size{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		found.list = append(found.list, *all[name])
	}
	return found, nil
}

// sane returns the filter of jobs with a possible instant in a column. Clocks can be wrong:
// impossible instants would stretch the range of time and make all charts useless.
func sane(column string, now time.Time) question.Filter {
	return question.All{
		question.Compare{Column: column, Op: ">=", Value: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)},
		question.Compare{Column: column, Op: "<", Value: now.Add(24 * time.Hour)},
	}
}

// knownOr returns a number, or nil if it is unknown.
func knownOr(n document.Int) *int64 {
	if !n.Known {
		return nil
	}
	return &n.Value
}
