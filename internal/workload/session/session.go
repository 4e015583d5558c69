// Package session finds the structure of users' submissions: the sessions of work, the results for
// which sessions waited, and the users' think times in between.
//
// # Sessions
//
// A log says when jobs were submitted and when they ended. A log does not say what the users were doing. A
// [Delimitation] estimates from the gaps between a user's jobs when the user was absent. The jobs between two such gaps
// are a [Session].
//
// # The graph
//
// A session depends on every session of the same user whose last job had ended when the first job of the session was
// submitted: the user may have looked at those results first (Madon, Da Costa & Pierson, "Replay with Feedback", FGCS
// 155, 2024, definition 5). The time between that end and that submission is the think time (definition 6). A think
// time is never negative.
//
// "Session A ended before session B began" is an interval order. Most of its pairs follow from other pairs: a user who
// waited for the last session also waited for the sessions before it. The edges of a [Graph] are the pairs that do not
// follow from others (the transitive reduction). The reduction matters for results, too. Without it, a session would
// also depend on a session of the previous month, with a think time of three weeks. A replay would then wait for three
// weeks, even if the user's sessions in between were at other times.
//
// A replay begins with the sessions that do not depend on another session. The paper connects them
// to an artificial root at the beginning of the log.
//
// # Size
//
// Ten thousand sessions at the same time, followed by ten thousand more, have a hundred million edges. The graph never
// stores them one by one. In the list of sessions that is sorted by their ends, the sessions on which a session depends
// are neighbours, so each session stores only the first and the last index. Building all graphs of a log takes the time
// of sorting its jobs.
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

// never is the end of jobs without a recorded end. It is after every other instant.
const never = hpc.Time(1<<63 - 1)

// ErrNoRecord means that the workload has no recorded ends of jobs. Without them it is unknown
// which sessions waited for other sessions.
var ErrNoRecord = errors.New("no job of the workload has a recorded end")

// Session is a period of work of a user: consecutive jobs without a long gap.
type Session struct {
	// Jobs are indices in the workload, in the order of submission; at least one.
	Jobs []int
	// Start and LastSubmit are the instants of the first and of the last submission.
	Start, LastSubmit hpc.Time
	// End is the instant at which all jobs of the session had ended. If the record lacks the end of
	// one of these jobs, End is the largest Time, and no session depends on this session.
	End hpc.Time
	// Parent is an index of a session. In a graph of batches it is the session that the
	// batch belongs to; in a graph of sessions it is the session itself.
	Parent int

	// The session directly depends on ended[from:to] of the graph.
	from, to int
}

// Graph has one user's sessions in the order of their starts, and the dependencies between them.
type Graph struct {
	User     string
	Sessions []Session
	// ended has the sessions on which other sessions directly depend, in the order of their ends.
	ended []int
}

// Sessions are the graphs of all users of a workload.
type Sessions struct {
	Delimitation Delimitation
	// Users has one graph for each user, in the order of the users' first submissions.
	Users []*Graph
	// WithoutEnd is the number of jobs without a recorded end.
	WithoutEnd int

	jobs workload.Jobs
}

// New finds the sessions of all users of a workload. It returns [ErrNoRecord] if no job has
// a recorded end.
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

// recordedEnd returns the recorded end of a job. An end before the submission does not count as an
// end. A rejected job ended when it was submitted.
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

// partition divides a user's jobs, given in the order of submission, into sessions.
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
// Let L be the session that began last among the sessions that had ended when s began. A session that had ended before
// L began is not a direct dependency of s, because L is between them. A session that ended between L's start and the
// start of s is a direct dependency: a session between it and s would have begun after L and ended before s began. Such
// a session does not exist, because L began last, so s directly depends on L and on the sessions that ended between L's
// start and the start of s. For later sessions s, both ends of the range of these sessions only move forward.
//
// Two sessions without duration at the same instant would depend on each other. The order of
// submission decides: a session depends on earlier sessions only.
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

// DependsOn returns the sessions on which a session directly depends, as indices, in the order of
// their ends. The caller must not change the result. The result is a range of [Graph.Ended].
// Neither end of this range is smaller than for the previous session.
func (g *Graph) DependsOn(session int) []int {
	s := &g.Sessions[session]
	return g.ended[s.from:s.to]
}

// Stretch returns the range of a session's dependencies in Ended: DependsOn(session) is
// Ended()[from:to].
func (g *Graph) Stretch(session int) (from, to int) {
	s := &g.Sessions[session]
	return s.from, s.to
}

// Ended returns the sessions on which other sessions directly depend, as indices, in the order of
// their ends. The caller must not change the result.
func (g *Graph) Ended() []int { return g.ended }

// ThinkTime returns the time from the end of one session to the start of a session that
// depends on it (FGCS 2024, definition 6).
func (g *Graph) ThinkTime(before, after int) time.Duration {
	return g.Sessions[after].Start.Sub(g.Sessions[before].End)
}

// Edges yields every pair of a session and a session that directly depends on it. There may
// be very many pairs; [Stats] counts them without visiting them.
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

// Batches returns graphs in which every session is divided into its batches: groups of overlapping
// jobs (Zakay & Feitelson, "Preserving user behavior characteristics in trace-based simulation of
// parallel job scheduling", MASCOTS 2014). A batch begins with the first job that is submitted
// after all earlier jobs of its session have ended: before that, the user did not wait for
// results. Batches depend on each other by the same rule as sessions, and the batches of one
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
