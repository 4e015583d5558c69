package iocmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/counters"
	"rmreplay/internal/ioservice/recorded"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// bandwidth is the value of a flag: bytes per second.
type bandwidth float64

func (b *bandwidth) Type() string   { return "rate" }
func (b *bandwidth) String() string { return strconv.FormatFloat(float64(*b), 'g', -1, 64) }

// Set reads the value.
func (b *bandwidth) Set(text string) error {
	n, err := hpc.ParseRate(text)
	*b = bandwidth(n)
	return err
}

// learnReport is what `io learn` has done.
type learnReport struct {
	Learned  int `json:"learned_jobs"`
	Known    int `json:"known_jobs"`
	NoClass  int `json:"jobs_without_class"`
	NoData   int `json:"jobs_without_data"`
	NotEnded int `json:"jobs_not_ended"`
	Classes  int `json:"classes"`
}

func (o commands) learn() *cobra.Command {
	var opts stateOptions
	var zone flags.Zone
	var asJSON bool
	c := &cobra.Command{
		Use:   "learn SOURCE --state DIR",
		Short: "Learn from finished jobs in the output of sacct, or from a run",
		Long: `Learns from finished jobs, so that a new service knows classes from the start. SOURCE is
the output of

  sacct -P --allusers --starttime DATE --endtime DATE \
    --format=JobID,JobIDRaw,Start,End,Comment,TRESUsageInTot,TRESUsageOutTot

with the jobs' steps, or a run, or a directory of realizations. The I/O of a job in
sacct's output is fs/lustre of its steps, or else fs/disk. The I/O of a job in a run is
the bandwidth that the replay or the simulator granted. The job's comment names its
class: jobtype=NAME; or variety_id=ID;. The service must not run at the same time. A job
from which the service has learned recently is not counted twice.`,
		Example: `  rmreplay io learn march.txt --state /var/lib/rmreplay/io --timezone Europe/Zurich
  rmreplay io learn run --state io --json`,
		Args: console.WantArgs("SOURCE"),
		RunE: func(_ *cobra.Command, args []string) error { return o.runLearn(args[0], &opts, &zone, asJSON) },
	}
	opts.add(c.Flags())
	zone.Add(c.Flags())
	console.AddJSON(c, &asJSON)
	_ = c.MarkFlagRequired("state") // the flag exists
	return c
}

// lesson is the input of `io learn`: the jobs, and their uses of the file system, in the same
// order.
type lesson struct {
	learnReport
	jobs []ioservice.Job
	uses []counters.Use
}

// add adds a finished job, or counts why nothing can be learned from it.
func (l *lesson) add(t *counters.Total, comment string, counted bool) {
	job := ioservice.Job{ID: t.Job, Start: t.Start, End: t.End, Class: classOf(comment)}
	name, err := ioservice.NameInComment(comment)
	if err == nil && name != "" {
		job.Name = name
	}
	switch runTime := t.End.Sub(t.Start); {
	case job.Class == "":
		l.NoClass++
	case !counted:
		l.NoData++
	default:
		l.jobs = append(l.jobs, job)
		l.uses = append(l.uses, counters.Use{Start: t.Start, End: t.End, RunTime: runTime, Mean: t.Bytes / runTime.Seconds()})
	}
}

// read reads the output of sacct, or the runs of a directory.
func (l *lesson) read(path string, zone *time.Location) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return l.readRuns(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	l.NotEnded, err = counters.Sacct(file, path, zone, func(j counters.SacctJob) { l.add(&j.Total, j.Comment, j.Counted) })
	return err
}

func (l *lesson) readRuns(path string) error {
	set, err := run.OpenSet(path)
	if err != nil {
		return err
	}
	for _, r := range set.Runs {
		rows, err := r.Jobs()
		if err != nil {
			return fmt.Errorf("reading run record %s: %w", r.Dir, err)
		}
		jobs, open, err := recorded.Jobs(rows, &r.Manifest)
		if err != nil {
			return fmt.Errorf("reading run record %s: %w", r.Dir, err)
		}
		l.NotEnded += open
		for i := range jobs {
			j := &jobs[i]
			j.Job = filepath.Base(r.Dir) + "/" + j.Job // jobs of realizations have the same numbers
			l.add(&j.Total, j.Comment, j.Counted)
		}
	}
	return nil
}

func (o commands) runLearn(path string, opts *stateOptions, zone *flags.Zone, asJSON bool) (err error) {
	var l lesson
	if err := l.read(path, zone.Location()); err != nil {
		return console.BadInput(err)
	}
	opts.config.Bandwidth = 1 // any value above 0: only predictions use it
	service, log, err := o.open(opts, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	before := service.Status(0).Processed
	for i, job := range l.jobs {
		if err := service.Learn(job.End, job, l.uses[i]); err != nil {
			return err
		}
	}
	if err := service.Save(); err != nil {
		return err
	}
	after := service.Status(0)
	report := l.learnReport
	report.Learned, report.Classes = int(after.Processed-before), after.Classes
	report.Known = len(l.jobs) - report.Learned
	if asJSON {
		return o.PrintJSON(report)
	}
	return o.Print(fmt.Sprintf("learned from %d %s; %d %s known\nleft out: %d known already, %d without a "+
		"class, %d without bytes of a file system, %d not ended\n",
		report.Learned, quantity.Plural(report.Learned, "job", "jobs"), report.Classes,
		quantity.Plural(report.Classes, "class is", "classes are"), report.Known, report.NoClass, report.NoData, report.NotEnded))
}
