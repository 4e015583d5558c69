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
	// Distribution submits a batch in the hours in which its user tends to work, drawn
	// from the record (ibid.).
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
	// not into the past: where decisions are chaotic, the results of several seeds say
	// how far a single one can be trusted.
	Jitter time.Duration
	// Seed decides the jitter, and when the users of [Distribution] work.
	Seed uint64
}

// NewDriver makes the driver that plays a workload with such users. It fails with
// [session.ErrNoRecord] if the model needs to know when the jobs ended and the workload
// does not. The workload's jobs must be in the order of submission.
func NewDriver(w *workload.Workload, f Feedback) (Driver, error) {
	driver := RigidDriver(w)
	if f.Model != None && f.Model != "" {
		sessions, err := session.New(w, f.Sessions)
		if err != nil {
			return nil, err
		}
		driver = f.users(w, sessions)
	}
	if f.Jitter > 0 {
		driver = &jitter{driver, f.Jitter, f.Seed}
	}
	return driver, nil
}

func (f Feedback) users(w *workload.Workload, sessions *session.Sessions) Driver {
	d := &users{jobs: &w.Jobs, placeOf: make([]place, w.Jobs.Len())}
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
				d.placeOf[job] = place{u, s}
			}
		}
		d.users = append(d.users, u)
	}
	return d
}

// users is a [Driver]: every user submits what depends on nothing at its recorded
// instant, and everything else in reaction to the ends of his jobs. What is called a
// session here is a batch in the models of Zakay & Feitelson.
type users struct {
	jobs    *workload.Jobs
	placeOf []place // by job
	users   []*user
}

// place is where a job belongs.
type place struct {
	user    *user
	session int
}

// user is one user's progress through his graph.
type user struct {
	graph *session.Graph
	open  []int // jobs of each session that have not ended
	spot  []int // of each session in graph.Ended(); -1 where nothing depends on it
	gates []gate
	// presence moves a session to where its user is there; nil for a user who is
	// there whenever his think time is over.
	presence presence
}

// gate holds back the sessions that depend on the same ones: first up to but not
// including last depend on graph.Ended()[from:to].
type gate struct {
	from, to    int
	first, last int
	waits       int           // dependencies that have not ended
	shift       time.Duration // by how much the one that decides ended later than recorded
}

// presence says when a user is there.
type presence interface {
	// next is the first instant at or after t at which the user is there.
	next(t hpc.Time) hpc.Time
}

func newUser(g *session.Graph) *user {
	n := len(g.Sessions)
	u := &user{graph: g, open: make([]int, n), spot: make([]int, n)}
	for s := range g.Sessions {
		u.open[s], u.spot[s] = len(g.Sessions[s].Jobs), -1
		from, to := g.Stretch(s)
		if k := len(u.gates); k > 0 && u.gates[k-1].from == from && u.gates[k-1].to == to {
			u.gates[k-1].last = s + 1
			continue
		}
		u.gates = append(u.gates, gate{from: from, to: to, first: s, last: s + 1, waits: to - from, shift: -1 << 63})
	}
	for i, s := range g.Ended() {
		u.spot[s] = i
	}
	return u
}

// Begin implements [Driver].
func (d *users) Begin() []Submission {
	var out []Submission
	for _, u := range d.users {
		for _, g := range u.gates {
			if g.from != g.to {
				continue
			}
			for s := g.first; s < g.last; s++ {
				out = d.submit(out, u, s, 0)
			}
		}
	}
	return out
}

// Ended implements [Driver]: wake_on_feedback of the paper's algorithm 1.
func (d *users) Ended(job int, at hpc.Time) []Submission {
	u, s := d.placeOf[job].user, d.placeOf[job].session
	if u.open[s]--; u.open[s] > 0 || u.spot[s] < 0 {
		return nil
	}
	// Both ends of the gates' stretches only grow, so those that this session is part
	// of are neighbours.
	var out []Submission
	spot, late := u.spot[s], at.Sub(u.graph.Sessions[s].End)
	first := sort.Search(len(u.gates), func(i int) bool { return u.gates[i].to > spot })
	for i := first; i < len(u.gates) && u.gates[i].from <= spot; i++ {
		g := &u.gates[i]
		g.shift = max(g.shift, late)
		if g.waits--; g.waits > 0 {
			continue
		}
		for free := g.first; free < g.last; free++ {
			out = d.submit(out, u, free, u.start(free, g.shift, at).Sub(u.graph.Sessions[free].Start))
		}
	}
	return out
}

// start is when a session starts that has become free at an instant, by so much later
// than recorded as the session that decides.
func (u *user) start(s int, shift time.Duration, free hpc.Time) hpc.Time {
	session := &u.graph.Sessions[s]
	// The latest of end + think time over all that it depends on: both that end and
	// this start move by the same.
	kept := session.Start.Add(shift)
	if u.presence == nil {
		return kept
	}
	// A user who goes on working keeps his think times. One who has been away comes
	// back when he would have anyway: his absence takes up a delay, as far as it lasts.
	if s == 0 || u.graph.Sessions[s-1].Parent != session.Parent {
		kept = max(min(kept, session.Start), free)
	}
	return u.presence.next(kept)
}

// submit appends the submissions of a session's jobs, all moved by the same.
func (d *users) submit(out []Submission, u *user, s int, by time.Duration) []Submission {
	for _, job := range u.graph.Sessions[s].Jobs {
		out = append(out, Submission{job, d.jobs.Submit(job).Add(by)})
	}
	return out
}
