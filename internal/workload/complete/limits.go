package complete

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// popular are the limits that users request most. They are the popular limits that all four logs
// of Tsafrir, Etsion and Feitelson (JSSPP 2005) share, and longer limits in whole days.
var popular = func() []time.Duration {
	var list []time.Duration
	for _, minutes := range []int{5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 1080} {
		list = append(list, time.Duration(minutes)*time.Minute)
	}
	for _, days := range []int{1, 2, 3, 4, 5, 7, 10, 14, 21, 30} {
		list = append(list, time.Duration(days)*24*time.Hour)
	}
	return list
}()

// roundUp returns the shortest popular limit of at least d. If d is longer than all popular limits, roundUp rounds d up
// to whole days.
func roundUp(d time.Duration) time.Duration {
	if i, _ := slices.BinarySearch(popular, d); i < len(popular) {
		return popular[i]
	}
	const day = 24 * time.Hour
	return (d + day - 1) / day * day
}

// roundDown returns the longest popular limit from shortest to longest, or otherwise the longest
// limit in whole minutes. ok is false if no such limit exists.
func roundDown(shortest, longest time.Duration) (limit time.Duration, ok bool) {
	for i := len(popular) - 1; i >= 0; i-- {
		if popular[i] <= longest && popular[i] >= shortest {
			return popular[i], true
		}
	}
	longest = longest.Truncate(time.Minute)
	return longest, longest >= shortest && longest > 0
}

// fixedLimit reads a rule that needs no draw: a duration, or a factor of the run time.
func fixedLimit(rule string) (limit time.Duration, factor float64, ok bool) {
	if strings.HasPrefix(rule, "x") {
		factor, err := flags.ParseFactor(rule)
		return 0, factor, err == nil && factor >= 1
	}
	limit, err := hpc.ParseDuration(rule)
	return limit, 0, err == nil && limit > 0
}

// overrun is the longest time for which a recorded job may have run beyond its limit. Slurm checks
// limits every 30 seconds, and the job then gets time to end.
const overrun = 2 * time.Minute

// limitOf returns the limit of a job that was ended by its limit after the given run time.
func limitOf(run time.Duration) time.Duration {
	return max(run.Truncate(time.Minute), min(run, time.Minute))
}

// apart splits a random part of the batches, runs a function, and joins the batches again. Some
// users change their limit within a session, more often at some sites than at others. Tasks of an
// array stay together.
func (m *maker) apart(do func() error) error {
	together := m.part() // the share of batches that are not split
	whole := m.batches
	m.batches = nil
	for i := range whole {
		b := &whole[i]
		split := len(b.jobs) > 1 && m.rng.Float64() >= together
		part := map[string]int{}
		for _, place := range b.jobs {
			array := ""
			if split {
				array, _, _ = strings.Cut(m.w.Jobs.At(place).ID, "_")
			}
			at, known := part[array]
			if !known {
				at = len(m.batches)
				part[array] = at
				m.batches = append(m.batches, batch{qos: b.qos})
			}
			m.join(at, place)
		}
	}
	err := do()
	m.batches = whole
	for i := range whole {
		for _, place := range whole[i].jobs {
			m.facts[place].batch = i
		}
	}
	return err
}

// limits makes the time limits. A batch has one limit, which is at least its longest run time. If a limit ended a job,
// the job's run time in whole minutes is the job's limit. It is also the limit of the jobs of the same batch that ended
// earlier. A job whose state is unknown never has a limit below its run time. Drawn limits are then lowered to limits
// that the record allows.
func (m *maker) limits(field *workload.MadeField) error {
	return m.apart(func() error { return m.batchLimits(field) })
}

func (m *maker) batchLimits(field *workload.MadeField) error {
	drawn, err := m.drawLimits(field.Rule)
	if err != nil {
		return err
	}
	fixed := field.Rule == "run-time"
	if _, _, ok := fixedLimit(field.Rule); ok {
		fixed = true
	}
	likely := !slices.ContainsFunc(m.facts, func(f fact) bool { return f.timedOut })
	m.eachBatch(field, func(b *batch, lacking []*fact, set func(*fact)) {
		known := b.ended
		if fixed || b.run > known+overrun {
			known = 0
		}
		for _, f := range lacking {
			f.limit = max(cmp.Or(known, drawn(f)), time.Minute)
			switch {
			case f.timedOut && f.run > 0:
				f.limit = limitOf(f.run)
			case !fixed && likely && cutBy(f) > 0 && known == 0:
				f.limit = cutBy(f)
			case known == 0 || f.unknown:
				f.limit = max(f.limit, wholeMinutes(f.run))
			}
			set(f)
		}
	})
	if !fixed {
		m.implied()
	}
	return nil
}

// cutBy returns the popular limit that seems to have ended a job: the job ran exactly for this
// limit, or at most a minute longer. It returns 0 for all other jobs and for completed jobs. It
// also returns 0 for short jobs, which may have such a run time by chance, and for jobs of unknown
// state that ran longer than the limit. cutBy is not used if the record says which jobs ended at their
// limits.
func cutBy(f *fact) time.Duration {
	const shortest, late = 30 * time.Minute, time.Minute
	i, exact := slices.BinarySearch(popular, f.run)
	if !exact {
		i--
	}
	if f.completed || i < 0 || popular[i] < shortest || f.run-popular[i] > late || f.unknown && f.run > popular[i] {
		return 0
	}
	return popular[i]
}

func wholeMinutes(d time.Duration) time.Duration {
	return (d + time.Minute - 1) / time.Minute * time.Minute
}

// drawLimits returns a function that gives a job its limit.
func (m *maker) drawLimits(rule string) (func(*fact) time.Duration, error) {
	if limit, factor, ok := fixedLimit(rule); ok {
		return func(f *fact) time.Duration {
			if factor > 0 {
				return time.Duration(float64(f.run) * factor)
			}
			return limit
		}, nil
	}
	bounds := m.bounds()
	var draw func(i int) time.Duration
	switch rule {
	case "run-time":
		return func(f *fact) time.Duration { return wholeMinutes(f.run) }, nil
	case "max":
		return func(f *fact) time.Duration { return bounds[f.batch] }, nil
	case "uniform":
		draw = m.uniformLimits()
	case "like":
		draw = m.likeLimit
	default:
		modal, err := m.modalLimits(bounds)
		if err != nil {
			return nil, err
		}
		uniform := m.uniformLimits()
		share := 1.0 // the share of batches with the modal model
		if rule == "published" {
			share = m.part()
		}
		draw = func(i int) time.Duration {
			if m.rng.Float64() < share {
				return modal[i]
			}
			return uniform(i)
		}
	}
	limits := make([]time.Duration, len(m.batches))
	for i := range m.batches {
		limits[i] = min(draw(i), bounds[i])
	}
	return func(f *fact) time.Duration { return limits[f.batch] }, nil
}

// part draws the share of a site that follows the first of two models. The share is 0 in a quarter of the draws and 1
// in another quarter, because a site may follow only one of the models.
func (m *maker) part() float64 { return min(max(between(m.rng, -0.5, 1.5), 0), 1) }

// shortestThought is the shortest run time that users plan for: a job that ends in seconds has
// failed.
const shortestThought = time.Minute

// uniformLimits returns a function that draws a batch's limit. It draws the share of the limit that
// the longest job of the batch uses (its accuracy), and rounds the limit up. The accuracy is a
// uniform number to a power that is drawn for the site: in logs the mean accuracy is 40 to 80 per
// cent.
func (m *maker) uniformLimits() func(i int) time.Duration {
	power := between(m.rng, 0.25, 1.5)
	return func(i int) time.Duration {
		accuracy := max(math.Pow(m.rng.Float64(), power), 0.001)
		return roundUp(time.Duration(float64(max(m.batches[i].run, shortestThought)) / accuracy))
	}
}

// likeLimit draws one of the limits of batches with similar run times in the log from which the
// rule learned.
func (m *maker) likeLimit(i int) time.Duration {
	run, classes := m.batches[i].run, m.c.Like.Limits
	for k := min(runClass(run), len(classes)-1); k < len(classes); k++ {
		list := classes[k]
		first, _ := slices.BinarySearchFunc(list, run, func(limit jsonSeconds, run time.Duration) int {
			return int(min(max(time.Duration(limit)-run, -1), 1))
		})
		if first < len(list) {
			return time.Duration(list[first+m.rng.IntN(len(list)-first)])
		}
	}
	return roundUp(run)
}

// runClass is the class of a run time in [workload.Likeness].
func runClass(run time.Duration) int {
	return max(0, int(math.Log2(max(1, run.Seconds()))))
}

// bounds returns, for each batch, the longest limit that its partition and the QOS for its size allow. If neither the
// partition nor the QOS has a limit, the bound is a popular limit between the longest run time of the workload and
// about twice that time. If a limit ended the longest job, this limit is the bound in half of the draws.
func (m *maker) bounds() []time.Duration {
	var longest, ended time.Duration
	for i := range m.batches {
		longest, ended = max(longest, m.batches[i].run), max(ended, m.batches[i].ended)
	}
	factor := between(m.rng, 1, 2)
	unknown := roundUp(time.Duration(float64(longest) * factor))
	if longest < ended+time.Minute && factor < 1.5 {
		unknown = ended
	}
	bounds := make([]time.Duration, len(m.batches))
	for i := range m.batches {
		bound := m.siteBound(&m.facts[m.batches[i].jobs[0]])
		if bound == 0 {
			bound = unknown
		}
		bounds[i] = max(bound, wholeMinutes(m.batches[i].run))
	}
	return bounds
}

// siteBound returns the longest limit that the site allows for a job, or 0 if the site sets none.
func (m *maker) siteBound(f *fact) time.Duration {
	p := m.partition(f.partition)
	longest := time.Duration(0)
	for _, q := range fittingQOS(m.batches[f.batch].qos, f, p) {
		if q.MaxTime == 0 {
			longest = 0
			break
		}
		longest = max(longest, time.Duration(q.MaxTime))
	}
	if p == nil || p.MaxTime == 0 {
		return longest
	}
	if longest == 0 {
		return time.Duration(p.MaxTime)
	}
	return min(longest, time.Duration(p.MaxTime))
}

// modalLimits draws the limits of all batches by the modal model, for each bound separately.
func (m *maker) modalLimits(bounds []time.Duration) ([]time.Duration, error) {
	byBound := &workload.Workload{Source: m.w.Source}
	partitions := map[string]transform.Partition{}
	for i := range m.batches {
		name := bounds[i].String()
		partitions[name] = transform.Partition{MaxTime: bounds[i]}
		byBound.Jobs.Append(&hpc.Job{
			ID: fmt.Sprint(i), Submit: hpc.Time(i + 1), Request: hpc.Request{Partition: name}, Behaviour: hpc.Behaviour{RunTime: m.batches[i].run},
		})
	}
	out, _, err := transform.Apply(byBound, transform.Environment{Seed: m.rng.Uint64(), Partitions: partitions}, transform.ModalEstimates())
	if err != nil {
		return nil, err
	}
	limits := make([]time.Duration, len(m.batches))
	for i, job := range out.Jobs.All() {
		limits[i] = job.TimeLimit
	}
	return limits, nil
}
