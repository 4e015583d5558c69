package replay

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// Model says how users react to what becomes of their jobs.
type Model string

// The models. All but [None] play the graphs of package session: what depends on nothing
// is submitted at its recorded instant, everything else when all that it depends on has
// ended, as the model says. They differ in what is moved as a whole (a session, or a
// batch of jobs that overlap) and in when a user is there. docs/FEEDBACK.md says what is
// taken from which paper and what was decided here.
const (
	// None is rigid replay: the recorded instants.
	None Model = "none"
	// ThinkTime moves sessions and keeps the think times between them, as Madon, Da
	// Costa & Pierson do (FGCS 155, 2024, section 4 and algorithm 1). A session begins
	// at the latest of end + think time over the sessions that it depends on; its jobs
	// keep their distances from its first.
	ThinkTime Model = "think-time"
	// Adjusted is the same for batches (Zakay & Feitelson, MASCOTS 2014).
	Adjusted Model = "adjusted"
	// Fluid keeps the sessions where they were: a batch is submitted while its user has
	// a session, in the sense of the record, or else when the next one begins (ibid.).
	Fluid Model = "fluid"
	// Distribution submits a batch in hours that are drawn from the record: those in which
	// its user tends to work (ibid.).
	Distribution Model = "distribution"
)

// Models are all models, [None] first.
var Models = []Model{None, ThinkTime, Adjusted, Fluid, Distribution}

// ParseModel reads the name of a model.
func ParseModel(name string) (Model, error) {
	if m := Model(name); slices.Contains(Models, m) {
		return m, nil
	}
	names := make([]string, len(Models))
	for i, m := range Models {
		names[i] = string(m)
	}
	return "", fmt.Errorf("%q: not a model of users (want %s)", name, strings.Join(names, ", "))
}

// Feedback describes users who react.
type Feedback struct {
	Model Model
	// Sessions says where a user's sessions end. [None] does not look at it.
	Sessions session.Delimitation
	// Jitter, if above 0, moves every submission by up to so much, to either side, but
	// not before the present. Where decisions are chaotic, the results of several seeds say
	// how far to trust a single one.
	Jitter time.Duration
	// Seed decides the jitter, and when the users of [Distribution] work.
	Seed uint64
}

// NewController makes the controller that plays a workload with such users. It fails with
// [session.ErrNoRecord] if the model needs to know when the jobs ended and the workload
// does not. The workload's jobs must be in the order of submission.
func NewController(w *workload.Workload, f Feedback) (Controller, error) {
	c := NewRigid(w)
	if f.Model != None && f.Model != "" {
		sessions, err := session.New(w, f.Sessions)
		if err != nil {
			return nil, err
		}
		c = f.users(w, sessions)
	}
	if f.Jitter > 0 {
		c = &jitter{c, f.Jitter, f.Seed}
	}
	return c, nil
}

func (f Feedback) users(w *workload.Workload, sessions *session.Sessions) Controller {
	d := &users{jobs: &w.Jobs, memberOf: make([]member, w.Jobs.Len())}
	graphs := sessions
	if f.Model != ThinkTime {
		graphs = sessions.Batches()
	}
	var population profile
	if f.Model == Distribution {
		population = newProfile(&w.Jobs)
	}
	for i, g := range graphs.Users {
		u := newUser(g)
		switch f.Model {
		case Fluid:
			u.presence = recordedPresence(sessions.Users[i])
		case Distribution:
			u.presence = newHabits(&w.Jobs, g, population, f.Seed)
		}
		for s := range g.Sessions {
			for _, job := range g.Sessions[s].Jobs {
				d.memberOf[job] = member{u, s}
			}
		}
		d.users = append(d.users, u)
	}
	return d
}

// users is a [Controller]: every user submits what depends on nothing at its recorded
// instant, and everything else in reaction to the ends of the user's jobs. In the models of
// Zakay & Feitelson a session is what they call a batch.
type users struct {
	jobs     *workload.Jobs
	memberOf []member // by job
	users    []*user
}

// member says which session of which user a job belongs to.
type member struct {
	user    *user
	session int
}

// user is one user's progress through the graph of the user's sessions.
type user struct {
	graph *session.Graph
	open  []int // jobs of each session that have not ended
	rank  []int // of each session in graph.Ended(); -1 where nothing depends on it
	waits []wait
	// presence moves a session to where its user is there; nil for a user who is
	// there whenever the think time is over.
	presence presence
}

// wait holds back the sessions that depend on the same ones: first up to but not
// including last depend on graph.Ended()[from:to].
type wait struct {
	from, to    int
	first, last int
	missing     int           // dependencies that have not ended
	shift       time.Duration // by how much the one that decides ended later than recorded
}

// presence says when a user is there.
type presence interface {
	// next is the first instant at or after t at which the user is there.
	next(t hpc.Time) hpc.Time
}

func newUser(g *session.Graph) *user {
	n := len(g.Sessions)
	u := &user{graph: g, open: make([]int, n), rank: make([]int, n)}
	for s := range g.Sessions {
		u.open[s], u.rank[s] = len(g.Sessions[s].Jobs), -1
		from, to := g.Stretch(s)
		if k := len(u.waits); k > 0 && u.waits[k-1].from == from && u.waits[k-1].to == to {
			u.waits[k-1].last = s + 1
			continue
		}
		u.waits = append(u.waits, wait{from: from, to: to, first: s, last: s + 1, missing: to - from, shift: -1 << 63})
	}
	for i, s := range g.Ended() {
		u.rank[s] = i
	}
	return u
}

// Begin implements [Controller].
func (d *users) Begin() Decisions {
	var out []Submission
	for _, u := range d.users {
		for _, w := range u.waits {
			if w.from != w.to {
				continue
			}
			for s := w.first; s < w.last; s++ {
				out = d.submit(out, u, s, 0)
			}
		}
	}
	return Decisions{Submit: out}
}

// Event implements [Controller].
func (d *users) Event(event *Event) Decisions {
	if !event.Over {
		return Decisions{}
	}
	return Decisions{Submit: d.ended(event.Job, event.End)}
}

// ended reacts to the end of a job: wake_on_feedback of the paper's algorithm 1.
func (d *users) ended(job int, at hpc.Time) []Submission {
	u, s := d.memberOf[job].user, d.memberOf[job].session
	if u.open[s]--; u.open[s] > 0 || u.rank[s] < 0 {
		return nil
	}
	// Both ends of the stretches from:to only grow, so those that this session is part
	// of are neighbours.
	var out []Submission
	rank, late := u.rank[s], at.Sub(u.graph.Sessions[s].End)
	first := sort.Search(len(u.waits), func(i int) bool { return u.waits[i].to > rank })
	for i := first; i < len(u.waits) && u.waits[i].from <= rank; i++ {
		w := &u.waits[i]
		w.shift = max(w.shift, late)
		if w.missing--; w.missing > 0 {
			continue
		}
		for free := w.first; free < w.last; free++ {
			out = d.submit(out, u, free, u.start(free, w.shift, at).Sub(u.graph.Sessions[free].Start))
		}
	}
	return out
}

// start is when a session starts that has become free at an instant. shift is by how much
// later than recorded the session that decides has ended.
func (u *user) start(s int, shift time.Duration, free hpc.Time) hpc.Time {
	session := &u.graph.Sessions[s]
	// The latest of end + think time over all that it depends on: both that end and
	// this start move by the same.
	kept := session.Start.Add(shift)
	if u.presence == nil {
		return kept
	}
	// A user who goes on working keeps the think times. One who has been away comes back
	// at the recorded instant: the absence absorbs a delay, as far as it lasts.
	if s == 0 || u.graph.Sessions[s-1].Parent != session.Parent {
		kept = max(min(kept, session.Start), free)
	}
	return u.presence.next(kept)
}

// submit appends the submissions of a session's jobs, all moved by the same time.
func (d *users) submit(out []Submission, u *user, s int, by time.Duration) []Submission {
	for _, job := range u.graph.Sessions[s].Jobs {
		out = append(out, Submission{Job: job, At: d.jobs.Submit(job).Add(by)})
	}
	return out
}
