package nodes

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// Delay is the distribution of a delay on the node side, never negative. The zero
// Delay is none at all.
type Delay struct {
	spec string
	draw func(*rand.Rand) float64 // seconds; nil for none
}

// ParseDelay reads a distribution:
//
//	2s                    always 2 s
//	uniform:1s,5s         between 1 s and 5 s
//	exp:2s                exponential with mean 2 s
//	lognormal:2s,0.5      median 2 s, standard deviation of the logarithm 0.5
//
// Durations are those of [hpc.ParseDuration], at most a year; nothing longer is ever drawn. An empty string is no delay.
func ParseDelay(spec string) (Delay, error) {
	if spec == "" {
		return Delay{}, nil
	}
	kind, args, _ := strings.Cut(spec, ":")
	if kind != "uniform" && kind != "exp" && kind != "lognormal" { // 2s, or 00:00:02
		kind, args = "constant", spec
	}
	var arg []float64
	for i, a := range strings.Split(args, ",") {
		if kind == "lognormal" && i == 1 {
			sigma, err := strconv.ParseFloat(a, 64)
			if err != nil || !(sigma >= 0) || math.IsInf(sigma, 0) { // NaN is not >= 0
				return Delay{}, delayError(spec)
			}
			arg = append(arg, sigma)
			continue
		}
		d, err := hpc.ParseDuration(a)
		if err != nil || d < 0 || d > longestDelay {
			return Delay{}, delayError(spec)
		}
		arg = append(arg, d.Seconds())
	}
	d := Delay{spec: spec}
	switch {
	case (kind == "constant" && len(arg) == 1 || kind == "lognormal" && len(arg) == 2) && arg[0] == 0:
		return Delay{}, nil
	case kind == "constant" && len(arg) == 1:
		d.draw = func(*rand.Rand) float64 { return arg[0] }
	case kind == "uniform" && len(arg) == 2 && arg[0] <= arg[1]:
		d.draw = func(r *rand.Rand) float64 { return arg[0] + r.Float64()*(arg[1]-arg[0]) }
	case kind == "exp" && len(arg) == 1:
		d.draw = func(r *rand.Rand) float64 { return r.ExpFloat64() * arg[0] }
	case kind == "lognormal" && len(arg) == 2:
		d.draw = func(r *rand.Rand) float64 { return arg[0] * math.Exp(arg[1]*r.NormFloat64()) }
	default:
		return Delay{}, delayError(spec)
	}
	return d, nil
}

// longestDelay keeps the tails of distributions within what virtual time can hold.
const longestDelay = 365 * 24 * time.Hour

func delayError(spec string) error {
	return fmt.Errorf("%q: not a delay (want 2s, uniform:1s,5s, exp:2s or lognormal:2s,0.5)", spec)
}

// String is the specification that the delay was read from.
func (d Delay) String() string {
	if d.draw == nil {
		return "0s"
	}
	return d.spec
}

// None reports whether the delay is always zero.
func (d Delay) None() bool { return d.draw == nil }

// Delays are the delays that real nodes have and whose lengths a replay cannot
// know: how long a prolog runs on each node before the script is started, how long
// the start of the script takes, and how long an epilog runs on each node.
type Delays struct {
	Prolog, Launch, Epilog Delay
	// HasEpilog says that nodes run an epilog, however short, and report its end. Without
	// one, and without a delay for it, they have nothing to report (_rpc_terminate_job in
	// slurmd/req.c), and slurmctld does not schedule at the end of a job at once but within
	// batch_sched_delay, 3 s by default (_slurm_rpc_epilog_complete in proc_req.c, against
	// queue_job_scheduler in agent.c).
	HasEpilog bool
	// Seed makes the draws: each is a function of it, the kind of the delay, the job's
	// number, its restarts and the node, so it does not depend on the order of events.
	Seed uint64
}

// epilogs reports whether nodes report the ends of epilogs.
func (d *Delays) epilogs() bool { return d.HasEpilog || !d.Epilog.None() }

// of draws one delay.
func (d *Delays) of(what Delay, kind string, job uint32, restarts int, node string) time.Duration {
	if what.draw == nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s", kind, job, restarts, node) // a hash takes everything
	s := what.draw(rand.New(rand.NewPCG(d.Seed, h.Sum64())))
	return time.Duration(min(s, longestDelay.Seconds()) * float64(time.Second))
}
