// Package compare says what differs between runs, or between sets of realizations, and
// whether the difference exceeds chance.
//
// The first set is the baseline. Every other set is compared with it. The number of
// realizations decides what the comparison can say:
//   - With one run on a side there is no inference. The [Comparison] then describes
//     only these two runs (metrics, job by job, the first divergence), without intervals and
//     p-values. A difference between two single runs of different configurations may be no
//     larger than the difference between two runs of one configuration.
//   - With several runs a side, metrics have confidence intervals over realizations, and the
//     vectors of the jobs' waits are compared as a whole. The comment of package stats says when
//     intervals and tests mislead.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/compare/clusters"
	"rmreplay/internal/compare/draws"
	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/compare/periods"
	"rmreplay/internal/compare/releases"
	"rmreplay/internal/compare/schedules"
	"rmreplay/internal/compare/warned"
	"rmreplay/internal/fairstart"
	"rmreplay/internal/formats"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/workload"
)

// Version is the version of the JSON encoding of a [Comparison].
const Version = 1

// Realization is one run with its rows.
type Realization struct {
	Name     string // the name of its directory
	Manifest *run.Manifest
	// If [Dirs] reads the runs one by one, only the first run of a set has Rows; they are nil for the other runs.
	Rows []run.Row
	// Administration has the node events and reservations of the run.
	Administration run.Administration
	// Log has slurmctld's log; nil if the run has no log. It is used to explain divergences between the sets' first runs.
	Log *releases.Log
	// Cluster has the files of the cluster ([run.Run.ClusterFiles]), for a set's first run only.
	Cluster map[string]string

	record *run.Run          // the run's files: the workload, and the rows if Rows are nil; nil if the run has no files
	arrays map[string]bool   // the IDs of the arrays of all sets, for [jobrows.Tasks]
	ids    map[string]string // the result of [jobrows.Partners]
	// matchedBy says by which values the jobs in ids match; [jobrows.ByID] if ids is nil.
	matchedBy jobrows.Match
	// equalIDs counts the IDs that the set shares with the baseline although they name different jobs, and differ has the
	// properties in which these jobs differ ([jobrows.Unlike]). In ids, these jobs of the set then have other IDs.
	equalIDs int
	twice    int // the result of [jobrows.Twice] for the first run
	differ   []string
}

// rows returns the rows. It reads them unless they are in memory.
func (r *Realization) rows() ([]run.Row, error) {
	if r.Rows != nil || r.record == nil {
		return jobrows.Renamed(jobrows.Tasks(r.Rows, r.arrays), r.ids), nil
	}
	rows, err := r.record.Histories()
	if err != nil {
		return nil, fmt.Errorf("reading run record %s: %w", r.Name, err)
	}
	return jobrows.Renamed(jobrows.Tasks(rows, r.arrays), r.ids), nil
}

// Set is one run, or several realizations of one experiment.
type Set struct {
	Name string
	Runs []Realization
}

// Warnings lists the warnings of the set's runs ([warned.List]).
func (s Set) Warnings() []string {
	var runs []*run.Manifest
	for _, r := range s.Runs {
		runs = append(runs, r.Manifest)
	}
	return warned.List(runs)
}

// Load reads the rows of a set of runs. An error names the run's directory.
func Load(s *run.Set) (Set, error) {
	out, err := unread(s)
	if err != nil {
		return Set{}, err
	}
	for i := range out.Runs {
		r := &out.Runs[i]
		if r.Rows, err = r.rows(); err != nil {
			return Set{}, err
		}
		if r.Administration, err = r.record.Administration(); err != nil {
			return Set{}, err
		}
		if i > 0 {
			r.record = nil // a verdict needs only the workload of the first run
		}
	}
	return out, nil
}

// unread returns a set of runs without their rows. It reads only the log of the first run.
func unread(s *run.Set) (Set, error) {
	out := Set{Name: s.Dir}
	for _, r := range s.Runs {
		out.Runs = append(out.Runs, Realization{Name: r.Dir, Manifest: &r.Manifest, record: r})
	}
	if len(s.Runs) > 0 {
		var err, missing error
		out.Runs[0].Log, err = releases.OpenLog(s.Runs[0])
		out.Runs[0].Cluster, missing = s.Runs[0].ClusterFiles()
		if err := errors.Join(err, missing); err != nil {
			return Set{}, err
		}
	}
	return out, nil
}

// Open opens and reads each argument: a run, the runs in a directory's subdirectories, or a recorded workload as a run
// ([formats.OpenRuns]). It stops when ctx is cancelled. Any other error says which record is missing or wrong.
func Open(ctx context.Context, dirs []string) ([]Set, error) { return open(ctx, dirs, Load) }

// Dirs opens the arguments as [Open] does, and compares them as [Compare] does. It holds the rows of each set's first
// run in memory. Of the other runs, it reads at most one for each CPU at a time, and stores only the run's figures
// and the jobs' instants.
func Dirs(ctx context.Context, dirs []string, opts Options) (*Comparison, error) {
	sets, err := open(ctx, dirs, unread)
	if err != nil {
		return nil, err
	}
	if err := wantTwo(sets); err != nil {
		return nil, err
	}
	return analyse(ctx, sets, opts)
}

func open(ctx context.Context, dirs []string, load func(*run.Set) (Set, error)) ([]Set, error) {
	var sets []Set
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		opened, err := formats.OpenRuns(dir)
		if err != nil {
			return nil, err
		}
		set, err := load(opened)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// Doubt returns a text with the first run that is not valid, the reason, and the number of other
// runs that are not valid. It returns "" if all runs are valid.
func Doubt(sets []Set) string {
	var first string
	others := 0
	for _, s := range sets {
		for _, r := range s.Runs {
			switch {
			case r.Manifest.Valid:
			case first == "":
				first = r.Name + " is not valid: " + r.Manifest.Doubt()
			default:
				others++
			}
		}
	}
	switch others {
	case 0:
		return first
	case 1:
		return first + " (1 other run is not valid, too)"
	}
	return fmt.Sprintf("%s (%d other runs are not valid, too)", first, others)
}

// Options say how runs are compared. The zero value is usable.
type Options struct {
	Tau       time.Duration // τ of the bounded slowdown; [metrics.DefaultTau] if 0
	Level     float64       // confidence level; 0.95 if 0
	Seed      uint64        // seed of bootstrap samples and permutations
	Resamples int           // bootstrap samples; [stats.Resamples] if 0
	Draws     int           // random permutations; [stats.Draws] if 0
	// Tolerance is the difference up to which two instants count as equal; one second, Slurm's resolution, if 0.
	Tolerance time.Duration
	Zone      *time.Location // of the days that the test of two samples of jobs permutes; UTC if nil
	By        []metrics.By   // the groupings to compare as well
	EveryJob  bool           // also list all jobs' differences, instead of only the largest differences
	// Fairness says that [Comparison.Render] also writes the figures of fairness. FairStart is the policy for figures of
	// fair start times. If it is empty, these figures are not computed, because they need a simulation for each job.
	Fairness  bool
	FairStart fairstart.Policy

	pairs [][]int // the result of [pairings]
}

func (o Options) withDefaults() Options {
	if o.Level == 0 {
		o.Level = 0.95
	}
	if o.Tolerance == 0 {
		o.Tolerance = time.Second
	}
	if o.Tau == 0 {
		o.Tau = metrics.DefaultTau
	}
	return o
}

// bootstrap returns the options of an interval.
func (o Options) bootstrap() stats.BootstrapOptions {
	return stats.BootstrapOptions{Level: o.Level, Resamples: o.Resamples, Seed: o.Seed}
}

// test returns the options of a permutation test.
func (o Options) test() stats.TestOptions {
	return stats.TestOptions{Draws: o.Draws, Seed: o.Seed}
}

// Comparison is the output of `rmreplay compare`. docs/schemas/compare.schema.json describes its JSON.
type Comparison struct {
	Version int `json:"rmreplay_compare"`
	// Valid says whether all runs are valid. If it is false, Doubt names a run that is not valid, and says why.
	Valid bool      `json:"valid"`
	Doubt string    `json:"not_valid_reason,omitempty"`
	Sets  []SetInfo `json:"sets"`
	Level float64   `json:"confidence_level"`
	Seed  uint64    `json:"seed"`
	// Inference says whether the sets allow inference. If it is false, Reason says why.
	Inference bool   `json:"inference"`
	Reason    string `json:"no_inference_reason,omitempty"`

	Metrics []Metric `json:"metrics"`
	// Nodes has the figures of [metrics.NodeFigures]. It is nil if no run has these figures. Their p-values are
	// corrected separately from those of Metrics, because these figures are the utilization in a different unit.
	Nodes []Metric `json:"nodes,omitempty"`
	// Fairness has the figures of fairness, for groupings with more than one group. Holm's correction is for all
	// their p-values together, and separate from that of Metrics.
	Fairness []Metric `json:"fairness"`
	// ShowFairness says that [Comparison.Render] also writes the figures of fairness.
	ShowFairness bool `json:"-"`
	// IO has the figures of file systems that jobs share, with makespan and throughput. It is nil if
	// no run has a file system. Their p-values are corrected together.
	IO []Metric `json:"io,omitempty"`

	// Lost has the figures of [metrics.LostFigures]; nil if no run lost work.
	Lost []Metric `json:"lost,omitempty"`

	// Waits has the mean wait since jobs were eligible, and the mean of each part of the waits that a run
	// has. Their p-values are corrected together.
	Waits []Metric `json:"waits"`

	Pairs  []Pair                 `json:"pairs"` // each set but the first, compared with the first
	Groups map[metrics.By][]Group `json:"groups,omitempty"`
	// Distances are the distances between all runs of all sets; nil with a single run, or if no job
	// started in all runs.
	Distances *Distances `json:"distances,omitempty"`
	Warnings  []string   `json:"warnings"`
}

// SetInfo describes a set.
type SetInfo struct {
	Name string    `json:"name"`
	Runs []RunInfo `json:"runs"`
	// Window says that sets of different windows are compared. Then only the jobs that were submitted in the window
	// count ([metrics.Options.LeavesOut]), and figures over time end with the last submission.
	Window bool `json:"window,omitempty"`

	reacts bool   // the users of a run react ([Reacted])
	left   string // the jobs that the first run leaves out ([workload.LeftRunning])
}

// RunInfo describes a run.
type RunInfo struct {
	Name   string    `json:"name"`
	Engine string    `json:"engine"`
	Policy string    `json:"policy,omitempty"`
	Slurm  string    `json:"slurm,omitempty"` // the version of the stock Slurm
	MadeBy string    `json:"made_by"`         // engine, policy and version for people: see [run.Manifest.MadeBy]
	Clock  string    `json:"clock,omitempty"` // "frozen" or "measured"
	Seed   uint64    `json:"seed"`
	State  run.State `json:"state"`
	Valid  bool      `json:"valid"`
	Doubt  string    `json:"not_valid_reason,omitempty"`
	Jobs   int       `json:"jobs"` // rejected jobs included ([metrics.JobsOf])
	// ZeroRunTime counts the jobs that ran for 0 s. They have a bounded slowdown but no slowdown.
	ZeroRunTime int `json:"zero_run_time_jobs"`
}

// Pair is the comparison of a set with the baseline.
type Pair struct {
	Set      int `json:"set"`
	Baseline int `json:"baseline"`
	// SeedPairs is the number of pairs of runs with the same workload and seed; 0 unless all runs of both sets form pairs.
	SeedPairs int `json:"seed_pairs,omitempty"`
	// Schedules tests whether the vectors of waits of both sets come from one distribution; nil
	// without inference, or if no job started in all runs.
	Schedules *schedules.Tests `json:"schedules,omitempty"`
	Jobs      JobView          `json:"jobs"`
	// Clusters are the settings in which the clusters of the first runs differ: the sizes of the machines as they were
	// played, and the settings of the cluster files, if both records have such files.
	Clusters []clusters.Setting `json:"clusters,omitempty"`
	// OtherLimits is the number of jobs with another time limit in the set's first run than in the baseline's.
	OtherLimits int `json:"jobs_with_other_time_limit,omitempty"`
	// Releases says what differed between the first runs of both sides before any decision of the
	// scheduler. It is nil unless these runs are on different releases of Slurm.
	Releases *releases.Difference `json:"releases,omitempty"`
	// Divergences are the first differences of each kind between the first runs of both
	// sets, in the order of their instants.
	Divergences []Divergence `json:"divergences"`
	// Periods compares two samples of jobs, if the sets have few or no jobs in common; otherwise nil.
	Periods *periods.Comparison `json:"periods,omitempty"`
	// Recorded is the verdict on a pair with a recorded workload; nil for other pairs.
	Recorded *run.Verdict `json:"recorded_against_replayed,omitempty"`
	// Draws has the intervals over draws of fields that were not recorded; nil if no field was drawn.
	Draws *draws.Result `json:"draws,omitempty"`
}

// ClusterRows returns the name of each setting of Clusters, with its values in the baseline and in the set.
func (p *Pair) ClusterRows() (rows [][]string) {
	for _, s := range p.Clusters {
		rows = append(rows, []string{s.Name, cmp.Or(s.Baseline, clusters.Unset), cmp.Or(s.Set, clusters.Unset)})
	}
	return rows
}

// Compare compares sets of runs with the first set. It returns an error for fewer than two
// sets and for a set without runs.
func Compare(sets []Set, opts Options) (*Comparison, error) {
	if err := wantTwo(sets); err != nil {
		return nil, err
	}
	return analyse(context.Background(), sets, opts)
}

func wantTwo(sets []Set) error {
	if len(sets) < 2 {
		return fmt.Errorf("comparing runs: %d given (want two or more)", len(sets))
	}
	return nil
}

// Describe is [Compare] for at least one set. For a single set it returns the estimates and
// the distances within the set, which a report shows.
func Describe(sets []Set, opts Options) (*Comparison, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("describing runs: the list is empty (want one or more)")
	}
	return analyse(context.Background(), sets, opts)
}

func analyse(ctx context.Context, sets []Set, opts Options) (*Comparison, error) {
	for _, s := range sets {
		if len(s.Runs) == 0 {
			return nil, fmt.Errorf("comparing runs: %s has no run", s.Name)
		}
	}
	opts = opts.withDefaults()
	c := &Comparison{ShowFairness: opts.Fairness || opts.FairStart != "", Version: Version, Level: opts.Level,
		Seed: opts.Seed, Pairs: []Pair{}}
	tables, err := tabulate(ctx, sets, opts)
	if err != nil {
		return nil, err
	}
	opts.pairs = pairings(sets, enoughPairs)
	for i, s := range sets {
		c.Sets = append(c.Sets, describe(s.Name, tables[i]))
	}
	c.Doubt = Doubt(sets)
	c.Valid = c.Doubt == ""
	c.Inference, c.Reason = inference(sets)
	figures, nodes, lost, waiting, fairness := quantitiesOf(tables, opts)
	c.Nodes, c.Lost = compareQuantities(nodes, opts), compareQuantities(lost, opts)
	c.Metrics, c.Fairness = compareQuantities(figures, opts), compareQuantities(fairness, opts)
	c.Waits = compareQuantities(waiting, opts)
	c.IO = compareIO(sets, tables, opts)
	for _, by := range opts.By {
		if c.Groups == nil {
			c.Groups = make(map[metrics.By][]Group)
		}
		c.Groups[by] = compareGroups(tables, by, opts)
	}
	vectors, err := newWaits(tables)
	if err != nil {
		return nil, fmt.Errorf("comparing runs: %w", err)
	}
	c.Distances = vectors.distances()
	c.oneRealization(tables)
	for i := 1; i < len(sets); i++ {
		pair := Pair{Set: i, Jobs: compareJobs(tables[0], tables[i], opts)}
		pair.Jobs.MatchedBy = tables[i][0].matchedBy
		pair.Jobs.twice = tables[0][0].twice + tables[i][0].twice
		pair.Jobs.EqualIDs, pair.Jobs.Differ = tables[i][0].equalIDs, tables[i][0].differ
		if c.Inference {
			pair.Schedules = schedules.Test(vectors.points[0], vectors.points[i], opts.test())
		}
		pair.SeedPairs = len(pairing(sets[0].Runs, sets[i].Runs))
		a, b := &tables[0][0], &tables[i][0]
		pair.Releases = releases.Between(a.side(), b.side())
		pair.Clusters = clusters.Between(a.Cluster, b.Cluster)
		pair.Divergences = diverge(a, b, pair.Releases, [2]string{Letter(0), Letter(i)}, opts.Tolerance)
		pair.OtherLimits = jobrows.OtherLimits(a.Rows, b.Rows)
		suspect(&pair, a, b)
		size := func(t *table) clusters.Size {
			return clusters.Size{Nodes: t.Manifest.Cluster.Nodes, Processors: t.Manifest.Cluster.Processors}
		}
		pair.Clusters = append(clusters.Played(size(a), size(b)), pair.Clusters...)
		if pair.Periods = periodsOf(a, b, opts); c.leavesOut(&pair) {
			c.onlyBounds(i)
		}
		if pair.Recorded, err = verdictOf(tables[0], tables[i], c.Distances, [2]int{0, i}); err != nil {
			return nil, fmt.Errorf("comparing runs: %w", err)
		}
		pair.Draws = c.drawsOf(sets, [2]int{0, i})
		c.Pairs = append(c.Pairs, pair)
	}
	c.Warnings = append(append(warnings(sets, c), leftRunning(sets)...), carriedJobs(tables)...)
	return c, nil
}

func describe(name string, runs []table) SetInfo {
	info := SetInfo{Name: name, Window: runs[0].submitted != 0,
		left: workload.LeftRunning(runs[0].Manifest.Workload.Rules)}
	for i := range runs {
		r := &runs[i]
		info.reacts = info.reacts || Reacted(r.Manifest)
		info.Runs = append(info.Runs, RunInfo{
			Name: r.Name, Engine: r.Manifest.Engine, Policy: r.Manifest.Policy, Slurm: r.Manifest.Versions.Slurm,
			MadeBy: r.Manifest.MadeBy(), Clock: r.Manifest.Clock.Model,
			Seed: r.Manifest.Seed, State: r.Manifest.State, Valid: r.Manifest.Valid, Doubt: r.Manifest.Doubt(),
			Jobs: r.Jobs + r.Rejected, ZeroRunTime: r.LeftOut[metrics.ZeroRunTime],
		})
	}
	return info
}

// fewRuns is the smallest number of runs for trustworthy intervals. With five runs on each side, 94 % of the 95 %
// intervals contain the true value. With three runs, the bootstrap has only ten different samples.
const fewRuns = 5

// inference reports whether every set has at least two runs, and no set is given twice. If this is
// false, reason names the first set that is the cause, and says why.
func inference(sets []Set) (possible bool, reason string) {
	names := map[string]bool{}
	for _, s := range sets {
		if names[s.Name] {
			return false, s.Name + " is given twice, and no run differs from itself"
		}
		names[s.Name] = true
	}
	for _, s := range sets {
		if len(s.Runs) < 2 {
			return false, fmt.Sprintf("%s is one run, which does not show how much runs differ by chance "+
				"(want several realizations of each side)", s.Name)
		}
	}
	return true, ""
}

// oneRealization removes intervals and p-values if all runs of a set have the same schedule. The set is then one
// realization, such as runs of the simulator on a workload without a random part.
func (c *Comparison) oneRealization(tables [][]table) {
	same := slices.IndexFunc(tables, sameSchedule)
	if !c.Inference || same < 0 {
		return
	}
	c.Inference, c.Reason = false, fmt.Sprintf("all runs of %s have the same schedule, so they are one realization: "+
		"they do not show how much runs differ by chance (want runs that differ, as with --jitter)",
		c.Sets[same].Name)
	figures := [][]Metric{c.Metrics, c.Nodes, c.Lost, c.Waits, c.Fairness, c.IO}
	for _, groups := range c.Groups {
		for i := range groups {
			figures = append(figures, groups[i].Metrics)
		}
	}
	for _, list := range figures {
		for i := range list {
			for k := range list[i].Differences {
				list[i].Differences[k].withoutChance()
			}
		}
	}
}

// sameSchedule reports whether a set has several runs and all of them start and end each job at the same time.
func sameSchedule(runs []table) bool {
	for i := 1; i < len(runs); i++ {
		if !slices.Equal(runs[i].moments, runs[0].moments) {
			return false
		}
	}
	return len(runs) > 1
}

// warnings returns the reasons to doubt a comparison.
func warnings(sets []Set, c *Comparison) []string {
	list := []string{}
	names := make(map[string]bool)
	hashes := make(map[string]bool)
	for i, s := range sets {
		invalid := 0
		for _, r := range s.Runs {
			if names[r.Name] {
				list = append(list, r.Name+" is given twice, and no run differs from itself")
			}
			names[r.Name] = true
			if !r.Manifest.Valid {
				invalid++
			}
			if hash := r.Manifest.Workload.SHA256; hash != "" {
				hashes[hash] = true
			}
		}
		if invalid > 0 {
			list = append(list, fmt.Sprintf("%s: %d of %d %s not complete and valid", s.Name, invalid, len(s.Runs),
				quantity.Plural(len(s.Runs), "run is", "runs are")))
		}
		if n := len(s.Runs); n > 1 && c.Distances != nil && identical(c.Distances, i) {
			list = append(list, fmt.Sprintf("%s: all %d %s the same waits: they are one realization, "+
				"and intervals of no width say nothing about chance", s.Name, n,
				quantity.Plural(n, "run has", "runs have")))
		}
		if n := len(s.Runs); n > 1 && n < fewRuns {
			list = append(list, fmt.Sprintf("%s: %d %s too few for trustworthy intervals (want %d or more)", s.Name, n,
				quantity.Plural(n, "run is", "runs are"), fewRuns))
		}
		if i > 0 && c.Inference {
			list = append(list, c.tooFewRuns(i)...)
		}
	}
	list = append(append(list, ofResults(sets)...), ioWarnings(sets)...)
	apart := func(p Pair) bool { return p.Jobs.EqualIDs > 0 }
	if len(hashes) > 1 && (len(c.Pairs) == 0 || !slices.ContainsFunc(c.Pairs, apart)) {
		list = append(list, "the runs have different workloads: only jobs with the same ID are compared one by one")
	}
	return list
}

// ofResults returns those warnings of the sets' first runs whose codes are in [run.OfResult]. It leaves out warnings
// that all sets have.
func ofResults(sets []Set) (list []string) {
	type warning struct{ run, text string }
	var all []warning
	have := map[string]int{} // maps the text of a warning to the number of sets that have it
	for _, s := range sets {
		for _, w := range s.Runs[0].Manifest.Warnings {
			if slices.Contains(run.OfResult, w.Code) {
				all = append(all, warning{s.Runs[0].Name, w.Text})
				have[w.Text]++
			}
		}
	}
	for _, w := range all {
		if have[w.text] < len(sets) {
			list = append(list, w.run+": "+w.text)
		}
	}
	return list
}

// leftRunning returns warnings about the number of jobs that ran when a set's window began and that the set leaves
// out. It returns nil if these jobs are as many, with as many processors, in all sets.
func leftRunning(sets []Set) (list []string) {
	texts := map[string]bool{}
	for _, s := range sets {
		rules := s.Runs[0].Manifest.Workload.Rules
		left := workload.LeftRunning(rules)
		if texts[left] = true; left != "" {
			list = append(list, fmt.Sprintf("%s: %s that ran when the window began %s left out, because the record does not "+
				"name their nodes: the machine was fuller than the figures say", s.Runs[0].Name, left,
				quantity.Plural(rules[workload.RuleLeftRunning], "is", "are")))
		}
	}
	if len(texts) == 1 {
		return nil
	}
	return list
}

// carriedJobs returns warnings about the number of jobs of a set's first run that do not count, because they were
// submitted before its window.
func carriedJobs(tables [][]table) (list []string) {
	for i := range tables {
		t, n := &tables[i][0], 0
		for _, key := range t.keys {
			if t.carried(t.byKey[key]) {
				n++
			}
		}
		if n > 0 {
			list = append(list, fmt.Sprintf("%s: the waits of %d %s that waited when the window began do not count: "+
				"each window counts the jobs that were submitted in it", t.Name, n, quantity.Plural(n, "job", "jobs")))
		}
	}
	return list
}

// tooFewRuns returns warnings about the tables in which no difference of a set can be significant after Holm's
// correction, because the set and the baseline have too few runs.
func (c *Comparison) tooFewRuns(set int) (list []string) {
	a, b := len(c.Sets[0].Runs), len(c.Sets[set].Runs)
	who := fmt.Sprintf("%s and %s: %d and %d %s: ", Letter(0), Letter(set), a, b, quantity.Plural(b, "run", "runs"))
	for _, t := range []struct {
		of    string
		table []Metric
	}{
		{"", c.Metrics}, {" of nodes", c.Nodes}, {" of waits", c.Waits}, {" of fairness", c.shownFairness()},
		{" of I/O", c.IO},
	} {
		figures := correctedFor(t.table)
		paired := figures > 0 && t.table[0].difference(set).Paired
		switch p := stats.SmallestOf(paired, a, b); {
		case t.of == "" && p > 1-c.Level: // then all tables have too few runs
			return []string{fmt.Sprintf("%sno p-value can be below %.2g, however large the difference", who, p)}
		case p*float64(figures) > 1-c.Level:
			list = append(list, fmt.Sprintf("%sno p-value can be below %.2g, and none is significant after the correction "+
				"for %d figures%s (want %d or more on each side)", who, p, figures, t.of, c.runsFor(figures, paired)))
		}
	}
	return list
}

// shownFairness returns the figures of fairness if [Comparison.Render] writes them.
func (c *Comparison) shownFairness() []Metric {
	if !c.ShowFairness {
		return nil
	}
	return c.Fairness
}

// SmallestP returns the smallest p-value that any figure of [Comparison.Metrics] can have for two sets with these
// numbers of runs, after Holm's correction. If it is above 1 − Level, even the largest difference is not significant.
func (c *Comparison) SmallestP(runs, others int) float64 {
	return min(1, stats.SmallestOf(false, runs, others)*float64(max(1, correctedFor(c.Metrics))))
}

// runsFor returns the number of runs on each side from which on a difference can be significant after Holm's
// correction for the given number of figures. The parameter paired says that the test is for pairs of runs.
func (c *Comparison) runsFor(figures int, paired bool) int {
	for n := 2; ; n++ {
		if stats.SmallestOf(paired, n, n)*float64(figures) <= 1-c.Level || n == 1000 {
			return n
		}
	}
}

// identical reports whether all runs of a set are at distance 0.
func identical(d *Distances, set int) bool {
	return slices.ContainsFunc(d.Blocks, func(b Block) bool {
		return b.Sets == [2]int{set, set} && b.Pairs > 0 && b.Mean == 0
	})
}

// seconds returns a duration as a number for JSON.
func seconds(d time.Duration) metrics.Float { return metrics.Float(d.Seconds()) }
