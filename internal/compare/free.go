package compare

import (
	"cmp"
	"maps"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// maxWaits is the largest number of waits that [freeNodes] examines. If there are more waits, it examines only every
// second wait, every third wait and so on.
const maxWaits = 2000

// freeNodes returns the share of the recorded waiting time in which, according to the record, at least as many nodes
// of the partition were free as the waiting job later got. It is 0 if the replay's record does not have the
// partitions' nodes. Running jobs of all partitions count as if jobs shared no nodes, so the number of free nodes may
// be too low, but not too high. Waits of up to a minute do not count.
func freeNodes(recorded, replayed *table) float64 {
	size := map[string]int{}
	for _, p := range replayed.Manifest.Cluster.Partitions {
		size[p.Name] = p.Nodes
	}
	type waiting struct {
		waits.Period
		most int // the largest number of nodes that may be busy at the same time
	}
	change := map[hpc.Time]int{}
	var list []waiting
	for _, key := range recorded.keys {
		row := recorded.byKey[key]
		for _, r := range row.Runs() {
			nodes := nodesOf(row, r.NodeCount)
			change[r.Start] += nodes
			if r.End != 0 {
				change[r.End] -= nodes
			}
		}
		again := replayed.byKey[key]
		if wait, ok := waits.Wait(row); !ok || wait <= sameStart || again == nil || size[again.Partition] == 0 {
			continue
		}
		for _, p := range waits.AppendQueued(nil, row) {
			list = append(list, waiting{p, size[again.Partition] - nodesOf(row, row.NodeCount)})
		}
	}
	times := slices.Sorted(maps.Keys(change))
	busy := make([]int, len(times)) // busy nodes from each instant on
	for i, t := range times {
		busy[i] = change[t]
		if i > 0 {
			busy[i] += busy[i-1]
		}
	}
	var all, free float64
	for i := 0; i < len(list); i += 1 + len(list)/maxWaits {
		w := &list[i]
		all += w.To.Sub(w.From).Seconds()
		at, exact := slices.BinarySearch(times, w.From)
		if !exact {
			at--
		}
		for from := w.From; from < w.To; at++ {
			until := w.To
			if at+1 < len(times) {
				until = min(until, times[at+1])
			}
			if at < 0 || busy[at] <= w.most {
				free += until.Sub(from).Seconds()
			}
			from = until
		}
	}
	if all == 0 {
		return 0
	}
	return free / all
}

// nodesOf returns how many nodes a recorded job had or, if this is not known, how many it requested.
// The result is at least 1.
func nodesOf(row *run.Row, had int) int { return max(cmp.Or(had, row.AskedMinNodes), 1) }
