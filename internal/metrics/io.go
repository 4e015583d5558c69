package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// IO is how the jobs of a run shared its file systems.
type IO struct {
	// Jobs counts the jobs with I/O that started. Stretched counts the jobs among these that completed
	// and ran more than a second longer than they would have run alone. The stretch of a job is its
	// run time divided by its run time alone. Suspended time is left out.
	Jobs        int   `json:"jobs"`
	Stretched   int   `json:"stretched_jobs"`
	MeanStretch Float `json:"mean_stretch"`
	MaxStretch  Float `json:"max_stretch"`
	// LostNodeSeconds is nodes x (run time - run time alone), summed over the jobs of Stretched: the node seconds in
	// which jobs waited for a file system.
	LostNodeSeconds Float `json:"lost_node_s"`
	// AWRT is the mean turnaround, weighted with the jobs' areas a = nodes x run time: Σ a F / Σ a.
	// ASpWAS is the mean time since submission of the running jobs, weighted by nodes x this time:
	// M(2) / M(1), where M(q) = Σ nodes (F^(q+1) - W^(q+1)) / (q+1), F is the turnaround
	// and W the wait (Goponenko et al., SBAC-PAD 2022, define M(p+1) / M(p); here p = 1). Both are
	// in seconds, over the jobs that started and ended. All figures above leave out the jobs for
	// which [Options.LeavesOut] holds.
	AWRT   Float `json:"awrt_s"`
	ASpWAS Float `json:"aspwas_s"`

	FileSystems []FileSystemUse `json:"file_systems"`
}

// FileSystemUse is the use of a file system by all jobs from the first start of a job, or
// [Options.From], to the last end, or [Options.To].
type FileSystemUse struct {
	Name      string `json:"name"`
	Bandwidth int64  `json:"bytes_per_s"`
	// Moved is the number of bytes that the jobs moved. Utilization is Moved divided by what the
	// file system could have moved. Demand is the mean rate that the jobs requested, and PeakDemand
	// the largest rate that they requested at once, both divided by the bandwidth. Oversubscribed is
	// the part of the time in which jobs requested more than the bandwidth.
	Moved          Float `json:"moved_bytes"`
	Utilization    Float `json:"utilization"`
	Demand         Float `json:"demand"`
	PeakDemand     Float `json:"peak_demand"`
	Oversubscribed Float `json:"oversubscribed"`
	// Limit is the bandwidth that schedulers use for planning, in bytes per second. Licenses is the
	// number of licenses that represent this bandwidth. Requested is the mean number of licenses
	// that running jobs requested. Expected adds the estimates for running jobs that request no
	// licenses. Expected has no value if the record has no estimates.
	Limit     int64 `json:"limit_bytes_per_s"`
	Licenses  int64 `json:"licenses"`
	Requested Float `json:"requested_licenses"`
	Expected  Float `json:"expected_licenses"`
	// OverTime has these values for [IOParts] equal parts of the time.
	OverTime []FileSystemPart `json:"over_time"`
}

// FileSystemPart is the use of a file system in a part of the time.
type FileSystemPart struct {
	At             time.Time `json:"at"` // the beginning of the part
	Seconds        Float     `json:"seconds"`
	Utilization    Float     `json:"utilization"`
	Demand         Float     `json:"demand"`
	Oversubscribed Float     `json:"oversubscribed"`
}

// IOParts is the number of parts into which [FileSystemUse] divides the time.
const IOParts = 24

// NewIO returns how the jobs of a run shared file systems, or nil if the run has no file systems.
// The record has no rates: the model of package bandwidth computes them from the periods in which
// jobs ran. If a job ran several times, its stretch is that of its last run. NewIO returns an error
// if a job or a file system of the record cannot be read.
func NewIO(rows []run.Row, m *run.Manifest, opts Options) (*IO, error) {
	played, err := newPlayback(rows, m)
	if played == nil {
		return nil, err
	}
	io := &IO{}
	io.stretch(played.jobs, opts)
	io.AWRT, io.ASpWAS = Weighted(rows, opts)
	first, last, _ := bounds(all(rows))
	first, last = cmp.Or(opts.From, first), cmp.Or(opts.To, last)
	courses := newCourses(played.systems, first, last, IOParts)
	peaks := make([]int64, len(courses))
	played.each(last, func(from, to hpc.Time, loads []FileSystemLoad) {
		for i := range loads {
			courses[i].add(from, to, &loads[i])
			if to > max(from, first) {
				peaks[i] = max(peaks[i], loads[i].Asked)
			}
		}
	})
	for i := range courses {
		use := courses[i].summarize()
		use.PeakDemand = Float(float64(peaks[i]) / float64(use.Bandwidth))
		if !played.expects {
			use.Expected = NoValue()
		}
		io.FileSystems = append(io.FileSystems, use)
	}
	return io, nil
}

// stretch computes how much longer the jobs with I/O ran than they would have run alone.
func (io *IO) stretch(jobs []ioJob, opts Options) {
	io.MeanStretch, io.MaxStretch = NoValue(), NoValue()
	var sum, largest, lost float64
	count := 0
	for i := range jobs {
		r := jobs[i].row
		if len(jobs[i].phases) == 0 || opts.LeavesOut(r) {
			continue
		}
		io.Jobs++
		if r.State != hpc.Completed || r.AskedRunTime <= 0 {
			continue
		}
		took := r.End.Sub(r.Start) - r.Suspended
		if took > r.AskedRunTime+time.Second { // less than a second may come from slurmctld, whose times are whole seconds
			io.Stretched++
			lost += float64(nodesOf(r.NodeCount, r.Processors)) * (took - r.AskedRunTime).Seconds()
		}
		ratio := took.Seconds() / r.AskedRunTime.Seconds()
		sum, largest = sum+ratio, math.Max(largest, ratio)
		count++
	}
	io.LostNodeSeconds = Float(lost)
	if count > 0 {
		io.MeanStretch, io.MaxStretch = Float(sum/float64(count)), Float(largest)
	}
}

// Weighted returns AWRT and ASpWAS of a run, as [IO] describes them. Runs without file systems have
// both, too.
func Weighted(rows []run.Row, opts Options) (awrt, aspwas Float) {
	var weighted, areas, second, firstMoment float64
	for i := range rows {
		r := &rows[i]
		if r.Start == 0 || r.End == 0 || opts.LeavesOut(r) {
			continue
		}
		n := float64(nodesOf(r.NodeCount, r.Processors))
		f, w := r.End.Sub(r.Submit).Seconds(), r.Start.Sub(r.Submit).Seconds()
		area := n * (f - w)
		areas += area
		weighted += area * f
		firstMoment += n * (f*f - w*w) / 2
		second += n * (f*f*f - w*w*w) / 3
	}
	if areas > 0 {
		return Float(weighted / areas), Float(second / firstMoment)
	}
	return NoValue(), NoValue()
}

// render writes the I/O for people.
func (io *IO) render(b *bytes.Buffer) {
	if io == nil {
		return
	}
	fmt.Fprintf(b, "\nI/O          %d %s; I/O made %d of them longer; stretch %s on average, %s at most\n", io.Jobs,
		quantity.Plural(io.Jobs, "job", "jobs"),
		io.Stretched, number(io.MeanStretch), number(io.MaxStretch))
	fmt.Fprintf(b, "             %s node hours lost to I/O\n", number(io.LostNodeSeconds/3600))
	fmt.Fprintf(b, "             turnaround weighted by area (AWRT) %s s, ASpWAS %s s\n", number(io.AWRT),
		number(io.ASpWAS))
	for i := range io.FileSystems {
		io.FileSystems[i].render(b)
	}
}

// render writes the use of a file system for people.
func (f *FileSystemUse) render(b *bytes.Buffer) {
	fmt.Fprintf(b, "  %s: %s used, %s asked for (%s at most), oversubscribed %s of the time\n", f.Name,
		percent(f.Utilization), percent(f.Demand), percent(f.PeakDemand), percent(f.Oversubscribed))
	fmt.Fprintf(b, "    licenses of running jobs: %s requested", number(round(f.Requested)))
	if f.Expected.Known() {
		fmt.Fprintf(b, ", %s with estimates", number(round(f.Expected)))
	}
	fmt.Fprintf(b, ", on average, of %d\n", f.Licenses)
}

// round returns the nearest whole number.
func round(f Float) Float { return Float(math.Round(float64(f))) }
