package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// AllReplays returns the paper's replays and the models of Zakay & Feitelson. These models have
// the same sessions, so their results can be compared.
func AllReplays(by session.Delimitation, seed uint64) []Users {
	list := append([]Users{}, Replays...)
	for _, m := range []replay.Model{replay.Adjusted, replay.Fluid, replay.Distribution} {
		list = append(list, Users{string(m), replay.Feedback{Model: m, Sessions: by, Seed: seed}})
	}
	return list
}

// Curves are the additional lateness of growing parts of a log. The paper recommends this check
// to everyone who uses that metric (section 7.6, figure 11). If a curve does not converge, the
// metric depends on the length of the log.
type Curves struct {
	Log string `json:"log"`
	// Jobs are the lengths of the parts. Each part has the first jobs of the log.
	Jobs   []int   `json:"jobs"`
	Curves []Curve `json:"curves"`
}

// Curve is the additional lateness of one system with one kind of users.
type Curve struct {
	System     string          `json:"system"`
	Replay     string          `json:"replay"`
	Additional []metrics.Float `json:"additional_lateness_s"` // for each part
}

// Scalability simulates the given number of growing parts of a log. The last part is the whole
// log. Scalability omits rigid users, because they are never late.
func Scalability(ctx context.Context, w *workload.Workload, processors, parts int, opts Options) (*Curves, error) {
	opts.complete()
	opts.Realizations = 0
	if processors == 0 {
		processors = w.MachineProcessors
	}
	var users []Users
	for _, u := range opts.Users {
		if u.Model != replay.NoFeedback {
			users = append(users, u)
		}
	}
	opts.Users = users
	out := &Curves{Log: w.Source}
	observe := opts.Observe
	for n := 1; n <= parts; n++ {
		part := *w
		part.Jobs = w.Jobs.First(max(1, w.Jobs.Len()*n/parts))
		opts.Observe = func(done, all int) { observe((n-1)*all+done, parts*all) }
		r, err := Run(ctx, &part, processors, opts)
		if err != nil {
			return nil, err
		}
		out.Jobs = append(out.Jobs, part.Jobs.Len())
		for i, c := range r.Cells {
			if n == 1 {
				out.Curves = append(out.Curves, Curve{System: c.System, Replay: c.Replay})
			}
			out.Curves[i].Additional = append(out.Curves[i].Additional, c.Additional)
		}
	}
	return out, nil
}

// RenderCurves writes a table with a line for each curve and a column for each length. It
// returns w's error.
func RenderCurves(w io.Writer, list []*Curves) error {
	var b bytes.Buffer
	for i, c := range list {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: additional lateness in seconds over the first jobs\n\n%-14s%-14s", c.Log, "System", "Replay")
		for _, n := range c.Jobs {
			fmt.Fprintf(&b, "%10d", n)
		}
		b.WriteString("\n")
		for _, curve := range c.Curves {
			fmt.Fprintf(&b, "%-14s%-14s", curve.System, curve.Replay)
			for _, v := range curve.Additional {
				fmt.Fprintf(&b, "%10.1f", float64(v))
			}
			b.WriteString("\n")
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
