package limits

import (
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/slurmspec"
)

// Accrue lets a pending job begin to gain age if the limits allow it
// (acct_policy_handle_accrue_time). slurmctld calls it for each pending job when it builds the
// queue. The parameter now is in seconds since 1970. Accrue returns how many tasks of an array
// begin to gain age: the caller must split these tasks off as jobs of their own, and set their
// Accrue to now.
func (l *Limits) Accrue(j *Job, now int64) (split int) {
	switch {
	case l.always:
		if j.Accrue == 0 {
			j.Accrue = j.Submit
		}
		return 0
	case !l.enforce.Limits:
		if j.Accrue == 0 {
			j.Accrue = j.Begin
		}
		return 0
	case j.Held || j.Dependent || j.Begin > now || j.Association == nil || j.Accrue != 0 && j.Tasks == 0:
		return 0
	}
	return l.addAccruing(j, now)
}

// Released lets a job begin to gain age when its hold or dependency is over
// (acct_policy_add_accrue_time). If the job still is held, dependent or not eligible, its age stays
// 0.
func (l *Limits) Released(j *Job, now int64) (split int) {
	switch {
	case l.always || !l.enforce.Limits:
		return 0
	case j.Held || j.Dependent || j.Begin > now:
		j.Accrue = 0
		return 0
	case j.Association == nil:
		return 0
	}
	return l.addAccruing(j, now)
}

func (l *Limits) addAccruing(j *Job, now int64) (split int) {
	limited, room := l.accrualRoom(j)
	switch {
	case !limited || room > 0 && j.Tasks == 0:
		if j.Accrue == 0 && j.Begin != 0 {
			if j.Accrue = j.Begin; limited {
				j.Accrue = now
			}
			l.accruing(j, j.count())
		}
		return 0
	default:
		split = int(min(room, int64(j.Tasks)))
		l.accruing(j, split)
		return split
	}
}

// Accrued removes a job that is no longer pending from the counts of jobs that gain age.
func (l *Limits) Accrued(j *Job) {
	if l.always || !l.counts(j) || j.Held || j.Dependent || j.Accrue == 0 || j.accrueOver {
		return
	}
	j.accrueOver = true
	l.accruing(j, -j.count())
}

// ResetAccrual sets the age of a pending job to 0, because the job is held or dependent, and
// removes it from the counts of jobs that gain age (acct_policy_remove_accrue_time).
func (l *Limits) ResetAccrual(j *Job) {
	if l.always || !l.counts(j) || j.Accrue == 0 {
		return
	}
	l.accruing(j, -j.count())
	j.Accrue, j.accrueOver = 0, false
}

func (l *Limits) accruing(j *Job, n int) {
	if q := j.QOS; q != nil {
		add(&q.Counts.Accruing, n)
		add(&j.in(q).user.Accruing, n)
		add(&j.in(q).account.Accruing, n)
	}
	for a := range j.Association.Up {
		add(&a.Counts.Accruing, n)
	}
}

// accrualRoom reports whether a limit on the number of jobs that gain age applies, and how many
// more jobs it allows (_get_accrue_limits). The first limit that is set applies. Since 24.05, the
// lowest limit of the QOS applies.
func (l *Limits) accrualRoom(j *Job) (limited bool, room int64) {
	applied := int64(accounts.NoLimit)
	take := func(limit int64, present int) {
		lowest := l.release.Since(slurmspec.R2405) && limit < applied
		if limit == accounts.NoLimit || applied != accounts.NoLimit && !lowest {
			return
		}
		applied, room = limit, max(0, limit-int64(present))
	}
	if q := j.QOS; q != nil {
		take(q.Limits.GrpAccrue, q.Counts.Accruing)
		take(q.Limits.MaxAccruePerAccount, j.in(q).account.Accruing)
		take(q.Limits.MaxAccrue, j.in(q).user.Accruing)
	}
	for a := range j.Association.Up {
		if applied != accounts.NoLimit {
			break
		}
		take(a.Limits.GrpAccrue, a.Counts.Accruing)
		if a == j.Association {
			take(a.Limits.MaxAccrue, a.Counts.Accruing)
		}
	}
	return applied != accounts.NoLimit, room
}
