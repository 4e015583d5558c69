package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/health"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// HealthOf computes the figures of a run's scheduler from the run's record. The figures belong to a cluster with the
// given name. list is the record's statistics. setting is the window and the events of the run's workload. The
// counters begin when slurmctld starts, so the counters of the first interval are known. If slurmctld reset its
// counters in the second of the first answer, the requests before the reset are left out. The figures of a workload's
// window begin with the window, because rmreplay starts the preset jobs before it. Requests that rmreplay itself sent
// are marked, because on a production cluster users and tools send other requests.
func HealthOf(cluster string, list []rm.Statistics, setting *workload.Workload) (out []store.Health) {
	if len(list) == 0 {
		return nil
	}
	before := &rm.Statistics{At: list[0].Since, Since: list[0].Since}
	if window := setting.Start; window != 0 {
		before, list = beforeWindow(before, list, window)
	}
	for i := range list {
		if h := health.Between(cluster, before, &list[i]); h.Interval > 0 {
			for k, c := range h.Counts {
				if c.Kind == store.Requests && byReplay(c.Name, setting) {
					h.Counts[k].Name += " (by rmreplay)"
				}
			}
			out = append(out, h)
		}
		before = &list[i]
	}
	return out
}

// latestCut is the longest allowed time between the last answer of sdiag before a window and the
// window's beginning. From Slurm 23.11 on, rmreplay requests the statistics three seconds before
// the window, when slurmctld reads slurm.conf again. Records of earlier versions of rmreplay may
// lack this answer.
const latestCut = 5 * time.Second

// beforeWindow returns the last answer before a window, and the later answers. If the list has no
// answer before the window, the result is first. beforeWindow dates the last answer to the second
// before the window, because no job starts in between. If this answer is older than latestCut, the
// interval after it contains the window's beginning, and beforeWindow leaves the interval out.
func beforeWindow(first *rm.Statistics, list []rm.Statistics, window hpc.Time) (*rm.Statistics, []rm.Statistics) {
	before := *first
	for len(list) > 0 && list[0].At <= window {
		before, list = list[0], list[1:]
	}
	if len(list) > 0 && before.At < window.Add(-latestCut) {
		return &list[0], list[1:]
	}
	before.At = window.Add(-time.Second)
	return &before, list
}

// byReplay reports whether all requests of a type come from rmreplay. All queries come from
// rmreplay, which observes the jobs and the scheduler: the users and nodes of a replay send no
// queries. In a window, the requests with which rmreplay prepares the cluster also come from
// rmreplay alone, unless the workload causes requests of the same type.
func byReplay(request string, setting *workload.Workload) bool {
	if len(setting.Actions) == 0 {
		switch request {
		case "REQUEST_RECONFIGURE", "REQUEST_RECONFIGURE_WITH_CONFIG":
			return true
		case "REQUEST_UPDATE_NODE":
			return len(setting.NodeEvents) == 0
		case "REQUEST_CREATE_RESERVATION":
			return len(setting.Reservations) == 0
		}
	}
	return request == "REQUEST_PING" || strings.HasPrefix(request, "REQUEST_") && strings.Contains(request, "_INFO")
}

// batchIntervals is the number of intervals in a request. While a request is stored, no jobs are
// written.
const batchIntervals = 500

// addHealth sends the figures of a run's scheduler to the server, if the run's record has figures.
func (c *client) addHealth(ctx context.Context, name string, r *run.Run) error {
	statistics, err := r.Statistics()
	if err != nil {
		return err
	}
	setting, err := r.Setting()
	if err != nil {
		return err
	}
	for list := range slices.Chunk(HealthOf(name, statistics, setting), batchIntervals) {
		body, err := json.Marshal(list)
		if err != nil {
			return err
		}
		answer, err := c.stream(ctx, http.MethodPost, "/_accounting/health", bytes.NewReader(body))
		if err != nil {
			return err
		}
		if err := answer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// takeHealth stores the figures of schedulers in a request.
func (s *site) takeHealth(w http.ResponseWriter, r *http.Request) {
	var list []store.Health
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		receive.Fail(w, http.StatusBadRequest, "parse_exception", err.Error())
		return
	}
	if err := s.intake.Store().AddHealth(list...); err != nil {
		receive.Fail(w, http.StatusServiceUnavailable, "store_exception", err.Error())
	}
}

// shortestSdiag is the shortest allowed interval between two runs of sdiag.
const shortestSdiag = 5 * time.Second

// checkSdiag returns an error for invalid flags about sdiag.
func checkSdiag(opts *Serve) error {
	if len(opts.Sdiag) > 0 && opts.SdiagEvery < shortestSdiag {
		return usage(fmt.Errorf("--sdiag-every %v: that would keep slurmctld busy (want at least %v)", opts.SdiagEvery,
			shortestSdiag))
	}
	for _, text := range opts.Sdiag {
		if cluster, command, _ := strings.Cut(text, "="); cluster == "" || strings.TrimSpace(command) == "" {
			return usage(fmt.Errorf("--sdiag %q: want CLUSTER=COMMAND, such as vale=/usr/bin/sdiag", text))
		}
	}
	return nil
}

// health starts pollers for the schedulers in opts. The returned function stops them.
func (s *site) health(ctx context.Context, opts Serve, say func(format string, args ...any)) (end func(), err error) {
	var pollers []*health.Poller
	for _, text := range opts.Sdiag {
		cluster, command, _ := strings.Cut(text, "=")
		words := strings.Fields(command)
		pollers = append(pollers, &health.Poller{
			Cluster: cluster, Command: words, Every: opts.SdiagEvery,
			Add: func(_ context.Context, h store.Health) error {
				s.figures.scheduler.set(&h)
				return s.intake.Store().AddHealth(h)
			},
			Report:  func(err error) { say("rmreplay: %v", err) },
			SetSize: func(_ context.Context, c store.Cluster) error { return s.intake.Store().SetCluster(c) },
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, p := range pollers {
		all.Go(func() { p.Run(ctx) })
	}
	return func() { cancel(); all.Wait() }, nil
}
