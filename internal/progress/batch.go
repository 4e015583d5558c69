package progress

import "time"

// Batch is the state of several runs, of which some may be running at the same time.
type Batch struct {
	Parallel int // the largest number at once
	Waiting  int // runs that have not begun
	Ended    []time.Duration
	Running  []Running
}

// Running is one run that has begun.
type Running struct {
	Elapsed time.Duration
	Estimate
}

// Left predicts how much real time the batch will still take. A run whose time is not known counts
// with the mean time of the other runs. If such a run has already taken longer, or if the estimate
// of a running run is a lower bound, the result is a lower bound. If no run's time is known, the
// result is not known.
func (b *Batch) Left() (e Estimate) {
	var sum time.Duration
	n := 0
	for _, d := range b.Ended {
		sum, n = sum+d, n+1
	}
	for _, r := range b.Running {
		if r.Known {
			sum, n = sum+r.Elapsed+r.Left, n+1
			e.AtLeast = e.AtLeast || r.AtLeast
		}
	}
	if n == 0 {
		return Estimate{}
	}
	for _, r := range b.Running {
		if mean := sum / time.Duration(n); !r.Known && r.Elapsed > mean { // the run shows that runs may take this long
			sum, n, e.AtLeast = sum+r.Elapsed, n+1, true
		}
	}
	mean := sum / time.Duration(n)
	longest, all := time.Duration(0), time.Duration(b.Waiting)*mean
	for _, r := range b.Running {
		one := r.Left
		if !r.Known {
			one = max(0, mean-r.Elapsed)
		}
		longest, all = max(longest, one), all+one
	}
	e.Left, e.Known = max(longest, all/time.Duration(max(1, min(b.Parallel, b.Waiting+len(b.Running))))), true
	return e
}
