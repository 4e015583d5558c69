package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"rmreplay/internal/bandwidth"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// IO is how the jobs of a run shared its file systems.
type IO struct {
	// Jobs counts the jobs with I/O that started. Stretched counts those of them that completed
	// and ran more than a second longer than they would have alone. The stretch of a job is its
	// run time, divided by that.
	Jobs        int   `json:"jobs"`
	Stretched   int   `json:"stretched_jobs"`
	MeanStretch Float `json:"mean_stretch"`
	MaxStretch  Float `json:"max_stretch"`
	// AWRT is the mean turnaround, weighted with the jobs' areas a = nodes x run time: Σ a F / Σ a.
	// ASpWAS weights every instant at which a node works with how long the job's user has waited
	// for it: M(2) / M(1), where M(q) = Σ nodes (F^(q+1) - W^(q+1)) / (q+1), F is the turnaround and
	// W the wait (Goponenko et al., SBAC-PAD 2022; there it is M(p+1) / M(p), here p = 1). Both
	// are over the jobs that started and ended, in seconds.
	AWRT   Float `json:"awrt_s"`
	ASpWAS Float `json:"aspwas_s"`

	FileSystems []FileSystemUse `json:"file_systems"`
}

// FileSystemUse is the use of a file system from the first start of a job to the last end.
type FileSystemUse struct {
	Name      string `json:"name"`
	Bandwidth int64  `json:"bytes_per_s"`
	// Moved is the bytes that the jobs moved. Utilization is Moved, divided by what the file system
	// could have moved. Demand is the same with what the jobs asked for. Oversubscribed is the part
	// of the time in which they asked for more than the bandwidth.
	Moved          Float `json:"moved_bytes"`
	Utilization    Float `json:"utilization"`
	Demand         Float `json:"demand"`
	Oversubscribed Float `json:"oversubscribed"`
}

// NewIO returns how the jobs of a run shared file systems, or nil if the run has none. The record
// has no rates: they follow from the starts and ends of the jobs by the model of package bandwidth.
// Of a job that ran several times the last run counts.
func NewIO(rows []run.Row, m *run.Manifest) (*IO, error) {
	if len(m.FileSystems) == 0 {
		return nil, nil
	}
	systems := make([]hpc.FileSystem, len(m.FileSystems))
	for i, f := range m.FileSystems {
		systems[i] = hpc.FileSystem(f)
	}
	model, err := bandwidth.New(systems)
	if err != nil {
		return nil, err
	}
	io := &IO{}
	jobs, err := io.withIO(rows)
	if err != nil {
		return nil, err
	}
	io.weigh(rows)
	use := newUse(model)
	changes := make([]change, 0, 2*len(jobs))
	for i := range jobs {
		changes = append(changes, change{jobs[i].row.Start, i, true})
		if jobs[i].row.End != 0 {
			changes = append(changes, change{jobs[i].row.End, i, false})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	first, last, _ := bounds(all(rows))
	use.now = first
	for _, c := range changes {
		use.until(c.at)
		if j := &jobs[c.job]; c.start {
			model.Start(c.at, c.job, j.nodes(), j.row.AskedRunTime, j.io)
		} else {
			model.Stop(c.at, c.job)
		}
	}
	use.until(last)
	io.FileSystems = use.results(last.Sub(first).Seconds())
	return io, nil
}

// change is the start or the end of a job with I/O.
type change struct {
	at    hpc.Time
	job   int
	start bool
}

// ioRow is a job with I/O that started.
type ioRow struct {
	row *run.Row
	io  []hpc.Phase
}

// nodes returns the number of nodes that the job had; on a pool, of its processors.
func (r *ioRow) nodes() int { return cmp.Or(r.row.NodeCount, r.row.Processors, 1) }

// withIO returns the jobs with I/O, and counts the stretched ones. Of an array only the first row
// has the request.
func (io *IO) withIO(rows []run.Row) (jobs []ioRow, err error) {
	phases := map[string][]hpc.Phase{}
	for i := range rows {
		r := &rows[i]
		if bytes.Contains([]byte(r.Request), []byte(`"io":[`)) {
			job, err := run.DecodeJob([]byte(r.Request))
			if err != nil {
				return nil, err
			}
			if job.EndAt == 0 {
				phases[r.Job] = job.IO
			}
		}
		if list := phases[r.Job]; list != nil && r.Start != 0 {
			jobs = append(jobs, ioRow{r, list})
		}
	}
	io.Jobs, io.MeanStretch, io.MaxStretch = len(jobs), NoValue(), NoValue()
	sum, count := 0.0, 0
	for _, j := range jobs {
		r := j.row
		if r.State != hpc.Completed || r.AskedRunTime <= 0 {
			continue
		}
		took := r.End.Sub(r.Start)
		if took > r.AskedRunTime+time.Second {
			io.Stretched++
		}
		stretch := took.Seconds() / r.AskedRunTime.Seconds()
		sum += stretch
		count++
		io.MaxStretch = Float(math.Max(stretch, max(0, zeroIfUnknown(io.MaxStretch))))
		io.MeanStretch = Float(sum / float64(count))
	}
	return jobs, nil
}

func zeroIfUnknown(f Float) float64 {
	if f.Known() {
		return float64(f)
	}
	return 0
}

// weigh computes AWRT and ASpWAS.
func (io *IO) weigh(rows []run.Row) {
	var weighted, areas, second, firstMoment float64
	for i := range rows {
		r := &rows[i]
		if r.Start == 0 || r.End == 0 {
			continue
		}
		job := ioRow{row: r}
		n := float64(job.nodes())
		f, w := r.End.Sub(r.Submit).Seconds(), r.Start.Sub(r.Submit).Seconds()
		area := n * (f - w)
		areas += area
		weighted += area * f
		firstMoment += n * (f*f - w*w) / 2
		second += n * (f*f*f - w*w*w) / 3
	}
	io.AWRT, io.ASpWAS = NoValue(), NoValue()
	if areas > 0 {
		io.AWRT, io.ASpWAS = Float(weighted/areas), Float(second/firstMoment)
	}
}

// use sums up the loads of file systems.
type use struct {
	model   *bandwidth.Model
	now     hpc.Time
	systems []FileSystemUse // sums, until results divides them
}

func newUse(model *bandwidth.Model) *use {
	u := &use{model: model}
	for _, f := range model.FileSystems() {
		u.systems = append(u.systems, FileSystemUse{Name: f.Name, Bandwidth: f.Bandwidth})
	}
	return u
}

// until adds the loads up to an instant.
func (u *use) until(at hpc.Time) {
	for u.now < at {
		next := max(min(u.model.Next(), at), u.now)
		d := next.Sub(u.now).Seconds()
		for i := range u.systems {
			s := &u.systems[i]
			load := u.model.Load(s.Name)
			s.Moved += Float(float64(load.Granted) * d)
			s.Demand += Float(float64(load.Asked) * d)
			if load.Asked > s.Bandwidth {
				s.Oversubscribed += Float(d)
			}
		}
		u.now = next
		u.model.Advance(next)
	}
}

// results divides the sums by the time.
func (u *use) results(seconds float64) []FileSystemUse {
	for i := range u.systems {
		s := &u.systems[i]
		s.Utilization = s.Moved / Float(float64(s.Bandwidth)*seconds)
		s.Demand /= Float(float64(s.Bandwidth) * seconds)
		s.Oversubscribed /= Float(seconds)
	}
	return u.systems
}

// render writes the I/O for people.
func (io *IO) render(b *bytes.Buffer) {
	if io == nil {
		return
	}
	fmt.Fprintf(b, "\nI/O          %d jobs, %d of them longer for it; stretch %s on average, %s at most\n", io.Jobs, io.Stretched, number(io.MeanStretch), number(io.MaxStretch))
	fmt.Fprintf(b, "             turnaround weighted by area (AWRT) %s s, ASpWAS %s s\n", number(io.AWRT), number(io.ASpWAS))
	for _, f := range io.FileSystems {
		fmt.Fprintf(b, "  %s: %s used, %s asked for, oversubscribed %s of the time\n", f.Name, percent(f.Utilization), percent(f.Demand), percent(f.Oversubscribed))
	}
}
