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

// Delay is the distribution of a delay on a node. A delay is never negative. The zero Delay is
// always 0.
type Delay struct {
	spec   string
	sample func(*rand.Rand) float64 // seconds; nil for no delay
}

// ParseDelay reads a distribution from its specification:
//
//	2s                    always 2 s
//	uniform:1s,5s         between 1 s and 5 s
//	exp:2s                exponential with mean 2 s
//	lognormal:2s,0.5      median 2 s, standard deviation of the logarithm 0.5
//
// Durations have the form of [hpc.ParseDuration]. They are at most a year; longer random delays
// become a year. An empty specification means no delay. The error shows what a specification looks
// like.
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
		d.sample = func(*rand.Rand) float64 { return arg[0] }
	case kind == "uniform" && len(arg) == 2 && arg[0] <= arg[1]:
		d.sample = func(r *rand.Rand) float64 { return arg[0] + r.Float64()*(arg[1]-arg[0]) }
	case kind == "exp" && len(arg) == 1:
		d.sample = func(r *rand.Rand) float64 { return r.ExpFloat64() * arg[0] }
	case kind == "lognormal" && len(arg) == 2:
		d.sample = func(r *rand.Rand) float64 { return arg[0] * math.Exp(arg[1]*r.NormFloat64()) }
	default:
		return Delay{}, delayError(spec)
	}
	return d, nil
}

// longestDelay limits the tails of distributions, so that instants fit into virtual time.
const longestDelay = 365 * 24 * time.Hour

func delayError(spec string) error {
	return fmt.Errorf("%q: not a delay (want 2s, uniform:1s,5s, exp:2s or lognormal:2s,0.5)", spec)
}

// String returns the specification that the delay was read from; "0s" for no delay.
func (d Delay) String() string {
	if d.sample == nil {
		return "0s"
	}
	return d.spec
}

// IsZero reports whether the delay is the zero Delay.
func (d Delay) IsZero() bool { return d.sample == nil }

// Delays are delays of real nodes. A workload's records do not show these delays.
type Delays struct {
	// Prolog is how long a prolog runs on each node before the script is launched. Launch is how long
	// the launch of the script takes. Epilog is how long an epilog runs on each node.
	Prolog, Launch, Epilog Delay
	// HasEpilog is set if nodes run an epilog, however short, and report its end. Nodes without an epilog, and without a
	// delay for it, report nothing (_rpc_terminate_job in slurmd/req.c). If no node reports an epilog, slurmctld does not
	// start its scheduler at once when a job ends. slurmctld starts its scheduler within batch_sched_delay, 3 s by default
	// (_slurm_rpc_epilog_complete in proc_req.c compared with queue_job_scheduler in agent.c).
	HasEpilog bool
	// Seed is the seed of the random delays. A delay depends on the seed, the kind of delay, the job's number, its
	// restarts and the node. A delay does not depend on the order of events.
	Seed uint64
}

// epilogs reports whether nodes report the ends of epilogs to slurmctld.
func (d *Delays) epilogs() bool { return d.HasEpilog || !d.Epilog.IsZero() }

// of returns one random delay.
func (d *Delays) of(what Delay, kind string, job uint32, restarts int, node string) time.Duration {
	if what.sample == nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s", kind, job, restarts, node) // writing to a hash cannot fail
	s := what.sample(rand.New(rand.NewPCG(d.Seed, h.Sum64())))
	return time.Duration(min(s, longestDelay.Seconds()) * float64(time.Second))
}
