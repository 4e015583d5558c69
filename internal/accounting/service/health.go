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
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// HealthOf returns the figures of a run's scheduler from the run's record, as a cluster of the
// given name. The counters begin when slurmctld starts, so the counters of the first interval are
// known. Requests that rmreplay itself sent are marked, because on a production cluster users and
// tools send other requests.
func HealthOf(cluster string, list []rm.Statistics) (out []store.Health) {
	if len(list) == 0 {
		return nil
	}
	before := &rm.Statistics{At: list[0].Since, Since: list[0].Since}
	for i := range list {
		if h := health.Between(cluster, before, &list[i]); h.Interval > 0 {
			for k, c := range h.Counts {
				if c.Kind == store.Requests && asksOnly(c.Name) {
					h.Counts[k].Name += " (by rmreplay)"
				}
			}
			out = append(out, h)
			before = &list[i]
		}
	}
	return out
}

// asksOnly reports whether requests of a type only query slurmctld. The users and nodes of a replay
// do not send such requests. They come from rmreplay, which observes the jobs and the scheduler.
func asksOnly(request string) bool {
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
	for list := range slices.Chunk(HealthOf(name, statistics), batchIntervals) {
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
