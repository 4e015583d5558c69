package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// Kind is the kind of a cause.
type Kind string

// The kinds of causes.
const (
	Reserved  Kind = "reservation" // nodes are free and reserved
	Outage    Kind = "node-outage" // nodes are down or drained
	Limit     Kind = "limit"       // a limit of an association, a QOS, a partition or licenses
	OwnLimit  Kind = "own-limit"   // the limit of an array, or of a user
	Held      Kind = "held"        // a hold by a user or an administrator
	Dependent Kind = "dependency"  // a dependency on other jobs
	Begin     Kind = "begin-time"  // the begin time that the job's user requested
	Requeued  Kind = "requeued"    // for one job: its earlier run was lost
	Burst     Kind = "user-burst"  // one user has most of the jobs
	Backfill  Kind = "backfill"    // nodes are free, and the scheduler did not try the jobs
	Idle      Kind = "idle-nodes"  // nodes are free, and the record does not say what the scheduler planned
	Draining  Kind = "large-job"   // nodes are kept free for a job that needs many nodes
	Named     Kind = "named-nodes" // jobs ask by name for nodes that are in use
	Ranked    Kind = "priority"    // for one job: other jobs had a higher priority
	Full      Kind = "machine-full"
	Before    Kind = "before-window" // the run does not have the real queue before its window
)

// kindOf returns the kind of cause that follows directly from a part of a wait and its reason. It
// returns "" for parts in which a job waits for nodes or for an unknown reason.
func kindOf(part waits.Part, reason string) Kind {
	switch part {
	case waits.Unknown:
		if reason == run.BeforeWindow {
			return Before
		}
		return ""
	case waits.Priority, waits.Resources:
		return ""
	}
	return Kind(strings.ReplaceAll(string(part), "_", "-"))
}

// Cause is a cause of a wait. Weight, from 0 to 1, is the share of the stall that the cause
// explains:
//
//	reservation, node-outage      idle or unusable nodes of the machine / nodes; by the reasons of
//	                              jobs also as the next line
//	dependency, begin-time,       pending jobs that wait for it / pending jobs; if one job is
//	held, own-limit, limit,       explained, the share of the job's wait
//	requeued, before-window
//	user-burst                    the user's share of the requested and held processors x the share
//	                              of the machine in use; only if it is at least a half
//	backfill                      pending jobs that have waited for a minute, and that fit on free
//	                              nodes before the first planned start / pending jobs
//	idle-nodes                    as backfill, in a record without reasons: the scheduler may have
//	                              kept the nodes free for another job
//	large-job                     free nodes of the pending jobs' partitions / nodes, if no pending
//	                              job fits on them, and one needs more nodes
//	named-nodes                   pending jobs whose node list has a node with jobs / pending jobs; if
//	                              one job is explained, 1 for such a job
//	priority                      only if one job is explained: the share of its wait in the part
//	                              priority x the share of jobs with a higher priority in the
//	                              processors of all jobs that started in this time. If these jobs
//	                              used fewer processors than the job needs, the weight is reduced
//	                              in proportion. It is multiplied by 1 − the weight of backfill,
//	                              because a job that backfill did not try does not wait for its
//	                              priority. Each job that started is compared with the priority
//	                              that the explained job had at that time. If the record does not
//	                              have this priority, the weight is the share of the wait
//	machine-full                  half of the share of the machine's processors or nodes in use,
//	                              because this cause is the least specific
//
// For the wait of a job, and for each job of a group, only jobs that compete for nodes of its partitions count: in
// user-burst, large-job and machine-full, the machine is these partitions, if the record has their sizes.
type Cause struct {
	Kind   Kind    `json:"kind"`
	Weight float64 `json:"weight"`
	Text   string  `json:"text"`
	// At is the instant that the text is about, if the cause of a job's wait was found at one instant.
	At Instant `json:"at,omitzero"`
	// subject is the user or the reservation that the cause is about.
	subject string
}

// Stall is the queue at one instant, and its causes.
type Stall struct {
	At          Instant `json:"at"`
	Pending     int     `json:"pending_jobs"`
	PendingCPUs int     `json:"pending_processors"`
	// Eligible are the pending jobs that are eligible ([waits.EligibleAt]). EligibleCPUs are their processors.
	Eligible       int `json:"eligible_jobs"`
	EligibleCPUs   int `json:"eligible_processors"`
	Running        int `json:"running_jobs"`
	BusyProcessors int `json:"busy_processors"`
	Processors     int `json:"processors"` // processors of the machine; 0 if not known
	BusyNodes      int `json:"busy_nodes"`
	Nodes          int `json:"nodes"`
	// Reasons counts the pending jobs by reason, the most frequent first. The name "" is for jobs
	// whose reason is not recorded.
	Reasons []Count `json:"reasons"`
	// Users are the users with the most processors pending and held.
	Users []UserLoad `json:"users"`
	// Causes are sorted by weight.
	Causes []Cause `json:"causes"`
	// Unsized is true if the size of the machine is not known, so that causes of waits for nodes are missing.
	Unsized bool `json:"machine_size_unknown"`
}

// Count is a number of jobs with a name.
type Count struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// UserLoad has the pending jobs and the running jobs of a user.
type UserLoad struct {
	User        string `json:"user"`
	Pending     int    `json:"pending_jobs"`
	PendingCPUs int    `json:"pending_processors"`
	Running     int    `json:"running_jobs"`
	HeldCPUs    int    `json:"held_processors"`
}

// situation has the queue and the machine at an instant.
type situation struct {
	*Record
	only     *run.Row // the job that is explained; nil for the whole queue
	at       hpc.Time
	pending  []*run.Row
	running  []holding
	busy     map[string]bool // nodes with jobs
	unnamed  map[string]int  // nodes of jobs whose nodes have no names, by partition
	perNode  int             // average number of processors of a node
	reserved map[string]string
	down     map[string]bool
	used     use                     // see [situation.use]
	held     int                     // processors that count, see [situation.contested]
	taken    map[string]int          // see [situation.take]
	waiting  map[waits.Part][]string // the reasons of the pending jobs, by part
	stall    *Stall
}

// At explains the queue at an instant. It returns an error for an instant outside the run.
func (rec *Record) At(t hpc.Time) (*Stall, error) {
	if t < rec.manifest.VirtualStart || t > rec.end {
		return nil, fmt.Errorf("explaining the instant %s: this is outside the run (want an instant from %s to %s)", t, rec.manifest.VirtualStart, rec.end)
	}
	return rec.look(t, nil).stall, nil
}

// look explains an instant. If the parameter only is not nil, only the pending jobs of its
// partitions count.
func (rec *Record) look(t hpc.Time, only *run.Row) *situation {
	s := &situation{Record: rec, only: only, at: t, busy: map[string]bool{}, unnamed: map[string]int{}, reserved: map[string]string{}, down: map[string]bool{}, waiting: map[waits.Part][]string{}}
	s.stall = &Stall{At: Instant(t), Processors: rec.manifest.Cluster.Processors, Nodes: rec.manifest.Cluster.Nodes,
		Reasons: []Count{}, Users: []UserLoad{}, Causes: []Cause{}}
	if n := rec.manifest.Cluster.Nodes; n > 0 {
		s.perNode = rec.manifest.Cluster.Processors / n
	}
	for i := range rec.rows {
		row := &rec.rows[i]
		if row.State == hpc.Rejected || row.Submit == 0 || rec.Submission(row) > t || row.End != 0 && row.End <= t {
			continue
		}
		switch h, runs := heldAt(row, t); {
		case runs:
			s.running = append(s.running, h)
			s.stall.BusyProcessors += h.run.Processors
			names := nodesIn(h.run.Nodes)
			for _, name := range names {
				s.busy[name] = true
			}
			if len(names) == 0 {
				n := rec.nodesOf(row, s.perNode)
				s.unnamed[row.Partition] += n
				s.stall.BusyNodes += n
			}
		case queuedAt(row, t) && (only == nil || shareNodes(only, row)):
			s.pending = append(s.pending, row)
			s.stall.PendingCPUs += rec.cpusOf(row)
		}
	}
	s.stall.Pending, s.stall.Running = len(s.pending), len(s.running)
	s.stall.BusyNodes += len(s.busy)
	if s.stall.Nodes > 0 { // jobs whose nodes have no names may share nodes
		s.stall.BusyNodes = min(s.stall.BusyNodes, s.stall.Nodes)
	}
	s.administration()
	s.used = s.use()
	s.count()
	switch {
	case len(s.pending) == 0:
	case t < rec.manifest.WindowStart && !rec.isRun():
		s.byReason() // the workload lacks other jobs that ran then
	case t < rec.manifest.WindowStart:
		s.add(Before, "", 1, "%s", beforeWindow)
	default:
		s.judge()
	}
	return s
}

// shareNodes reports whether two jobs may run in one partition.
func shareNodes(a, b *run.Row) bool {
	for p := range strings.SplitSeq(a.Partition, ",") {
		for q := range strings.SplitSeq(b.Partition, ",") {
			if p == q {
				return true
			}
		}
	}
	return false
}

// administration finds the nodes that are reserved, down or drained.
func (s *situation) administration() {
	type held struct {
		r    hpc.Reservation
		open bool
	}
	known := map[string]*held{}
	for _, e := range s.admin.Reservations {
		if e.At > s.at {
			break
		}
		switch h := known[e.Name]; {
		case e.Action == "delete" && h != nil:
			h.open = false
		case e.Action == "create" || h == nil:
			known[e.Name] = &held{e.Reservation, e.Action != "delete"}
		default: // an update event has only the fields that it changes
			if e.Start != 0 {
				h.r.Start = e.Start
			}
			if e.Duration != 0 {
				h.r.Duration = e.Duration
			}
			if e.Nodes != "" {
				h.r.Nodes = e.Nodes
			}
		}
	}
	for name, h := range known {
		if !h.open || h.r.Start > s.at || h.r.Duration != hpc.Unlimited && h.r.Duration != 0 && h.r.Start.Add(h.r.Duration) <= s.at {
			continue
		}
		nodes := nodesIn(h.r.Nodes)
		if strings.EqualFold(h.r.Nodes, "ALL") {
			nodes = make([]string, s.stall.Nodes)
			for i := range nodes {
				nodes[i] = fmt.Sprintf("%s/%d", name, i) // only the number of these nodes is used
			}
		}
		for i := range h.r.NodeCount {
			if h.r.Nodes == "" {
				nodes = append(nodes, fmt.Sprintf("%s/%d", name, i))
			}
		}
		for _, node := range nodes {
			s.reserved[node] = max(s.reserved[node], name)
		}
	}
	for _, e := range s.admin.NodeEvents {
		if e.At > s.at {
			break
		}
		for _, name := range nodesIn(e.Nodes) {
			s.down[name] = e.State != "resume"
		}
	}
}

// count counts the pending jobs by reason and the load by user.
func (s *situation) count() {
	reasons, users := map[string]int{}, map[string]*UserLoad{}
	load := func(row *run.Row) *UserLoad {
		if users[row.User] == nil {
			users[row.User] = &UserLoad{User: row.User}
		}
		return users[row.User]
	}
	for _, row := range s.pending {
		why := s.spanAt(row, s.at)
		reasons[why.Reason]++
		if why.Part == waits.OwnLimit { // without a recorded reason, this part is the limit of the job's array
			why.Reason = cmp.Or(why.Reason, "JobArrayTaskLimit")
		}
		s.waiting[why.Part] = append(s.waiting[why.Part], why.Reason)
		if waits.EligibleAt(row, s.at, s.end) {
			s.stall.Eligible++
			s.stall.EligibleCPUs += s.cpusOf(row)
		}
		u := load(row)
		u.Pending++
		u.PendingCPUs += s.cpusOf(row)
	}
	for _, row := range s.running {
		if _, processors := s.contested(row); processors > 0 {
			u := load(row.Row)
			u.Running++
			u.HeldCPUs += processors
			s.held += processors
		}
	}
	for name, n := range reasons {
		s.stall.Reasons = append(s.stall.Reasons, Count{name, n})
	}
	slices.SortFunc(s.stall.Reasons, func(a, b Count) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name)) })
	for _, u := range users {
		s.stall.Users = append(s.stall.Users, *u)
	}
	slices.SortFunc(s.stall.Users, func(a, b UserLoad) int {
		return cmp.Or(cmp.Compare(b.PendingCPUs+b.HeldCPUs, a.PendingCPUs+a.HeldCPUs), cmp.Compare(a.User, b.User))
	})
	s.stall.Users = s.stall.Users[:min(5, len(s.stall.Users))]
}

func (s *situation) add(kind Kind, subject string, weight float64, format string, args ...any) {
	if weight > 0 {
		s.stall.Causes = append(s.stall.Causes, Cause{
			Kind: kind, Weight: min(1, weight), Text: fmt.Sprintf(format, args...), subject: subject,
		})
	}
}

// beforeWindow is the text of the cause of waits before a window.
const beforeWindow = "for the time before the window, the run does not have the reasons why jobs waited"

// judge finds the causes.
func (s *situation) judge() {
	for part := range s.waiting {
		s.stall.Unsized = s.stall.Unsized || kindOf(part, "") == "" && unsized(s.manifest)
	}
	unusable := s.nodesAway() // reservations and outages explain more than the reasons
	s.byReason()
	inUse, ofNodes := s.used.share()
	s.freeNodes(unusable)
	if len(s.stall.Users) > 0 && s.stall.Processors > 0 {
		u := s.stall.Users[0]
		share := float64(u.PendingCPUs+u.HeldCPUs) / float64(max(1, s.stall.PendingCPUs+s.held))
		if alone := u.Pending == 1 && u.HeldCPUs == 0; share >= 0.5 && !alone {
			s.add(Burst, u.User, share*inUse,
				"user %s has %d of %d pending jobs%s, and running jobs on %d of %d %s in use%s: %.0f %% of what jobs hold and "+
					"ask for",
				u.User, u.Pending, s.stall.Pending, s.queue(), u.HeldCPUs, s.held,
				quantity.Plural(s.held, "processor", "processors"), s.where(), 100*share)
		}
	}
	larger := "processors"
	if ofNodes {
		larger = "nodes"
	}
	where := s.where()
	if s.used == s.whole() {
		where = ""
	}
	eligible := ""
	if s.stall.Eligible < s.stall.Pending {
		eligible = fmt.Sprintf(", %d of them for eligible jobs", s.stall.EligibleCPUs)
	}
	s.add(Full, "", inUse/2, "jobs%s use %s, and pending jobs%s ask for %s more%s; the weight is half of the share "+
		"of the %s in use", where, s.used, s.queue(), quantity.Regular(s.stall.PendingCPUs, "processor"), eligible, larger)
	slices.SortStableFunc(s.stall.Causes, func(a, b Cause) int { return cmp.Compare(b.Weight, a.Weight) })
}

// queue returns a text about the partitions of the pending jobs; "" if the pending jobs of all
// partitions count.
func (s *situation) queue() string {
	switch {
	case s.only == nil, s.only.Partition == "":
		return ""
	case strings.Contains(s.only.Partition, ","):
		return " of partitions " + s.only.Partition
	}
	return " of partition " + s.only.Partition
}

// where returns a text about the nodes of the explained job's partitions; "" if all nodes of the machine count.
func (s *situation) where() string {
	if s.held == s.stall.BusyProcessors && s.used == s.whole() {
		return ""
	}
	return " on nodes" + s.queue()
}

// use has the numbers of processors and nodes of the machine, or of partitions, that jobs hold.
type use struct {
	heldProcessors, processors int
	heldNodes, nodes           int
}

// share returns the share of the processors or of the nodes in use, whichever is larger, and whether it is the share
// of the nodes. A size of 0 means unknown and does not count.
func (u use) share() (share float64, ofNodes bool) {
	if u.processors > 0 {
		share = min(1, float64(u.heldProcessors)/float64(u.processors))
	}
	if u.nodes > 0 {
		nodes := min(1, float64(u.heldNodes)/float64(u.nodes))
		return max(share, nodes), nodes > share
	}
	return share, false
}

// String writes the processors and, if their number is known, the nodes in use.
func (u use) String() string {
	text := of(u.heldProcessors, u.processors, "processor")
	if u.nodes > 0 {
		text += " on " + of(u.heldNodes, u.nodes, "node")
	}
	return text
}

// whole returns how much of the machine is in use.
func (s *situation) whole() use {
	return use{s.stall.BusyProcessors, s.stall.Processors, s.stall.BusyNodes, s.stall.Nodes}
}

// contested returns the nodes and processors of a run for which the pending jobs compete. If one job is explained,
// these are on nodes of its partitions.
func (s *situation) contested(h holding) (nodes []string, processors int) {
	nodes, processors = nodesIn(h.run.Nodes), h.run.Processors
	if s.only == nil || shareNodes(s.only, h.Row) {
		return nodes, processors
	}
	all := len(nodes)
	nodes = slices.DeleteFunc(nodes, func(name string) bool {
		for partition := range s.partitionsOf(name) {
			if shareNodes(s.only, &run.Row{Partition: partition}) {
				return false
			}
		}
		return true
	})
	return nodes, processors * len(nodes) / max(1, all)
}

// use returns how much is in use of the machine or, if one job is explained and the record has the sizes of its
// partitions, of these partitions.
func (s *situation) use() use {
	whole := s.whole()
	if s.only == nil {
		return whole
	}
	u, nodes, known := use{}, map[string]bool{}, true
	for name := range strings.SplitSeq(s.only.Partition, ",") {
		at := slices.IndexFunc(s.manifest.Cluster.Partitions, func(p run.Partition) bool { return p.Name == name })
		if known = known && at >= 0; known {
			p := s.manifest.Cluster.Partitions[at]
			u.processors, u.nodes = u.processors+p.Processors, u.nodes+p.Nodes
			u.heldNodes += s.unnamed[name]
		}
	}
	if !known {
		return whole
	}
	for _, h := range s.running {
		names, processors := s.contested(h)
		u.heldProcessors += processors
		for _, name := range names {
			nodes[name] = true
		}
	}
	u.heldNodes += len(nodes)
	if u.nodes > 0 { // jobs whose nodes have no names may share nodes
		u.heldNodes = min(u.heldNodes, u.nodes)
	}
	u.processors, u.nodes = min(u.processors, whole.processors), min(u.nodes, whole.nodes)
	return u
}

// byReason adds the causes that follow directly from the parts of waits.
func (s *situation) byReason() {
	for _, part := range waits.Parts {
		reasons := s.waiting[part]
		if kind := kindOf(part, ""); kind != "" && len(reasons) > 0 {
			wait, meaning := "wait", part.MeaningOfMany(s.manifest)
			if len(reasons) == 1 {
				wait, meaning = "waits", part.MeaningIn(s.manifest)
			}
			s.add(kind, "", float64(len(reasons))/float64(s.stall.Pending), "%d of %d pending jobs%s %s %s%s",
				len(reasons), s.stall.Pending, s.queue(), wait, meaning, counted(reasons))
		}
	}
}

// counted returns a list of the reasons of jobs, in descending order of their frequency. If there are several
// reasons, each has its number of jobs.
func counted(reasons []string) string {
	number := map[string]int{}
	for _, name := range reasons {
		number[name]++
	}
	if len(number) == 1 {
		return named(reasons)
	}
	names := slices.SortedFunc(maps.Keys(number), func(a, b string) int {
		return cmp.Or(cmp.Compare(number[b], number[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", cmp.Or(name, "no reason recorded"), number[name])
	}
	return ": " + strings.Join(names[:min(3, len(names))], ", ")
}

// named returns a list of the different reasons.
func named(reasons []string) string {
	list := slices.Clone(reasons)
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(name string) bool { return name == "" })
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list[:min(3, len(list))], ", ")
}

// nodesAway adds the reservations and outages as causes, and returns the number of nodes without
// jobs that they make unusable.
func (s *situation) nodesAway() int {
	idle := map[string]int{}
	down := 0
	for name, off := range s.down {
		if off && !s.busy[name] {
			down++
		}
	}
	total := 0
	for node, name := range s.reserved {
		if !s.busy[node] && !s.down[node] {
			idle[name]++
			total++
		}
	}
	// A reservation may have only the number of its nodes, without names.
	total = min(total, max(0, s.stall.Nodes-s.stall.BusyNodes-down))
	if s.stall.Nodes == 0 {
		return total + down
	}
	for _, name := range sortedNames(idle) {
		n := min(idle[name], total)
		s.add(Reserved, name, float64(n)/float64(s.stall.Nodes), "reservation %s keeps %d of %d %s without jobs", name, n, s.stall.Nodes, quantity.Plural(s.stall.Nodes, "node", "nodes"))
	}
	s.add(Outage, "", float64(down)/float64(s.stall.Nodes), "%d of %d nodes are down or drained", down, s.stall.Nodes)
	return total + down
}

func sortedNames(m map[string]int) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shortWait is the shortest wait that may be due to a scheduler that has not tried the job.
const shortWait = time.Minute

// freeIn returns the number of nodes of a partition that have no jobs, are up and are not reserved.
// The result is at most machine. Nodes on which no job of the partition ever ran count as free.
func (s *situation) freeIn(partition string, machine int) int {
	at := slices.IndexFunc(s.manifest.Cluster.Partitions, func(p run.Partition) bool { return p.Name == partition })
	if at < 0 {
		return machine
	}
	n := s.manifest.Cluster.Partitions[at].Nodes - s.unnamed[partition] - s.taken[partition]
	return max(0, min(machine, n))
}

// take counts the named nodes that have jobs, are down or are reserved, by partition.
func (s *situation) take() {
	names := maps.Clone(s.busy)
	for name, off := range s.down {
		names[name] = names[name] || off
	}
	for name := range s.reserved {
		names[name] = true
	}
	s.taken = map[string]int{}
	for name, away := range names {
		for partition := range s.partitionsOf(name) {
			if away {
				s.taken[partition]++
			}
		}
	}
}

// freeNodes adds the causes that follow from free nodes that pending jobs might use.
func (s *situation) freeNodes(unusable int) {
	machine := s.stall.Nodes - s.stall.BusyNodes - unusable
	s.take()
	free, empty := map[string]int{}, 0                 // free nodes of each partition in which jobs wait for nodes, and the sum of these nodes
	fits, first := 0, hpc.Time(0)                      // first: the earliest planned start
	large := false                                     // a job needs more than the free nodes
	named := map[*run.Row][]string{}                   // jobs that ask for nodes with jobs, and these nodes
	asked := s.reasons && s.manifest.Engine == "slurm" // a replay queries reasons only every few minutes
	for _, row := range s.pending {
		if planned := s.spanAt(row, s.at).Planned; planned > s.at && (first == 0 || planned < first) {
			first = planned
		}
	}
	for _, row := range s.pending {
		why := s.spanAt(row, s.at)
		if kindOf(why.Part, why.Reason) != "" {
			continue
		}
		inUse := s.namesInUse(row)
		if len(inUse) > 0 {
			named[row] = inUse
		}
		if s.at.Sub(row.Submit) < shortWait || asked && why.Reason == "" {
			continue
		}
		room := 0
		for name := range strings.SplitSeq(row.Partition, ",") {
			if s.only != nil && !shareNodes(s.only, &run.Row{Partition: name}) {
				continue
			}
			if _, known := free[name]; !known {
				free[name] = s.freeIn(name, machine)
				empty += free[name]
			}
			room = max(room, free[name])
		}
		if len(inUse) > 0 {
			continue
		}
		nodes := s.nodesOf(row, s.perNode)
		large = large || nodes > room
		if why.Backfill.Tried() {
			continue // according to the record, the job cannot use the free nodes
		}
		ends := s.at.Add(row.TimeLimit)
		if nodes <= room && why.Planned == 0 && (first == 0 || row.TimeLimit > 0 && ends <= first) {
			fits++
		}
	}
	s.namedNodes(named)
	if empty = min(empty, machine); empty <= 0 {
		return
	}
	if fits > 0 && !s.reasons {
		s.add(Idle, "", float64(fits)/float64(s.stall.Pending),
			"%d of %d pending jobs%s %s on %s without jobs, and the record does not say what the scheduler planned",
			fits, s.stall.Pending, s.queue(), quantity.Plural(fits, "fits", "fit"), quantity.Regular(empty, "node"))
		return
	}
	if fits > 0 {
		s.add(Backfill, "", float64(fits)/float64(s.stall.Pending),
			"%d of %d pending jobs%s %s on %s without jobs, and %s not tried: the scheduler did not reach %s%s",
			fits, s.stall.Pending, s.queue(), quantity.Plural(fits, "fits", "fit"), quantity.Regular(empty, "node"),
			quantity.Plural(fits, "was", "were"), quantity.Plural(fits, "it", "them"), s.depth())
		return
	}
	if large {
		s.add(Draining, "", float64(empty)/float64(max(1, cmp.Or(s.used.nodes, s.stall.Nodes))), "%s no jobs, and no pending job fits there in time",
			quantity.Plural(empty, "1 node has", fmt.Sprintf("%d nodes have", empty)))
	}
}

// namesInUse returns the nodes with jobs that a job's node list has.
func (s *situation) namesInUse(row *run.Row) (names []string) {
	if job := s.requests[row.Job]; job != nil && job.NodeList != "" {
		for _, name := range nodesIn(job.NodeList) {
			if s.busy[name] {
				names = append(names, name)
			}
		}
	}
	return names
}

// namedNodes adds the cause of jobs that ask by name for nodes with jobs. If one job is explained, only that job counts.
func (s *situation) namedNodes(jobs map[*run.Row][]string) {
	if s.only != nil {
		if nodes := jobs[s.only]; nodes != nil {
			s.add(Named, "", 1, "it asks by name for %s, where jobs run", strings.Join(nodes[:min(3, len(nodes))], ", "))
		}
		return
	}
	s.add(Named, "", float64(len(jobs))/float64(s.stall.Pending), "%d of %d pending jobs %s by name for nodes where jobs run",
		len(jobs), s.stall.Pending, quantity.Plural(len(jobs), "asks", "ask"))
}

// allTried is the share of the queue from which on a backfill cycle counts as having tried the whole
// queue.
const allTried = 0.99

// depth returns a text about how many jobs the backfill scheduler tries.
func (s *situation) depth() string {
	text := ""
	for option := range strings.SplitSeq(s.manifest.Cluster.SchedulerParameters, ",") {
		if name, _, _ := strings.Cut(option, "="); strings.HasPrefix(name, "bf_max_job") || name == "default_queue_depth" || name == "bf_max_time" {
			text += ", " + option
		}
	}
	if c := s.manifest.Scheduler; c != nil && c.BackfillCycles > 0 && c.BackfillDepthMean < allTried*c.BackfillQueueMean {
		text += fmt.Sprintf(", on average %.1f of %.1f jobs a backfill cycle", c.BackfillDepthMean, c.BackfillQueueMean)
	}
	if text == "" {
		return ""
	}
	return " (" + strings.TrimPrefix(text, ", ") + ")"
}
