// Package health observes a cluster's scheduler. It gets slurmctld's statistics with stock sdiag,
// and computes figures for the time between two answers.
//
// slurmctld counts from its start, from the last midnight (UTC) or from sdiag --reset, whichever
// is latest (controller.c, reset_stats in statistics.c). A mean since midnight hides the last
// minute, so [Between] subtracts the counters of two answers.
package health

import (
	"cmp"
	"slices"
	"time"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/rm"
)

// Between returns the figures for the time between two answers. Without an earlier answer (before
// is nil), the result has only the figures of one instant, without counters. If the counters were
// reset in between, the interval begins at the reset, because the counters' last values before the
// reset are unknown.
func Between(cluster string, before, now *rm.Statistics) store.Health {
	h := store.Health{
		Cluster: cluster, At: now.At.Std().UTC(), Threads: now.ServerThreads, AgentQueue: now.AgentQueue,
		Agents: now.Agents, DBDQueue: now.DBDQueue, Pending: now.JobsPending, Running: now.JobsRunning,
		Table:    now.BackfillTable,
		Main:     store.Cycles{Last: now.MainLast, Queue: now.MainQueue},
		Backfill: store.Cycles{Last: now.BackfillLast, Queue: now.BackfillQueue},
	}
	if before == nil || now.At <= before.At {
		return h
	}
	base, from := *before, before.At
	// After its start, slurmctld counts for up to a second before it sets Since.
	anew := now.Since != before.Since && before.Since != 0
	if anew || now.MainCycles < before.MainCycles || now.BackfillCycles < before.BackfillCycles {
		base = rm.Statistics{}
		from = max(from, now.Since)
	}
	h.Interval = now.At.Sub(from)
	h.Submitted, h.Started = grown(base.JobsSubmitted, now.JobsSubmitted), grown(base.JobsStarted, now.JobsStarted)
	h.Completed, h.Cancelled = grown(base.JobsCompleted, now.JobsCompleted), grown(base.JobsCancelled, now.JobsCancelled)
	h.Failed, h.Backfilled = grown(base.JobsFailed, now.JobsFailed), grown(base.JobsBackfilled, now.JobsBackfilled)
	h.Main.Count, h.Main.Depth = grown(base.MainCycles, now.MainCycles), grown(base.MainDepth, now.MainDepth)
	h.Main.Sum = grown(base.MainSum, now.MainSum)
	h.Main.Longest = longest(&h.Main, base.MainMax, now.MainMax)
	h.Backfill.Count = grown(base.BackfillCycles, now.BackfillCycles)
	h.Backfill.Depth, h.Backfill.Tried = grown(base.BackfillDepth, now.BackfillDepth),
		grown(base.BackfillTried, now.BackfillTried)
	h.Backfill.Sum = grown(base.BackfillSum, now.BackfillSum)
	h.Backfill.Longest = longest(&h.Backfill, base.BackfillMax, now.BackfillMax)
	requested := before.Requests
	if anew && requestsReset(before.Requests, now.Requests) {
		requested = nil
	}
	h.Counts = slices.Concat(exits(store.MainExit, base.MainExits, now.MainExits),
		exits(store.BackfillExit, base.BackfillExits, now.BackfillExits), requests(requested, now.Requests))
	h.Counts = slices.DeleteFunc(h.Counts, func(c store.HealthCount) bool { return c.Count == 0 })
	slices.SortFunc(h.Counts, func(a, b store.HealthCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return h
}

// grown returns the growth of a counter. If the counter became smaller, it was reset, and grown
// returns its current value.
func grown[N int64 | time.Duration](before, now N) N {
	if now < before {
		return now
	}
	return now - before
}

// longest returns the longest known cycle of an interval. slurmctld reports the longest cycle since the counters were
// reset. before and now are the reported times at the beginning and at the end of the interval. If now is not longer
// than before, only the length of the interval's last cycle is known.
func longest(c *store.Cycles, before, now time.Duration) (d time.Duration) {
	if c.Count > 0 {
		d = c.Last
	}
	if now > before {
		d = max(d, now)
	}
	return d
}

func exits(kind string, before, now []rm.Exits) (list []store.HealthCount) {
	earlier := make(map[string]int64, len(before))
	for _, e := range before {
		earlier[e.Name] = e.Count
	}
	for _, e := range now {
		list = append(list, store.HealthCount{Kind: kind, Name: e.Name, Count: grown(earlier[e.Name], e.Count)})
	}
	return list
}

// requestsReset reports whether the counters of requests were reset between two answers. A start of
// slurmctld and sdiag --reset reset the counters of all types; midnight does not. After a reset,
// the counter of at least one type is smaller.
func requestsReset(before, now []rm.Requests) bool {
	later := make(map[string]int64, len(now))
	for _, r := range now {
		later[r.Type] = r.Count
	}
	return slices.ContainsFunc(before, func(r rm.Requests) bool { return later[r.Type] < r.Count })
}

func requests(before, now []rm.Requests) (list []store.HealthCount) {
	earlier := make(map[string]rm.Requests, len(before))
	for _, r := range before {
		earlier[r.Type] = r
	}
	for _, r := range now {
		e := earlier[r.Type]
		list = append(list, store.HealthCount{Kind: store.Requests, Name: r.Type, Count: grown(e.Count, r.Count),
			Micros: grown(e.Time, r.Time).Microseconds()})
	}
	return list
}
