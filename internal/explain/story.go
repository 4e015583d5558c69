package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/sbatch"
)

// Story is why one job waited.
type Story struct {
	Job       string    `json:"job"`
	User      string    `json:"user"`
	Account   string    `json:"account"`
	Partition string    `json:"partition"`
	QOS       string    `json:"qos"`
	State     hpc.State `json:"state"`
	CPUs      int       `json:"processors"`
	Nodes     int       `json:"nodes"`
	// TimeLimit is in seconds; 0 for none or an unknown one.
	TimeLimit float64 `json:"time_limit_s"`

	Submit   Instant `json:"submit"`
	Eligible Instant `json:"eligible"`
	Start    Instant `json:"start"`
	End      Instant `json:"end"`
	Wait     float64 `json:"wait_s"` // until its start, its end or the end of the run
	// Priority is that at the start, or the highest while it waited; 0 if there is none. A record
	// does not have its parts.
	Priority uint32 `json:"priority"`

	Reasons []Span `json:"reasons"`
	// Planned is when the scheduler first planned the job, as far as the record has it, and
	// PlannedStart for when.
	Planned      Instant `json:"first_planned_at"`
	PlannedStart Instant `json:"first_planned_start"`

	// Ahead are the jobs of its partition that were pending at its submission and started before
	// it. Overtook are those that were submitted later and started before it.
	Ahead    Crowd `json:"ahead"`
	Overtook Crowd `json:"overtook"`
	// higher are those of them with a higher priority, and before all of them, in processors.
	higher, before int
	// Holders held the nodes on which the job ran later, in the middle of its wait. The most
	// processors come first.
	Holders []Holder `json:"holders"`
	// LetStart says what happened when the job started.
	LetStart []string `json:"let_it_start"`
	// Causes are the causes of its wait, the largest first.
	Causes []Cause `json:"causes"`
}

// Crowd is a number of jobs.
type Crowd struct {
	Jobs       int `json:"jobs"`
	Processors int `json:"processors"`
	// User has the most of them.
	User     string   `json:"user"`
	UserJobs int      `json:"user_jobs"`
	List     []string `json:"list"` // at most listed
}

// Holder is a running job.
type Holder struct {
	Job        string  `json:"job"`
	User       string  `json:"user"`
	Processors int     `json:"processors"`
	Since      Instant `json:"since"`
	Until      Instant `json:"until"`
}

// listed is the largest number of jobs in a list.
const listed = 10

// find finds a job by the workload's ID, by ID_TASK, or by the resource manager's number.
func (rec *Record) find(name string) (*run.Row, error) {
	var tasks []string
	for i := range rec.rows {
		row := &rec.rows[i]
		if (key{row.Job, row.Task}).String() == name {
			return row, nil
		}
		if row.Job == name {
			tasks = append(tasks, strconv.Itoa(row.Task))
		}
	}
	if len(tasks) > 0 {
		return nil, fmt.Errorf("job %s is an array (want one of its tasks, such as %s_%s)", name, name, tasks[0])
	}
	if number, err := strconv.ParseUint(name, 10, 32); err == nil && number != 0 {
		for i := range rec.rows {
			if rec.rows[i].RMJob == uint32(number) {
				return &rec.rows[i], nil
			}
		}
	}
	return nil, fmt.Errorf("job %s: the run has no such job (rmreplay jobs lists them)", name)
}

// Job tells the story of a job. The error says that there is none of that name, or that it was
// rejected.
func (rec *Record) Job(name string) (*Story, error) {
	row, err := rec.find(name)
	if err != nil {
		return nil, err
	}
	if row.State == hpc.Rejected {
		return nil, fmt.Errorf("job %s was rejected at %s: %s", name, row.Submit, row.Reason)
	}
	s := &Story{
		Job: name, User: row.User, Account: row.Account, Partition: row.Partition, QOS: row.QOS, State: row.State,
		CPUs: rec.cpusOf(row), Nodes: rec.nodesOf(row, 0), Submit: Instant(row.Submit), Eligible: Instant(row.Eligible),
		Start: Instant(row.Start), End: Instant(row.End), Priority: row.Priority, Reasons: rec.spans(row),
		Holders: []Holder{}, LetStart: []string{}, Causes: []Cause{},
	}
	if row.TimeLimit > 0 && row.TimeLimit != hpc.Unlimited {
		s.TimeLimit = row.TimeLimit.Seconds()
	}
	until := rec.end
	if row.Start != 0 {
		until = row.Start
	} else if row.End != 0 {
		until = row.End
	}
	s.Wait = max(0, until.Sub(row.Submit).Seconds())
	for _, span := range s.Reasons {
		if span.Planned != 0 {
			s.Planned, s.PlannedStart = span.From, span.Planned
			break
		}
	}
	for _, span := range rec.reasons.Of(row) {
		if row.Priority == 0 {
			s.Priority = max(s.Priority, span.Priority)
		}
	}
	s.crowds(rec, row, until)
	s.holders(rec, row, until)
	s.letStart(rec, row)
	s.judge(rec, row, until)
	return s, nil
}

// crowds finds the jobs that started before this one.
func (s *Story) crowds(rec *Record, row *run.Row, until hpc.Time) {
	s.Ahead, s.Overtook = Crowd{List: []string{}}, Crowd{List: []string{}}
	users := map[*Crowd]map[string]int{&s.Ahead: {}, &s.Overtook: {}}
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || other.Start == 0 || other.Start < row.Submit || other.Start >= until || !shareNodes(row, other) {
			continue
		}
		to := &s.Ahead
		if other.Submit > row.Submit {
			to = &s.Overtook
		}
		to.Jobs++
		to.Processors += other.Processors
		s.before += other.Processors
		if other.Priority > s.Priority {
			s.higher += other.Processors
		}
		if len(to.List) < listed {
			to.List = append(to.List, key{other.Job, other.Task}.String())
		}
		count := users[to]
		count[other.User]++
		if n := count[other.User]; n > to.UserJobs || n == to.UserJobs && other.User < to.User {
			to.User, to.UserJobs = other.User, n
		}
	}
}

// holders finds the jobs that held the job's later nodes in the middle of its wait, or those of its
// partition if it never started.
func (s *Story) holders(rec *Record, row *run.Row, until hpc.Time) {
	middle := row.Submit.Add(until.Sub(row.Submit) / 2)
	own := map[string]bool{}
	for _, name := range nodesIn(row.Nodes) {
		own[name] = true
	}
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || !rec.runsAt(other, middle) {
			continue
		}
		on := len(own) == 0 && shareNodes(row, other)
		for _, name := range nodesIn(other.Nodes) {
			on = on || own[name]
		}
		if on {
			s.Holders = append(s.Holders, Holder{key{other.Job, other.Task}.String(), other.User, other.Processors, Instant(other.Start), Instant(other.End)})
		}
	}
	slices.SortStableFunc(s.Holders, func(a, b Holder) int { return cmp.Compare(b.Processors, a.Processors) })
	s.Holders = s.Holders[:min(listed, len(s.Holders))]
}

// moment is how long before a start something happened that may have let the job start. The
// backfill scheduler runs every 30 seconds by default, and nodes complete before they are free.
const moment = 2 * time.Minute

// letStart finds what happened just before the job's start.
func (s *Story) letStart(rec *Record, row *run.Row) {
	if row.Start == 0 {
		return
	}
	recent := func(t hpc.Time) bool { return t != 0 && t <= row.Start && t > row.Start.Add(-moment) }
	own := map[string]bool{}
	for _, name := range nodesIn(row.Nodes) {
		own[name] = true
	}
	depends := map[string]bool{}
	if job := rec.requests[row.Job]; job != nil && job.Dependency != "" {
		if deps, err := sbatch.ParseDependency(job.Dependency); err == nil {
			for _, d := range deps.List {
				depends[d.Job] = true
			}
		}
	}
	if row.Start.Sub(row.Submit) <= time.Second {
		s.LetStart = append(s.LetStart, "it started at once: its resources were free")
		return
	}
	for i := range rec.rows {
		other := &rec.rows[i]
		if other == row || !recent(other.End) || other.Start == 0 {
			continue
		}
		name := key{other.Job, other.Task}.String()
		freed := slices.ContainsFunc(nodesIn(other.Nodes), func(node string) bool { return own[node] })
		switch {
		case depends[other.Job] || depends[name]:
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s, on which it depends, ended at %s", name, other.End))
		case freed:
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s of %s ended at %s and freed %d processors on its nodes", name, other.User, other.End, other.Processors))
		case other.User == row.User && s.mainKind() == Limit:
			s.LetStart = append(s.LetStart, fmt.Sprintf("job %s of the same user ended at %s, which left room below the limit", name, other.End))
		}
	}
	for _, e := range rec.admin.Reservations {
		ends := e.Start.Add(e.Duration)
		switch {
		case e.Action == "delete" && recent(e.At):
			s.LetStart = append(s.LetStart, fmt.Sprintf("reservation %s was deleted at %s", e.Name, e.At))
		case e.Action == "create" && e.Duration > 0 && e.Duration != hpc.Unlimited && recent(ends):
			s.LetStart = append(s.LetStart, fmt.Sprintf("reservation %s ended at %s", e.Name, ends))
		}
	}
	for _, e := range rec.admin.NodeEvents {
		if e.State == "resume" && recent(e.At) {
			s.LetStart = append(s.LetStart, fmt.Sprintf("nodes %s came back at %s", e.Nodes, e.At))
		}
	}
	if recent(row.Eligible) && row.Eligible > row.Submit {
		s.LetStart = append(s.LetStart, fmt.Sprintf("it became eligible at %s", row.Eligible))
	}
	s.LetStart = s.LetStart[:min(listed, len(s.LetStart))]
}

// mainKind returns the kind of the reason that the job had longest.
func (s *Story) mainKind() Kind {
	kind, longest := Kind(""), 0.0
	for _, span := range s.Reasons {
		if span.Seconds > longest && span.Reason != "" {
			kind, longest = kindOf(span.Reason), span.Seconds
		}
	}
	return kind
}

// ranked returns the weight of the job's low priority ([Cause]).
func (s *Story) ranked() float64 {
	waited := 0.0
	for _, span := range s.Reasons {
		if name, _, _ := strings.Cut(span.Reason, ":"); name == "Priority" {
			waited += span.Seconds
		}
	}
	if s.before == 0 || s.Priority == 0 {
		return 0
	}
	enough := min(1, float64(s.higher)/float64(max(1, s.CPUs)))
	return waited / s.Wait * float64(s.higher) / float64(s.before) * enough
}

// judge finds the causes: the reasons that name one themselves by their share of the wait, and for
// the rest of it the causes in the middle of the longest span.
func (s *Story) judge(rec *Record, row *run.Row, until hpc.Time) {
	if s.Wait < 1 {
		return
	}
	shares := map[Kind]float64{}
	texts := map[Kind]string{}
	rest, longest := s.Wait, Span{From: Instant(row.Submit), To: Instant(until)}
	best := 0.0
	for _, span := range s.Reasons {
		kind := kindOf(span.Reason)
		if kind == "" {
			if span.Seconds > best {
				best, longest = span.Seconds, span
			}
			continue
		}
		rest -= span.Seconds
		shares[kind] += span.Seconds / s.Wait
		if !strings.Contains(texts[kind], span.Reason) {
			texts[kind] = strings.TrimPrefix(texts[kind]+", "+span.Reason, ", ")
		}
	}
	for kind, share := range shares {
		s.Causes = append(s.Causes, Cause{kind, share, fmt.Sprintf("for %.0f %% of its wait its reason was %s", 100*share, texts[kind])})
	}
	ranked := s.ranked()
	if rest > 0.01*s.Wait {
		middle := hpc.Time(longest.From).Add(hpc.Time(longest.To).Sub(hpc.Time(longest.From)) / 2)
		for _, c := range rec.look(middle, row).stall.Causes {
			// What other jobs wait for does not explain this one.
			if c.Kind == Limit || c.Kind == Held || c.Kind == Dependent {
				continue
			}
			c.Weight *= rest / s.Wait
			s.Causes = append(s.Causes, c)
			if c.Kind == Backfill {
				ranked *= 1 - c.Weight
			}
		}
	}
	if ranked > 0 {
		s.Causes = append(s.Causes, Cause{Ranked, ranked, fmt.Sprintf(
			"jobs with a higher priority than %d took %d of %d processors that started before it", s.Priority, s.higher, s.before)})
	}
	slices.SortStableFunc(s.Causes, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Kind, b.Kind)) })
	s.Causes = s.Causes[:min(3, len(s.Causes))]
}
