package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
)

// rig is the slurm.conf of the experiments: eight nodes of one processor.
const rig = `ClusterName=rig
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_licenses,bf_interval=30,bf_resolution=60
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
Licenses=%s:%d
NodeName=n[1-%d] Sockets=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1000
PartitionName=rig Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// licensesPolicy is the policy that Slurm's own backfill scheduler carries out.
const licensesPolicy = "bf-licenses"

// replay replays a realization on the stock Slurm.
func (c *campaign) replay(ctx context.Context, name string, seed uint64) (outcome, error) {
	w, err := c.workload(seed)
	if err != nil {
		return outcome{}, err
	}
	dir, err := os.MkdirTemp("", "iorig-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	system := w.FileSystems[0].Complete()
	conf := fmt.Sprintf(rig, system.Name, system.Licenses, w.MachineProcessors)
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(conf), 0o600); err != nil {
		return outcome{}, err
	}
	spec := experiment.Spec{
		Workload: experiment.Workload{Value: w}, Seed: seed, Output: filepath.Join(dir, "run"),
		Slurm: &experiment.Slurm{Cluster: dir, Installation: c.slurm},
	}
	strategy, options, given := strings.Cut(name, ":")
	if given {
		options = ":" + options
	}
	switch strategy {
	case licensesPolicy:
		err = declare(&spec, system, strings.TrimPrefix(options, ":"))
	case "io-baseline":
		spec.Slurm.IOSchedule = string(ioaware.Baseline) + options
	default:
		_, err = ioaware.ParsePlanning(name)
		spec.Slurm.IOSchedule = name
	}
	if err != nil {
		return outcome{}, fmt.Errorf("--policies %s: %w", name, err)
	}
	summary, err := experiment.Run(ctx, spec, experiment.Hooks{})
	if err != nil {
		return outcome{}, fmt.Errorf("%s, %s, seed %d: %w", c.set, name, seed, err)
	}
	if done := summary.JobsByState[hpc.Completed]; done != w.Jobs.Len() || !summary.Valid {
		return outcome{}, fmt.Errorf("%s, %s, seed %d: %d of %d jobs completed, valid %t %s", c.set, name, seed, done,
			w.Jobs.Len(), summary.Valid, summary.Doubt)
	}
	return outcome{float64(summary.MakespanSeconds), float64(summary.ThroughputPerHour), float64(summary.IO.MeanStretch),
		float64(summary.IO.AWRT)}, nil
}

// declare makes the jobs of a workload request the licenses that an estimate predicts, as a
// job_submit plugin does.
func declare(spec *experiment.Spec, system hpc.FileSystem, option string) error {
	text, given := strings.CutPrefix(option, "estimate=")
	if !given {
		return fmt.Errorf("%q: want %s:estimate=ESTIMATE", option, licensesPolicy)
	}
	estimator, err := ioaware.ParseEstimator(text)
	if err != nil {
		return err
	}
	jobs := &spec.Workload.Value.Jobs
	for i := range jobs.Len() {
		jobs.Change(i, func(job *hpc.Job) {
			if use := min(estimator.Estimate(job, -1, &system).Use, system.Licenses); use > 0 {
				job.Licenses = fmt.Sprintf("%s:%d", system.Name, use)
			}
		})
	}
	return nil
}
