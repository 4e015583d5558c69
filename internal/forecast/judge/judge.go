// Package judge compares forecasts of pending jobs with the jobs' later starts. It stores the forecasts of pending
// jobs. For started jobs, the package counts how often the start was between P10 and P90, and how often the start was
// within a minute, five minutes and an hour of the median.
//
// Only jobs that started count, because the start of a cancelled job is not known.
package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
)

// Forecast is the forecast of a job at an instant. A quantile is [forecast.Later] after the horizon, and [hpc.Never]
// if the job does not start.
type Forecast struct {
	At      hpc.Time `json:"at"`
	P10     hpc.Time `json:"p10"`
	P50     hpc.Time `json:"p50"`
	P90     hpc.Time `json:"p90"`
	Horizon hpc.Time `json:"horizon,omitempty"` // 0 without a horizon
	// C10 and C90 are the bounds that [Judge.Recalibrate] computed from P10 and P90 at the time of
	// the forecast; 0 in states from older versions.
	C10 hpc.Time `json:"c10,omitempty"`
	C90 hpc.Time `json:"c90,omitempty"`
	// Slurm is the start that Slurm expected at the same instant; 0 if Slurm gave no start.
	Slurm hpc.Time `json:"slurm,omitempty"`
}

// Pending is a job that waits.
type Pending struct {
	Key       forecast.Key
	Partition string
	Forecast
}

// Waiting is the data that a judge stores about a waiting job.
type Waiting struct {
	Partition string `json:"partition"`
	// Forecasts are in the order of their instants: one for each earlier day, one for each hour of
	// the last day, one for each minute of the last hour, and the last forecast.
	Forecasts []Forecast `json:"forecasts"`
	// Learned has a bit for each class of lead times. It is set once the job has changed the [Scale] of the class.
	Learned uint8 `json:"learned,omitempty"`
	// Missed counts the captures in a row that showed neither the job nor its start.
	Missed int `json:"missed,omitempty"`

	seen hpc.Time // the last capture that showed the job
}

// patience is the number of captures in a row that may show neither a job nor its start. slurmdbd may receive a job's
// end some seconds after slurmctld has removed the job.
const patience = 2

// Lead is a class of lead times: from the instant of a forecast to the start. It begins where the previous class
// ends.
type Lead struct {
	Name string
	Ends time.Duration // the end of the class, not included
}

// Leads are the classes of lead times.
var Leads = []Lead{
	{"below 15 minutes", 15 * time.Minute}, {"15 minutes to 1 hour", time.Hour}, {"1 to 4 hours", 4 * time.Hour},
	{"4 to 24 hours", 24 * time.Hour}, {"above 24 hours", hpc.Unlimited},
}

// Class names forecasts that are counted together.
type Class struct {
	Partition string `json:"partition"`
	Lead      int    `json:"lead"` // the index in [Leads]
}

// Distances are the distances from the median within which forecasts are counted.
var Distances = [3]time.Duration{time.Minute, 5 * time.Minute, time.Hour}

// Tally counts forecasts of jobs that started.
type Tally struct {
	// Forecasts counts the forecasts. Beyond counts the forecasts whose start and P10 were both after the horizon.
	// Forecasts beyond the horizon do not test the intervals, and the field Forecasts does not count them.
	Forecasts int `json:"forecasts"`
	Beyond    int `json:"beyond,omitempty"`
	// Covered counts starts between P10 and P90, both included. Near counts, for each of [Distances], the starts within
	// this distance of the median.
	Covered int    `json:"covered"`
	Near    [3]int `json:"near"`
	// Slurm counts the forecasts of jobs for which Slurm had an estimate. For these forecasts and each of
	// [Distances], SlurmNear counts Slurm's estimates within this distance of the start, and BesideNear counts
	// medians of forecasts within this distance.
	Slurm      int    `json:"slurm,omitempty"`
	SlurmNear  [3]int `json:"slurm_near"`
	BesideNear [3]int `json:"beside_near"`
}

// Add adds the counts of another tally.
func (t *Tally) Add(o *Tally) {
	t.Forecasts, t.Beyond, t.Covered, t.Slurm = t.Forecasts+o.Forecasts, t.Beyond+o.Beyond, t.Covered+o.Covered,
		t.Slurm+o.Slurm
	for i := range Distances {
		t.Near[i] += o.Near[i]
		t.SlurmNear[i] += o.SlurmNear[i]
		t.BesideNear[i] += o.BesideNear[i]
	}
}

// count counts a forecast of a job that started.
func (t *Tally) count(f *Forecast, start hpc.Time) {
	if f.Horizon != 0 && start > f.Horizon {
		start = forecast.Later
	}
	covers, beyond := forecast.Covers(start, f.P10, f.P90)
	if beyond {
		t.Beyond++
		return
	}
	t.Forecasts++
	if covers {
		t.Covered++
	}
	if f.Slurm != 0 {
		t.Slurm++
	}
	for i, most := range Distances {
		near := isNear(f.P50, start, most)
		if near {
			t.Near[i]++
		}
		if f.Slurm == 0 {
			continue
		}
		if near {
			t.BesideNear[i]++
		}
		if isNear(f.Slurm, start, most) {
			t.SlurmNear[i]++
		}
	}
}

// isNear reports whether two instants are near. An instant after the horizon is never near, because the distance is
// not known.
func isNear(a, b hpc.Time, most time.Duration) bool {
	return a < forecast.Later && b < forecast.Later && a.Sub(b).Abs() <= most
}

// State is the data of a judge. It can be saved as JSON.
type State struct {
	Waiting []Entry `json:"waiting"`
	Days    []Day   `json:"days"`
	// Scales is the result of [Judge.Scales].
	Scales []Scaled `json:"scales,omitempty"`
	// Gone counts jobs that left the queue without a known start.
	Gone int `json:"gone,omitempty"`
}

// Entry is a job that waits, with its name.
type Entry struct {
	Job  string `json:"job"`
	Task int    `json:"task"`
	Waiting
}

// Day has the tally of a class for the starts of one day. Days count from 1970 in UTC.
type Day struct {
	Day int64 `json:"day"`
	Class
	Tally
}

// Judge judges forecasts. Its methods must not be called concurrently.
type Judge struct {
	keep    time.Duration
	waiting map[forecast.Key]*Waiting
	days    map[int64]map[Class]*Tally
	gone    int
	scales  map[Class]*Scale
	// learned and pooled have the factors of classes and of lead times, for [Judge.factors]. learned is nil if they
	// must be computed again.
	learned map[Class]factors
	pooled  []factors
}

// New returns a judge that continues from a state. A start counts until its age exceeds the
// parameter keep. New leaves out scales of unknown lead times, and jobs without forecasts.
func New(state State, keep time.Duration) *Judge {
	j := &Judge{keep: keep, waiting: map[forecast.Key]*Waiting{}, days: map[int64]map[Class]*Tally{}, gone: state.Gone,
		scales: map[Class]*Scale{}}
	for i := range state.Scales {
		if one := state.Scales[i]; one.Lead >= 0 && one.Lead < len(Leads) {
			j.scales[one.Class] = &one.Scale
		}
	}
	for i := range state.Waiting {
		if e := &state.Waiting[i]; len(e.Forecasts) > 0 {
			j.waiting[forecast.Key{Job: e.Job, Task: e.Task}] = &e.Waiting
		}
	}
	for i := range state.Days {
		d := &state.Days[i]
		j.tally(d.Day, d.Class).Add(&d.Tally)
	}
	return j
}

// State returns the judge's data, in a fixed order.
func (j *Judge) State() State {
	s := State{Gone: j.gone, Waiting: []Entry{}, Days: []Day{}, Scales: j.Scales()}
	for key, w := range j.waiting {
		s.Waiting = append(s.Waiting, Entry{key.Job, key.Task, *w})
	}
	slices.SortFunc(s.Waiting, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task,
			b.Task))
	})
	for day, classes := range j.days {
		for class, tally := range classes {
			s.Days = append(s.Days, Day{day, class, *tally})
		}
	}
	slices.SortFunc(s.Days, func(a, b Day) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Lead, b.Lead))
	})
	return s
}

const day = 24 * time.Hour

func dayOf(at hpc.Time) int64 { return at.UnixSeconds() / int64(day/time.Second) }

func (j *Judge) tally(day int64, class Class) *Tally {
	classes := j.days[day]
	if classes == nil {
		classes = map[Class]*Tally{}
		j.days[day] = classes
	}
	if classes[class] == nil {
		classes[class] = &Tally{}
	}
	return classes[class]
}

// Waits reports whether the judge has forecasts of a waiting job.
func (j *Judge) Waits(key forecast.Key) bool { return j.waiting[key] != nil }

// Forecasts returns the forecasts of a waiting job, in the order of the instants.
func (j *Judge) Forecasts(key forecast.Key) []Forecast {
	if w := j.waiting[key]; w != nil {
		return slices.Clone(w.Forecasts)
	}
	return nil
}

// See processes the contents of a capture: when jobs started, and which jobs wait, with their forecasts. A start
// before a job's first forecast belongs to an earlier run of the job.
func (j *Judge) See(at hpc.Time, starts map[forecast.Key]hpc.Time, pending []Pending) {
	waits := make(map[forecast.Key]bool, len(pending))
	for i := range pending {
		waits[pending[i].Key] = true
	}
	order := slices.SortedFunc(maps.Keys(j.waiting), func(a, b forecast.Key) int { // scales depend on the order of starts
		return cmp.Or(cmp.Compare(starts[a], starts[b]), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Task, b.Task))
	})
	for _, key := range order {
		w := j.waiting[key]
		switch start, started := starts[key]; {
		case started && start > w.Forecasts[0].At:
			j.settle(w, start)
			delete(j.waiting, key)
		case waits[key]:
			w.Missed, w.seen = 0, at
			j.recalibrate(w, at, false)
		default:
			if w.Missed++; w.Missed >= patience {
				delete(j.waiting, key)
				j.gone, j.learned = j.gone+1, nil
			}
		}
	}
	for i := range pending {
		p := &pending[i]
		p.C10, p.C90 = j.Recalibrate(p.Partition, &p.Forecast)
		w := j.waiting[p.Key]
		if w == nil {
			w = &Waiting{}
			j.waiting[p.Key] = w
		}
		w.Partition = p.Partition
		w.add(p.Forecast)
	}
	for d := range j.days {
		if d < dayOf(at.Add(-j.keep)) {
			delete(j.days, d)
		}
	}
}

// settle counts the forecasts of a job that has started.
func (j *Judge) settle(w *Waiting, start hpc.Time) {
	for i := range w.Forecasts {
		f := &w.Forecasts[i]
		if f.At >= start {
			break
		}
		j.tally(dayOf(start), Class{w.Partition, leadOf(start.Sub(f.At))}).count(f, start)
	}
	j.recalibrate(w, start, true)
}

// add adds a forecast, and removes earlier forecasts whose distance is less than [spacing].
func (w *Waiting) add(f Forecast) {
	last := 0 // the last forecast that stays
	for i, old := range w.Forecasts {
		if i > 0 && old.At.Sub(w.Forecasts[last].At) < spacing(f.At.Sub(old.At)) {
			continue
		}
		if i > 0 {
			last++
		}
		w.Forecasts[last] = old
	}
	if len(w.Forecasts) > 0 {
		w.Forecasts = w.Forecasts[:last+1]
	}
	w.Forecasts = append(w.Forecasts, f)
}

// spacing returns the smallest distance between stored forecasts of the given age.
func spacing(age time.Duration) time.Duration {
	switch {
	case age <= time.Hour:
		return time.Minute
	case age <= day:
		return time.Hour
	}
	return day
}

// Group has the tally of a class for all days that count.
type Group struct {
	Class
	Tally
}

// Groups returns the tallies by partition and lead time, and the tally of all forecasts.
func (j *Judge) Groups() (groups []Group, all Tally) {
	sums := map[Class]*Tally{}
	for _, classes := range j.days {
		for class, tally := range classes {
			if sums[class] == nil {
				sums[class] = &Tally{}
			}
			sums[class].Add(tally)
			all.Add(tally)
		}
	}
	groups = []Group{}
	for class, tally := range sums {
		groups = append(groups, Group{class, *tally})
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Lead, b.Lead))
	})
	return groups, all
}

// Gone returns the number of jobs that left the queue without a known start. Most jobs without a known start were
// cancelled.
func (j *Judge) Gone() int { return j.gone }

// Waiting returns how many jobs with forecasts still wait.
func (j *Judge) Waiting() int { return len(j.waiting) }
