package fairshare

import (
	"math/big"
	"time"

	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// applyDecay multiplies all usage by a factor (_apply_decay).
func (f *FairShare) applyDecay(factor float64) {
	if factor == 1 {
		return
	}
	for _, a := range f.accounts.List {
		scale(&a.Usage, factor)
	}
	for _, q := range f.accounts.QOS {
		if !q.NoDecay {
			scale(&q.Usage, factor)
		}
	}
}

func scale(u *accounts.Usage, factor float64) {
	by := extended.FromFloat(factor)
	u.Raw = u.Raw.Mul(by)
	for i := range u.TRES {
		u.TRES[i] = u.TRES[i].Mul(by)
	}
	u.Wall *= factor
}

// reset sets all usage to 0 (_reset_usage).
func (f *FairShare) reset() {
	for _, a := range f.accounts.List {
		clearUsage(&a.Usage)
	}
	for _, q := range f.accounts.QOS {
		clearUsage(&q.Usage)
	}
}

func clearUsage(u *accounts.Usage) {
	u.Raw, u.Wall = extended.Float{}, 0
	clear(u.TRES)
}

// charge adds a job's usage since the last run to its association, to the accounts above, and to
// its QOS (_apply_new_usage). The usage is multiplied by the decay over the charged time.
func (f *FairShare) charge(r *Running, end int64, ends bool) {
	if r.ended {
		return
	}
	start := max(f.last, r.Start)
	run := float64(max(0, end-start))
	unused := f.unused(r, start, end, ends)
	r.ended = ends
	factor := 1.0
	if r.QOS != nil {
		factor = r.QOS.UsageFactor
		unused = uint64(float64(unused) * factor)
	}
	decayed := run * f.power(max(0, end-start))
	c := charge{
		limits: f.settings.Limits, tres: r.TRES, unused: unused,
		decayed: newAmount(decayed*factor, decayed*r.Billing*factor), whole: newAmount(run*factor, run*r.Billing*factor),
	}
	c.addQOS(r.QOS, r, f.settings.Release)
	if r.PartitionQOS != r.QOS {
		c.addQOS(r.PartitionQOS, r, f.settings.Release)
	}
	for a := range r.Association.Up {
		c.add(&a.Usage, c.decayed)
	}
}

// power returns the decay over a time in seconds, correctly rounded. [math.Pow] rounds less well:
// users with equal usage would get different factors.
func (f *FairShare) power(seconds int64) float64 {
	if known, ok := f.powers[seconds]; ok {
		return known
	}
	const precision = 160
	result := big.NewFloat(1).SetPrec(precision)
	for n, i := seconds, 0; n > 0; n, i = n>>1, i+1 {
		switch {
		case i < len(f.squares):
		case i == 0:
			f.squares = append(f.squares, big.NewFloat(f.decay).SetPrec(precision))
		default:
			root := f.squares[i-1]
			f.squares = append(f.squares, new(big.Float).Mul(root, root))
		}
		if n&1 == 1 {
			result.Mul(result, f.squares[i])
		}
	}
	f.powers[seconds], _ = result.Float64()
	return f.powers[seconds]
}

// unused returns how many seconds of the job's time limit are no longer reserved: the seconds that
// are charged now or, at the end of the job, all seconds that are left.
func (f *FairShare) unused(r *Running, start, end int64, ends bool) uint64 {
	switch {
	case start >= r.LimitEnd:
		return 0
	case ends, end > r.LimitEnd:
		return uint64(r.LimitEnd - start)
	}
	return uint64(max(0, end-start))
}

// charge is the usage that a job adds.
type charge struct {
	limits         bool
	tres           tres.Vector
	unused         uint64 // seconds
	decayed, whole amount // whole is for QOS with the flag NoDecay
}

// amount is usage: wall time in seconds, and billing × seconds.
type amount struct {
	wall float64
	raw  extended.Float
}

func newAmount(wall, billing float64) amount { return amount{wall, extended.FromFloat(billing)} }

func (c *charge) addQOS(q *accounts.QOS, r *Running, release slurmspec.Release) {
	switch {
	case q == nil:
		return
	case q.NoDecay:
		c.add(&q.Usage, c.whole)
	default:
		c.add(&q.Usage, c.decayed)
	}
	if c.limits && release.Since(slurmspec.R2405) {
		c.release(q.OfUser(r.User).Reserved)
		c.release(q.OfAccount(r.Association.Account).Reserved)
	}
}

func (c *charge) add(u *accounts.Usage, a amount) {
	u.Wall += a.wall
	u.Raw = u.Raw.Add(a.raw)
	if !c.limits {
		return
	}
	for i, seconds := range u.TRES {
		if n := c.tres[i]; i != tres.Energy && n > 0 {
			u.TRES[i] = seconds.Add(extended.FromFloat(a.wall).Mul(extended.FromUint(n)))
		}
	}
	c.release(u.Reserved)
}

// release subtracts the resource-seconds that the job no longer reserves.
func (c *charge) release(reserved tres.Vector) {
	for i, seconds := range reserved {
		if i != tres.Energy {
			reserved[i] -= min(seconds, c.tres[i]*c.unused)
		}
	}
}

// resets computes when PriorityUsageResetPeriod resets usage to 0.
type resets struct {
	period     string
	last, next int64
}

// due reports whether a run at the second now resets usage (_decay_thread).
func (r *resets) due(now int64) bool {
	switch r.period {
	case "now":
		r.period, r.last = "", now
		return true
	case "daily", "weekly", "monthly", "quarterly", "yearly":
	default:
		return false
	}
	if r.next == 0 {
		r.next = r.after(now)
	}
	if now < r.next {
		return false
	}
	r.last = r.next
	r.next = r.after(now)
	return true
}

// after returns when the next reset is due, in seconds since 1970 (_next_reset). Days begin in UTC,
// the time zone in which rmreplay runs slurmctld.
func (r *resets) after(now int64) int64 {
	last := time.Unix(r.last, 0).UTC()
	year, month, day := last.Date()
	at := func(year int, month time.Month, day int) int64 {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	}
	const daySeconds = 86400
	period := int64(daySeconds)
	var next int64
	switch r.period {
	case "daily":
		next = at(year, month, day) + daySeconds
	case "weekly":
		period *= 7
		next = at(year, month, day) + daySeconds*int64(7-last.Weekday())
	case "monthly":
		return at(year, month+1, 1)
	case "quarterly":
		return at(year, (month-1)/3*3+4, 1)
	default:
		return at(year+1, 1, 1)
	}
	for next+period < now { // skip periods that have passed
		next += period
	}
	return next
}
