package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/compare"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// StateBar shows how the jobs of a set ended.
type StateBar struct {
	Set   string // the set's name; empty for a single set
	Jobs  string // the number of jobs
	Parts []StatePart
}

// StatePart has the number of jobs that ended in one state.
type StatePart struct {
	Label, Count, Share string
	Width               float64 // width as a percentage of the bar
	Colour              string  // the colour's name in the page's style
}

// Term is a word with its meaning.
type Term struct{ Word, Meaning string }

// endings describe states: the words in a sentence about one job and about several, the label on a
// tile, and the colour.
var endings = []struct {
	state         hpc.State
	one, many     string
	label, colour string
}{
	{hpc.Completed, "ended well", "ended well", "ended well", "green"},
	{hpc.Failed, "failed", "failed", "failed", "vermilion"},
	{hpc.TimedOut, "reached its time limit", "reached their time limits", "timed out", "orange"},
	{hpc.Cancelled, "was cancelled", "were cancelled", "cancelled", "grey"},
	{hpc.OutOfMemory, "ran out of memory", "ran out of memory", "out of memory", "pink"},
	{hpc.NodeFail, "lost a node", "lost a node", "node failed", "black"},
	{hpc.Preempted, "was preempted", "were preempted", "preempted", "sky-blue"},
	{hpc.Deadlined, "missed its deadline", "missed their deadlines", "missed deadline", "pink"},
	{hpc.BootFail, "was on nodes that did not boot", "were on nodes that did not boot", "boot failed", "black"},
	{hpc.Rejected, "was rejected at submission", "were rejected at submission", "rejected", "pink"},
	{hpc.Running, "was still running when the run ended", "were still running when the run ended", "still running",
		"blue"},
	{hpc.Suspended, "was suspended when the run ended", "were suspended when the run ended", "suspended", "sky-blue"},
	{hpc.Requeued, "was requeued when the run ended", "were requeued when the run ended", "requeued", "sky-blue"},
	{hpc.Pending, "was still waiting when the run ended", "were still waiting when the run ended", "still waiting",
		"sky-blue"},
}

// stateBar returns the end states of the jobs of a set, as means over its runs.
func stateBar(runs []compare.Realization) StateBar {
	all, states := 0, map[hpc.State]int{}
	for i := range runs {
		for k := range runs[i].Rows {
			row := &runs[i].Rows[k]
			all += metrics.JobsOf(row)
			states[row.State] += metrics.JobsOf(row)
		}
	}
	mean := func(n int) float64 { return float64(n) / float64(len(runs)) }
	bar := StateBar{Jobs: quantity.Decimal(mean(all)) + quantity.Space + quantity.Plural(all-len(runs)+1, "job", "jobs")}
	add := func(label, colour string, n int) {
		if n > 0 {
			bar.Parts = append(bar.Parts, StatePart{label, quantity.Decimal(mean(n)), quantity.Share(n, all),
				100 * float64(n) / float64(all), colour})
		}
	}
	other := all
	for _, e := range endings {
		add(e.label, e.colour, states[e.state])
		other -= states[e.state]
	}
	add("unknown", "black", other)
	return bar
}

// story returns paragraphs about the first run of a set: about its jobs and the machine, and then
// about the waits.
func (r *Report) story(set int) []Block {
	o := r.overviews[set]
	var list []Block
	for _, sentences := range [][]string{
		{r.submissionStory(set, o), endStory(o), metrics.LostStory(r.value, set), r.machineStory(set, o)},
		{r.waitStory(set, o), r.worstStory(set, o)},
	} {
		text := strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
		if text != "" {
			list = append(list, Block{Text: text, Kind: "story"})
		}
	}
	return list
}

// value returns a metric of the first run of a set.
func (r *Report) value(key string, set int) metrics.Float {
	for _, m := range slices.Concat(r.Comparison.Metrics, r.Comparison.Nodes) {
		if m.Key == key {
			return m.Sets[set].Values[0]
		}
	}
	return metrics.NoValue()
}

func (r *Report) submissionStory(set int, o *metrics.Overview) string {
	zone := r.options.Zone
	var text strings.Builder
	if len(r.Sets) > 1 {
		fmt.Fprintf(&text, "%s: ", setName(set, r.Sets[set]))
	}
	submitted := o.Jobs - o.Preset
	if n := len(r.Sets[set].Runs); n > 1 {
		fmt.Fprintf(&text, "In the first of %d runs, ", n)
	}
	who := ""
	if users := named(o.Usage[metrics.ByUser]); users > 0 {
		who = " by " + quantity.Counted(users, "user", "users")
		if accounts := named(o.Usage[metrics.ByAccount]); accounts > 0 {
			who += " of " + quantity.Counted(accounts, "account", "accounts")
		}
	}
	if submitted > 0 && o.FirstSubmit != 0 {
		fmt.Fprintf(&text, "%s %s submitted%s between %s and %s (%s).", quantity.Counted(submitted, "job", "jobs"),
			quantity.Plural(submitted, "was", "were"), who,
			quantity.Date(o.FirstSubmit, zone), quantity.Date(o.LastSubmit, zone), zone)
	} else {
		fmt.Fprintf(&text, "No jobs were submitted.")
	}
	if o.Preset > 0 {
		fmt.Fprintf(&text, " %s already ran when the window began.", quantity.Counted(o.Preset, "job", "jobs"))
	}
	return text.String()
}

// named counts the groups that have a name.
func named(list []metrics.Usage) (n int) {
	for i := range list {
		if list[i].Name != "" {
			n++
		}
	}
	return n
}

// endStory returns a sentence about how the jobs ended.
func endStory(o *metrics.Overview) string {
	var parts []string
	for _, e := range endings {
		if n := o.States[e.state]; n > 0 {
			part := fmt.Sprintf("%s (%s) %s", quantity.Count(n), quantity.Share(n, o.Jobs), quantity.Plural(n, e.one, e.many))
			if len(parts) == 0 {
				part = fmt.Sprintf("%s (%s) %s", quantity.Counted(n, "job", "jobs"), quantity.Share(n, o.Jobs),
					quantity.Plural(n, e.one, e.many))
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := enumerate(parts) + "."
	if never := o.NeverStarted; never > 0 {
		text += fmt.Sprintf(" %s ended before %s started.", quantity.Counted(never, "job", "jobs"),
			quantity.Plural(never, "it", "they"))
	}
	return text
}

// enumerate joins parts of a sentence: a, b and c.
func enumerate(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// machineStory returns a sentence about how full the machine was.
func (r *Report) machineStory(set int, o *metrics.Overview) string {
	processors := r.Sets[set].Runs[0].Manifest.Cluster.Processors
	utilization := r.value("utilization", set)
	if !utilization.Known() || o.LastEnd <= o.FirstStart {
		return ""
	}
	until, last := "the last end", o.LastEnd
	if r.Comparison.Sets[set].Window {
		until, last = "the window's last submission", o.LastSubmit
	}
	text := fmt.Sprintf("Until %s, on %s, jobs held %s of the machine's %s",
		until, quantity.Date(last, r.options.Zone), quantity.Percent(utilization), quantity.Counted(processors, "processor", "processors"))
	if idle := r.value("idle_node_s", set); idle.Known() {
		text += fmt.Sprintf("; nodes had no job for %s node hours", quantity.Decimal(idle/3600))
	}
	if len(r.courses.sets) == 0 {
		return text + "."
	}
	switch full := r.courses.sets[set][0].full; {
	case math.IsNaN(full):
	case full == 0:
		text += fmt.Sprintf("; the machine was never full (at least %.0f%s%% in use)", 100*fullShare, quantity.Space)
	default:
		text += fmt.Sprintf("; for %s of the time until the last end the machine was full (at least %.0f%s%% in use)",
			quantity.Percent(metrics.Float(full)), 100*fullShare, quantity.Space)
	}
	return text + "."
}

// waitStory returns a sentence about how long jobs waited.
func (r *Report) waitStory(set int, o *metrics.Overview) string {
	median, p90, mean := r.value("median_wait_s", set), r.value("p90_wait_s", set), r.value("mean_wait_s", set)
	if !median.Known() {
		return ""
	}
	if len(o.Longest) == 0 {
		return "Every job started at once."
	}
	longest := o.Longest[0]
	var of []string
	for _, part := range []struct{ what, name string }{{"of user", longest.User}, {"in partition", longest.Partition}} {
		if part.name != "" {
			of = append(of, part.what+" "+quantity.Name(part.name))
		}
	}
	half, waited := fmt.Sprintf("Half of the jobs waited at most %s", quantity.Duration(median)), ""
	if median < 1 {
		half, waited = "Half of the jobs did not wait", "waited "
	}
	return fmt.Sprintf("%s, and nine of ten %sat most %s; the mean wait was %s. Job %s waited longest: %s.",
		half, waited, quantity.Duration(p90), quantity.Duration(mean),
		strings.Join(append([]string{quantity.Name(keyOf(longest).String())}, of...), " "),
		quantity.Duration(metrics.Float(waits.Seconds(longest))))
}

// worstStory returns sentences about when the queue was longest, and about who waited longest.
func (r *Report) worstStory(set int, o *metrics.Overview) string {
	if len(o.Longest) == 0 || len(r.courses.sets) == 0 {
		return ""
	}
	peak := r.courses.sets[set][0].longest
	var parts []string
	if peak.Queued > 0 {
		parts = append(parts, fmt.Sprintf("The queue was longest on %s, with %s.", quantity.Date(peak.At, r.options.Zone),
			quantity.Counted(peak.Queued, "waiting job", "waiting jobs")))
	}
	var worst, kinds []string
	for _, by := range metrics.OverviewBy {
		if len(worst) == 2 {
			break
		}
		if u := longestWaiting(o.Usage[by], o.Jobs); u != nil {
			kinds = append(kinds, string(by)+"s")
			worst = append(worst, fmt.Sprintf("%s %s (%s over %s)", by, quantity.Name(u.Name), quantity.Duration(u.Waits.Mean()),
				quantity.Counted(u.Waits.Jobs, "job", "jobs")))
		}
	}
	if len(worst) > 0 {
		parts = append(parts, fmt.Sprintf("Of the %s of which at least %s started, %s waited longest on average.",
			enumerate(kinds), quantity.Counted(fewest(o.Jobs), "job", "jobs"), enumerate(worst)))
	}
	return strings.Join(parts, " ")
}

// fewest is the smallest number of waits with which a group counts for [longestWaiting], among this number of jobs.
func fewest(jobs int) int { return max(5, jobs/100) }

// longestWaiting returns the group with the longest mean wait. Groups with few waits do not count ([fewest]).
// longestWaiting returns nil if only one group counts.
func longestWaiting(list []metrics.Usage, jobs int) *metrics.Usage {
	var worst *metrics.Usage
	counted := 0
	for i := range list {
		u := &list[i]
		if u.Name == "" || u.Waits.Jobs < fewest(jobs) {
			continue
		}
		if counted++; worst == nil || u.Waits.Mean() > worst.Waits.Mean() {
			worst = u
		}
	}
	if counted < 2 || worst.Waits.Seconds == 0 {
		return nil
	}
	return worst
}

// topUsers is the number of users in the table of users.
const topUsers = 10

// usersTable lists the users with the most processor hours in the first run of a set. Jobs that
// never started, and jobs that ran when the window began, have no wait.
func (r *Report) usersTable(set int) *Table {
	list := r.overviews[set].Usage[metrics.ByUser]
	if named(list) == 0 {
		return nil
	}
	var total metrics.Usage
	for i := range list {
		total.ProcessorSeconds += list[i].ProcessorSeconds
		total.GPUSeconds += list[i].GPUSeconds
	}
	if total.ProcessorSeconds == 0 {
		return nil
	}
	t := &Table{Caption: "Users with the most CPU hours" + r.ofSet(set),
		Head: []string{"user", "jobs", "CPU hours", "share"}, Folded: set > 0}
	if total.GPUSeconds > 0 {
		t.Head = append(t.Head, "GPU hours")
	}
	t.Head = append(t.Head, "waits counted", "mean wait", "longest wait")
	add := func(name string, u *metrics.Usage) {
		row := []string{name, quantity.Count(u.Jobs), hours(u.ProcessorSeconds),
			quantity.Percent(metrics.Float(u.ProcessorSeconds / total.ProcessorSeconds))}
		if total.GPUSeconds > 0 {
			row = append(row, hours(u.GPUSeconds))
		}
		longest := metrics.NoValue()
		if u.Waits.Jobs > 0 {
			longest = metrics.Float(u.Waits.Longest)
		}
		t.Rows = append(t.Rows, append(row, quantity.Count(u.Waits.Jobs), quantity.Duration(u.Waits.Mean()), quantity.Duration(longest)))
	}
	for i := range list[:min(len(list), topUsers)] {
		add(quantity.Name(list[i].Name), &list[i])
	}
	if len(list) > topUsers {
		var rest metrics.Usage
		for _, u := range list[topUsers:] {
			rest.Jobs += u.Jobs
			rest.ProcessorSeconds += u.ProcessorSeconds
			rest.GPUSeconds += u.GPUSeconds
			rest.Waits.Jobs += u.Waits.Jobs
			rest.Waits.Seconds += u.Waits.Seconds
			rest.Waits.Longest = max(rest.Waits.Longest, u.Waits.Longest)
		}
		n := len(list) - topUsers
		add(quantity.Counted(n, "other user", "other users"), &rest)
	}
	return t
}

// hours formats processor seconds or GPU seconds as hours.
func hours(seconds float64) string {
	h := seconds / 3600
	if h == 0 || h >= 10 {
		return quantity.Count(int(math.Round(h)))
	}
	return strconv.FormatFloat(h, 'f', 1, 64)
}

// ofSet names a set at the end of a caption if the report has several sets.
func (r *Report) ofSet(set int) string {
	text := ""
	if len(r.Sets) > 1 {
		text = ", " + setName(set, r.Sets[set])
	}
	if n := len(r.Sets[set].Runs); n > 1 {
		text += fmt.Sprintf(", first of %d runs", n)
	}
	return text
}

// waitsTable lists the jobs that waited longest in the first run of a set.
func (r *Report) waitsTable(set int) *Table {
	o := r.overviews[set]
	if len(o.Longest) == 0 {
		return nil
	}
	zone := r.options.Zone
	t := &Table{
		Caption: "The longest waits" + r.ofSet(set), Folded: set > 0,
		Head: []string{"job", "wait", "submitted, " + zone.String(), "started", "user", "account", "partition", "processors"},
	}
	for _, row := range o.Longest {
		t.Rows = append(t.Rows, []string{
			quantity.Name(keyOf(row).String()), quantity.Duration(metrics.Float(waits.Seconds(row))),
			quantity.Date(row.Submit, zone), quantity.Date(row.Start, zone),
			quantity.Name(row.User), quantity.Name(row.Account), quantity.Name(row.Partition), quantity.Count(row.Processors),
		})
	}
	return withoutEmptyColumns(t)
}

// withoutEmptyColumns removes the columns in which no row has a value.
func withoutEmptyColumns(t *Table) *Table {
	for c := len(t.Head) - 1; c > 0; c-- {
		if slices.ContainsFunc(t.Rows, func(row []string) bool { return row[c] != quantity.Unknown }) {
			continue
		}
		t.Head = slices.Delete(t.Head, c, c+1)
		for i := range t.Rows {
			t.Rows[i] = slices.Delete(t.Rows[i], c, c+1)
		}
	}
	return t
}

// keyOf identifies a job on the page.
func keyOf(r *run.Row) compare.Key { return compare.Key{Job: r.Job, Task: r.Task} }
