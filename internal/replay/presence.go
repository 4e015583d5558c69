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

// sessionTimes are a user's sessions as they were recorded, each from its first to its
// last submission: only a submission proves that the user was there (Zakay & Feitelson,
// JSSPP 2012). Sessions follow each other, so both lists are in order.
type sessionTimes struct{ start, end []hpc.Time }

func recordedPresence(g *session.Graph) presence {
	var p sessionTimes
	for i := range g.Sessions {
		p.start = append(p.start, g.Sessions[i].Start)
		p.end = append(p.end, g.Sessions[i].LastSubmit)
	}
	return p
}

// next implements [presence]. Nothing is known of the time after the last recorded
// session: the user is there whenever there is something to submit.
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

// slot returns the day since 1970 and the hour of that day which an instant is in. The hours
// are those of UTC: a pattern that is learned and used in one zone needs no other.
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

// newProfile is the share of each day and hour in the submissions of all jobs.
func newProfile(jobs *workload.Jobs) profile {
	var p profile
	for i := range jobs.Len() {
		p.add(jobs.Submit(i), 1/float64(jobs.Len()))
	}
	return p
}

// populationWeight is the weight of all users' habits, in submissions of the user's own.
// So a user with three submissions is not bound to the one hour in which they came.
const populationWeight = 10

// habits draw when a user is there, hour by hour. A date is drawn with the frequency of its
// day of the week in the user's submissions, and then each hour with that of the hour of the
// day, both relative to the most frequent one. The draw for an hour is always the same,
// whatever was asked before.
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

// relative divides counts by the largest of them.
func relative(counts, out []float64) {
	largest := 0.0
	for _, c := range counts {
		largest = max(largest, c)
	}
	for i, c := range counts {
		out[i] = c / largest
	}
}

// next implements [presence]. It ends within a week, because the most frequent day and
// hour have probability 1.
func (h *habits) next(t hpc.Time) hpc.Time {
	date, hourOfDay := slot(t)
	for {
		if h.draw(date, -1) < h.day[((date%7)+7)%7] {
			for ; hourOfDay < 24; hourOfDay++ {
				if h.draw(date, hourOfDay) < h.hour[hourOfDay] {
					return max(t, hpc.Time(date)*day+hpc.Time(hourOfDay)*hour)
				}
			}
		}
		date, hourOfDay = date+1, 0
	}
}

// draw is a number in [0, 1) for an hour of a date, or for the date itself.
func (h *habits) draw(date, hourOfDay int64) float64 {
	return rand.New(rand.NewPCG(h.seed, uint64(date*25+hourOfDay))).Float64()
}
