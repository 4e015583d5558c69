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
	"rmreplay/internal/ioaware"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// FileSystemLoad is the load of a file system at an instant: the rates that running jobs request and
// get, in bytes per second, and the licenses of the file system that these jobs hold. Requested
// counts the licenses that the jobs requested. Expected adds the estimates for jobs that request no
// licenses.
type FileSystemLoad struct {
	bandwidth.Load
	Requested, Expected int64
}

// FileSystemCourse is the load of a file system over time: means of parts of equal length.
type FileSystemCourse struct {
	hpc.FileSystem
	From, To hpc.Time
	// Asked and Granted are in bytes per second. Oversubscribed is the part of the time in which
	// jobs requested more than the bandwidth.
	Asked, Granted, Oversubscribed []float64
	// Requested and Expected are licenses, as in [FileSystemLoad]. Expected is nil if the record
	// does not name the method of its estimates.
	Requested, Expected []float64
}

// NewFileSystemCourses returns the loads of a run's file systems between two instants, in parts of
// equal length; nil if the run has no file systems. It fails as [NewIO] does.
func NewFileSystemCourses(rows []run.Row, m *run.Manifest, from, to hpc.Time, parts int) ([]FileSystemCourse, error) {
	played, err := newPlayback(rows, m)
	if played == nil {
		return nil, err
	}
	courses := newCourses(played.systems, from, to, parts)
	played.each(to, func(from, to hpc.Time, loads []FileSystemLoad) {
		for i := range loads {
			courses[i].add(from, to, &loads[i])
		}
	})
	for i := range courses {
		courses[i].divide()
		if !played.expects {
			courses[i].Expected = nil
		}
	}
	return courses, nil
}

// MovedBytes returns, for each row, the bytes that its job moved in its last run on all file
// systems together; nil if the run has no file system. It fails as [NewIO] does.
func MovedBytes(rows []run.Row, m *run.Manifest) ([]float64, error) {
	played, err := newPlayback(rows, m)
	if played == nil {
		return nil, err
	}
	moved := make([]float64, len(rows))
	_, last, _ := bounds(all(rows))
	played.each(last, func(from, to hpc.Time, _ []FileSystemLoad) {
		for id, rate := range played.model.Rates() {
			if j := &played.jobs[id]; from >= j.row.Start {
				moved[j.at] += float64(rate) * to.Sub(from).Seconds()
			}
		}
	})
	return moved, nil
}

func newCourses(systems []hpc.FileSystem, from, to hpc.Time, parts int) []FileSystemCourse {
	courses := make([]FileSystemCourse, len(systems))
	for i := range courses {
		c := &courses[i]
		c.FileSystem, c.From, c.To = systems[i], from, to
		for _, values := range c.values() {
			*values = make([]float64, parts)
		}
	}
	return courses
}

func (c *FileSystemCourse) values() []*[]float64 {
	return []*[]float64{&c.Asked, &c.Granted, &c.Oversubscribed, &c.Requested, &c.Expected}
}

// partSeconds is the length of a part in seconds.
func (c *FileSystemCourse) partSeconds() float64 {
	return c.To.Sub(c.From).Seconds() / float64(len(c.Asked))
}

// add adds a load that is constant in a period. The values are integrals over time until divide
// makes means of them.
func (c *FileSystemCourse) add(from, to hpc.Time, load *FileSystemLoad) {
	from, to = max(from, c.From), min(to, c.To)
	if to <= from {
		return
	}
	width, last := c.partSeconds(), len(c.Asked)-1
	a, b := from.Sub(c.From).Seconds(), to.Sub(c.From).Seconds()
	for part := min(int(a/width), last); part <= last && a < b; part++ {
		end := b
		if part < last {
			end = min(b, width*float64(part+1))
		}
		d := max(end-a, 0)
		c.Asked[part] += float64(load.Asked) * d
		c.Granted[part] += float64(load.Granted) * d
		c.Requested[part] += float64(load.Requested) * d
		c.Expected[part] += float64(load.Expected) * d
		if load.Asked > c.Bandwidth {
			c.Oversubscribed[part] += d
		}
		a = max(a, end)
	}
}

// divide makes means of the integrals.
func (c *FileSystemCourse) divide() {
	width := c.partSeconds()
	for _, values := range c.values() {
		for i := range *values {
			(*values)[i] /= width
		}
	}
}

// summarize returns the use over the whole time. It turns the values into means.
func (c *FileSystemCourse) summarize() FileSystemUse {
	moved := 0.0
	for _, v := range c.Granted {
		moved += v
	}
	c.divide()
	mean := func(values []float64) Float {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return Float(sum / float64(len(values)))
	}
	of := Float(c.Bandwidth)
	use := FileSystemUse{
		Name: c.Name, Bandwidth: c.Bandwidth, Limit: c.Limit, Licenses: c.Licenses, Moved: Float(moved),
		Utilization: mean(c.Granted) / of, Demand: mean(c.Asked) / of, Oversubscribed: mean(c.Oversubscribed),
		Requested: mean(c.Requested), Expected: mean(c.Expected), OverTime: []FileSystemPart{},
	}
	if c.To <= c.From {
		return use
	}
	width := c.partSeconds()
	for i := range c.Granted {
		use.OverTime = append(use.OverTime, FileSystemPart{
			At: c.From.Add(time.Duration(math.Round(width * float64(i) * 1e9))).Std(), Seconds: Float(width),
			Utilization: Float(c.Granted[i]) / of, Demand: Float(c.Asked[i]) / of, Oversubscribed: Float(c.Oversubscribed[i]),
		})
	}
	return use
}

// playback simulates the I/O of a run's jobs from the periods in which they ran.
type playback struct {
	systems []hpc.FileSystem
	model   *bandwidth.Model
	jobs    []ioJob
	// expects says that the record names the method of its estimates.
	expects bool
	loads   []FileSystemLoad // licenses at an instant; the model fills in the rates
}

// ioJob is a job that started, and that has I/O or licenses of a file system.
type ioJob struct {
	at     int // the index of the job's row
	row    *run.Row
	phases []hpc.Phase // nil for a job without I/O
	// requested and expected are the job's licenses of each file system.
	requested, expected []int64
}

// nodesOf returns the number of nodes of an allocation. On a machine without nodes, it returns the
// number of processors.
func nodesOf(nodes, processors int) int { return cmp.Or(nodes, processors, 1) }

// newPlayback returns nil for a run without file systems.
func newPlayback(rows []run.Row, m *run.Manifest) (*playback, error) {
	if len(m.FileSystems) == 0 {
		return nil, nil
	}
	p := &playback{expects: m.IOEstimate != ""}
	for _, f := range m.FileSystems {
		system := hpc.FileSystem(f)
		p.systems = append(p.systems, system.Complete())
	}
	var err error
	if p.model, err = bandwidth.New(p.systems); err != nil {
		return nil, err
	}
	var estimator ioaware.Estimator = ioaware.Nothing{}
	if p.expects {
		if estimator, err = ioaware.ParseEstimator(m.IOEstimate); err != nil {
			return nil, fmt.Errorf("reading the run's io_estimate: %w", err)
		}
	}
	p.loads = make([]FileSystemLoad, len(p.systems))
	if err := p.collect(rows, estimator); err != nil {
		return nil, err
	}
	return p, nil
}

// collect finds the jobs with I/O or licenses. Only the first row of an array has the request.
func (p *playback) collect(rows []run.Row, estimator ioaware.Estimator) error {
	requests := map[string]*hpc.Job{}
	for i := range rows {
		r := &rows[i]
		if request := []byte(r.Request); bytes.Contains(request, []byte(`"io":[`)) ||
			bytes.Contains(request, []byte(`"licenses":`)) {
			job, err := run.DecodeJob(request)
			if err != nil {
				return fmt.Errorf("job %s: %w", r.Job, err)
			}
			requests[r.Job] = job
		}
		job := requests[r.Job]
		if job == nil || r.Start == 0 {
			continue
		}
		j := ioJob{at: i, row: r}
		if job.EndAt == 0 {
			j.phases = job.IO
		}
		licenses := ioaware.ParseLicenses(job.Licenses)
		counts := int64(0)
		for k := range p.systems {
			f := &p.systems[k]
			requested, given := licenses[f.Name]
			expected := requested
			if !given {
				expected = estimator.Estimate(job, r.Task, f).Use
			}
			j.requested, j.expected = append(j.requested, requested), append(j.expected, expected)
			counts += requested + expected
		}
		if len(j.phases) > 0 || counts > 0 {
			p.jobs = append(p.jobs, j)
		}
	}
	return nil
}

// change is what happens to a job at an instant.
type change struct {
	at     hpc.Time
	job    int
	apply  func(p *playback, c *change)
	nodes  int
	counts int64 // 1 if the job allocates its licenses, -1 if it releases them
}

// changes returns what happens to the jobs, in the order of the instants.
func (p *playback) changes() []change {
	list := make([]change, 0, 2*len(p.jobs))
	var held []run.Segment
	for i := range p.jobs {
		held = p.jobs[i].row.AppendHeld(held[:0])
		suspended := false
		for _, s := range held {
			c := change{at: s.Start, job: i, nodes: nodesOf(s.NodeCount, s.Processors), apply: (*playback).start, counts: 1}
			if suspended {
				c.apply, c.counts = (*playback).resume, 0
			}
			list = append(list, c)
			if s.End == 0 {
				break
			}
			c.at, c.apply, c.counts = s.End, (*playback).stop, -1
			if suspended = s.EndedBy == rm.Suspend; suspended {
				c.apply, c.counts = (*playback).suspend, 0
			}
			list = append(list, c)
		}
		if end := p.jobs[i].row.End; suspended && end != 0 { // the job ended while it was suspended
			list = append(list, change{at: end, job: i, apply: (*playback).stop, counts: -1})
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return list
}

func (p *playback) start(c *change) {
	if j := &p.jobs[c.job]; len(j.phases) > 0 {
		p.model.Start(c.at, c.job, c.nodes, j.row.AskedRunTime, j.phases)
	}
}

func (p *playback) stop(c *change)    { p.model.Stop(c.at, c.job) }
func (p *playback) suspend(c *change) { p.model.Suspend(c.at, c.job) }
func (p *playback) resume(c *change)  { p.model.Resume(c.at, c.job) }

// each calls visit for each period up to the instant until. In a period the loads of the file
// systems are constant. They are in the order of the file systems. each can be called only once.
func (p *playback) each(until hpc.Time, visit func(from, to hpc.Time, loads []FileSystemLoad)) {
	changes := p.changes()
	if len(changes) == 0 {
		return
	}
	now := changes[0].at
	// advance calls visit for the periods up to an instant.
	advance := func(at hpc.Time) {
		for now < at {
			next := max(min(p.model.Next(), at), now)
			for i := range p.loads {
				p.loads[i].Load = p.model.Load(p.systems[i].Name)
			}
			visit(now, next, p.loads)
			now = next
			p.model.Advance(next)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.at >= until {
			break
		}
		advance(c.at)
		c.apply(p, c)
		for k := range p.loads {
			p.loads[k].Requested += c.counts * p.jobs[c.job].requested[k]
			p.loads[k].Expected += c.counts * p.jobs[c.job].expected[k]
		}
	}
	advance(until)
}
