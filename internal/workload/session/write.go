package session

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"rmreplay/internal/quantity"
	"slices"
	"strconv"
)

// WriteDOT writes the graphs in the language of Graphviz, one cluster for each user. Boxes are sessions with their
// jobs, and edges have the think time in hours. WriteDOT returns w's error.
func (s *Sessions) WriteDOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	p := &printer{w: b}
	p.printf("digraph sessions {\n\trankdir=LR;\n\tnode [shape=box];\n\tlabel=%s;\n",
		strconv.Quote("sessions delimited by "+s.Delimitation.String()))
	for u, g := range s.Users {
		p.printf("\tsubgraph cluster_%d {\n\t\tlabel=%s;\n", u, strconv.Quote(g.User))
		for i := range g.Sessions {
			p.printf("\t\ts%d_%d [label=%s];\n", u, i, strconv.Quote(s.label(g, i)))
		}
		for before, after := range g.Edges() {
			p.printf("\t\ts%d_%d -> s%d_%d [label=\"%.2f h\"];\n", u, before, u, after, g.ThinkTime(before, after).Hours())
		}
		p.printf("\t}\n")
	}
	p.printf("}\n")
	if p.err != nil {
		return p.err
	}
	return b.Flush()
}

// label names a session by its first and last job.
func (s *Sessions) label(g *Graph, i int) string {
	jobs := g.Sessions[i].Jobs
	first := s.jobs.At(jobs[0]).ID
	if len(jobs) == 1 {
		return fmt.Sprintf("%d: %s", i, first)
	}
	return fmt.Sprintf("%d: %s ... %s (%d %s)", i, first, s.jobs.At(jobs[len(jobs)-1]).ID, len(jobs),
		quantity.Plural(len(jobs), "job", "jobs"))
}

// The JSON form of a graph.
type (
	graphJSON struct {
		User     string        `json:"user"`
		Sessions []sessionJSON `json:"sessions"`
	}
	sessionJSON struct {
		Start      string     `json:"start"`
		LastSubmit string     `json:"last_submit"`
		End        string     `json:"end,omitempty"` // absent without a recorded end
		Jobs       []string   `json:"jobs"`
		DependsOn  []edgeJSON `json:"depends_on"`
	}
	edgeJSON struct {
		Session   int     `json:"session"` // index in the user's list
		ThinkTime float64 `json:"think_time_s"`
	}
)

// WriteJSON writes the graphs as JSON Lines, one object for each user. An object has the user's sessions in order, the
// IDs of their jobs, and the sessions on which they depend. WriteJSON returns w's error.
func (s *Sessions) WriteJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	for _, g := range s.Users {
		if err := enc.Encode(s.graphJSON(g)); err != nil {
			return err
		}
	}
	return b.Flush()
}

func (s *Sessions) graphJSON(g *Graph) graphJSON {
	out := graphJSON{User: g.User, Sessions: make([]sessionJSON, len(g.Sessions))}
	for i := range g.Sessions {
		from := &g.Sessions[i]
		to := &out.Sessions[i]
		to.Start, to.LastSubmit = from.Start.String(), from.LastSubmit.String()
		if from.End != never {
			to.End = from.End.String()
		}
		for _, j := range from.Jobs {
			to.Jobs = append(to.Jobs, s.jobs.At(j).ID)
		}
		to.DependsOn = []edgeJSON{}
		for _, before := range g.DependsOn(i) {
			to.DependsOn = append(to.DependsOn, edgeJSON{before, g.ThinkTime(before, i).Seconds()})
		}
	}
	return out
}

// OfUser returns the graph of one user. It returns false if the user has no session.
func (s *Sessions) OfUser(user string) (*Sessions, bool) {
	i := slices.IndexFunc(s.Users, func(g *Graph) bool { return g.User == user })
	if i < 0 {
		return nil, false
	}
	out := *s
	out.Users = s.Users[i : i+1]
	out.WithoutEnd = 0
	for _, session := range s.Users[i].Sessions {
		for _, j := range session.Jobs {
			if recordedEnd(s.jobs.At(j)) == never {
				out.WithoutEnd++
			}
		}
	}
	return &out, true
}
