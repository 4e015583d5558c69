package recorded

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	usage "rmreplay/internal/rm/slurm/fairshare"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// model is the model's accounting on the cluster of a case: packages fairshare, priority and
// limits.
type model struct {
	t *testing.T

	cluster    *conf.Cluster
	release    slurmspec.Release
	table      *tres.Table
	accounts   *accounts.Accounts
	shares     *fairshare.FairShare
	priorities *priority.Settings
	limits     *limits.Limits
	size       priority.Cluster
	partitions map[string]*partition
	users      map[string]string // user names by number
	requests   map[string]request
	epoch      int64
	usage      []hpc.Usage
	set        *associations.Set
	accrual    bool // the record says when jobs begin to gain age

	jobs  []*job // in the order of slurmctld's list
	byID  map[string]*job
	now   int64
	wrong int
	// compared counts the compared numbers by kind.
	compared map[string]int
}

type partition struct {
	name     string
	tier     int64
	priority priority.Partition
	limits   limits.Partition
	weights  []float64
	memory   uint64 // for each CPU, in MiB
}

// request is a job of the workload.
type request struct {
	ID       string
	Tasks    int
	MinNodes int     `json:"min_nodes"`
	Nice     int64   `json:"nice"`
	Limit    float64 `json:"time_limit_s"`
	// These are used for jobs that sacct does not show because slurmctld refused them, and for what
	// jobs request.
	Submit                                     int64
	User, Account, Partition, QOS, Array, GRES string
	NodeList                                   string `json:"node_list"`
}

// job is a job of the record.
type job struct {
	m       *model
	id      string
	fields  map[string]string
	request request
	limits  limits.Job
	first   *partition
	all     []*partition // if the job has several, highest tier first
	// requests are the requested resources, and amounts the allocated ones.
	requests, amounts tres.Vector
	running           bool
	over              bool

	parts    priority.Parts
	factor   float64
	computed uint32
	at       int64
	// inPartitions are the logged priorities in each partition.
	inPartitions []string
}

// compare repeats a record in the model and compares every number.
func compare(t *testing.T, c *txtar.Archive, release, record string) {
	m := newModel(t, c, release)
	m.accrual = strings.Contains(record, "\naccrue ")
	lines := strings.Split(strings.TrimSpace(record), "\n")
	for i, text := range lines {
		f := strings.Fields(text)
		m.compared[f[0]]++
		switch f[0] {
		case "job":
			m.addJob(f)
		case "boot":
			m.boot(number(f[1]))
		case "run":
			m.run(number(f[1]), number(f[2]))
		case "submit":
			m.submit(f)
		case "priority":
			m.checkPriority(f, m.byID[f[2]])
		case "start":
			m.start(f)
		case "end":
			m.end(f)
		case "usage":
			m.checkUsage(f)
		case "level":
			m.checkLevel(f)
		case "shown":
			m.checkCounts(number(f[1]), lines[i+1:])
		case "accrue":
			m.accrues(f)
		case "refuse":
			m.refuse(f)
		case "pending":
			m.checkReasons(number(f[1]), lines[i+1:])
		case "count", "waits":
		default:
			t.Fatalf("%q is no event of a record", text)
		}
		if m.wrong > 20 {
			t.Fatal("too many differences")
		}
	}
	t.Logf("compared: %v", m.compared)
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.wrong++
	m.t.Errorf("second %d: "+format, append([]any{m.now}, args...)...)
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func newModel(t *testing.T, c *txtar.Archive, release string) *model {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"slurm.conf", "accounts.sacctmgr", "users", "gres.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file(c, "cluster/"+name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &model{t: t, byID: map[string]*job{}, compared: map[string]int{}, partitions: map[string]*partition{},
		users: map[string]string{"0": "root"}, requests: map[string]request{}}
	var err error
	if m.cluster, err = conf.Open(dir); err != nil {
		t.Fatal(err)
	}
	if m.release, err = slurmspec.ParseRelease(release); err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(file(c, "cluster/users")) {
		f := strings.Split(row, ":")
		m.users[f[1]] = f[0]
	}
	for row := range strings.Lines(file(c, "workload.jsonl")) {
		r := struct {
			request
			Epoch time.Time
			Raw   float64 `json:"raw_s"`
		}{}
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			t.Fatal(err)
		}
		if m.requests[r.ID] = r.request; !r.Epoch.IsZero() {
			m.epoch = r.Epoch.Unix()
		}
		if r.Raw > 0 {
			m.usage = append(m.usage, hpc.Usage{Account: r.Account, User: r.User, Raw: r.Raw})
		}
	}
	return m
}

// boot starts the model of a slurmctld at a second.
func (m *model) boot(second int64) {
	get := m.cluster.On(m.release)
	tracked, _ := get("AccountingStorageTRES")
	m.table = tres.New(tracked)
	m.set = associations.Read(m.cluster.Accounts, "accounts", m.cluster.Name, "gres/gpu")
	if len(m.set.Mistakes) > 0 {
		m.t.Fatal(m.set.Mistakes)
	}
	settings, err := fairshare.ReadSettings(get, m.release)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.priorities, err = priority.ReadSettings(get, m.table, true); err != nil {
		m.t.Fatal(err)
	}
	m.accounts = accounts.New(m.set, m.table, settings.FairTree, m.release)
	m.shares = fairshare.New(m.accounts, settings, second, 0)
	m.limits = limits.New(m.accounts, m.shares, accounts.ReadEnforcement(get), m.priorities.AccrueAlways, m.release)
	m.addPartitions()
	m.giveUsage(settings.HalfLife)
	m.now = second
	m.shares.Run(second, m.each)
}

// giveUsage sets the workload's initial usage as a replay does.
func (m *model) giveUsage(halfLife int64) {
	w := workload.Workload{Epoch: hpc.Unix(m.epoch), Usage: m.usage}
	at := w.Epoch.Add(-lead)
	given, accrued := replay.InitialUsage(&w, at, time.Duration(halfLife)*time.Second)
	u := usage.Usage{Given: given, Accrued: accrued, At: w.Epoch}.WithCluster(m.cluster)
	warn := func(code, text string, _ bool) { m.errorf("%s: %s", code, text) }
	for _, own := range u.Own(usage.DeclaredAccounts(m.set), warn) {
		m.accounts.Find(own.User, own.Account, own.Partition).SetUsage(own.Raw, u.BillsProcessors)
	}
}

func (m *model) addPartitions() {
	nodes := map[string]tres.Vector{}
	for _, n := range m.cluster.Nodes {
		v := m.table.Vector()
		v[tres.CPU], v[tres.Memory], v[tres.Node] = uint64(n.CPUs), uint64(n.RealMemory), 1
		for _, g := range n.GRES {
			for _, name := range []string{"gres/" + g.Name, "gres/" + g.Name + ":" + g.Type} {
				if i, ok := m.table.Index(name); ok {
					v[i] += uint64(g.Count)
				}
			}
		}
		nodes[n.Name] = v
		m.size.Nodes++
		m.size.CPUs += uint32(n.CPUs)
	}
	var all []*priority.Partition
	for _, p := range m.cluster.Partitions {
		of := &partition{name: p.Name, limits: limits.Partition{QOS: m.accounts.QOS[strings.ToLower(p.QOS)],
			MaxMinutes: slurmspec.Infinite, DefaultMinutes: slurmspec.NoVal}}
		of.priority.TRES, of.priority.JobFactor = m.table.Vector(), 1
		if text, ok := p.Get("DefMemPerCPU"); ok {
			of.memory = uint64(number(text))
		}
		if text, ok := p.Get("DefaultTime"); ok {
			of.limits.DefaultMinutes = m.minutes(text)
		}
		of.priority.MaxMinutes = slurmspec.Infinite
		if text, ok := p.Get("MaxTime"); ok {
			of.limits.MaxMinutes, of.priority.MaxMinutes = m.minutes(text), m.minutes(text)
		}
		if text, ok := p.Get("PriorityTier"); ok {
			of.tier = number(text)
		}
		if text, ok := p.Get("PriorityJobFactor"); ok {
			of.priority.JobFactor = uint16(number(text))
		}
		for _, name := range p.Nodes {
			for i, n := range nodes[name] {
				of.priority.TRES[i] += n
			}
		}
		text, _ := p.Get("TRESBillingWeights")
		var err error
		if of.weights, err = m.table.Weights(text); err != nil {
			m.t.Fatal(err)
		}
		m.partitions[p.Name] = of
		all = append(all, &of.priority)
	}
	priority.NormalizePartitions(all)
}

// minutes reads a time limit.
func (m *model) minutes(text string) uint32 {
	d, err := slurmspec.ParseTimeLimit(text)
	if err != nil {
		m.t.Fatal(err)
	}
	n, err := slurmspec.Minutes(d)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// addJob adds a job from a line of sacct.
func (m *model) addJob(f []string) {
	j := &job{m: m, id: f[1], fields: map[string]string{}}
	for _, field := range f[2:] {
		name, value, _ := strings.Cut(field, "=")
		j.fields[name] = strings.Trim(value, "-")
	}
	j.request = m.requests[j.fields["name"]]
	m.byID[j.id] = j
}

// prepare makes the records of a job when it is submitted.
func (m *model) prepare(j *job, second int64) {
	r := &j.request
	names := strings.Split(cmp.Or(r.Partition, m.cluster.DefaultPartition()), ",")
	for _, name := range names {
		j.all = append(j.all, m.partitions[name])
	}
	slices.SortStableFunc(j.all, func(a, b *partition) int { return cmp.Compare(b.tier, a.tier) })
	j.first = m.partitions[names[0]]
	a := m.accounts.Find(r.User, r.Account, names[0])
	if a == nil {
		m.t.Fatalf("job %s has no association", r.ID)
	}
	qos := m.accounts.DefaultQOS(a)
	if r.QOS != "" {
		qos = m.accounts.QOS[r.QOS]
	}
	j.limits = limits.Job{
		Association: a, User: r.User, QOS: qos, Partition: &j.first.limits, Minutes: slurmspec.NoVal, Submit: second,
		Begin: second, Required: m.nodes(r.NodeList),
	}
	if r.Limit > 0 {
		j.limits.Minutes = uint32(r.Limit / 60)
	} else if j.first.limits.DefaultMinutes != slurmspec.NoVal {
		j.limits.Minutes = j.first.limits.DefaultMinutes
	}
	if r.Array != "" {
		array, err := hpc.ParseArray(r.Array)
		if err != nil {
			m.t.Fatal(err)
		}
		j.limits.Tasks = len(array.Tasks)
	}
	j.requests = m.table.Vector()
	j.requests[tres.CPU], j.requests[tres.Node] = uint64(r.Tasks), max(1, uint64(r.MinNodes))
	j.requests[tres.Memory] = j.first.memory * j.requests[tres.CPU]
	for _, g := range strings.FieldsFunc(r.GRES, func(r rune) bool { return r == ',' }) {
		f := strings.Split(g, ":")
		for _, name := range []string{"gres/" + f[0], "gres/" + strings.Join(f[:len(f)-1], ":")} {
			if i, ok := m.table.Index(name); ok {
				j.requests[i] = uint64(number(f[len(f)-1])) * j.requests[tres.Node]
			}
		}
	}
	j.requests[tres.Billing] = uint64(m.table.Bill(j.first.weights, j.requests, m.priorities.MaxTRES))
}

// allocate reads the allocated resources of a job.
func (m *model) allocate(j *job, of *partition) {
	j.amounts = m.table.Vector()
	for name, text := range slurmspec.TRES(j.fields["tres"]) {
		i, ok := m.table.Index(name)
		if !ok {
			continue
		}
		n, err := slurmspec.ParseMemory(text)
		if err != nil {
			m.t.Fatal(err)
		}
		j.amounts[i] = uint64(n)
	}
	j.amounts[tres.Billing] = uint64(m.table.Bill(of.weights, j.amounts, m.priorities.MaxTRES))
}

// nodes returns a list of nodes as a set; nil for an empty list.
func (m *model) nodes(list string) []uint64 {
	if list == "" {
		return nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		m.t.Fatal(err)
	}
	set := make([]uint64, 1)
	for _, name := range names {
		i, _ := m.cluster.Node(name)
		set[0] |= 1 << i
	}
	return set
}

func (m *model) each(yield func(fairshare.Job) bool) {
	for _, j := range m.jobs {
		if !j.over && !yield(j) {
			return
		}
	}
}

func (j *job) Association() *accounts.Association { return j.limits.Association }

func (j *job) Running() *fairshare.Running {
	if !j.running {
		return nil
	}
	return j.limits.Running
}

func (j *job) Prioritize(now int64) {
	if !j.running || j.m.priorities.CalculateRunning {
		j.compute(now)
	}
}

func (j *job) compute(now int64) {
	m := j.m
	j.factor = m.shares.Factor(j.limits.Association)
	of := priority.Job{
		Association: j.limits.Association, QOS: j.limits.QOS, FairShare: j.factor, Accrue: j.limits.Accrue, Nodes: max(1,
			uint32(j.request.MinNodes)),
		CPUs: uint32(j.request.Tasks), Minutes: j.limits.Minutes, Partitions: []*priority.Partition{&j.first.priority},
		TRES: j.requests, Nice: j.request.Nice,
	}
	if j.running {
		of.TRES = j.amounts
	}
	if len(j.all) > 1 && !j.running {
		of.Partitions = nil
		for _, p := range j.all {
			of.Partitions = append(of.Partitions, &p.priority)
		}
		of.Own = slices.Index(j.all, j.first)
	}
	j.parts = m.priorities.Parts(&of, m.size, now)
	j.inPartitions = nil
	for i, n := range m.priorities.InPartitions(&of, &j.parts) {
		j.inPartitions = append(j.inPartitions, fmt.Sprintf("%s:%d", j.all[min(i, len(j.all)-1)].name, n))
	}
	j.computed, j.at = m.priorities.Update(j.computed, j.parts.Sum()), now
}

func (m *model) run(second, delta int64) {
	if last := second - delta; m.shares.Last() < last {
		m.shares.Run(last, m.each)
	}
	m.now = second
	m.accrue()
	m.shares.Run(second, m.each)
}

// accrue lets all pending jobs begin to gain age, as slurmctld does when it builds the queue.
func (m *model) accrue() {
	for _, j := range m.jobs {
		if !m.accrual && !j.running && !j.over {
			m.limits.Accrue(&j.limits, m.now)
		}
	}
}

// accrues lets the first pending job that can begin to gain age do so at the event's second.
func (m *model) accrues(f []string) {
	m.now = number(f[1])
	for _, j := range m.jobs {
		if j.running || j.over || j.limits.Accrue != 0 {
			continue
		}
		if m.limits.Accrue(&j.limits, m.now); j.limits.Accrue != 0 {
			return
		}
	}
	m.errorf("no job begins to gain age, want one")
}

func (m *model) submit(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	m.prepare(j, m.now)
	m.jobs = append(m.jobs, j)
	if !m.limits.Validate(&j.limits, j.requests) {
		m.errorf("job %s is refused: %s; want it accepted", j.id, j.limits.Reason)
	}
	j.compute(m.now)
	m.checkPriority(f, j)
	m.limits.Submitted(&j.limits)
}

func (m *model) start(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	m.accrue()
	of := m.partitions[j.fields["partition"]]
	j.limits.Nodes, j.limits.Partition = m.nodes(j.fields["nodes"]), &of.limits
	m.allocate(j, of)
	if got, want := j.limits.Minutes, m.minutes(j.fields["limit"]); got == slurmspec.NoVal {
		j.limits.Minutes = want // the partition's time limit
	} else if got != want {
		m.errorf("job %s has a time limit of %d minutes, want %d", j.id, got, want)
	}
	if !m.limits.PreSelect(&j.limits) || !m.limits.PostSelect(&j.limits, j.amounts, j.limits.Nodes) {
		m.errorf("job %s may not start: %s", j.id, j.limits.Reason)
	}
	j.limits.Running = &fairshare.Running{
		Association: j.limits.Association, QOS: j.limits.QOS, PartitionQOS: of.limits.QOS, User: j.limits.User, Start: m.now,
		LimitEnd: m.now + 60*int64(j.limits.Minutes), Billing: m.table.Bill(of.weights, j.amounts, m.priorities.MaxTRES),
		TRES: j.amounts,
	}
	j.running = true
	m.limits.Begin(&j.limits)
}

// refuse checks that the model refuses the job of this second for the same reason.
func (m *model) refuse(f []string) {
	m.now = number(f[1])
	for _, r := range m.requests {
		if r.ID == "" || m.epoch+r.Submit != m.now {
			continue
		}
		j := &job{m: m, request: r}
		m.prepare(j, m.now)
		if m.limits.Validate(&j.limits, j.requests) {
			m.errorf("job %s is accepted, want %s", r.ID, f[2])
		} else if got := j.limits.Reason.String(); got != f[2] {
			m.errorf("job %s is refused for %s, want %s", r.ID, got, f[2])
		}
		return
	}
	m.errorf("no job is submitted that slurmctld refuses")
}

// quiet is how many seconds after the last event slurmctld has surely tested all pending jobs
// again.
const quiet = 60

// checkReasons compares the reasons of pending jobs that wait because of limits, if nothing has
// happened for a while. It skips jobs for which the record has a reason that is not a limit.
func (m *model) checkReasons(second int64, lines []string) {
	if second-m.now < quiet {
		return
	}
	m.now = second
	m.compared["quiet"]++
	for _, text := range lines {
		f := strings.Fields(text)
		if f[0] != "waits" {
			break
		}
		j := m.byID[f[1]]
		got := "-"
		if !m.limits.PreSelect(&j.limits) || !m.limits.PostSelect(&j.limits, j.requests, j.limits.Required) {
			got = j.limits.Reason.String()
		}
		want := "-"
		if r, ok := slurmspec.ReasonNamed(f[2]); ok && limits.IsLimit(r) {
			want = f[2]
		}
		m.compared["reason "+want]++
		if got != want {
			m.errorf("job %s waits for %s, want %s", j.id, got, f[2])
		}
	}
}

func (m *model) end(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	if j.running {
		m.limits.Finish(&j.limits, m.now, number(j.fields["end"]))
	}
	m.limits.Removed(&j.limits, j.running)
	j.running, j.over = false, true
}

func (m *model) checkPriority(f []string, j *job) {
	second := number(f[1])
	if j.at != second {
		j.compute(second)
	}
	if want := field(f, "partitions"); want != "" && want != strings.Join(j.inPartitions, ",") {
		m.errorf("job %s has the priorities %v, want %s", j.id, j.inPartitions, want)
	}
	if len(j.all) > 1 && f[0] != "submit" {
		return // the job's own priority is that of the partition that slurmctld tried last
	}
	if want := uint32(number(f[3])); j.computed != want {
		m.errorf("job %s has priority %d, want %d: %s; %+v", j.id, j.computed, want, strings.Join(f[4:], " "), j.parts)
	}
	p := &j.parts
	for name, got := range map[string]string{
		"factor": fmt.Sprintf("%.6f", j.factor), "effective": fmt.Sprintf("%.6f",
			sharing(j.limits.Association).FairShare.Effective),
		"age": fmt.Sprintf("%2.f", p.Age), "assoc": fmt.Sprintf("%.2f", p.Association), "fairshare": fmt.Sprintf("%.2f",
			p.FairShare),
		"size": fmt.Sprintf("%.2f", p.Size), "partition": fmt.Sprintf("%.2f", p.Partition), "qos": fmt.Sprintf("%.2f", p.QOS),
		"nice": strconv.FormatInt(p.Nice, 10),
	} {
		if want := field(f, name); want != "" && strings.TrimSpace(got) != want {
			m.errorf("job %s has %s %s, want %s", j.id, name, got, want)
		}
	}
}

// sharing returns the association whose shares a uses: a itself, or an account above.
func sharing(a *accounts.Association) *accounts.Association {
	if a.Shares == associations.SharesOfParent {
		return a.ShareParent
	}
	return a
}

// field returns the value of NAME=VALUE in a line.
func field(f []string, name string) string {
	for _, text := range f {
		if value, ok := strings.CutPrefix(text, name+"="); ok {
			return value
		}
	}
	return ""
}

// find returns an association by "account/user" or "account/user/partition".
func (m *model) find(name string) *accounts.Association {
	f := strings.Split(name, "/")
	a := m.accounts.Find(f[1], f[0], strings.Join(f[2:], "/"))
	if a == nil {
		m.t.Fatalf("no association %s", name)
	}
	return a
}

func (m *model) checkUsage(f []string) {
	a := m.find(f[1])
	if got := fmt.Sprintf("%.6f", a.Usage.Raw.Float64()); got != f[2] {
		m.errorf("%s has used %s, want %s", f[1], got, f[2])
	}
	if got := fmt.Sprintf("%.6f", a.Usage.Wall); got != f[3] {
		m.errorf("%s has used %s seconds, want %s", f[1], got, f[3])
	}
}

func (m *model) checkLevel(f []string) {
	a := m.find(f[1])
	_ = m.shares.Factor(a) // Level FS is computed when somebody needs a factor
	if got := levelText(a); got != f[2] {
		m.errorf("%s has the Level FS %s, want %s", f[1], got, f[2])
	}
	if !a.IsUser() {
		return
	}
	want := float64(int64(m.accounts.Users)-number(f[3])) / float64(m.accounts.Users)
	if a.FairShare.Factor != want {
		m.errorf("%s has the factor %v, want %v", f[1], a.FairShare.Factor, want)
	}
}

// levelText returns Level FS with 20 decimals, as slurmctld logs it.
func levelText(a *accounts.Association) string {
	switch {
	case a.Shares == associations.SharesOfParent:
		return "parent"
	case a.FairShare.Level.Big() == nil:
		return "inf"
	}
	return a.FairShare.Level.Big().Text('f', 20)
}

// counts returns the model's numbers that are not 0, in the form of a record.
func (m *model) counts() map[string]string {
	all := map[string]string{}
	put := func(name, key, value string) {
		if strings.Trim(value, "0.") != "" {
			all[name+" "+key] = value
		}
	}
	used := func(name string, u *accounts.Usage, decimals int) {
		put(name, "UsageRaw", strconv.FormatFloat(u.Raw.Float64(), 'f', decimals, 64))
		put(name, "GrpWall", strconv.FormatFloat(u.Wall/60, 'f', 2, 64))
		for i, n := range u.TRES {
			put(name, "GrpTRESMins:"+m.table.Name(i), strconv.FormatUint(uint64(n.Float64()/60), 10))
			put(name, "GrpTRESRunMins:"+m.table.Name(i), strconv.FormatUint(u.Reserved[i]/60, 10))
		}
	}
	counts := func(name string, c *accounts.Counts, jobs, accruing, submitted, of, reserved string) {
		put(name, jobs, strconv.Itoa(c.Running))
		put(name, accruing, strconv.Itoa(c.Accruing))
		put(name, submitted, strconv.Itoa(c.Submitted))
		for i, n := range c.TRES {
			put(name, of+":"+m.table.Name(i), strconv.FormatUint(n, 10))
			put(name, reserved+":"+m.table.Name(i), strconv.FormatUint(c.Reserved[i]/60, 10))
		}
	}
	for _, a := range m.accounts.List {
		name := a.Account + "/" + a.User + strings.TrimSuffix("/"+a.Partition, "/")
		used(name, &a.Usage, 2)
		counts(name, &a.Counts, "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpTRES", "")
	}
	for _, q := range m.accounts.QOS {
		used("qos:"+q.Name, &q.Usage, 6)
		counts("qos:"+q.Name, &q.Counts, "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpTRES", "")
		for user, c := range q.ByUser {
			counts("qos:"+q.Name+":"+user, c, "MaxJobsPU", "MaxJobsAccruePU", "MaxSubmitJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU")
		}
		for account, c := range q.ByAccount {
			counts("qos:"+q.Name+":"+account, c, "MaxJobsPA", "MaxJobsAccruePA", "MaxSubmitJobsPA", "MaxTRESPA",
				"MaxTRESRunMinsPA")
		}
	}
	return all
}

func (m *model) checkCounts(second int64, lines []string) {
	m.now = second
	m.accrue()
	got, want := m.counts(), map[string]string{}
	for _, text := range lines {
		f := strings.Fields(text)
		if f[0] != "count" {
			break
		}
		name := f[1]
		if qos, user, ok := cutLast(name, ":"); ok && strings.Contains(qos, ":") {
			user, _, _ = strings.Cut(user, "(") // since 24.05: "ida(21009)"
			name = qos + ":" + cmp.Or(m.users[user], user)
		}
		for _, pair := range f[2:] {
			key, value, _ := strings.Cut(pair, "=")
			want[name+" "+key] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			m.errorf("%s is %s, want %s", name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			m.errorf("%s is %s, want 0", name, got[name])
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
