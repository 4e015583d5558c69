package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Groupings divides the same jobs into groups in one or several ways.
type Groupings struct {
	Groupings []*Groups `json:"groupings"`
}

// Groups says why the jobs of a run, or some of its jobs, waited.
type Groups struct {
	// By is the property by which the jobs are grouped; empty for one group.
	By metrics.By `json:"by,omitempty"`
	// Groups are the groups with the largest sums of waits, in descending order. Omitted counts all
	// other groups, and OmittedWait is the sum of the waits of their jobs.
	Groups      []*Group      `json:"groups"`
	Omitted     int           `json:"omitted_groups"`
	OmittedWait metrics.Float `json:"omitted_wait_s"`
}

// Group says why the jobs of one group waited. Its waits and their parts are defined as in
// [metrics.Metrics].
type Group struct {
	Name string `json:"name"` // empty for jobs without the property, and for the only group
	// Waited is the number of jobs that have a wait, and Wait the sum of their waits. Mean is the mean wait, and
	// MeanSinceEligible the mean wait after jobs became eligible. All three times are in seconds.
	Waited            int           `json:"waited_jobs"`
	Wait              metrics.Float `json:"wait_s"`
	Mean              metrics.Float `json:"mean_wait_s"`
	MeanSinceEligible metrics.Float `json:"mean_wait_since_eligible_s"`
	// NeverStarted counts jobs without a wait: jobs that never started, or never started again after
	// a lost run. NeverStartedWait is their time in the queue, in seconds.
	NeverStarted     int                `json:"never_started_jobs"`
	NeverStartedWait metrics.Float      `json:"never_started_wait_s"`
	Parts            []metrics.WaitPart `json:"wait_parts"`
	// Causes divide Wait among at most ten causes, in descending order. OtherCauses is the sum of
	// all other causes.
	Causes      []GroupCause  `json:"causes"`
	OtherCauses metrics.Float `json:"other_causes_wait_s"`
	// Looks is the number of instants at which waits for nodes were explained.
	Looks int `json:"looks"`
	// Rivals held the processors for which the jobs waited. The rival with the most processors comes
	// first.
	Rivals []Rival `json:"rivals"`
	// OwnShare is the share of the held processors that jobs of the group itself held.
	OwnShare metrics.Float `json:"own_share"`

	// Unsized is true if the size of the machine is not known, so that causes of waits for nodes are missing.
	Unsized bool `json:"machine_size_unknown"`

	driven bool // [waits.Driven]
}

// GroupCause is how long jobs waited for one cause. Kind is empty for waits that the record does not
// explain.
type GroupCause struct {
	Kind    Kind          `json:"kind"`
	Text    string        `json:"text"`
	Seconds metrics.Float `json:"wait_s"`
	Share   metrics.Float `json:"share"` // share of the waits of the group
	// Examples are the jobs that waited longest for the cause. If a cause was found at single
	// instants, they are jobs that waited at these instants.
	Examples []string `json:"examples"`
}

// Rival is a user or another group (another account, if jobs are grouped by account). Its jobs held
// processors while this group's jobs waited for nodes.
type Rival struct {
	Name string `json:"name"`
	// Processors is how many processors the rival held in the partitions of the waiting jobs, on
	// average over the time of their waits. Share is the rival's share of what all jobs held.
	Processors metrics.Float `json:"mean_processors"`
	Share      metrics.Float `json:"share"`
}

const (
	listedGroups = 20
	listedCauses = 10
	listedRivals = 5
	examples     = 3
	// A group's waits for nodes are explained at up to maxLooks instants. Each instant needs a pass
	// over all jobs. In a run with many jobs, rowsRead bounds the number of rows that are read. Then
	// there are fewer instants, but at least fewLooks for each group.
	maxLooks, fewLooks, rowsRead = 1000, 20, 50_000_000
	// convincing is the weight that a cause must exceed to explain a wait without a known reason.
	convincing = 0.25
)

// Rows are the jobs of the run, for [Record.Groups].
func (rec *Record) Rows() []run.Row { return rec.rows }

// Groups explains the waits of jobs of the run (pointers into [Record.Rows]), grouped by each of the given
// properties. If the parameter by is empty, all jobs are one group.
func (rec *Record) Groups(jobs []*run.Row, by ...metrics.By) (g Groupings) {
	if len(by) == 0 {
		by = []metrics.By{""}
	}
	for _, b := range by {
		g.Groupings = append(g.Groupings, rec.groups(jobs, b))
	}
	return g
}

// groups explains the waits of jobs in groups.
func (rec *Record) groups(jobs []*run.Row, by metrics.By) *Groups {
	result, members, total := &Groups{By: by, Groups: []*Group{}}, map[string][]*run.Row{}, 0.0
	for _, row := range jobs {
		name := metrics.GroupName(row, by)
		members[name] = append(members[name], row)
	}
	for name, rows := range members {
		g := &Group{Name: name}
		g.sums(rec, rows)
		total += float64(g.Wait)
		result.Groups = append(result.Groups, g)
	}
	slices.SortFunc(result.Groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Name, b.Name))
	})
	for _, g := range result.Groups[min(listedGroups, len(result.Groups)):] {
		result.Omitted++
		result.OmittedWait += g.Wait
	}
	result.Groups = result.Groups[:min(listedGroups, len(result.Groups))]
	looks := min(maxLooks, rowsRead/max(1, len(rec.rows)))
	for _, g := range result.Groups {
		rows := rec.waited(members[g.Name])
		g.Looks = max(fewLooks, int(float64(looks)*float64(g.Wait)/max(1, total)))
		g.causes(rec, rows)
		g.rivals(rec, rows, members[g.Name], cmp.Or(by, metrics.ByUser))
	}
	return result
}

// waited returns the jobs that have a wait in [metrics.Metrics].
func (rec *Record) waited(rows []*run.Row) (list []*run.Row) {
	for _, row := range rows {
		if _, ok := waits.Wait(row); ok && row.Start >= rec.manifest.WindowStart && (row.End == 0 || row.End >= row.Start) {
			list = append(list, row)
		}
	}
	return list
}

// sums sets the waits and their parts.
func (g *Group) sums(rec *Record, rows []*run.Row) {
	m := metrics.ComputeAll(slices.Values(rows), metrics.Options{}.WithManifest(rec.manifest))
	g.driven = waits.Driven(rec.manifest)
	g.Waited, g.Mean, g.MeanSinceEligible, g.Parts = m.Waited, m.Wait.Mean, m.EligibleWait.Mean, m.WaitParts
	for _, p := range m.WaitParts {
		g.Wait += p.Seconds
	}
	for _, row := range rows {
		if row.Start == 0 && row.State != hpc.Rejected {
			g.NeverStarted++
			g.NeverStartedWait += metrics.Float(waits.SumUntil(row, rec.end).Wait.Seconds())
		}
	}
}

// cause identifies a cause: its kind, and the reason, user or reservation that it names.
type cause struct {
	kind    Kind
	subject string
}

// causes divides the waits of the jobs by their causes. A part of a wait that names a cause counts
// for that cause. All other parts, in which a job waits for nodes or for an unknown reason, form one
// long interval. It is explained at instants at equal distances, and each instant represents an
// equal share of the interval.
func (g *Group) causes(rec *Record, rows []*run.Row) {
	found := map[cause]map[*run.Row]time.Duration{}
	add := func(c cause, row *run.Row, d time.Duration) {
		if c.kind == Reserved && c.subject == "" { // a reason does not name the reservation
			c.subject = rec.reservation(row)
		}
		if found[c] == nil {
			found[c] = map[*run.Row]time.Duration{}
		}
		found[c][row] += d
	}
	rest := time.Duration(0)
	each := func(visit func(row *run.Row, s waits.Span, d time.Duration)) {
		for _, row := range rows {
			for _, s := range waits.Decompose(row, rec.end) {
				visit(row, s, s.To.Sub(s.From))
			}
		}
	}
	each(func(row *run.Row, s waits.Span, d time.Duration) {
		switch kind := kindOf(s.Part, s.Reason); kind {
		case "":
			rest += d
		case Limit, OwnLimit, Held: // each limit, and each kind of hold, is a separate cause
			name, _, _ := strings.Cut(s.Reason, ":")
			add(cause{kind, strings.TrimPrefix(name, "JobArrayTaskLimit")}, row, d)
		default:
			if kind == Before && !rec.isRun() {
				kind = ""
			}
			add(cause{kind: kind}, row, d)
		}
	})
	g.Looks = min(g.Looks, int(rest/time.Second))
	if step := rest / time.Duration(max(1, g.Looks)); step > 0 {
		next, last := step/2, (*run.Row)(nil)
		c, left := cause{}, rest
		each(func(row *run.Row, s waits.Span, d time.Duration) {
			if kindOf(s.Part, s.Reason) != "" {
				return
			}
			for ; next < d; next += step {
				c, last = rec.causeAt(row, s, s.From.Add(next)), row
				add(c, row, min(step, left))
				left -= min(step, left)
			}
			next -= d
		})
		if last != nil {
			add(c, last, left) // the remainder of the division
		}
	}
	g.list(rec, found)
}

// reservation returns the reservation for which a job can have waited: the reservation that the job asks for, or the
// record's only one; "" if the record has several reservations.
func (rec *Record) reservation(row *run.Row) string {
	name := row.Reservation
	for _, e := range rec.admin.Reservations {
		if name = cmp.Or(name, e.Name); row.Reservation == "" && name != e.Name {
			return ""
		}
	}
	return name
}

// causeAt returns the largest cause of a wait for nodes at an instant.
func (rec *Record) causeAt(row *run.Row, s waits.Span, t hpc.Time) cause {
	best := Cause{}
	if s.Part == waits.Unknown {
		best.Weight = convincing
	}
	backfill := 0.0
	for _, c := range rec.forNodes(row, t) {
		if c.Weight > best.Weight {
			best = c
		}
		if c.Kind == Backfill {
			backfill = c.Weight
		}
	}
	if s.Part == waits.Priority {
		story := Story{CPUs: rec.cpusOf(row), Priority: priorityOf(row)}
		story.outranking(rec, row)
		if w := story.outranked() * (1 - backfill); w > best.Weight || best.Kind == "" {
			best = Cause{Kind: Ranked}
		}
	}
	if best.Kind == "" && s.Part == waits.Resources {
		best.Kind = Full
	}
	return cause{best.Kind, best.subject}
}

// list sets the list of causes. The parameter found contains the time that each job waited for
// each cause.
func (g *Group) list(rec *Record, found map[cause]map[*run.Row]time.Duration) {
	g.Causes = []GroupCause{}
	for c, jobs := range found {
		sum := time.Duration(0)
		for _, d := range jobs {
			sum += d
		}
		list := slices.SortedFunc(maps.Keys(jobs), func(a, b *run.Row) int {
			return cmp.Or(cmp.Compare(jobs[b], jobs[a]), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task))
		})
		entry := GroupCause{Kind: c.kind, Text: c.text(rec.manifest), Seconds: metrics.Float(sum.Seconds())}
		entry.Examples, entry.Share = []string{}, entry.Seconds/max(1e-9, g.Wait)
		for _, row := range list[:min(examples, len(list))] {
			entry.Examples = append(entry.Examples, key{row.Job, row.Task}.String())
		}
		g.Causes = append(g.Causes, entry)
	}
	slices.SortFunc(g.Causes, func(a, b GroupCause) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	for _, c := range g.Causes[min(listedCauses, len(g.Causes)):] {
		g.OtherCauses += c.Seconds
	}
	g.Causes = g.Causes[:min(listedCauses, len(g.Causes))]
	g.Unsized = unsized(rec.manifest) && slices.ContainsFunc(g.Causes, func(c GroupCause) bool { return c.Kind == "" })
}

// text describes a cause in a run for people.
func (c cause) text(m *run.Manifest) string {
	switch c.kind {
	case "":
		return "not known: the record does not say"
	case Before:
		return beforeWindow
	case Full:
		return "the nodes were in use"
	case Ranked:
		if !waits.HasPriorities(m) {
			return "jobs ahead of them in the queue started first"
		}
		return "jobs with a higher priority started first"
	case Draining:
		return "nodes were kept free for a job that needs many nodes"
	case Named:
		return "they asked by name for nodes that were in use"
	case Idle:
		return "they fit on nodes without jobs, and the record does not say what the scheduler planned"
	case Backfill:
		return "they fit on free nodes, and the scheduler did not reach them"
	case Burst:
		return "user " + orNone(c.subject) + " had at least half of the processors that jobs used and requested in their partitions"
	}
	for _, part := range waits.Parts {
		if kindOf(part, "") != c.kind {
			continue
		}
		if c.subject == "" {
			return part.MeaningIn(m)
		}
		return part.MeaningIn(m) + ": " + c.subject
	}
	return string(c.kind)
}
