package iocmd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/counters"
)

// bandwidth is the value of a flag: bytes per second.
type bandwidth float64

func (b *bandwidth) Type() string   { return "bytes" }
func (b *bandwidth) String() string { return strconv.FormatFloat(float64(*b), 'g', -1, 64) }

// units are the units of bandwidths.
var units = map[string]float64{
	"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// Set reads the value.
func (b *bandwidth) Set(text string) error {
	number := strings.TrimRight(text, "BkMGTKi")
	unit, known := units[text[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n > 0) || n > 1e18 {
		return errors.New("not bytes per second (want a number above 0 with kB, MB, GB, TB, KiB, MiB, GiB or TiB)")
	}
	*b = bandwidth(n * unit)
	return nil
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
		Use:   "learn FILE --state DIR",
		Short: "Learn from finished jobs in the output of sacct",
		Long: `Learns from finished jobs, so that a new service knows something from the start. FILE is
the output of

  sacct -P --allusers --starttime DATE --endtime DATE \
    --format=JobID,JobIDRaw,Start,End,Comment,TRESUsageInTot,TRESUsageOutTot

with the jobs' steps. A job's class is that of its comment: jobtype=NAME; or
variety_id=ID;. What it read and wrote is fs/lustre of its steps, or fs/disk. The service
must not run. A job that it has learned of lately is not counted twice.`,
		Example: `  rmreplay io learn march.txt --state /var/lib/rmreplay/io --timezone Europe/Zurich
  rmreplay io learn march.txt --state io --json`,
		Args: console.WantArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return o.runLearn(args[0], &opts, &zone, asJSON) },
	}
	opts.add(c.Flags())
	zone.Add(c.Flags())
	console.AddJSON(c, &asJSON)
	_ = c.MarkFlagRequired("state") // the flag exists
	return c
}

func (o commands) runLearn(path string, opts *stateOptions, zone *flags.Zone, asJSON bool) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return console.BadInput(err)
	}
	defer file.Close()
	var report learnReport
	var jobs []ioservice.Job
	var uses []counters.Use
	report.NotEnded, err = counters.Sacct(file, path, zone.Location(), func(j counters.SacctJob) {
		job := ioservice.Job{ID: j.Job, Start: j.Start, End: j.End, Class: ioservice.IDInComment(j.Comment)}
		name, err := ioservice.NameInComment(j.Comment)
		if err == nil && name != "" {
			job.Name, job.Class = name, ioservice.NamedClass(name)
		}
		switch runTime := j.End.Sub(j.Start); {
		case job.Class == "":
			report.NoClass++
		case !j.Counted:
			report.NoData++
		default:
			jobs = append(jobs, job)
			uses = append(uses, counters.Use{Start: j.Start, End: j.End, RunTime: runTime, Mean: j.Bytes / runTime.Seconds()})
		}
	})
	if err != nil {
		return console.BadInput(err)
	}
	opts.config.Bandwidth = 1 // no prediction is made
	service, log, err := o.open(opts, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	before := service.Status(0).Processed
	for i, job := range jobs {
		if err := service.Learn(job.End, job, uses[i]); err != nil {
			return err
		}
	}
	if err := service.Save(); err != nil {
		return err
	}
	after := service.Status(0)
	report.Learned, report.Classes = int(after.Processed-before), after.Classes
	report.Known = len(jobs) - report.Learned
	if asJSON {
		return o.PrintJSON(report)
	}
	return o.Print(fmt.Sprintf("learned from %d jobs; %d classes are known\nleft out: %d known already, %d without a class, %d without bytes of a file system, %d not ended\n",
		report.Learned, report.Classes, report.Known, report.NoClass, report.NoData, report.NotEnded))
}
