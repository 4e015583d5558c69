// Package features describes a submission by numbers, which come from the request and from the
// history before the submission. The package receives only the events that a [predict.Predictor]
// receives, so a feature cannot depend on anything after the submission.
//
// Names (users, accounts, partitions, job names) become numbers: statistics of the run times of ended jobs that had the
// same name. A feature of a name is an ordered target statistic (Prokhorenkova et al., "CatBoost: unbiased boosting
// with categorical features", NeurIPS 2018, section 3.2).
package features

import (
	"math"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/stats"
)

// The kinds of groups for which run times are stored. The first five kinds are groups of the job's
// user.
const (
	ofUser = iota
	ofClass
	ofName
	ofSize
	ofLimit
	ofAnyName
	ofAccount
	ofQueue
	ofAnyLimit
	ofAnyClass
	kinds
)

var kindNames = [kinds]string{
	"user", "user_name_size_limit", "user_name", "user_size", "user_limit",
	"name", "account", "partition_qos", "limit", "size_limit",
}

// ownNames are the features of each group of the user's jobs, and anyNames the features of each
// group of all users' jobs.
var (
	ownNames = []string{"last", "last_two", "mean", "slow_mean", "average", "spread", "count", "since_end_s"}
	anyNames = []string{"mean", "average", "count"}
)

// requestNames are the features of the request. sessionNames are the features of the user's open
// jobs and recent submissions.
var (
	requestNames = []string{
		"log_limit", "log_processors", "log_nodes", "log_memory_per_node", "log_memory_per_cpu",
		"tasks_per_node", "processors_per_task", "has_dependency", "is_array", "hour", "weekday",
	}
	sessionNames = []string{
		"user_waiting", "user_running", "user_oldest_running_s", "user_newest_running_s", "user_mean_running_s",
		"class_waiting", "class_running", "class_oldest_running_s", "class_newest_running_s",
		"since_user_submit_s", "since_class_submit_s", "user_submits_decayed", "user_limit_scaled", "user_at_limit",
		"class_at_limit",
		"user_failed", "class_failed", "all_log_mean", "similar_p25", "similar_p50", "similar_p75",
	}
)

// Names returns the names of the features, in the order of [History.Vector].
func Names() []string {
	names := append([]string(nil), requestNames...)
	for kind, name := range kindNames {
		of := ownNames
		if kind >= ofAnyName {
			of = anyNames
		}
		for _, what := range of {
			names = append(names, name+"_"+what)
		}
	}
	return append(names, sessionNames...)
}

// Count is the number of features.
var Count = len(Names())

// decay is the share by which each new job lowers the weight of earlier jobs in a group's means.
// slowDecay is the same share for the group's slow mean.
const decay, slowDecay = 0.2, 0.05

// key names a group. Unused fields are zero.
type key struct {
	kind          uint8
	user, name    string
	size          float64
	limit         float64
	manual, queue string
}

// keysOf returns the names of the groups of a request.
func keysOf(r *hpc.Request) (keys [kinds]key) {
	size, limit := predict.Processors(r), predict.Limit(r)
	class := predict.Class(r)
	keys[ofUser] = key{user: r.User}
	keys[ofClass] = key{user: class.User, name: class.Name, size: class.Size, limit: class.Limit.Seconds(),
		manual: class.Manual}
	keys[ofName] = key{user: r.User, name: r.Name}
	keys[ofSize] = key{user: r.User, size: size}
	keys[ofLimit] = key{user: r.User, limit: limit}
	keys[ofAnyName] = key{name: r.Name}
	keys[ofAccount] = key{name: account(r)}
	keys[ofQueue] = key{name: r.Partition, queue: r.QOS}
	keys[ofAnyLimit] = key{limit: limit}
	keys[ofAnyClass] = key{size: size, limit: limit}
	for kind := range keys {
		keys[kind].kind = uint8(kind)
	}
	return keys
}

// account returns the account, or the group if the log has groups but no accounts.
func account(r *hpc.Request) string {
	if r.Account != "" {
		return r.Account
	}
	return r.Group
}

// group has the statistics of a group's ended jobs. Run times are logarithms of 1 + seconds.
type group struct {
	Count   float64             `json:"n"`
	Last    float64             `json:"last"`
	Before  float64             `json:"before"`
	Mean    predict.DecayedMean `json:"mean"`
	Slow    predict.DecayedMean `json:"slow"`
	Average predict.DecayedMean `json:"average"` // of seconds
	Square  predict.DecayedMean `json:"square"`
	AtLimit predict.DecayedMean `json:"at_limit"` // 1 for a job that reached its limit, else 0
	Failed  predict.DecayedMean `json:"failed"`   // 1 for a job that did not complete, else 0
	Scale   predict.DecayedMean `json:"scale"`    // logarithm of run time over limit
	End     hpc.Time            `json:"end"`      // when the last of these jobs ended
}

// History has the events so far. The zero History is not ready: use [New].
type History struct {
	groups map[key]*group
	users  map[key]*crowd // open jobs and submissions, of users and of classes
	jobs   map[int64]*job
	all    group
	past   map[string]*ended // ended jobs of each user
	places map[string]*place // the place of each user's last submission
	target predict.Target
	counts [kinds]int // of groups, by kind
	// Old groups and crowds are removed if a kind has more than 2*maxGroups groups, or if there are
	// more than maxCrowds crowds.
	maxGroups, maxCrowds int
	forgot               int // how often groups and crowds were removed

	observations []stats.Observation // reused
}

// New returns a history without events, for predictions of a target. For other targets than run
// times, features that are described as run times have the target's values.
func New(t predict.Target) *History {
	return &History{
		target: t, groups: map[key]*group{}, users: map[key]*crowd{}, jobs: map[int64]*job{}, past: map[string]*ended{},
		places:    map[string]*place{},
		maxGroups: maxKept, maxCrowds: 2 * len(crowds) * maxKept,
	}
}

// place has the groups to which a request belongs. Users submit many equal jobs, so most jobs have
// the same place as the user's previous job.
type place struct {
	request hpc.Request
	keys    [kinds]key
	traits
	asked float64 // the requested time limit or memory
	// The history's data for the place. An element is nil if the history had no group for the place at the last look-up.
	groups [kinds]*group
	crowds [len(crowds)]*crowd
	past   *ended
	forgot int // History.forgot at the last look-up
}

// place returns the place of a request.
func (h *History) place(r *hpc.Request) *place {
	p := h.places[r.User]
	if p == nil || p.request != *r {
		p = &place{request: *r, keys: keysOf(r), asked: h.target.Asked(r)}
		p.traits = traitsOf(&p.keys)
		if len(h.places) >= h.maxGroups {
			clear(h.places)
		}
		h.places[r.User] = p
	}
	h.find(p)
	return p
}

// find looks up the history's data that a place does not have yet.
func (h *History) find(p *place) {
	if p.forgot != h.forgot {
		p.groups, p.crowds, p.past, p.forgot = [kinds]*group{}, [len(crowds)]*crowd{}, nil, h.forgot
	}
	for kind, g := range p.groups {
		if g == nil {
			p.groups[kind] = h.groups[p.keys[kind]]
		}
	}
	for i, kind := range crowds {
		if p.crowds[i] == nil {
			p.crowds[i] = h.users[p.keys[kind]]
		}
	}
	if p.past == nil {
		p.past = h.past[p.request.User]
	}
}

// renew looks up the groups of an open job again if the history has removed groups since the last
// look-up.
func (h *History) renew(p *place) {
	if p.forgot != h.forgot {
		h.find(p)
	}
}

// group returns the group with a key. If the history has no group with the key, group adds the given group.
func (h *History) group(k key, added *group) *group {
	g := h.groups[k]
	if g == nil {
		g = added
		h.groups[k] = g
		h.counts[k.kind]++
	}
	return g
}

// job is a job that was submitted and has not ended.
type job struct {
	*place
	start    hpc.Time // 0 while it waits
	order    int      // its number among its user's started jobs, from 1
	ended    bool
	value    float64 // the value of a measured target
	measured bool
}

// crowd has the open jobs of a user or of a class.
type crowd struct {
	Submit  hpc.Time // the last submission; 0 before the first one
	Submits float64  // submissions, halved each hour, at the instant Submit
	waiting int
	// running has started jobs, in the order of their starts. The first and the last job always run, because ended jobs
	// are immediately removed from both ends. From the middle, ended jobs are removed when the list has more ended than
	// running jobs.
	running []*job
	started int     // started jobs so far
	count   int     // running jobs
	starts  float64 // sum of their starts, in seconds
}

// starting adds a job that starts.
func (c *crowd) starting(j *job) {
	c.waiting--
	c.running = append(c.running, j)
	c.started++
	c.count++
	c.starts += j.start.Seconds()
}

// ending removes a job that has been marked as ended.
func (c *crowd) ending(j *job) {
	c.count--
	c.starts -= j.start.Seconds()
	for len(c.running) > 0 && c.running[0].ended {
		c.running = c.running[1:]
	}
	for len(c.running) > 0 && c.running[len(c.running)-1].ended {
		c.running = c.running[:len(c.running)-1]
	}
	switch {
	case c.count == 0:
		c.running, c.starts = nil, 0
	case len(c.running) > 2*c.count:
		c.running = slices.DeleteFunc(c.running, func(j *job) bool { return j.ended })
	}
}

// recent returns the number of submissions at an instant, where a submission an hour ago counts as
// a half.
func (c *crowd) recent(at hpc.Time) float64 {
	return c.Submits * math.Exp2(-at.Sub(c.Submit).Hours())
}

// crowds are the two crowds of a job.
var crowds = [...]int{ofUser, ofClass}

// Submit says that a job is submitted.
func (h *History) Submit(s predict.Submission) {
	j := &job{place: h.place(s.Request)}
	h.jobs[s.Number] = j
	for i, kind := range crowds {
		c := j.crowds[i]
		if c == nil {
			c = new(crowd)
			h.users[j.keys[kind]], j.crowds[i] = c, c
		}
		if s.At >= c.Submit { // otherwise it has been counted: a saved history counts submissions, but has no open jobs
			c.Submits = c.recent(s.At) + 1
			c.Submit = s.At
		}
		c.waiting++
	}
	if len(h.users) > h.maxCrowds {
		h.forget()
	}
}

// Start says that a submitted job starts.
func (h *History) Start(number int64, at hpc.Time) {
	j := h.jobs[number]
	if j == nil || j.start != 0 {
		return
	}
	j.start = at
	h.renew(j.place)
	for _, c := range j.crowds {
		c.starting(j)
	}
	j.order = j.crowds[0].started
}

// Measure is [predict.Measurer.Measure].
func (h *History) Measure(number int64, value float64) {
	if j := h.jobs[number]; j != nil {
		j.value, j.measured = value, true
	}
}

// End says that a job ends. It returns the target's value. The result known is false if the job did not run, is
// requeued (state [hpc.Pending]), is unknown, or has no measured value.
func (h *History) End(number int64, at hpc.Time, state hpc.State) (value float64, known bool) {
	j := h.jobs[number]
	if j == nil {
		return 0, false
	}
	delete(h.jobs, number)
	j.ended = true
	h.renew(j.place)
	for _, c := range j.crowds {
		if j.start == 0 {
			c.waiting--
		} else {
			c.ending(j)
		}
	}
	if j.start == 0 || state == hpc.Pending || h.target.Measured() && !j.measured {
		return 0, false
	}
	if value = j.value; !h.target.Measured() {
		value = max(at.Sub(j.start).Seconds(), 0)
	}
	for kind, g := range j.groups {
		if g == nil {
			g = h.group(j.keys[kind], new(group))
			j.groups[kind] = g
		}
		g.add(value, j.asked, at, state)
	}
	h.all.add(value, j.asked, at, state)
	h.remember(j, value)
	if slices.Max(h.counts[:]) > 2*h.maxGroups {
		h.forget()
	}
	return value, true
}

// add adds the end of a job.
func (g *group) add(value, asked float64, at hpc.Time, state hpc.State) {
	y := math.Log1p(value)
	g.Count++
	g.Last, g.Before = y, g.Last
	g.Mean.Add(y, decay)
	g.Slow.Add(y, slowDecay)
	g.Average.Add(value, decay)
	g.Square.Add(y*y, decay)
	g.Failed.Add(truth(state != hpc.Completed && state != ""), decay)
	if asked > 0 {
		g.AtLimit.Add(truth(value >= 0.98*asked), decay)
		g.Scale.Add(y-math.Log1p(asked), decay)
	}
	g.End = at
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// missing is the value of an unknown feature.
var missing = float32(math.NaN())

// Vector returns the features of a job that could be submitted now, in the order of [Names]. An
// unknown feature is NaN. Vector does not change the history. It reuses x if x is large enough.
func (h *History) Vector(s predict.Submission, x []float32) []float32 {
	r := s.Request
	x = x[:0]
	limit := predict.Limit(r)
	clock := s.At.Std()
	x = append(x, logOf(limit), logOf(predict.Processors(r)), logOf(float64(r.MinNodes)), logOf(float64(r.MemPerNode)),
		logOf(float64(r.MemPerCPU)),
		float32(r.TasksPerNode), float32(r.CPUsPerTask), float32(truth(r.Dependency != "")), float32(truth(r.Array != "")),
		float32(clock.Hour())+float32(clock.Minute())/60, float32(clock.Weekday()))
	p := h.place(r)
	for kind, g := range p.groups {
		if kind < ofAnyName {
			x = g.appendOwn(x, s.At)
		} else {
			x = g.appendAny(x)
		}
	}
	ofUsers, ofClasses := p.crowds[0], p.crowds[1]
	x = ofUsers.append(x, s.At, true)
	x = ofClasses.append(x, s.At, false)
	x = append(x, since(ofUsers, s.At), since(ofClasses, s.At))
	if ofUsers != nil {
		x = append(x, float32(ofUsers.recent(s.At)))
	} else {
		x = append(x, 0)
	}
	user, class := p.groups[ofUser], p.groups[ofClass]
	scaled := missing
	if user != nil && user.Scale.Count > 0 && p.asked > 0 {
		scaled = float32(math.Log1p(p.asked) + user.Scale.Mean())
	}
	x = append(x, scaled, user.mean(func(g *group) *predict.DecayedMean { return &g.AtLimit }),
		class.mean(func(g *group) *predict.DecayedMean { return &g.AtLimit }),
		user.mean(func(g *group) *predict.DecayedMean { return &g.Failed }),
		class.mean(func(g *group) *predict.DecayedMean { return &g.Failed }),
		h.all.mean(func(g *group) *predict.DecayedMean { return &g.Mean }))
	return h.appendSimilar(x, p, s.At)
}

// The indices of features in a vector.
var (
	lastTwo     = slices.Index(Names(), kindNames[ofUser]+"_last_two")
	lastOfClass = slices.Index(Names(), kindNames[ofClass]+"_last")
	average     = slices.Index(Names(), kindNames[ofClass]+"_average")
	userAverage = slices.Index(Names(), kindNames[ofUser]+"_average")
	all         = slices.Index(Names(), "all_log_mean")
	similar     = slices.Index(Names(), "similar_p50")
)

// Guess returns a first guess of the run time in seconds for a vector: the average of the class. For a new class it
// returns the average of the user, and for a new user the average of all ended jobs. Guess returns 0 before any job has
// ended.
func Guess(x []float32) float64 { return first(x, average, userAverage, all) }

// LastTwo returns the mean run time of the user's last two ended jobs in seconds, or [Guess] before
// a job of the user has ended.
func LastTwo(x []float32) float64 { return first(x, lastTwo, average, userAverage, all) }

// LastOfClass returns the run time of the class's last ended job in seconds, or [Guess] before a
// job of the class has ended.
func LastOfClass(x []float32) float64 { return first(x, lastOfClass, average, userAverage, all) }

// Similar returns the median run time, in seconds, of the user's jobs that resemble the submission,
// or [Guess] before a job of the user has ended.
func Similar(x []float32) float64 { return first(x, similar, average, userAverage, all) }

// first returns the first known feature at the given indices, in seconds; 0 if none is known.
func first(x []float32, places ...int) float64 {
	for _, place := range places {
		if v := x[place]; v == v {
			return math.Expm1(float64(v))
		}
	}
	return 0
}

// logOf returns the logarithm of 1 + v, or missing if v is not above 0.
func logOf(v float64) float32 {
	if v <= 0 {
		return missing
	}
	return float32(math.Log1p(v))
}

// mean returns one of the group's means; missing if the mean has no values. The group g may be nil.
func (g *group) mean(of func(*group) *predict.DecayedMean) float32 {
	if g == nil {
		return missing
	}
	if m := of(g); m.Count > 0 {
		return float32(m.Mean())
	}
	return missing
}

// appendOwn adds the features of a group of the user's jobs. g may be nil.
func (g *group) appendOwn(x []float32, at hpc.Time) []float32 {
	if g == nil {
		return append(x, missing, missing, missing, missing, missing, missing, 0, missing)
	}
	two, mean := g.Last, g.Mean.Mean()
	if g.Count > 1 {
		two = math.Log1p((math.Expm1(g.Last) + math.Expm1(g.Before)) / 2)
	}
	return append(x, float32(g.Last), float32(two), float32(mean), float32(g.Slow.Mean()),
		float32(math.Log1p(g.Average.Mean())),
		float32(math.Sqrt(max(g.Square.Mean()-mean*mean, 0))), float32(math.Log1p(g.Count)),
		float32(math.Log1p(max(at.Sub(g.End).Seconds(), 0))))
}

// appendAny adds the features of a group of all users' jobs. g may be nil.
func (g *group) appendAny(x []float32) []float32 {
	if g == nil {
		return append(x, missing, missing, 0)
	}
	return append(x, float32(g.Mean.Mean()), float32(math.Log1p(g.Average.Mean())), float32(math.Log1p(g.Count)))
}

// append adds the features of open jobs. c may be nil.
func (c *crowd) append(x []float32, at hpc.Time, withMean bool) []float32 {
	oldest, newest, mean := missing, missing, missing
	waiting, running := 0, 0
	if c != nil {
		waiting, running = c.waiting, c.count
		if running > 0 {
			oldest = logElapsed(c.running[0].start, at)
			newest = logElapsed(c.running[len(c.running)-1].start, at)
			mean = float32(math.Log1p(max(at.Seconds()-c.starts/float64(running), 0)))
		}
	}
	x = append(x, float32(waiting), float32(running), oldest, newest)
	if withMean {
		x = append(x, mean)
	}
	return x
}

// since returns the logarithm of 1 + the seconds since the last submission; missing without an
// earlier submission.
func since(c *crowd, at hpc.Time) float32 {
	if c == nil {
		return missing
	}
	return logElapsed(c.Submit, at)
}

func logElapsed(from, to hpc.Time) float32 {
	return float32(math.Log1p(max(to.Sub(from).Seconds(), 0)))
}
