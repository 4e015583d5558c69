package explain

import (
	"cmp"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// queue has the number of jobs that waited for the nodes of a partition, over time.
type queue struct {
	changes []change
	nodes   map[string]bool // the nodes on which the queue's jobs ran
}

// change is a change of the number of waiting jobs. The field jobs is the number of waiting jobs
// after the change, and the field before is the sum of all waits before the change, in seconds.
type change struct {
	at     hpc.Time
	jobs   int
	before float64
}

// until returns the sum of the waits until an instant, in seconds.
func (q *queue) until(t hpc.Time) float64 {
	i, found := slices.BinarySearchFunc(q.changes, t, func(c change, t hpc.Time) int { return cmp.Compare(c.at, t) })
	if found {
		return q.changes[i].before
	}
	if i == 0 {
		return 0
	}
	c := q.changes[i-1]
	return c.before + t.Sub(c.at).Seconds()*float64(c.jobs)
}

// queues returns the waits for nodes, by partition, and their sum in seconds. A job that may run in
// several partitions waits in each of them.
func (rec *Record) queues(rows []*run.Row) (queues map[string]*queue, total float64) {
	queues = map[string]*queue{}
	for _, row := range rows {
		for _, s := range waits.Decompose(row, rec.end) {
			if kindOf(s.Part, s.Reason) != "" {
				continue
			}
			total += s.To.Sub(s.From).Seconds()
			for name := range strings.SplitSeq(row.Partition, ",") {
				if queues[name] == nil {
					queues[name] = &queue{nodes: map[string]bool{}}
				}
				queues[name].changes = append(queues[name].changes, change{at: s.From, jobs: 1}, change{at: s.To, jobs: -1})
			}
		}
	}
	for _, q := range queues {
		slices.SortFunc(q.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		merged := q.changes[:0]
		for _, c := range q.changes {
			last := len(merged) - 1
			switch {
			case last < 0:
				merged = append(merged, c)
			case merged[last].at == c.at:
				merged[last].jobs += c.jobs
			default:
				c.before = merged[last].before + c.at.Sub(merged[last].at).Seconds()*float64(merged[last].jobs)
				c.jobs += merged[last].jobs
				merged = append(merged, c)
			}
		}
		q.changes = merged
	}
	return queues, total
}

// rivals sets the users or groups that held the processors for which the jobs of a group waited. It
// counts jobs in the partition of a waiting job, and jobs of other partitions on the same nodes.
func (g *Group) rivals(rec *Record, waited, members []*run.Row, by metrics.By) {
	g.Rivals, g.OwnShare = []Rival{}, metrics.NoValue()
	queues, total := rec.queues(waited)
	for i := range rec.rows {
		row := &rec.rows[i]
		if q := queues[row.Partition]; q != nil {
			for _, name := range nodesIn(row.Nodes) {
				q.nodes[name] = true
			}
		}
	}
	own := make(map[*run.Row]bool, len(members))
	for _, row := range members {
		own[row] = true
	}
	held, all, ownHeld := map[string]float64{}, 0.0, 0.0
	for i := range rec.rows {
		row := &rec.rows[i]
		weight := 0.0
		for name, q := range queues {
			part := q.share(row, name)
			for _, s := range row.Held() {
				if part > 0 {
					weight += part * float64(s.Processors) * (q.until(cmp.Or(s.End, rec.end)) - q.until(s.Start))
				}
			}
		}
		if weight == 0 {
			continue
		}
		all += weight
		if own[row] {
			ownHeld += weight
		}
		held[metrics.GroupName(row, by)] += weight
	}
	if all == 0 || total == 0 {
		return
	}
	g.OwnShare = metrics.Float(ownHeld / all)
	for name, weight := range held {
		g.Rivals = append(g.Rivals, Rival{name, metrics.Float(weight / total), metrics.Float(weight / all)})
	}
	slices.SortFunc(g.Rivals, func(a, b Rival) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	g.Rivals = g.Rivals[:min(listedRivals, len(g.Rivals))]
}

// share returns the part of a job's nodes that belong to a partition.
func (q *queue) share(row *run.Row, partition string) float64 {
	if row.Partition == partition {
		return 1
	}
	nodes := nodesIn(row.Nodes)
	n := 0
	for _, name := range nodes {
		if q.nodes[name] {
			n++
		}
	}
	return float64(n) / float64(max(1, len(nodes)))
}
