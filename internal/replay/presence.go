package replay

import (
	"hash/fnv"
	"math/rand/v2"
	"sort"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/session"
)

// sessionTimes are a user's recorded sessions. Each session lasts from its first to its last
// submission, because only a submission proves that the user was present (Zakay & Feitelson, JSSPP
// 2012). Sessions do not overlap, so both lists are in order.
type sessionTimes struct{ start, end []hpc.Time }

func recordedPresence(g *session.Graph) presence {
	var p sessionTimes
	for i := range g.Sessions {
		p.start = append(p.start, g.Sessions[i].Start)
		p.end = append(p.end, g.Sessions[i].LastSubmit)
	}
	return p
}

// next implements [presence]. After the last recorded session the user counts as always present, because the record
// does not show when the user was present later.
func (p sessionTimes) next(t hpc.Time) hpc.Time {
	i := sort.Search(len(p.end), func(i int) bool { return p.end[i] >= t })
	if i == len(p.end) {
		return t
	}
	return max(t, p.start[i])
}

// profile counts submissions by the day of the week and by the hour of the day.
type profile struct {
	day  [7]float64
	hour [24]float64
}

const (
	day  = hpc.Time(24 * time.Hour)
	hour = hpc.Time(time.Hour)
)

// slot returns the day of an instant, counted from 1970, and its hour of the day. Day and hour are in UTC. The local
// time zone does not matter, because profiles are counted and used in the same zone.
func slot(t hpc.Time) (date, hourOfDay int64) {
	date = int64(t / day)
	if t%day < 0 {
		date--
	}
	return date, int64((t - hpc.Time(date)*day) / hour)
}

func (p *profile) add(t hpc.Time, weight float64) {
	date, h := slot(t)
	p.day[((date%7)+7)%7] += weight
	p.hour[h] += weight
}

// newProfile returns each day's and each hour's share of the submissions of all jobs.
func newProfile(jobs *workload.Jobs) profile {
	var p profile
	for i := range jobs.Len() {
		p.add(jobs.Submit(i), 1/float64(jobs.Len()))
	}
	return p
}

// AbsentDays returns on how many days of the week no job of a workload was submitted. In
// [Distribution] users submit nothing on these days of the week.
func AbsentDays(jobs *workload.Jobs) (days int) {
	for _, share := range newProfile(jobs).day {
		if share == 0 {
			days++
		}
	}
	return days
}

// populationWeight is the weight of the profile of all users in each user's habits; a submission of the user
// has the weight 1. So a user with only three submissions also works in hours other than these three.
const populationWeight = 10

// habits decides at random, for each hour, whether a user is present. The probability that the user
// works on a date is the frequency of its day of the week in the user's submissions, divided by
// the frequency of the most frequent day. On such a date, the probability of an hour is the
// frequency of that hour of the day, divided by the frequency of the most frequent hour. The result
// for an hour does not depend on other calls.
type habits struct {
	day  [7]float64
	hour [24]float64
	seed uint64
}

func newHabits(jobs *workload.Jobs, g *session.Graph, population profile, seed uint64) presence {
	var p profile
	for i, share := range population.day {
		p.day[i] = populationWeight * share
	}
	for i, share := range population.hour {
		p.hour[i] = populationWeight * share
	}
	for i := range g.Sessions {
		for _, job := range g.Sessions[i].Jobs {
			p.add(jobs.Submit(job), 1)
		}
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(g.User)) // a hash has no errors
	h := &habits{seed: seed ^ name.Sum64()}
	relative(p.day[:], h.day[:])
	relative(p.hour[:], h.hour[:])
	return h
}

// relative divides counts by the largest count.
func relative(counts, out []float64) {
	largest := 0.0
	for _, c := range counts {
		largest = max(largest, c)
	}
	for i, c := range counts {
		out[i] = c / largest
	}
}

// next implements [presence]. It finds an hour within a week, because the most frequent day and
// hour have probability 1.
func (h *habits) next(t hpc.Time) hpc.Time {
	date, hourOfDay := slot(t)
	for {
		if h.random(date, -1) < h.day[((date%7)+7)%7] {
			for ; hourOfDay < 24; hourOfDay++ {
				if h.random(date, hourOfDay) < h.hour[hourOfDay] {
					return max(t, hpc.Time(date)*day+hpc.Time(hourOfDay)*hour)
				}
			}
		}
		date, hourOfDay = date+1, 0
	}
}

// random returns a number in [0, 1) for an hour of a date, or for the date itself.
func (h *habits) random(date, hourOfDay int64) float64 {
	return rand.New(rand.NewPCG(h.seed, uint64(date*25+hourOfDay))).Float64()
}
