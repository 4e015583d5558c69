package session

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Stats describe the graph of one user, or of all users together (Madon et al., FGCS 2024,
// section 7.2 and figure 6).
type Stats struct {
	Jobs     int `json:"jobs"`
	Sessions int `json:"sessions"`
	// Edges is the number of pairs of sessions of which the second directly depends on the first.
	Edges int64 `json:"edges"`
	// Roots is the number of sessions that do not depend on another session.
	Roots int `json:"roots"`
	// LongestPath is the number of sessions on the longest chain of dependencies.
	LongestPath int `json:"longest_path"`
	// Arity is the largest number of sessions that directly depend on one session. Fan is
	// the largest number of sessions on which one session directly depends.
	Arity int `json:"arity"`
	Fan   int `json:"fan"`
}

// UserStats are the statistics of one user's graph.
type UserStats struct {
	User string `json:"user"`
	Stats
}

// Summary is the output of `workload sessions` for a workload.
type Summary struct {
	Delimitation string `json:"sessions_by"`
	// WithoutEnd is the number of jobs without a recorded end. No session depends on a session of a job without a recorded
	// end.
	WithoutEnd int `json:"without_recorded_end"`
	// Stats of all users; LongestPath, Arity and Fan are the largest values of any user.
	Stats
	// MeanJobs is the mean number of jobs in a session.
	MeanJobs float64 `json:"mean_jobs_per_session"`
	// ThinkTimes are the think times of all edges. Quantiles are in whole seconds, rounded
	// up.
	ThinkTimes ThinkTimes `json:"think_times"`
	// Users are in the order of their first submissions.
	Users []UserStats `json:"users"`
}

// ThinkTimes is the distribution of the think times of all edges: quantiles in seconds, and
// shares of the edges.
type ThinkTimes struct {
	UnderHour  float64 `json:"share_under_1h"`
	UnderHours float64 `json:"share_under_10h"`
	P10        int64   `json:"p10_s"`
	Median     int64   `json:"median_s"`
	P90        int64   `json:"p90_s"`
}

// Summary computes the statistics of all graphs.
func (s *Sessions) Summary() Summary {
	out := Summary{Delimitation: s.Delimitation.String(), WithoutEnd: s.WithoutEnd, Users: make([]UserStats, len(s.Users))}
	for i, g := range s.Users {
		u := g.Stats()
		out.Users[i] = UserStats{g.User, u}
		out.Jobs += u.Jobs
		out.Sessions += u.Sessions
		out.Edges += u.Edges
		out.Roots += u.Roots
		out.LongestPath = max(out.LongestPath, u.LongestPath)
		out.Arity = max(out.Arity, u.Arity)
		out.Fan = max(out.Fan, u.Fan)
	}
	out.MeanJobs = float64(out.Jobs) / float64(out.Sessions)
	out.ThinkTimes = s.thinkTimes(out.Edges)
	return out
}

// Stats computes the statistics of one user's graph. Its running time does not depend on
// the number of edges.
func (g *Graph) Stats() Stats {
	st := Stats{Sessions: len(g.Sessions)}
	// change[i] is the number of sessions that depend on ended[i] minus the number that
	// depend on ended[i-1].
	change := make([]int, len(g.ended)+1)
	level := make([]int, len(g.Sessions)) // sessions on the longest chain that ends here
	deepest, next := 0, 0
	for i := range g.Sessions {
		s := &g.Sessions[i]
		st.Jobs += len(s.Jobs)
		st.Edges += int64(s.to - s.from)
		st.Fan = max(st.Fan, s.to-s.from)
		change[s.from]++
		change[s.to]--
		if s.to == s.from {
			st.Roots++
		}
		for ; next < s.to; next++ {
			deepest = max(deepest, level[g.ended[next]])
		}
		level[i] = deepest + 1
		st.LongestPath = max(st.LongestPath, level[i])
	}
	dependents := 0
	for _, c := range change {
		dependents += c
		st.Arity = max(st.Arity, dependents)
	}
	return st
}

// thinkTimes describes the think times of all edges without visiting the edges. The dependencies of
// a session are sorted by their ends, so bisection counts the think times below a given time. A
// second bisection over this time finds a quantile.
func (s *Sessions) thinkTimes(edges int64) ThinkTimes {
	if edges == 0 {
		return ThinkTimes{}
	}
	below := func(limit time.Duration) int64 {
		n := int64(0)
		for _, g := range s.Users {
			n += g.shorter(limit)
		}
		return n
	}
	longest := time.Duration(0)
	for _, g := range s.Users {
		for i := range g.Sessions {
			if on := g.DependsOn(i); len(on) > 0 {
				longest = max(longest, g.ThinkTime(on[0], i))
			}
		}
	}
	quantile := func(percent int64) int64 {
		return int64(sort.Search(int(longest/time.Second)+1, func(sec int) bool {
			return below(time.Duration(sec)*time.Second+1)*100 >= edges*percent
		}))
	}
	return ThinkTimes{
		UnderHour:  float64(below(time.Hour)) / float64(edges),
		UnderHours: float64(below(10*time.Hour)) / float64(edges),
		P10:        quantile(10), Median: quantile(50), P90: quantile(90),
	}
}

// shorter returns the number of edges with a think time below the limit.
func (g *Graph) shorter(limit time.Duration) int64 {
	n := int64(0)
	for i := range g.Sessions {
		on := g.DependsOn(i)
		earliest := g.Sessions[i].Start.Add(-limit)
		first, _ := slices.BinarySearchFunc(on, earliest, func(before int, end hpc.Time) int {
			if g.Sessions[before].End <= end {
				return -1
			}
			return 1
		})
		n += int64(len(on) - first)
	}
	return n
}

// Render writes the summary as text: all users together, and the users with the most sessions. It
// returns w's error.
func (s *Summary) Render(w io.Writer) error {
	const shown = 10
	users := slices.Clone(s.Users)
	slices.SortStableFunc(users, func(a, b UserStats) int { return b.Sessions - a.Sessions })
	p := &printer{w: w}
	p.printf("delimited by    %s\n", s.Delimitation)
	p.printf("users           %d\n", len(s.Users))
	p.printf("jobs            %d\n", s.Jobs)
	if s.WithoutEnd > 0 {
		p.printf("without end     %d %s no recorded end; no session depends on theirs\n", s.WithoutEnd,
			quantity.Plural(s.WithoutEnd, "job has", "jobs have"))
	}
	p.printf("sessions        %d, of %.1f jobs on average\n", s.Sessions, s.MeanJobs)
	p.printf("roots           %d %s on none\n", s.Roots, quantity.Plural(s.Roots, "session depends", "sessions depend"))
	p.printf("edges           %d after transitive reduction\n", s.Edges)
	p.printf("longest path    %d %s\n", s.LongestPath, quantity.Plural(s.LongestPath, "session", "sessions"))
	if t := s.ThinkTimes; s.Edges > 0 {
		p.printf("arity           %d %s on the same session; a session depends on %d at most\n", s.Arity,
			quantity.Plural(s.Arity, "session at most depends", "sessions at most depend"), s.Fan)
		p.printf("think time      %.0f%% under 1 h, %.0f%% under 10 h, median %s\n",
			100*t.UnderHour, 100*t.UnderHours, time.Duration(t.Median)*time.Second)
	} else {
		p.printf("arity           -\nthink time      -\n")
	}
	table, more := quantity.NewTable(20, 9, 10, 10, 8, 14, 7), ""
	table.Row("user", "jobs", "sessions", "edges", "roots", "longest path", "arity")
	for i, u := range users {
		if i == shown {
			more = fmt.Sprintf("(and %d more users; --json has all)\n", len(users)-shown)
			break
		}
		table.Row(u.User, u.Jobs, u.Sessions, u.Edges, u.Roots, u.LongestPath, u.Arity)
	}
	p.printf("\n%s%s", table, more)
	return p.err
}

// printer keeps the first error of a series of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
