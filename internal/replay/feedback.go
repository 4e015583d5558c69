package replay

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// Model is a model of how users react to the ends of their jobs.
type Model string

// The models of how users react to the ends of their jobs. All except [NoFeedback] play the graphs of package session.
// A session without dependencies is submitted at its recorded instant. Any other session is submitted after the
// sessions that it depends on have ended. The models differ in two ways: in the unit that they move (a session, or a
// batch of overlapping jobs), and in the times at which a user is present. docs/FEEDBACK.md names the paper for each
// rule, and says which rules are our own.
const (
	// NoFeedback is rigid replay: the recorded instants.
	NoFeedback Model = "none"
	// ThinkTime moves sessions and keeps the think times between them, like Madon, Da Costa &
	// Pierson (FGCS 155, 2024, section 4 and algorithm 1). A session begins at the latest end +
	// think time of the sessions that it depends on. The session's jobs keep their intervals from
	// its first job.
	ThinkTime Model = "think-time"
	// Adjusted moves batches in the same way (Zakay & Feitelson, MASCOTS 2014).
	Adjusted Model = "adjusted"
	// Fluid takes the recorded sessions as the times at which a user is present. A batch is submitted during a recorded
	// session of the user, or else at the start of the next session (ibid.).
	Fluid Model = "fluid"
	// Distribution submits a batch in random hours. The probability of an hour follows the
	// user's recorded submissions (ibid.).
	Distribution Model = "distribution"
)

// Models has all models, [NoFeedback] first.
var Models = []Model{NoFeedback, ThinkTime, Adjusted, Fluid, Distribution}

// ParseModel reads the name of a model.
func ParseModel(name string) (Model, error) {
	if m := Model(name); slices.Contains(Models, m) {
		return m, nil
	}
	names := make([]string, len(Models))
	for i, m := range Models {
		names[i] = string(m)
	}
	return "", fmt.Errorf("%q: not a model of users (%s)", name, spelling.Meant(name, names))
}

// Feedback says how users react to the ends of their jobs.
type Feedback struct {
	Model Model
	// Sessions decides where a user's sessions end. [NoFeedback] ignores it.
	Sessions session.Delimitation
	// Jitter moves every submission by a random time of at most this length, earlier or later, but
	// never into the past. Runs with several seeds show the uncertainty of a result.
	Jitter time.Duration
	// Seed decides the jitter and the hours of [Distribution].
	Seed uint64
}

// NewController makes the controller that plays a workload with users who react. The workload's
// jobs must be in the order of submission. The error is [session.ErrNoRecord] if the model needs
// recorded ends of jobs and the workload does not have them.
func NewController(w *workload.Workload, f Feedback) (Controller, error) {
	controller, err := NewControllers(w, f)
	if err != nil {
		return nil, err
	}
	return controller(f.Jitter, f.Seed), nil
}

// NewControllers is [NewController] for several runs of a workload; it finds the users' sessions
// only once. It returns a function that makes the controller of one run, with the given jitter and
// seed instead of f.Jitter and f.Seed. Several goroutines may call this function at once.
func NewControllers(w *workload.Workload, f Feedback) (func(jitter time.Duration, seed uint64) Controller, error) {
	newUsers := func(uint64) Controller { return NewRigid(w) }
	if f.Model != NoFeedback && f.Model != "" {
		sessions, err := session.New(w, f.Sessions)
		if err != nil {
			return nil, err
		}
		newUsers = f.newUsers(w, sessions)
	}
	latest := w.LatestSubmissions()
	return func(by time.Duration, seed uint64) Controller {
		c := newUsers(seed)
		if by > 0 {
			c = &jitter{c, by, seed, latest}
		}
		return c
	}, nil
}

// newUsers returns a function that makes the users of one run.
func (f Feedback) newUsers(w *workload.Workload, sessions *session.Sessions) func(seed uint64) Controller {
	graphs := sessions
	if f.Model != ThinkTime {
		graphs = sessions.Batches()
	}
	var population profile
	if f.Model == Distribution {
		population = newProfile(&w.Jobs)
	}
	memberOf := make([]member, w.Jobs.Len())
	for i, g := range graphs.Users {
		for s := range g.Sessions {
			for _, job := range g.Sessions[s].Jobs {
				memberOf[job] = member{i, s}
			}
		}
	}
	return func(seed uint64) Controller {
		d := &users{jobs: &w.Jobs, memberOf: memberOf}
		for i, g := range graphs.Users {
			u := newUser(g)
			switch f.Model {
			case Fluid:
				u.presence = recordedPresence(sessions.Users[i])
			case Distribution:
				u.presence = newHabits(&w.Jobs, g, population, seed)
			}
			d.users = append(d.users, u)
		}
		return d
	}
}

// users is a [Controller]. Every user submits sessions without dependencies at their recorded
// instants, and other sessions when earlier jobs of the user have ended. In the models of Zakay &
// Feitelson, a session in the code is a batch.
type users struct {
	jobs     *workload.Jobs
	memberOf []member // by job
	users    []*user
}

// member has the user of a job, and the job's session, as indices.
type member struct {
	user, session int
}

// user is one user's progress through the graph of the user's sessions.
type user struct {
	graph *session.Graph
	open  []int // for each session, the number of jobs that have not ended
	rank  []int // for each session, its index in graph.Ended(); -1 if no session depends on it
	waits []wait
	// presence is the times at which the user is present; nil if the user is always present.
	presence presence
}

// wait describes sessions that wait for the same dependencies. The sessions with the indices [first:last] of
// the user's graph depend on graph.Ended()[from:to].
type wait struct {
	from, to    int
	first, last int
	missing     int           // number of dependencies that have not ended
	shift       time.Duration // by how much the deciding dependency ended later than recorded
}

// presence has the times at which a user is present.
type presence interface {
	// next returns the first instant at or after t at which the user is present.
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

// ended reacts to the end of a job (wake_on_feedback in algorithm 1 of Madon et al.).
func (d *users) ended(job int, at hpc.Time) []Submission {
	u, s := d.users[d.memberOf[job].user], d.memberOf[job].session
	if u.open[s]--; u.open[s] > 0 || u.rank[s] < 0 {
		return nil
	}
	// from and to grow from one wait to the next, so the waits for this session are adjacent.
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

// start returns the start of a session whose dependencies have ended. The parameter free is the instant at which the
// last dependency ended, and shift is by how much the deciding dependency ended later than recorded.
func (u *user) start(s int, shift time.Duration, free hpc.Time) hpc.Time {
	session := &u.graph.Sessions[s]
	// kept is the latest end + think time of the session's dependencies: the start moves as much as
	// the end of the deciding dependency.
	kept := session.Start.Add(shift)
	if u.presence == nil {
		return kept
	}
	// A user who continues to work has the recorded think times. A user who was away returns at the
	// recorded instant, so the absence absorbs delays up to its own length.
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
