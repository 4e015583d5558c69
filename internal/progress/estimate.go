// Package progress says how far a replay is and how long it will still take, and writes this on one line.
//
// Real time is spent on virtual time (slurmctld's periodic work), on jobs (submissions, starts and
// ends) and, most of all, on scheduling a full machine. Each of these alone is a bad measure of
// the remaining time: a night takes little real time, the hours after the last submission take
// almost none, and a growing queue takes more and more. So [Share] mixes virtual time and jobs,
// and [Left] mixes the speed of the whole run with its recent speed. The weights have the smallest
// errors for the recorded runs in testdata/runs.jsonl.
package progress

import (
	"math"
	"time"

	"rmreplay/internal/replay"
)

// Snapshot is the progress of a run after some real time.
type Snapshot struct {
	Elapsed time.Duration
	replay.Progress
}

const (
	// jobsWeight is the weight of jobs in the share that is done. The rest is the weight of virtual
	// time.
	jobsWeight = 0.25
	// tailCost is the real time for a second of virtual time after the last submission, on a
	// machine without a queue, relative to the real time for a second before that submission.
	tailCost = 0.15
	// recentPart is the part of a run, up to now, in which the recent speed is measured, and
	// recentWeight is the weight of this speed.
	recentPart, recentWeight = 0.4, 0.4
	// most is the largest factor by which the recent speed may differ from the speed of the whole run.
	most = 3
	// latestPart is the last part of a run. The speed of this part shows whether the run has become far slower.
	latestPart = 0.1
	// Up to the share early of a run, the speed so far says little about the rest of the run.
	early = 1. / 3
	// A queue counts as growing if it has more than growth times the jobs that it had at the beginning of the recent part,
	// plus fewPending jobs.
	growth, fewPending = 1.25, 20
	// fullMachine is the utilization of a machine with a queue.
	fullMachine = 0.92
)

// Share returns the share of a run that is done, from 0 to 1, as far as that is known.
func Share(p *replay.Progress) float64 {
	if p.Tasks == 0 {
		return 0
	}
	if p.Ended+p.Refused >= p.Tasks {
		return 1
	}
	started := p.Submitted - p.Pending
	jobs := float64(p.Submitted+started+p.Ended+p.Refused) / float64(3*p.Tasks)
	return min(1, max(0, (1-jobsWeight)*shareOfTime(p)+jobsWeight*jobs))
}

// shareOfTime returns the share of virtual time that is over, weighted by the real time that it
// takes.
func shareOfTime(p *replay.Progress) float64 {
	now, lastInput := p.Now.Sub(p.Begin).Seconds(), p.LastInput.Sub(p.Begin).Seconds()
	busyUntil := max(lastInput, now+drain(p))
	end := max(busyUntil, p.LastEnd.Sub(p.Begin).Seconds())
	if end <= 0 {
		return 0
	}
	cost := func(until float64) float64 { return min(until, busyUntil) + tailCost*max(0, until-busyUntil) }
	return cost(now) / cost(end)
}

// drain returns how many seconds of virtual time a full machine needs for the work that is
// left. Jobs may get more processors than they request, such as whole nodes.
func drain(p *replay.Progress) float64 {
	if p.Processors == 0 {
		return 0
	}
	work := p.Work
	if p.Requested > 0 {
		work *= float64(p.Allocated) / float64(p.Requested)
	}
	return max(0, work-p.WorkDone) / (fullMachine * float64(p.Processors))
}

// Estimate is how much real time a run will still take. The zero value says that this is not known.
type Estimate struct {
	Left  time.Duration
	Known bool
	// AtLeast says that Left is a lower bound, because the run has just become slower or may become slower.
	AtLeast bool
}

// Left predicts how much real time a run will still take, from snapshots of it in their order. The estimate is a lower
// bound in the first third of a run, while the queue grows, and if the last part of the run was far slower than the
// whole.
func Left(history []Snapshot) (e Estimate) {
	if len(history) < 2 {
		return e
	}
	now := &history[len(history)-1]
	share, elapsed := Share(&now.Progress), now.Elapsed.Seconds()
	if share < 0.02 || elapsed <= 0 {
		return e
	}
	overall := elapsed * (1 - share) / share
	recent, since := atSpeed(history, recentPart)
	latest, _ := atSpeed(history, latestPart)
	e = Estimate{Known: true, AtLeast: share < early || latest > most*overall ||
		float64(now.Pending) > growth*float64(since.Pending)+fewPending}
	recent = min(max(recent, overall/most), overall*most)
	seconds := math.Pow(overall, 1-recentWeight) * math.Pow(recent, recentWeight)
	e.Left = time.Duration(seconds * float64(time.Second))
	return e
}

// atSpeed returns how many seconds a run will still take at the speed of its last part. It also
// returns the snapshot at which that part begins. The time is infinite if that part made no progress.
func atSpeed(history []Snapshot, part float64) (seconds float64, since *Snapshot) {
	now := &history[len(history)-1]
	share := Share(&now.Progress)
	for i := range history {
		if since = &history[i]; since.Elapsed.Seconds() >= (1-part)*now.Elapsed.Seconds() {
			break
		}
	}
	gain := share - Share(&since.Progress)
	if since == now || gain <= 0 {
		return math.Inf(1), since
	}
	return (1 - share) / gain * (now.Elapsed - since.Elapsed).Seconds(), since
}

// History has snapshots of a run for [Left]: the latest snapshot, and a few that are evenly spread.
// Its zero value is empty.
type History struct {
	list   []Snapshot
	spaced time.Duration // smallest time between two snapshots, without the latest
}

// historyLength is the largest number of snapshots of a history.
const historyLength = 200

// Add adds the latest snapshot.
func (h *History) Add(s Snapshot) {
	if n := len(h.list); n >= 2 && s.Elapsed-h.list[n-2].Elapsed < h.spaced {
		h.list[n-1] = s
		return
	}
	if len(h.list) == historyLength {
		for i := range historyLength / 2 {
			h.list[i] = h.list[2*i]
		}
		h.list = h.list[:historyLength/2]
		h.spaced = max(2*h.spaced, h.list[1].Elapsed-h.list[0].Elapsed)
	}
	h.list = append(h.list, s)
}

// Left predicts how much real time the run will still take; see [Left].
func (h *History) Left() Estimate { return Left(h.list) }
