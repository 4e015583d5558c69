package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/accounting/health"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/cli/accountingcmd"
)

// shortestSdiag is how often slurmctld is asked at most.
const shortestSdiag = 5 * time.Second

// health starts to ask slurmctlds. The function that it returns ends that.
func (s *site) health(ctx context.Context, opts accountingcmd.Serve, say func(format string, args ...any)) (end func(), err error) {
	if len(opts.Sdiag) > 0 && opts.SdiagEvery < shortestSdiag {
		return nil, fmt.Errorf("--sdiag-every %v: that would keep slurmctld busy (want at least %v)", opts.SdiagEvery, shortestSdiag)
	}
	var pollers []*health.Poller
	for _, text := range opts.Sdiag {
		cluster, command, ok := strings.Cut(text, "=")
		words := strings.Fields(command)
		if !ok || cluster == "" || len(words) == 0 {
			return nil, fmt.Errorf("--sdiag %q: want CLUSTER=COMMAND, such as vale=/usr/bin/sdiag", text)
		}
		pollers = append(pollers, &health.Poller{
			Cluster: cluster, Command: words, Every: opts.SdiagEvery,
			Add: func(ctx context.Context, h store.Health) error { return s.intake.Store().AddHealth(ctx, h) }, Report: func(err error) { say("rmreplay: %v", err) },
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, p := range pollers {
		all.Go(func() { p.Run(ctx) })
	}
	return func() { cancel(); all.Wait() }, nil
}
