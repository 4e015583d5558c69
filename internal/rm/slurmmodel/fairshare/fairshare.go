// Package fairshare computes usage and fair-share factors like slurmctld's plugin
// priority/multifactor (priority_multifactor.c, fair_tree.c): the usage of running jobs, its decay,
// and the factors of Fair Tree or classic fair-share. It works on the associations of package
// accounts.
package fairshare

import (
	"fmt"
	"iter"
	"math/big"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Settings are the keys of slurm.conf that decide usage and fair-share factors.
type Settings struct {
	// HalfLife is PriorityDecayHalfLife and Period is PriorityCalcPeriod, in seconds. If HalfLife
	// is 0, usage does not decay.
	HalfLife, Period int64
	// Reset is PriorityUsageResetPeriod in lower case; empty if not set.
	Reset string
	// FairTree says that Fair Tree computes the factors. Otherwise classic fair-share computes
	// them. DepthOblivious is a variant of classic fair-share.
	FairTree, DepthOblivious bool
	// Dampening is FairShareDampeningFactor.
	Dampening float64
	// CalculateRunning is PriorityFlags=CALCULATE_RUNNING.
	CalculateRunning bool
	// Limits says that slurmctld enforces limits. Otherwise slurmctld keeps no usage by TRES, and
	// loses a job's usage between the last run of the decay thread and the job's end.
	Limits bool
	// Release is the release of slurmctld.
	Release slurmspec.Release
}

// ReadSettings reads the settings. The function get returns the value of a key of slurm.conf.
func ReadSettings(get func(key string) (string, bool), release slurmspec.Release) (Settings, error) {
	flags, _ := get("PriorityFlags")
	flags = strings.ToUpper(flags)
	s := Settings{
		FairTree:       !strings.Contains(flags, "DEPTH_OBLIVIOUS") && !strings.Contains(flags, "NO_FAIR_TREE"),
		DepthOblivious: strings.Contains(flags, "DEPTH_OBLIVIOUS"),

		CalculateRunning: strings.Contains(flags, "CALCULATE_RUNNING"),
		Dampening:        1, HalfLife: 7 * 86400, Period: 300, Limits: accounts.ReadEnforcement(get).Limits, Release: release,
	}
	for key, to := range map[string]*int64{"PriorityDecayHalfLife": &s.HalfLife, "PriorityCalcPeriod": &s.Period} {
		if text, set := get(key); set {
			d, err := slurmspec.ParseTimeSpec(text)
			if err != nil {
				return s, fmt.Errorf("reading slurm.conf: %s=%s: %w", key, text, err)
			}
			if *to = int64((d + time.Minute - 1) / time.Minute * 60); d == hpc.Unlimited {
				*to = 0
			}
		}
	}
	if s.Period < 60 {
		return s, fmt.Errorf("reading slurm.conf: PriorityCalcPeriod is %d s (want a minute or more)", s.Period)
	}
	if text, set := get("FairShareDampeningFactor"); set {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return s, fmt.Errorf("reading slurm.conf: FairShareDampeningFactor=%s: not a factor (want 1 to 65535)", text)
		}
		s.Dampening = float64(n)
	}
	if text, _ := get("PriorityUsageResetPeriod"); !strings.EqualFold(text, "none") {
		s.Reset = strings.ToLower(text)
	}
	return s, nil
}

// Running has the properties of a running job from which the job's usage is computed. Its fields do
// not change from the job's start to its end.
type Running struct {
	Association *accounts.Association
	// QOS is the job's QOS, and PartitionQOS is the QOS of its partition. Either may be nil.
	QOS, PartitionQOS *accounts.QOS
	// User is the job's user in lower case.
	User string
	// Start is when the job started, and LimitEnd when its time limit ends, in seconds since 1970.
	Start, LimitEnd int64
	// Billing is the job's billing, see [tres.Table.Bill]. TRES are the allocated resources.
	Billing float64
	TRES    tres.Vector

	ended bool
}

// Job is a job of slurmctld's list, as [FairShare.Run] reads it.
type Job interface {
	// Association returns the job's association.
	Association() *accounts.Association
	// Running returns what the job uses, or nil if it does not run. A completing job does not run.
	Running() *Running
	// Prioritize computes the job's priority if the job is pending. now is in seconds since 1970.
	// Run calls it for all jobs, pending or not.
	Prioritize(now int64)
}

// FairShare computes usage and fair-share factors of a cluster's associations.
type FairShare struct {
	settings Settings
	accounts *accounts.Accounts
	decay    float64           // factor by which usage decays in a second
	last     int64             // when Run last ran, in seconds since 1970; 0 before the first run
	powers   map[int64]float64 // powers of decay, by exponent
	squares  []*big.Float      // powers of decay with the exponents 1, 2, 4 and so on
	resets   resets
	unranked bool // the last run has not computed Fair Tree's factors; the method settle computes them
}

// New returns the computation for a slurmctld that starts with no usage in its state files. The
// parameter start is the instant at which slurmctld starts. The parameter lastReset is the instant
// of the last reset of usage, from the state file priority_last_decay_ran, or 0 without this file.
// Both are in seconds since 1970.
func New(a *accounts.Accounts, s Settings, start, lastReset int64) *FairShare {
	f := &FairShare{settings: s, accounts: a, decay: 1, powers: map[int64]float64{}}
	f.resets = resets{period: s.Reset, last: lastReset}
	if lastReset == 0 {
		f.resets.last = start
	}
	if s.HalfLife > 0 {
		f.decay = 1 - 0.693/float64(s.HalfLife)
	}
	if !s.FairTree {
		a.Root.FairShare.Effective = 1
		for _, one := range a.List {
			one.FairShare.Norm = float64(slurmspec.NoVal) // slurmctld's initial value, which DEPTH_OBLIVIOUS sums
		}
	}
	return f
}

// Last returns when Run last ran, in seconds since 1970; 0 before the first run.
func (f *FairShare) Last() int64 { return f.last }

// Run does the work of the decay thread (_decay_thread) at the second now. The parameter jobs has
// all jobs in slurmctld's list, in its order. Run may iterate over them twice.
func (f *FairShare) Run(now int64, jobs iter.Seq[Job]) {
	if f.resets.due(now) {
		f.reset()
	}
	if !f.settings.FairTree {
		f.startClassic()
	}
	if delta := now - f.last; f.last != 0 && delta > 0 {
		f.applyDecay(max(f.power(delta), 0x1p-1022))
		if !f.settings.FairTree {
			for job := range jobs {
				f.visit(job, now)
				job.Prioritize(now)
			}
		}
	}
	if f.settings.FairTree {
		for job := range jobs {
			f.visit(job, now)
		}
		f.unranked = true
		for job := range jobs {
			job.Prioritize(now)
		}
	} else if f.settings.Release.Since(slurmspec.R2605) {
		f.storeFactors(jobs)
	}
	f.last = now
}

func (f *FairShare) visit(job Job, now int64) {
	if r := job.Running(); r != nil {
		f.charge(r, now, false)
	}
}

// End charges a job's usage from the last run to the job's end (priority_p_job_end), if slurmctld
// enforces limits. The parameters now and end are in seconds since 1970.
func (f *FairShare) End(r *Running, now, end int64) {
	if f.settings.Limits {
		f.settle()
		f.charge(r, min(now, end), true)
	}
}

// Factor returns the fair-share factor of an association's jobs (_get_fairshare_priority).
func (f *FairShare) Factor(a *accounts.Association) float64 {
	if f.settings.FairTree {
		f.settle()
		return a.FairShare.Factor
	}
	return f.classicFactor(a)
}

// settle computes the factors of the last run, if they are not computed yet. It must be called before a factor is
// read and before usage changes. Often no factor is read: while the preset jobs of a window start, no job is pending.
func (f *FairShare) settle() {
	if f.unranked {
		f.unranked = false
		f.rank()
	}
}

// BelowThreshold reports whether a job must wait because its fair-share factor is below
// UsageThreshold of a QOS with the flag EnforceUsageThreshold (job_limits_check in job_mgr.c).
// The parameter points is the fair-share component of the job's priority. slurmctld compares
// points with the threshold, and compares the factor only if points is 0.
func (f *FairShare) BelowThreshold(a *accounts.Association, q *accounts.QOS, points float64) bool {
	if a == nil || q == nil || !q.EnforceUsageThreshold || q.UsageThreshold < 0 {
		return false
	}
	if points == 0 {
		f.settle()
		if a.FairShare.Unknown {
			f.setEffective(a)
		}
		if points = a.FairShare.Factor; !f.settings.Release.Since(slurmspec.R2605) {
			points = f.exponential(a)
		}
	}
	return points < q.UsageThreshold
}
