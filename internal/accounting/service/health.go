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

// HealthOf returns the figures of a run's scheduler from the run's record, for a cluster with a name.
// Counters begin at slurmctld's start, so the counters of the first interval are known. Requests that
// rmreplay itself sent are marked: a production cluster gets requests of users and tools instead.
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

// asksOnly reports whether requests of a type only ask slurmctld for something. The users and the nodes of a
// replay send no such requests, so these come from rmreplay, which watches the jobs and the scheduler.
func asksOnly(request string) bool {
	return request == "REQUEST_PING" || strings.HasPrefix(request, "REQUEST_") && strings.Contains(request, "_INFO")
}

// batchIntervals is how many intervals are sent at once. Meanwhile the database writes nothing else.
const batchIntervals = 500

// addHealth sends the figures of a run's scheduler to the server, if its record has any.
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

// takeHealth keeps figures of schedulers.
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

// shortestSdiag is the shortest time between two questions to slurmctld.
const shortestSdiag = 5 * time.Second

// checkSdiag returns an error for flags about sdiag that make no sense.
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

// health starts to ask slurmctlds for their figures. The returned function stops it.
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
