package agreement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/guide"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// Kind says what a difference is about.
type Kind string

// The kinds of differences.
const (
	TooEarly Kind = "start"    // the model would start a job, but in Slurm it waits
	TooLate  Kind = "wait"     // Slurm starts a job, but in the model it waits
	Nodes    Kind = "nodes"    // both start the job, but on different nodes
	Reason   Kind = "reason"   // the reason for which a job waits
	Plan     Kind = "plan"     // the start that backfill plans for a waiting job
	Priority Kind = "priority" // the priority with which a job starts or waits
	End      Kind = "end"      // the time at which a job ends
)

// Difference is a decision in which slurmctld and the model differ, with the inputs of both.
type Difference struct {
	At    hpc.Time `json:"-"`
	Kind  Kind     `json:"kind"`
	Job   string   `json:"job"`
	Slurm string   `json:"slurm"` // the decision of slurmctld, with its inputs
	Model string   `json:"model"` // the decision of the model, with its inputs
}

// String returns the difference on one line.
func (d *Difference) String() string {
	return fmt.Sprintf("%s %s %s: Slurm %s; the model %s", d.At, d.Kind, d.Job, d.Slurm, d.Model)
}

// Count is a number of comparisons, and the number of comparisons that agree.
type Count struct {
	Agree int `json:"agree"`
	All   int `json:"all"`
}

// Share returns the share of the comparisons that agree, or 1 if nothing was compared.
func (c Count) Share() float64 {
	if c.All == 0 {
		return 1
	}
	return float64(c.Agree) / float64(c.All)
}

// inPercent returns the share in percent, rounded down to two decimals so that 100 always means all.
func (c Count) inPercent() float64 {
	if c.All == 0 {
		return 100
	}
	return float64(10_000*c.Agree/c.All) / 100
}

// add counts a comparison.
func (c *Count) add(agree bool) {
	c.All++
	if agree {
		c.Agree++
	}
}

// String returns a text such as "998 of 1000 (99.80 %)".
func (c Count) String() string {
	if c.All == 0 {
		return "0 of 0"
	}
	return fmt.Sprintf("%d of %d (%.2f %%)", c.Agree, c.All, c.inPercent())
}

// instant is a second in which slurmctld or the model decided.
type instant struct {
	second                    int64
	decisions, starts, placed Count // jobs in the queues; jobs that start in Slurm or the model; jobs that start in both
}

// Follower is a [guide.Guide] that makes the model follow a record.
type Follower struct {
	truth  *truth
	engine *slurmmodel.Engine

	instants []instant
	now      instant          // the second in progress
	queue    map[key]bool     // jobs in the queues of this second
	wanted   map[key]bool     // jobs that the model starts in this second
	moved    map[key]bool     // jobs that Slurm and the model start in this second, on different nodes
	list     []Difference     // all differences so far
	counts   map[Kind]*Count  // for the kinds that are compared over the whole run
	failed   map[string]int   // recorded starts and ends that the model could not carry out, by the reason
	kept     map[*period]bool // runs that the model would have ended earlier
}

var _ guide.Guide = (*Follower)(nil)

// NewFollower returns a follower of a record, which may have been interrupted. It returns an error if the
// record cannot be read, or if a replay did not make the record.
func NewFollower(r *run.Run) (*Follower, error) {
	if r.Manifest.Engine != "slurm" {
		return nil, fmt.Errorf("following %s: the record was made by %q (want a record of rmreplay replay)", r.Dir,
			r.Manifest.Engine)
	}
	t, err := readTruth(r)
	if err != nil {
		return nil, fmt.Errorf("following %s: %w", r.Dir, err)
	}
	f := &Follower{truth: t, counts: map[Kind]*Count{}, failed: map[string]int{}, kept: map[*period]bool{}}
	for _, k := range []Kind{Reason, Plan, Priority, End} {
		f.counts[k] = &Count{}
	}
	f.begin(0)
	return f, nil
}

// Attach sets the engine of the model. It also chooses when the follower carries out each recorded start and end: at
// the end of its second, after all passes of the model in that second.
func (f *Follower) Attach(e *slurmmodel.Engine) {
	f.engine = e
	after := func(second int64) hpc.Time { return hpc.Unix(second + 1).Add(-time.Nanosecond) }
	for _, p := range f.truth.periods {
		e.At(after(p.begin.UnixSeconds()), func() { f.started(p) })
		if p.end != 0 {
			e.At(after(p.end), func() { f.ended(p) })
		}
	}
	for i := range f.truth.waiting {
		e.At(f.truth.waiting[i].At, func() { f.waits(&f.truth.waiting[i]) })
	}
}

// begin begins a second, and counts the decisions of the previous second.
func (f *Follower) begin(second int64) {
	if second == f.now.second && f.queue != nil {
		return
	}
	for k := range f.queue {
		starts := false
		for _, p := range f.truth.bySecond[f.now.second] {
			starts = starts || p.key == k
		}
		f.now.decisions.add(starts == f.wanted[k])
		if starts || f.wanted[k] {
			f.now.starts.add(starts == f.wanted[k])
		}
		if starts && f.wanted[k] {
			f.now.placed.add(!f.moved[k])
		}
	}
	if f.now.decisions.All > 0 {
		f.instants = append(f.instants, f.now)
	}
	f.now, f.queue, f.wanted, f.moved = instant{second: second}, map[key]bool{}, map[key]bool{}, map[key]bool{}
}

// Pass implements [guide.Guide].
func (f *Follower) Pass(_ bool, queue []guide.Task) {
	f.begin(f.engine.Now().UnixSeconds())
	for _, t := range queue {
		f.queue[key{t.Job, t.Task}] = true
	}
}

// Start implements [guide.Guide].
func (f *Follower) Start(v guide.View, nodes string) (on string, blocks bool) {
	now := f.engine.Now()
	f.begin(now.UnixSeconds())
	k := key{v.Job, v.Task.Task}
	again := f.wanted[k]
	f.queue[k], f.wanted[k] = true, true
	p := f.truth.run(k, v.Restarts)
	if p == nil || p.begin.UnixSeconds() != now.UnixSeconds() {
		if !again {
			f.differs(TooEarly, k, f.slurm(k, p), "starts it on "+nodes+", "+inputs(&v))
		}
		return "", !f.startsBehind(k)
	}
	if p.nodes != nodes {
		f.moved[k] = true
		f.differs(Nodes, k, "starts it on "+p.nodes, "on "+nodes+", "+inputs(&v))
	}
	if p.priority != 0 {
		f.compare(Priority, k, p.priority == v.Priority, fmt.Sprint("starts it with ", p.priority), "with "+inputs(&v))
	}
	return p.nodes, false
}

// startsBehind reports whether a job other than k starts in this second in the record, but not yet in the model. If
// another job starts in this second, the waiting job k does not block its partition, or blocks it only briefly.
func (f *Follower) startsBehind(k key) bool {
	return slices.ContainsFunc(f.truth.bySecond[f.now.second], func(p *period) bool {
		return p.key != k && !f.wanted[p.key]
	})
}

// End implements [guide.Guide].
func (f *Follower) End(t guide.Task) bool {
	p := f.truth.run(key{t.Job, t.Task}, t.Restarts)
	if p == nil || p.end == 0 || p.end <= f.engine.Now().UnixSeconds() {
		return true
	}
	if !f.kept[p] {
		f.kept[p] = true
		f.compare(End, p.key, false, "ends it at "+hpc.Unix(p.end).String(), "now")
	}
	return false
}

// started is called after the second in which a run began in the record.
func (f *Follower) started(p *period) {
	f.begin(p.begin.UnixSeconds())
	f.queue[p.key] = true
	v, known := f.engine.Look(p.job, p.task)
	if known && v.State == hpc.Running || f.wanted[p.key] {
		return
	}
	model := "does not have it"
	if known {
		model = "lets it wait, " + inputs(&v)
	}
	f.differs(TooLate, p.key, fmt.Sprintf("starts it on %s", p.nodes), model)
	if err := f.engine.ForceStart(p.job, p.task, p.nodes, p.begin); err != nil {
		f.failed["starts that are not possible in the model's state"]++
	}
}

// ended is called after the second in which a run ended in the record.
func (f *Follower) ended(p *period) {
	v, known := f.engine.Look(p.job, p.task)
	if known && v.State == hpc.Running && v.Restarts == p.number && !f.kept[p] {
		if err := f.engine.ForceEnd(p.job, p.task, p.state, p.requeued); err == nil {
			f.compare(End, p.key, false, "ends it", "lets it run")
			return
		}
	}
	if f.kept[p] {
		if err := f.engine.ForceEnd(p.job, p.task, p.state, p.requeued); err != nil {
			f.failed["ends of jobs that the model does not have running"]++
		}
		return
	}
	f.compare(End, p.key, true, "", "")
}

// waits compares slurmctld's reason, plan and priority of a pending job with the model's values, and
// sets the reason of the job in the model to Slurm's reason.
func (f *Follower) waits(e *run.Event) {
	k := key{e.Job, e.Task}
	v, known := f.engine.Look(e.Job, e.Task)
	if !known || v.State != hpc.Pending {
		f.compare(Reason, k, false, "lets it wait: "+e.Reason, "does not have it pending")
		return
	}
	name, _, _ := strings.Cut(e.Reason, ":")
	if e.Reason != "" { // the record does not have the reason of a job that a window's barrier keeps pending
		f.compare(Reason, k, name == v.Reason, "lets it wait: "+e.Reason, "lets it wait: "+inputs(&v))
	}
	f.compare(Priority, k, e.Priority == v.Priority, fmt.Sprint("has it wait with ", e.Priority), "with "+inputs(&v))
	if e.Start != 0 || v.Planned != 0 {
		f.compare(Plan, k, e.Start == v.Planned, "plans it "+planned(e.Start), planned(v.Planned)+", "+inputs(&v))
	}
	if reason, ok := slurmspec.ReasonNamed(name); ok && name != v.Reason {
		f.engine.ForceReason(v, reason)
	}
}

// planned returns a text about the start that is planned for a job.
func planned(at hpc.Time) string {
	if at == 0 {
		return "not at all"
	}
	return "for " + at.String()
}

// slurm returns a text about a job that does not start now in the record. p is the job's next run;
// nil if the job never starts.
func (f *Follower) slurm(k key, p *period) string {
	text := "never starts it"
	if p != nil {
		text = fmt.Sprintf("starts it at %s on %s", p.begin, p.nodes)
	}
	for i := len(f.truth.waiting) - 1; i >= 0; i-- {
		if e := &f.truth.waiting[i]; e.Job == k.job && (e.Task == k.task || e.Task < 0) && e.At <= f.engine.Now() {
			return fmt.Sprintf("%s; it waits for %s with priority %d", text, e.Reason, e.Priority)
		}
	}
	return text
}

// inputs returns a text about a job's state in the model.
func inputs(v *guide.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "reason %s, priority %d", v.Reason, v.Priority)
	for i, p := range v.Parts {
		fmt.Fprintf(&b, "%s%s %.2f", map[bool]string{true: " = ", false: " + "}[i == 0], p.Name, p.Points)
	}
	fmt.Fprintf(&b, ", partition %s with %d %s without jobs", v.Partition, v.IdleNodes,
		quantity.Plural(v.IdleNodes, "node", "nodes"))
	if v.Planned != 0 {
		fmt.Fprintf(&b, ", planned for %s", v.Planned)
	}
	if v.Backfill != "" {
		fmt.Fprintf(&b, ", backfill %s", v.Backfill)
	}
	return b.String()
}

// compare counts a comparison of the whole run, and stores a difference.
func (f *Follower) compare(kind Kind, k key, agree bool, slurm, model string) {
	f.counts[kind].add(agree)
	if !agree {
		f.differs(kind, k, slurm, model)
	}
}

func (f *Follower) differs(kind Kind, k key, slurm, model string) {
	f.list = append(f.list, Difference{f.engine.Now(), kind, k.String(), slurm, model})
}

// Report sums up the comparison. It counts only the decisions of n instants that are drawn with a seed. If n is 0, or
// at least the number of instants, it counts the decisions of all instants.
func (f *Follower) Report(n int, seed uint64) *Lockstep {
	f.begin(-1)
	all := f.instants
	chosen := slices.Clone(all)
	if n > 0 && n < len(all) {
		r := rand.New(rand.NewPCG(seed, 44))
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:n]
	}
	out := &Lockstep{Instants: len(chosen), AllInstants: len(all), Jobs: f.truth.waited, Failed: f.failed}
	at := map[int64]bool{}
	for i := range chosen {
		at[chosen[i].second] = true
		out.Decisions.join(chosen[i].decisions)
		out.Starts.join(chosen[i].starts)
		out.Nodes.join(chosen[i].placed)
	}
	out.Reasons, out.Plans = *f.counts[Reason], *f.counts[Plan]
	out.Priorities, out.Ends = *f.counts[Priority], *f.counts[End]
	for k := range f.truth.asked {
		if k.task >= 0 || len(f.truth.byKey[k]) > 0 {
			out.Asked++
		}
	}
	for _, d := range f.list {
		if whole := f.counts[d.Kind] != nil; whole || at[d.At.UnixSeconds()] {
			out.all = append(out.all, d)
		}
	}
	out.finish()
	return out
}

func (c *Count) join(o Count) { c.Agree, c.All = c.Agree+o.Agree, c.All+o.All }
