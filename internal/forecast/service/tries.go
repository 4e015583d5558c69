package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// Size is a class of jobs by their number of nodes.
type Size struct {
	Name string
	Most int // largest number of nodes; 0 for any number
}

// Sizes are the classes of size.
var Sizes = []Size{{"1 node", 1}, {"2-8 nodes", 8}, {"9-64 nodes", 64}, {"65 nodes or more", 0}}

func sizeOf(nodes int) string {
	return Sizes[slices.IndexFunc(Sizes, func(s Size) bool { return nodes <= s.Most || s.Most == 0 })].Name
}

// Try is the forecast of a job that was submitted at the instant of a capture, like the last submitted job of its
// partition and size class.
type Try struct {
	Partition string    `json:"partition"`
	Size      string    `json:"size"`
	At        time.Time `json:"at"`
	Nodes     int       `json:"nodes"`
	// Limit is the job's time limit in seconds; 0 for the partition's limit.
	Limit float64 `json:"limit_s,omitempty"`
	// P10, P50 and P90 are quantiles of the wait in seconds; nil if the job starts in too few
	// realizations, or after the horizon.
	P10 *float64 `json:"p10_wait_s"`
	P50 *float64 `json:"p50_wait_s"`
	P90 *float64 `json:"p90_wait_s"`
	// Beyond is the horizon in seconds if the median is after it.
	Beyond float64 `json:"beyond_s,omitempty"`
	// Why says why the job never starts; "" if it starts.
	Why string `json:"why,omitempty"`
}

// forgetTry is the age at which a class without new jobs is removed.
const forgetTry = 24 * time.Hour

// examples returns the last submitted job of each class, by partition and size.
func examples(q *forecast.Queue) map[[2]string]hpc.Request {
	last := map[[2]string]hpc.Time{}
	found := map[[2]string]hpc.Request{}
	look := func(at hpc.Time, r *hpc.Request) {
		partition, _, _ := strings.Cut(r.Partition, ",")
		class := [2]string{partition, sizeOf(r.MinNodes)}
		if partition == "" || at <= last[class] {
			return
		}
		last[class] = at
		found[class] = hpc.Request{
			User: r.User, Account: r.Account, Partition: partition, QOS: r.QOS, TimeLimit: r.TimeLimit, MinNodes: r.MinNodes,
			MaxNodes: r.MaxNodes, Tasks: r.Tasks, CPUsPerTask: r.CPUsPerTask, TasksPerNode: r.TasksPerNode,
			Exclusive: r.Exclusive, MemPerNode: r.MemPerNode, MemPerCPU: r.MemPerCPU, GRES: r.GRES, GPUs: r.GPUs,
			Constraint: r.Constraint,
		}
	}
	for _, job := range q.Workload.Jobs.All() {
		look(job.Submit, &job.Request)
	}
	for i := range q.History.List {
		look(q.History.List[i].At, q.History.List[i].Request)
	}
	return found
}

// tries forecasts jobs that are submitted now, one of each class. The class whose forecast is oldest comes first.
// tries ends when half of the turn's time is over, but it forecasts at least one class.
func (s *Service) tries(ctx context.Context, q *forecast.Queue, how forecast.Options, began time.Time) error {
	of := examples(q)
	s.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(s.known.Tries), func(t Try) bool {
		_, used := of[[2]string{t.Partition, t.Size}]
		return !used && q.At.Std().Sub(t.At) > forgetTry
	})
	s.mu.Unlock()
	for class := range of {
		if !slices.ContainsFunc(list, func(t Try) bool { return [2]string{t.Partition, t.Size} == class }) {
			list = append(list, Try{Partition: class[0], Size: class[1]})
		}
	}
	slices.SortFunc(list, func(a, b Try) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Nodes, b.Nodes),
			cmp.Compare(a.Size, b.Size))
	})
	for i := range list {
		request, used := of[[2]string{list[i].Partition, list[i].Size}]
		if !used {
			continue
		}
		if err := s.try(ctx, q, how, &list[i], request); err != nil {
			return err
		}
		if s.opts.now().Sub(began) > s.opts.Every/2 {
			break
		}
	}
	return s.keep(known{Tries: slices.DeleteFunc(list, func(t Try) bool { return t.At.IsZero() })})
}

// try forecasts one class.
func (s *Service) try(ctx context.Context, q *forecast.Queue, how forecast.Options, t *Try, request hpc.Request) error {
	how, err := s.learner(how)
	if err != nil {
		return err
	}
	at := q.At.Std()
	one, _, err := forecast.Try(ctx, q, forecast.Variant{Name: t.Partition + ", " + t.Size, Request: request}, 0, how)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil: // other classes may succeed
		*t = Try{Partition: t.Partition, Size: t.Size, At: at, Nodes: request.MinNodes, Why: err.Error()}
		return nil
	}
	wait := func(start *time.Time) *float64 {
		if start == nil {
			return nil
		}
		seconds := max(start.Sub(at).Seconds(), 0)
		return &seconds
	}
	*t = Try{Partition: t.Partition, Size: t.Size, At: at, Nodes: one.Nodes, Limit: one.Limit, P10: wait(one.P10),
		P50: wait(one.P50), P90: wait(one.P90), Why: one.Why}
	if slices.Contains(one.Beyond, "p50") {
		t.Beyond = how.Horizon.Seconds()
	}
	return nil
}
