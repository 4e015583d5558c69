package progress

import "time"

// Batch is the state of several runs, some of which go on at once.
type Batch struct {
	Parallel int // the most at once
	Waiting  int // runs that have not begun
	Ended    []time.Duration
	Running  []Running
}

// Running is one run that has begun.
type Running struct {
	Elapsed time.Duration
	Estimate
}

// Left predicts how much real time the batch will still take. Runs about which nothing is known
// are taken to need the mean time of the others; if such a run goes on for longer, the estimate is a lower bound, and so
// it is if that of a running run is. Nothing is known as long as no run says anything.
func (b *Batch) Left() (e Estimate) {
	var sum time.Duration
	n := 0
	for _, d := range b.Ended {
		sum, n = sum+d, n+1
	}
	for _, r := range b.Running {
		if r.Known {
			sum, n = sum+r.Elapsed+r.Estimate.Left, n+1
			e.AtLeast = e.AtLeast || r.AtLeast
		}
	}
	if n == 0 {
		return Estimate{}
	}
	for _, r := range b.Running {
		if mean := sum / time.Duration(n); !r.Known && r.Elapsed > mean { // it shows that runs may need so much
			sum, n, e.AtLeast = sum+r.Elapsed, n+1, true
		}
	}
	mean := sum / time.Duration(n)
	longest, all := time.Duration(0), time.Duration(b.Waiting)*mean
	for _, r := range b.Running {
		one := r.Estimate.Left
		if !r.Known {
			one = max(0, mean-r.Elapsed)
		}
		longest, all = max(longest, one), all+one
	}
	e.Left, e.Known = max(longest, all/time.Duration(max(1, min(b.Parallel, b.Waiting+len(b.Running))))), true
	return e
}
