// Package session finds the structure in what a user submitted: sessions of work, which
// of them waited for the results of which, and how long the user thought in between.
//
// # Sessions
//
// A log says when jobs were submitted and when they ended, not what their user was
// doing. A [Delimitation] guesses from the gaps between a user's jobs where he went away:
// the jobs between two such gaps are a [Session].
//
// # The graph
//
// A session depends on every session of the same user that was over, with the last of
// its jobs ended, when the first job of the dependent one was submitted: its user may
// have looked at those results first (Madon, Da Costa & Pierson, "Replay with Feedback",
// FGCS 155, 2024, definition 5). The time between that end and that submission is the
// think time (definition 6); it is never negative.
//
// "Ended before the other began" is an interval order, and most of its pairs say nothing
// new: whoever waited for the last session waited for those before. Only the pairs that
// do not follow from others are edges of a [Graph] (its transitive reduction). This is
// not merely shorter: a replay that kept a think time of three weeks to a session of the
// month before would hold the user to it, however much his later sessions moved.
//
// Sessions that depend on none are where a replay begins; the paper hangs them on a
// fictive root at the log's beginning.
//
// # Size
//
// Ten thousand jobs that ran at once, followed by ten thousand more, have a hundred
// million edges. They are never spelled out: sorted by their ends, the sessions that
// another one depends on are neighbours, and each session keeps the first and the last
// place only. Building all graphs of a log takes the time of sorting its jobs.
package session

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// never is the end of what did not end while it was recorded: after everything else.
const never = hpc.Time(1<<63 - 1)

// ErrNoRecord says that a workload does not know when its jobs ended, so that nobody can
// tell who waited for what.
var ErrNoRecord = errors.New("no job of the workload has a recorded end")

// Session is a stretch of a user's work: jobs that he submitted one after the other.
type Session struct {
	// Jobs are indices in the workload, in the order of submission; at least one.
	Jobs []int
	// Start and LastSubmit are the first and the last submission.
	Start, LastSubmit hpc.Time
	// End is when all of its jobs had ended, and the largest Time if one of them never
	// did in the record. Nothing depends on such a session.
	End hpc.Time
	// Parent is, in a graph of batches, the session that the batch is part of; in a
	// graph of sessions, the session itself.
	Parent int

	// What it depends on directly: ended[from:to] of the graph.
	from, to int
}

// Graph is what one user did: his sessions in the order in which they began, and which
// depends on which.
type Graph struct {
	User     string
	Sessions []Session
	// ended are those sessions that any other depends on directly, in the order in
	// which they ended.
	ended []int
}

// Sessions is the structure of a whole workload.
type Sessions struct {
	Delimitation Delimitation
	// Users have a graph each, in the order in which they submitted their first jobs.
	Users []*Graph
	// WithoutEnd counts the jobs of which no end is recorded.
	WithoutEnd int

	jobs workload.Jobs
}

// New finds the sessions of every user of a workload. It fails with [ErrNoRecord] where
// no job has a recorded end.
func New(w *workload.Workload, d Delimitation) (*Sessions, error) {
	s := &Sessions{Delimitation: d, jobs: w.Jobs}
	ends := make([]hpc.Time, w.Jobs.Len())
	of := make(map[string]int)
	var users [][]int
	for i, job := range w.Jobs.All() {
		if ends[i] = recordedEnd(job); ends[i] == never {
			s.WithoutEnd++
		}
		u, known := of[job.User]
		if !known {
			u = len(users)
			of[job.User] = u
			users = append(users, nil)
			s.Users = append(s.Users, &Graph{User: job.User})
		}
		users[u] = append(users[u], i)
	}
	if s.WithoutEnd == w.Jobs.Len() {
		return nil, fmt.Errorf("finding sessions: %w (replay it first, and use that run as the workload)", ErrNoRecord)
	}
	for u, jobs := range users {
		s.Users[u].Sessions = d.partition(&w.Jobs, ends, jobs)
		s.Users[u].link()
	}
	return s, nil
}

// recordedEnd is when a job ended in the record. What ended before it was submitted did
// not, whatever the record says, and what was rejected ended at once.
func recordedEnd(job *hpc.Job) hpc.Time {
	switch r := job.Recorded; {
	case r == nil:
		return never
	case r.State == hpc.Rejected:
		return job.Submit
	case r.End == 0:
		return never
	default:
		return max(r.End, job.Submit)
	}
}

// partition cuts a user's jobs, given in the order of submission, into sessions.
func (d Delimitation) partition(jobs *workload.Jobs, ends []hpc.Time, mine []int) []Session {
	var sessions []Session
	begin := 0
	var last, latest hpc.Time
	for k, i := range mine {
		submit := jobs.Submit(i)
		if k > 0 && d.begins(submit, jobs.Submit(mine[k-1]), last, latest) {
			sessions = append(sessions, newSession(jobs, ends, mine[begin:k], len(sessions)))
			begin, latest = k, 0
		}
		last = ends[i]
		latest = max(latest, last)
	}
	return append(sessions, newSession(jobs, ends, mine[begin:], len(sessions)))
}

func newSession(jobs *workload.Jobs, ends []hpc.Time, mine []int, parent int) Session {
	s := Session{Jobs: mine, Start: jobs.Submit(mine[0]), LastSubmit: jobs.Submit(mine[len(mine)-1]), Parent: parent}
	for _, i := range mine {
		s.End = max(s.End, ends[i])
	}
	return s
}

// link finds the edges of the transitive reduction.
//
// Of the sessions that were over when s began, let L be the one that began last. A
// session that was over before L began is not a direct dependency of s, because L lies
// between; one that ended after L had begun is, because whatever lies between would have
// begun after L. So the direct ones are L and those that ended after its start. As s
// moves on in time both ends of that stretch only move forward.
//
// Two sessions without duration at the same instant would depend on each other: the
// order of submission decides, and only earlier sessions are depended on.
func (g *Graph) link() {
	byEnd := make([]int, len(g.Sessions))
	for i := range byEnd {
		byEnd[i] = i
	}
	slices.SortFunc(byEnd, func(a, b int) int {
		return cmp.Or(cmp.Compare(g.Sessions[a].End, g.Sessions[b].End), cmp.Compare(a, b))
	})
	latest, from, next := -1, 0, 0
	for i := range g.Sessions {
		s := &g.Sessions[i]
		for next < i && byEnd[next] < i && g.Sessions[byEnd[next]].End <= s.Start {
			over := byEnd[next]
			next++
			if over > latest {
				latest = over
				for from < len(g.ended) && g.Sessions[g.ended[from]].End <= g.Sessions[latest].Start {
					from++
				}
			}
			if over == latest || g.Sessions[over].End > g.Sessions[latest].Start {
				g.ended = append(g.ended, over)
			}
		}
		s.from, s.to = from, len(g.ended)
	}
}

// DependsOn returns the sessions that a session depends on directly, as indices, in the
// order in which they ended. The result must not be changed. Neither end of it ever moves
// backwards from one session to the next.
func (g *Graph) DependsOn(session int) []int {
	s := &g.Sessions[session]
	return g.ended[s.from:s.to]
}

// Stretch returns DependsOn's place among the sessions that anything depends on: it is
// Ended()[from:to].
func (g *Graph) Stretch(session int) (from, to int) {
	s := &g.Sessions[session]
	return s.from, s.to
}

// Ended returns the sessions that others depend on, as indices, in the order in which
// they ended. The result must not be changed.
func (g *Graph) Ended() []int { return g.ended }

// ThinkTime is the time from the end of one session to the beginning of one that depends
// on it (FGCS 2024, definition 6).
func (g *Graph) ThinkTime(before, after int) time.Duration {
	return g.Sessions[after].Start.Sub(g.Sessions[before].End)
}

// Edges returns every pair of a session and one that depends on it directly. There may
// be very many; [Stats] counts them without going through them.
func (g *Graph) Edges() iter.Seq2[int, int] {
	return func(yield func(before, after int) bool) {
		for after := range g.Sessions {
			for _, before := range g.DependsOn(after) {
				if !yield(before, after) {
					return
				}
			}
		}
	}
}

// Batches returns the same with every session cut into its batches (Zakay & Feitelson,
// "Preserving user behavior characteristics in trace-based simulation of parallel job
// scheduling", MASCOTS 2014): jobs that overlap. A batch begins with the first job that
// is submitted when all earlier jobs of its session have ended: until then the user did
// not wait for results. Batches depend on each other as sessions do, and those of one
// session are a chain.
func (s *Sessions) Batches() *Sessions {
	out := &Sessions{Delimitation: s.Delimitation, WithoutEnd: s.WithoutEnd, jobs: s.jobs}
	ends := make([]hpc.Time, s.jobs.Len())
	for i, job := range s.jobs.All() {
		ends[i] = recordedEnd(job)
	}
	overlap := Delimitation{Method: Max}
	for _, g := range s.Users {
		batches := &Graph{User: g.User}
		for parent := range g.Sessions {
			for _, batch := range overlap.partition(&s.jobs, ends, g.Sessions[parent].Jobs) {
				batch.Parent = parent
				batches.Sessions = append(batches.Sessions, batch)
			}
		}
		batches.link()
		out.Users = append(out.Users, batches)
	}
	return out
}
