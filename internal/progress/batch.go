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
	Elapsed, Left time.Duration
	Known         bool // whether Left is known
}

// Left predicts how much real time the batch will still take. A run whose time is not known counts
// with the mean time of the other runs. Left returns false as long as the time of no run is known.
func (b *Batch) Left() (left time.Duration, known bool) {
	var sum time.Duration
	n := 0
	for _, d := range b.Ended {
		sum, n = sum+d, n+1
	}
	for _, r := range b.Running {
		if r.Known {
			sum, n = sum+r.Elapsed+r.Left, n+1
		}
	}
	if n == 0 {
		return 0, false
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
	return max(longest, all/time.Duration(max(1, min(b.Parallel, b.Waiting+len(b.Running))))), true
}
