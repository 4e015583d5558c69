// Command realslurm runs a workload on a stock Slurm in real time, with one slurmd for each node,
// and compares such runs with replays. docs/measurements/accuracy.md has the results. The command
// needs root and MariaDB. It must be built statically, because it is also the interpreter of the
// jobs' scripts:
//
//	CGO_ENABLED=0 go build ./tools/realslurm
//	realslurm run -slurm ROOT -cluster micro -offset 20s -o real/01 small.events
//	rmreplay replay real/01/submitted.events --cluster micro --slurm ROOT -o ours/01 \
//	    --lead "$(realslurm lead real/01)" --launch-delay uniform:50ms,250ms
//	realslurm pairs real/01=ours/01 real/02=ours/02
//
// ROOT is a root directory with Slurm and the libraries that it needs, such as a release that
// `rmreplay slurm install` unpacked. The daemons run in their own changed root, with separate
// namespaces for processes, mounts and the network. So several runs can run side by side.
//
// The cluster's directory has slurm.conf, sacctmgr.script, users.sim and, as needed,
// topology.conf. The daemons get the site's slurm.conf, except for authentication, credentials,
// paths, addresses and the programs of the site. The device files of a generic resource are empty
// files.
//
// The directory of a run has the daemons' logs, sacct's records, run.json, the workload with the
// instants at which slurmctld accepted its jobs (submitted.events), and the jobs as a table that
// tools/realruns reads (jobs.csv).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const usage = `usage: realslurm run -slurm ROOT -cluster DIR [-offset DURATION] -o DIR WORKLOAD.events
       realslurm lead DIR
       realslurm pairs REAL=REPLAY...
`

func main() {
	err := command(os.Args[1:])
	var bad usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &bad):
		fmt.Fprintf(os.Stderr, "realslurm: %v\n%s", err, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "realslurm:", err)
		os.Exit(1)
	}
}

// usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func command(args []string) error {
	if len(args) == 0 {
		return usageError("no command")
	}
	switch name, rest := args[0], args[1:]; {
	case name == "run":
		o, err := parseOptions(rest)
		if err != nil {
			return err
		}
		return start(o)
	case name == "lead" && len(rest) == 1:
		s, err := readSummary(rest[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(os.Stdout, s.Lead)
		return err
	case name == "pairs" && len(rest) > 0:
		return printPairs(os.Stdout, rest)
	case name == stageInit && len(rest) == 1:
		return initStage(rest[0])
	case name == stageWorker && len(rest) == 1:
		return workerStage(rest[0])
	case strings.HasPrefix(name, sleepPrefix):
		return sleep(strings.TrimPrefix(name, sleepPrefix))
	}
	return usageError(fmt.Sprintf("%s: not a command with its arguments", args[0]))
}

// options are what a run needs.
type options struct {
	Slurm, Cluster, Output, Workload string // absolute paths
	Offset                           time.Duration
}

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("realslurm run", flag.ContinueOnError)
	f.StringVar(&o.Slurm, "slurm", "", "the `ROOT` directory of a release of Slurm")
	f.StringVar(&o.Cluster, "cluster", "", "the cluster's `DIR`")
	f.StringVar(&o.Output, "o", "", "a new `DIR` for the logs")
	f.DurationVar(&o.Offset, "offset", 20*time.Second, "submit the first job `DURATION` after slurmctld's start")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, usageError(err.Error())
	}
	if o.Slurm == "" || o.Cluster == "" || o.Output == "" || f.NArg() != 1 {
		return o, usageError("run: a root, a cluster, a directory for the logs and a workload are required")
	}
	o.Workload = f.Arg(0)
	for _, path := range []*string{&o.Slurm, &o.Cluster, &o.Output, &o.Workload} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = absolute
	}
	return o, nil
}

// sleepPrefix begins the argument with which a job's script starts this program. The run time in
// seconds follows; it is negative for a job that runs until its time limit.
const sleepPrefix = "sleep="

// sleep does what a job does: it sleeps. At the job's time limit, Slurm ends it with a signal.
func sleep(text string) error {
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		return fmt.Errorf("%s%s: not a number of seconds", sleepPrefix, text)
	}
	if d < 0 {
		d = 1<<63 - 1
	}
	time.Sleep(d)
	return nil
}
