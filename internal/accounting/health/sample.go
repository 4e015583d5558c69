// Package health follows the health of a cluster's scheduler: it asks slurmctld for its statistics
// through the stock sdiag, and makes figures of the time between two answers.
//
// slurmctld counts since its start, since the last midnight (UTC) or since sdiag --reset, whichever
// was last (controller.c, reset_stats in statistics.c). A mean since midnight hides what happened in
// the last minute. So [Between] subtracts the counters of two answers.
package health

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/accounting/store"
)

// Sample is what sdiag says at an instant. Counters are those since Since; times of cycles are in
// microseconds.
type Sample struct {
	Time  time.Time `json:"time"`
	Since time.Time `json:"since"`

	// Requests in service, waiting messages to nodes, threads that send them, and waiting messages
	// to slurmdbd.
	ServerThreads int64 `json:"server_threads"`
	AgentQueue    int64 `json:"agent_queue"`
	Agents        int64 `json:"agents"`
	DBDQueue      int64 `json:"dbd_queue"`

	JobsPending int64 `json:"jobs_pending"`
	JobsRunning int64 `json:"jobs_running"`

	Submitted int64 `json:"jobs_submitted"`
	Started   int64 `json:"jobs_started"`
	Completed int64 `json:"jobs_completed"`
	Cancelled int64 `json:"jobs_cancelled"`
	Failed    int64 `json:"jobs_failed"`

	Main     Cycles `json:"main"`
	Backfill Cycles `json:"backfill"`
	// Backfilled counts the jobs that the backfill scheduler started. Table is the size of its table of
	// future states of the machine after the last cycle.
	Backfilled int64 `json:"jobs_backfilled"`
	Table      int64 `json:"backfill_table"`

	// RPCs are the requests that slurmctld has handled since its start, by type, in the order of
	// their names.
	RPCs []RPC `json:"rpcs"`
}

// Cycles are the counters of one of the schedulers.
type Cycles struct {
	Count int64 `json:"cycles"`
	Sum   int64 `json:"sum_us"`
	Last  int64 `json:"last_us"`
	Max   int64 `json:"max_us"`
	// Depth is the sum over cycles of the jobs that the scheduler looked at, and Tried of those that it
	// tried to place; the main scheduler does not count these.
	Depth int64 `json:"depth"`
	Tried int64 `json:"tried"`
	Queue int64 `json:"queue"` // length in the last cycle
	// Exits counts why cycles ended, by the names in the JSON of sdiag. Releases before 23.11 do
	// not count that.
	Exits map[string]int64 `json:"exits,omitempty"`
}

// RPC counts the requests of a type.
type RPC struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Total int64  `json:"total_us"`
}

// Between returns the figures of the time from one sample to a later one. A nil before makes those of an
// instant, without counters. Where the counters began anew in between, what was counted before that is
// not known, and the interval is that since then.
func Between(cluster string, before, now *Sample) store.Health {
	h := store.Health{
		Cluster: cluster, At: now.Time, Threads: now.ServerThreads, AgentQueue: now.AgentQueue, Agents: now.Agents,
		DBDQueue: now.DBDQueue,
		Pending:  now.JobsPending, Running: now.JobsRunning, Table: now.Table,
		Main: now.Main.instant(), Backfill: now.Backfill.instant(),
	}
	if before == nil || !now.Time.After(before.Time) {
		return h
	}
	base, from := *before, before.Time
	// slurmctld counts before it sets Since, within a second of its start.
	anew := !now.Since.Equal(before.Since) && before.Since.Unix() != 0
	if anew || now.Main.Count < before.Main.Count || now.Backfill.Count < before.Backfill.Count {
		base = Sample{}
		if now.Since.After(from) {
			from = now.Since
		}
	}
	h.Interval = now.Time.Sub(from)
	h.Submitted, h.Started, h.Completed = grown(base.Submitted, now.Submitted), grown(base.Started, now.Started),
		grown(base.Completed, now.Completed)
	h.Cancelled, h.Failed, h.Backfilled = grown(base.Cancelled, now.Cancelled), grown(base.Failed, now.Failed),
		grown(base.Backfilled, now.Backfilled)
	h.Main, h.Backfill = now.Main.since(&base.Main), now.Backfill.since(&base.Backfill)
	for kind, exits := range map[string][2]map[string]int64{store.MainExit: {base.Main.Exits, now.Main.Exits},
		store.BackfillExit: {base.Backfill.Exits, now.Backfill.Exits}} {
		for name, n := range exits[1] {
			h.Counts = append(h.Counts, store.HealthCount{Kind: kind, Name: name, Count: grown(exits[0][name], n)})
		}
	}
	// Midnight does not reset the counters of requests.
	earlier := make(map[string]RPC, len(before.RPCs))
	for _, r := range before.RPCs {
		earlier[r.Name] = r
	}
	for _, r := range now.RPCs {
		e := earlier[r.Name]
		if e.Count > r.Count {
			e = RPC{}
		}
		h.Counts = append(h.Counts, store.HealthCount{Kind: store.Requests, Name: r.Name, Count: r.Count - e.Count,
			Micros: grown(e.Total, r.Total)})
	}
	h.Counts = slices.DeleteFunc(h.Counts, func(c store.HealthCount) bool { return c.Count == 0 })
	slices.SortFunc(h.Counts, func(a, b store.HealthCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return h
}

// grown is by how much a counter has grown. A counter that is smaller than before began anew.
func grown(before, now int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// instant returns what is known of the last cycle.
func (c *Cycles) instant() store.Cycles {
	return store.Cycles{Last: time.Duration(c.Last) * time.Microsecond, Queue: c.Queue}
}

// since subtracts the counters of an earlier sample. The longest cycle of the interval is known if it
// was the longest since the counters began; otherwise the last one stands for it.
func (c *Cycles) since(before *Cycles) store.Cycles {
	s := c.instant()
	s.Count, s.Depth, s.Tried = grown(before.Count, c.Count), grown(before.Depth, c.Depth), grown(before.Tried, c.Tried)
	s.Sum = time.Duration(grown(before.Sum, c.Sum)) * time.Microsecond
	if s.Count > 0 {
		s.Longest = s.Last
	}
	if c.Max > before.Max {
		s.Longest = max(s.Longest, time.Duration(c.Max)*time.Microsecond)
	}
	return s
}

// sortRPCs brings the requests into the order of their names.
func sortRPCs(byName map[string]RPC) (list []RPC) {
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list
}
