package complete

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// The most users and accounts that rules make.
const (
	maxUsers    = 999
	maxAccounts = 99
)

// The prefixes of the names of users and accounts that rules make. A number follows.
const (
	userPrefix    = "madeuser"
	accountPrefix = "madeaccount"
)

func userName(i int) string    { return fmt.Sprintf("%s%03d", userPrefix, i+1) }
func accountName(i int) string { return fmt.Sprintf("%s%02d", accountPrefix, i+1) }

// users gives each batch a user. Some batches get the user of the previous batch of the same size.
// The users of the other batches follow the process of Pitman and Yor: a user with more batches
// gets more of the next batches. So a few users have many jobs, and many users have few jobs, as
// in all logs.
func (m *maker) users(field *workload.MadeField) {
	names, named := namesOf(field)
	table := seats{concentration: betweenLog(m.rng, 3, 30), discount: between(m.rng, 0.2, 0.5), maxOwners: maxUsers}
	follow := between(m.rng, 0.4, 0.8)
	bySize := map[[2]int]string{}
	draw := func() string {
		switch {
		case named:
			return pick(m.rng, names)
		case field.Rule == "like":
			return userName(m.byShare(m.c.Like.Users))
		}
		return userName(table.next(m.rng.Float64()))
	}
	m.eachBatch(field, func(_ *batch, lacking []*fact, set func(*fact)) {
		size := [2]int{lacking[0].cpus, lacking[0].nodes}
		user := bySize[size]
		if user == "" || m.rng.Float64() >= follow {
			user = draw()
		}
		bySize[size] = user
		for _, f := range lacking {
			f.user = user
			set(f)
		}
	})
}

// byShare draws an index with the probabilities in a list of shares.
func (m *maker) byShare(shares []float64) int {
	u := m.rng.Float64()
	for i, share := range shares {
		if u -= share; u < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// namesOf returns the names that a rule lists.
func namesOf(field *workload.MadeField) (names []weighted, named bool) {
	if slices.ContainsFunc(Rules, func(r Rule) bool { return r.Field == field.Field && r.Name == field.Rule }) {
		return nil, false
	}
	names, err := parseNames(field.Rule)
	return names, err == nil
}

// seats is the state of a process of Pitman and Yor, which gives items to owners.
type seats struct {
	concentration, discount float64
	maxOwners               int
	count                   []int
	total                   int
}

// next returns the owner of the next item for a uniform number u. The result is an old owner, with a probability that
// grows with the owner's number of items, or a new owner.
func (s *seats) next(u float64) int {
	x := u * (float64(s.total) + s.concentration)
	s.total++
	for i, n := range s.count {
		if x -= float64(n) - s.discount; x < 0 {
			s.count[i]++
			return i
		}
	}
	if len(s.count) == s.maxOwners {
		s.count[s.maxOwners-1]++
		return s.maxOwners - 1
	}
	s.count = append(s.count, 1)
	return len(s.count) - 1
}

// accounts gives each user an account: the first account that the record has for the user, or else a drawn one.
func (m *maker) accounts(field *workload.MadeField) {
	names, named := namesOf(field)
	table := seats{concentration: betweenLog(m.rng, 2, 8), maxOwners: maxAccounts}
	of := map[string]string{}
	for i := range m.facts {
		if f := &m.facts[i]; f.user != "" && f.account != "" && of[f.user] == "" {
			of[f.user] = f.account
		}
	}
	m.eachBatch(field, func(_ *batch, lacking []*fact, set func(*fact)) {
		for _, f := range lacking {
			account, known := of[f.user]
			switch {
			case known:
			case named:
				account = pick(m.rng, names)
			default:
				account = accountName(table.next(m.rng.Float64()))
			}
			of[f.user] = account
			f.account = account
			set(f)
		}
	})
}

// usages makes the usage with which the workload begins. A user's usage is the usage that would result, with the
// site's decay, if the user had always used the machine at the mean rate in the record. It is multiplied by a
// lognormal factor with a deviation of 1. The factor is random because users were more or less busy before the
// workload. A user has at least what the preset jobs have used.
func (m *maker) usages(field *workload.MadeField) {
	type owner struct{ account, user string }
	used, least := map[owner]float64{}, map[owner]float64{}
	first, last := hpc.Never, hpc.Time(0)
	for i, job := range m.w.Jobs.All() {
		f := &m.facts[i]
		if of := (owner{f.account, f.user}); f.account != "" && f.user != "" {
			used[of] += f.run.Seconds() * float64(f.cpus)
			if m.w.Preset(job) {
				least[of] += workload.PresetUsage(job, m.w.Start, time.Duration(m.c.Site.HalfLife))
			}
		}
		first, last = min(first, f.submit), max(last, f.submit, f.end)
	}
	span := last.Sub(first)
	if span <= 0 {
		return
	}
	steady := time.Duration(m.c.Site.HalfLife).Seconds() / math.Ln2 / span.Seconds()
	owners := make([]owner, 0, len(used))
	for o := range used {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.user, b.user)) })
	for _, o := range owners {
		raw := math.Ceil(max(math.Round(used[o]*steady*math.Exp(m.rng.NormFloat64())), least[o]))
		if raw > 0 {
			m.usage = append(m.usage, hpc.Usage{Account: o.account, User: o.user, Raw: raw})
			field.Jobs++
		}
	}
}
