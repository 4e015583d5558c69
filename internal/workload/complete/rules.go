package complete

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Rule describes a rule, for help texts and errors.
type Rule struct {
	Field workload.Field
	Name  string
	Doc   string
}

// Rules are all rules. The rules of a field are together, and the field's default is its first rule.
var Rules = []Rule{
	{workload.FieldPartition, "fitting", "the default partition if it can run the job (nodes, CPUs, memory, GRES, features, run time), else the smallest one that can"},
	{workload.FieldUser, "bursts", "a user for each batch; few users have most batches"},
	{workload.FieldUser, "like", "a user for each batch, with the users' shares in --like"},
	{workload.FieldAccount, "users", "an account for each user; few accounts have most users"},
	{workload.FieldMemory, "used", "the recorded use, times 1 to 2, in whole GiB for a task"},
	{workload.FieldMemory, "share", "for each CPU a drawn part (1/4 to 1, by batch) of its share of the node's memory"},
	{workload.FieldExclusive, "full-nodes", "whole nodes for a drawn share (half to all) of the batches whose CPUs fill their nodes"},
	{workload.FieldTimeLimit, "published", "a drawn mixture of uniform and tsafrir"},
	{workload.FieldTimeLimit, "uniform", "accuracies between 0 and 1, rounded up to popular limits (Mu'alem and Feitelson 2001)"},
	{workload.FieldTimeLimit, "tsafrir", "the modal model of Tsafrir, Etsion and Feitelson (JSSPP 2005)"},
	{workload.FieldTimeLimit, "like", "limits of batches in --like with similar run times"},
	{workload.FieldTimeLimit, "run-time", "the run time, rounded up to a minute"},
	{workload.FieldTimeLimit, "max", "the longest limit that the site allows the job"},
	{workload.FieldQOS, "fitting", "a QOS that admits the job's size and limit; most batches get the first such QOS"},
	{workload.FieldNodes, freeNodes, "for jobs that run when the window begins: free nodes of their partition"},
	{workload.FieldUsage, "stationary", "the fair-share usage of users who always ran as many jobs as in the workload, times a drawn factor"},
}

// ruleNames names the rules of a field for a sentence.
func ruleNames(field workload.Field) string {
	names := []string{}
	for _, r := range Rules {
		if r.Field == field {
			names = append(names, r.Name)
		}
	}
	switch field {
	case workload.FieldTimeLimit:
		names = append(names, "xFACTOR", "a duration such as 4h")
	case workload.FieldMemory:
		names = append(names, "MiB for a CPU")
	case workload.FieldExclusive, workload.FieldUsage, workload.FieldNodes:
	default:
		names = append(names, "NAME", "NAME:WEIGHT,NAME:WEIGHT")
	}
	return strings.Join(append(names, None), ", ")
}

// ParseRule reads FIELD=RULE. The error lists the known fields and rules.
func ParseRule(text string) (field workload.Field, rule string, err error) {
	name, rule, ok := strings.Cut(text, "=")
	field = workload.Field(strings.ReplaceAll(name, "-", "_"))
	if !ok || rule == "" || !slices.Contains(workload.Fields, field) {
		return "", "", fmt.Errorf("%s: not FIELD=RULE with one of the fields %s", text, workload.FieldList())
	}
	if rule == None {
		return field, rule, nil
	}
	if err := knownRule(field, rule); err != nil {
		return "", "", fmt.Errorf("%s: %w", text, err)
	}
	return field, rule, nil
}

// knownRule returns an error for a rule that the field does not have.
func knownRule(field workload.Field, rule string) error {
	if slices.ContainsFunc(Rules, func(r Rule) bool { return r.Field == field && r.Name == rule }) {
		return nil
	}
	ok := false
	switch field {
	case workload.FieldTimeLimit:
		_, _, ok = fixedLimit(rule)
	case workload.FieldMemory:
		n, err := strconv.ParseInt(rule, 10, 64)
		ok = err == nil && n > 0
	case workload.FieldPartition, workload.FieldUser, workload.FieldAccount, workload.FieldQOS:
		names, err := parseNames(rule)
		ok = err == nil && len(names) > 0
	}
	if !ok {
		return fmt.Errorf("not a rule of the field (want %s)", ruleNames(field))
	}
	return nil
}

var (
	errNoLike  = errors.New("no log to learn from (want --like LOG, a log that has the field)")
	errNoSite  = errors.New("the site is not known (want --cluster DIR)")
	errNoQOS   = errors.New("the site's QOS are not known (want --cluster DIR with accounts.sacctmgr, or names)")
	errNoDecay = errors.New("the site's half-life of usage is not known (want --cluster DIR with PriorityType=priority/multifactor)")
)

// check returns an error for an unknown rule, and for a rule that lacks the data that it needs.
func check(field workload.Field, rule string, opts *Options) error {
	if err := knownRule(field, rule); err != nil {
		return err
	}
	site := &opts.Site
	switch {
	case rule == "like" && (opts.Like == nil || field == workload.FieldTimeLimit && opts.Like.Limits == nil || field == workload.FieldUser && opts.Like.Users == nil):
		return errNoLike
	case (rule == "full-nodes" || rule == "share" || rule == freeNodes ||
		field == workload.FieldPartition && rule == "fitting") && len(site.Partitions) == 0:
		return errNoSite
	case field == workload.FieldQOS && rule == "fitting" && len(site.QOS) == 0:
		return errNoQOS
	case rule == "stationary" && site.HalfLife <= 0:
		return errNoDecay
	}
	return nil
}

// defaultRule returns the rule for a field without a rule in the options: the first rule whose
// data are known, or None.
func defaultRule(field workload.Field, w *workload.Workload, opts *Options) string {
	rule := None
	for _, r := range Rules {
		if r.Field == field && check(field, r.Name, opts) == nil {
			rule = r.Name
			break
		}
	}
	switch field {
	case workload.FieldTimeLimit, workload.FieldUser:
		if check(field, "like", opts) == nil {
			rule = "like"
		}
	case workload.FieldMemory:
		rule = defaultMemory(w, opts)
	}
	return rule
}

// defaultMemory returns the rule of memory. The rule is None if the scheduler does not allocate
// memory, or if the partitions have defaults.
func defaultMemory(w *workload.Workload, opts *Options) string {
	if !opts.Site.CountsMemory || !slices.ContainsFunc(opts.Site.Partitions, func(p workload.SitePartition) bool { return !p.DefaultMemory }) {
		return None
	}
	used := 0
	for _, job := range w.Jobs.All() {
		if job.Recorded != nil && job.Recorded.UsedMemory > 0 {
			used++
		}
	}
	if 2*used > w.Jobs.Len() {
		return "used"
	}
	return "share"
}

// weighted is a name with its weight.
type weighted struct {
	name   string
	weight float64
}

// parseNames reads NAME or NAME:WEIGHT,NAME:WEIGHT.
func parseNames(text string) (list []weighted, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, number, given := strings.Cut(part, ":")
		w := weighted{name, 1}
		if given {
			if w.weight, err = strconv.ParseFloat(number, 64); err != nil {
				return nil, err
			}
		}
		if name == "" || strings.ContainsAny(name, "= \t") || !(w.weight > 0) || math.IsInf(w.weight, 0) {
			return nil, fmt.Errorf("%q: not NAME:WEIGHT", part)
		}
		list = append(list, w)
	}
	return list, nil
}

// pick draws a name by the weights.
func pick(rng *rand.Rand, list []weighted) string {
	sum := 0.0
	for _, w := range list {
		sum += w.weight
	}
	u := rng.Float64() * sum
	for _, w := range list {
		if u -= w.weight; u < 0 {
			return w.name
		}
	}
	return list[len(list)-1].name
}

// maker makes the fields of all jobs, one field after the other.
type maker struct {
	w       *workload.Workload
	c       *workload.Completion
	rng     *rand.Rand // random numbers for the current field
	facts   []fact
	batches []batch
	usage   []hpc.Usage // usage that a rule made
}

// batch is a group of jobs that one user submits together: an array, or jobs of one size, each submitted within
// betweenJobs after the previous job. The jobs of a batch have the same limit, QOS and user.
type batch struct {
	jobs []int         // their indices
	run  time.Duration // the longest run time
	// ended is the longest limit that ended a job of the batch; 0 if no limit did.
	ended time.Duration
	qos   []*workload.SiteQOS // the QOS that allow a user this many jobs at a time
}

// betweenJobs is the time after which a user's next submission begins a new session: Zilber, Amit and
// Talby, "What Is Worth Learning from Parallel Workloads?" (ICS 2005).
const betweenJobs = 20 * time.Minute

func newMaker(w *workload.Workload, c *workload.Completion) *maker {
	m := &maker{w: w, c: c, facts: make([]fact, w.Jobs.Len())}
	type key struct {
		user, account, partition, need string
		cpus, nodes                    int
	}
	last := map[key]int{}
	for i, job := range w.Jobs.All() {
		f := newFact(w, job)
		k := key{user: f.user, account: f.account, partition: f.partition, cpus: f.cpus, nodes: f.nodes}
		if f.partition == "" && len(c.Site.Partitions) > 0 { // a batch has one partition
			k.need = f.need.key()
		}
		b, known := last[k]
		if !known || f.submit.Sub(m.facts[m.batches[b].jobs[len(m.batches[b].jobs)-1]].submit) > betweenJobs {
			b = len(m.batches)
			m.batches, last[k] = append(m.batches, batch{}), b
		}
		m.facts[i] = f
		m.join(b, i)
	}
	for i := range m.batches {
		m.batches[i].qos = m.counting(&m.batches[i], func(string) []int { return nil })
	}
	return m
}

// join adds a job to a batch.
func (m *maker) join(to, place int) {
	b, f := &m.batches[to], &m.facts[place]
	f.batch = to
	b.jobs = append(b.jobs, place)
	b.run = max(b.run, f.run)
	if f.timedOut && f.run > 0 {
		b.ended = max(b.ended, limitOf(f.run))
	}
}

// make makes a field and counts its jobs.
func (m *maker) make(f *workload.MadeField) error {
	f.Jobs = 0
	var err error
	switch f.Field {
	case workload.FieldPartition:
		m.partitions(f)
	case workload.FieldUser:
		m.users(f)
	case workload.FieldAccount:
		m.accounts(f)
	case workload.FieldMemory:
		m.memory(f)
	case workload.FieldExclusive:
		m.exclusive(f)
	case workload.FieldTimeLimit:
		err = m.limits(f)
	case workload.FieldQOS:
		m.qos(f)
	case workload.FieldNodes:
		m.nodes(f)
	case workload.FieldUsage:
		m.usages(f)
	}
	return err
}

// eachBatch calls a function with each batch and its jobs that lack the field. The function set
// marks a job's field as made.
func (m *maker) eachBatch(field *workload.MadeField, visit func(b *batch, lacking []*fact, set func(*fact))) {
	set := func(f *fact) {
		f.made |= bit(field.Field)
		field.Jobs++
	}
	var lacking []*fact
	for i := range m.batches {
		lacking = lacking[:0]
		for _, place := range m.batches[i].jobs {
			if f := &m.facts[place]; f.lacks(field.Field) {
				lacking = append(lacking, f)
			}
		}
		if len(lacking) > 0 {
			visit(&m.batches[i], lacking, set)
		}
	}
}

// between draws a number from a range, uniformly.
func between(rng *rand.Rand, low, high float64) float64 { return low + rng.Float64()*(high-low) }

// betweenLog draws a number from a range, uniformly in its logarithm.
func betweenLog(rng *rand.Rand, low, high float64) float64 {
	return math.Exp(between(rng, math.Log(low), math.Log(high)))
}
