package iocmd

import (
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// assignReport is what `io assign` has done.
type assignReport struct {
	Assigned int `json:"jobs_with_assigned_io"`
	Idle     int `json:"jobs_of_idle_classes"`
	Had      int `json:"jobs_that_had_io"`
	NoClass  int `json:"jobs_without_class"`
	Unknown  int `json:"jobs_of_unknown_classes"`
}

// assignOptions are the flags of `io assign`.
type assignOptions struct {
	stateOptions
	fileSystems []hpc.FileSystem
	output      string
	json        bool
}

func (o commands) assign() *cobra.Command {
	var opts assignOptions
	c := &cobra.Command{
		Use:   "assign WORKLOAD --state DIR --filesystem NAME=BANDWIDTH -o FILE",
		Short: "Give the jobs of a workload the I/O that a service learned for their classes",
		Long: `Gives each job the mean I/O rate of its class, for all of its run time, if the service
knows the class, and writes the workload. Simulations and replays of this workload show
what scheduling with knowledge of the file system would bring. The job's comment names
its class: jobtype=NAME; or variety_id=ID;. Jobs that have I/O keep their I/O. Rates
that were learned while jobs slowed each other down are too low. The service must not
run at the same time.`,
		Example: `  rmreplay io learn march.txt --state io
  rmreplay io assign march.jsonl --state io --filesystem lustre=80GB/s -o with-io.jsonl
  rmreplay simulate with-io.jsonl --policy io-aware -o run`,
		Args: console.WantArgs("WORKLOAD"),
		RunE: func(_ *cobra.Command, args []string) error { return o.runAssign(args[0], &opts) },
	}
	f := c.Flags()
	opts.add(f)
	flags.FileSystems(f, &opts.fileSystems)
	f.StringVarP(&opts.output, "output", "o", "", "write to `FILE`: a trace, compressed if its name ends in .gz")
	console.AddJSON(c, &opts.json)
	for _, name := range []string{"state", "filesystem", "output"} {
		_ = c.MarkFlagRequired(name) // the flag exists
	}
	return c
}

func (o commands) runAssign(path string, opts *assignOptions) (err error) {
	if len(opts.fileSystems) != 1 {
		return console.Usagef("--filesystem: %d file systems given (want the one whose I/O the service of --state learned)", len(opts.fileSystems))
	}
	if err := formats.Replaces(opts.output, path); err != nil {
		return err
	}
	w, err := formats.Open(path)
	if err != nil {
		return console.BadInput(err)
	}
	opts.config.Bandwidth = 1 // any value above 0: only predictions use it
	service, log, err := o.open(&opts.stateOptions, nil)
	if err != nil {
		return err
	}
	rates := map[string]float64{}
	for _, c := range service.Classes() {
		rates[c.ID] = c.Rate.Mean
	}
	if err := log.Close(); err != nil {
		return err
	}
	if len(rates) == 0 {
		return console.BadInput(fmt.Errorf("%s: the state has no class of jobs yet (want the state of rmreplay io serve or io learn)",
			opts.state))
	}
	report := assign(w, opts.fileSystems[0], rates)
	if err := formats.Save(opts.output, w); err != nil {
		return err
	}
	if opts.json {
		return o.PrintJSON(report)
	}
	return o.Print(fmt.Sprintf("wrote %s: %d %s the I/O of their class\nunchanged: %d of classes without I/O, %d "+
		"that had I/O, %d without a class, %d of a class that the service does not know\n",
		opts.output, report.Assigned,
		quantity.Plural(report.Assigned, "job has", "jobs have"), report.Idle, report.Had, report.NoClass, report.Unknown))
}

// assign gives the jobs of a workload the rates of their classes, in bytes per second by the class's ID.
func assign(w *workload.Workload, system hpc.FileSystem, rates map[string]float64) (r assignReport) {
	for i := range w.Jobs.Len() {
		w.Jobs.Change(i, func(job *hpc.Job) {
			class := classOf(job.Comment)
			rate, known := rates[class]
			switch {
			case len(job.IO) > 0:
				r.Had++
			case class == "":
				r.NoClass++
			case !known:
				r.Unknown++
			case rate < 1:
				r.Idle++
			default:
				r.Assigned++
				job.IO = []hpc.Phase{{FileSystem: system.Name, Rate: int64(math.Round(min(rate, 1<<62)))}}
			}
		})
	}
	w.FileSystems = append(slices.DeleteFunc(w.FileSystems, func(f hpc.FileSystem) bool { return f.Name == system.Name }),
		system)
	w.Transforms = append(w.Transforms, "io assign "+system.Name)
	return r
}

// classOf returns the ID of the class that a comment names, or "" if the comment names no class.
func classOf(comment string) string {
	if name, err := ioservice.NameInComment(comment); err == nil && name != "" {
		return ioservice.NamedClass(name)
	}
	return ioservice.IDInComment(comment)
}
