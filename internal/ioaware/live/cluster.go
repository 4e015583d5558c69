// Package live carries out the decisions of package driver on a live cluster, with Slurm's
// commands squeue, sinfo and scontrol. It only changes pending jobs in the driver's partitions,
// and never a job that its user or an administrator holds.
//
// A job that the driver holds has a mark in its admin comment (rmreplay-io=held;). When the driver
// releases the job, it changes the mark. So a restarted driver finds the jobs that it holds. The
// watchdog finds and releases the jobs of a dead driver.
package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/quantity"
)

// Command runs one of Slurm's commands and returns its output, with times in UTC. The error
// contains the command's standard error.
type Command func(ctx context.Context, name string, args ...string) ([]byte, error)

// Forecaster predicts the I/O of jobs, and measures the use of the file system.
type Forecaster interface {
	// Estimate predicts the I/O of a class's jobs; it is zero if the class is unknown.
	Estimate(ctx context.Context, class string) (ioaware.Estimate, error)
	// Used returns the measured use, in licenses.
	Used(ctx context.Context) (int64, error)
}

// Config configures a [Cluster].
type Config struct {
	// Partitions are the partitions in which the driver starts jobs. No other partition may have
	// nodes of these partitions.
	Partitions []string
	// FileSystem is the name of the license for the file system. Total is the number of these
	// licenses if slurm.conf does not have them.
	FileSystem string
	Total      int64
	Forecaster Forecaster // nil to count only requested licenses
	Run        Command
	Now        func() hpc.Time
	// Say is called with a line of text for each event.
	Say func(format string, args ...any)
	// DryRun reports what would be done, and changes nothing.
	DryRun bool
}

// Cluster is a live cluster. It implements [driver.Cluster] within [Cluster.Round].
type Cluster struct {
	Config
	ctx context.Context // context of the current round
	// jobs are the pending jobs of the last state, by name.
	jobs  map[string]*job
	deaf  bool // the forecaster did not answer in the last round
	blind bool // scontrol did not show the reservations in the last round
	// The other fields describe the last state, for [Cluster.Loop]: the time for reading it,
	// slurmctld's counters before that, the measured use, whether a job that had just ended still had
	// nodes, and when the first reserved nodes become free.
	asked      time.Duration
	counted    map[string]string
	measured   int64
	completing bool
	booked     hpc.Time
}

// New returns a cluster with a configuration.
func New(c Config) *Cluster {
	return &Cluster{Config: c, jobs: map[string]*job{}, booked: hpc.Never}
}

// Round makes one round of decisions.
func (c *Cluster) Round(ctx context.Context, d *driver.Driver) (driver.Round, error) {
	c.ctx = ctx
	return d.Round(c)
}

// State implements [driver.Cluster]. It also holds new jobs in the driver's partitions.
func (c *Cluster) State() (driver.State, error) {
	began := time.Now()
	c.booked = hpc.Never
	c.counted, _ = c.counters(c.ctx) // on error, changed finds a change
	jobs, err := c.list()
	if err != nil {
		return driver.State{}, err
	}
	now := c.Now()
	state := driver.State{Now: now, Cluster: ioaware.Cluster{FileSystem: c.FileSystem}}
	nodes, err := c.nodes()
	if err != nil {
		return state, err
	}
	if state.Licenses, err = c.licenses(); err != nil {
		return state, err
	}
	booked := c.reservations(now)
	c.asked, c.booked = time.Since(began), booked.NextEnd()
	state.Nodes, state.Pools, state.Reserved = nodes.size(), driver.Pools(nodes), booked.Reserved(nodes.count)
	forecast := c.forecast(&state)
	c.measured, c.completing = state.Measured, false
	clear(c.jobs)
	for i := range jobs {
		j := &jobs[i]
		planned := ioaware.Job{Nodes: int(max(j.Nodes, 1)), Pool: j.Partition, Limit: limitOf(j.TimeLimit),
			Licenses: ioaware.ParseLicenses(j.Licenses)}
		planned.Estimate = forecast(j)
		switch {
		case j.onNodes():
			c.completing = c.completing || j.completes(now)
			addRunning(&state, j, planned, nodes, booked)
		case j.pending() && c.takes(j, now):
			for _, name := range j.names() {
				c.jobs[name] = j
				state.Pending = append(state.Pending, driver.Pending{ID: name, Job: planned, Released: !j.held()})
			}
		}
	}
	return state, nil
}

// addRunning adds a running job to the state.
func addRunning(state *driver.State, j *job, planned ioaware.Job, nodes members, booked driver.Bookings) {
	running := ioaware.Running{Job: planned, End: hpc.Never, Uses: driver.Uses(state.Pools, &planned)}
	if j.End > 0 && j.End != infinite && planned.Limit != hpc.Unlimited {
		running.End = hpc.Unix(int64(j.End))
	}
	if on, _ := hostlist.Expand(j.NodeList); len(on) > 0 {
		var serving int
		serving, running.Uses = nodes.count(slices.Values(on))
		running.Twice = booked.Overlaps(on, nodes.count)
		if drained := planned.Nodes - serving; drained > 0 { // the job counts drained nodes, but the cluster does not
			running.Twice = append(running.Twice, ioaware.Reserved{From: state.Now, Until: hpc.Never, Nodes: -drained})
		}
	}
	state.Running = append(state.Running, driver.Running{ID: j.name(), Running: running})
}

// list returns the jobs of the driver's partitions.
func (c *Cluster) list() ([]job, error) {
	text, err := c.Run(c.ctx, "squeue", "--json")
	if err != nil {
		return nil, err
	}
	jobs, err := readJobs(text)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool {
		return !slices.ContainsFunc(strings.Split(j.Partition, ","),
			func(p string) bool { return slices.Contains(c.Partitions, p) })
	})
	sortJobs(jobs)
	return jobs, nil
}

// takes reports whether the driver decides about a pending job. The first time, it holds the job.
func (c *Cluster) takes(j *job, now hpc.Time) bool {
	mark := markOf(j.AdminComment)
	switch {
	case j.held() && !j.heldByDriver(): // someone else holds the job
		return false
	case j.held() && mark == markHeld:
		return true
	case j.held(): // the driver takes the hold over below
	case mark == markHeld, mark == markSubmitted: // a driver died between the release and the mark
		c.note(j, j.name(), markReleased)
		return true
	case mark == markReleased:
		return true
	case j.waitsForOthers(now):
		return false
	}
	if err := c.hold(j, j.name()); err != nil {
		c.Say("job %s: %v", j.name(), err)
		return false
	}
	j.Priority = 0
	return true
}

// limitOf converts a time limit from Slurm's JSON, which is in minutes.
func limitOf(minutes number) time.Duration {
	if minutes <= 0 || minutes == infinite || minutes > 1<<31 {
		return hpc.Unlimited
	}
	return time.Duration(minutes) * time.Minute
}

// nodes returns the nodes of the driver's partitions that are in service.
func (c *Cluster) nodes() (members, error) {
	text, err := c.Run(c.ctx, "sinfo", "-h", "-N", "-p", strings.Join(c.Partitions, ","), "-o", "%N %T %R")
	if err != nil {
		return nil, err
	}
	nodes := members{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || !inService(f[1]) {
			continue
		}
		if nodes[f[2]] == nil {
			nodes[f[2]] = map[string]bool{}
		}
		nodes[f[2]][f[0]] = true
	}
	return nodes, nil
}

// inService reports whether jobs can start on a node in this state, now or when it is free.
// Reserved nodes are in service; the reservations say until when the nodes are reserved.
func inService(state string) bool {
	if strings.HasSuffix(state, "*") { // the node does not respond
		return false
	}
	return slices.Contains([]string{"idle", "allocated", "mixed", "completing", "planned", "reserved", "maint"},
		strings.TrimRight(state, "~#$@^!%-+"))
}

// licenses returns the cluster's licenses, with their numbers.
func (c *Cluster) licenses() (map[string]ioaware.License, error) {
	text, err := c.Run(c.ctx, "scontrol", "-o", "show", "licenses")
	if err != nil {
		return nil, err
	}
	list := map[string]ioaware.License{}
	for line := range strings.Lines(string(text)) {
		f := fields(line)
		total, err := strconv.ParseInt(f["Total"], 10, 64)
		used, uerr := strconv.ParseInt(f["Used"], 10, 64)
		if f["LicenseName"] != "" && errors.Join(err, uerr) == nil {
			list[f["LicenseName"]] = ioaware.License{Total: total, Used: used}
		}
	}
	if _, known := list[c.FileSystem]; !known && c.FileSystem != "" {
		list[c.FileSystem] = ioaware.License{Total: c.Total}
	}
	return list, nil
}

// fields parses a line of "scontrol -o". Values must not contain spaces.
func fields(line string) map[string]string {
	m := map[string]string{}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			m[key] = value
		}
	}
	return m
}

// forecast gets the measured use from the forecaster, and returns a function that predicts jobs. If
// the forecaster does not answer, only requested licenses count in this round.
func (c *Cluster) forecast(state *driver.State) func(*job) ioaware.Estimate {
	nothing := func(*job) ioaware.Estimate { return ioaware.Estimate{} }
	if c.Forecaster == nil {
		return nothing
	}
	failed := func(err error) {
		if !c.deaf {
			c.Say("no estimates: %v (only requested licences count until the service answers)", err)
		}
		c.deaf = true
	}
	used, err := c.Forecaster.Used(c.ctx)
	if err != nil {
		failed(err)
		return nothing
	}
	state.Measured, c.deaf = used, false
	known := map[string]ioaware.Estimate{}
	return func(j *job) ioaware.Estimate {
		class := classOf(j.Comment)
		estimate, asked := known[class]
		if class == "" || c.deaf || asked {
			return estimate
		}
		estimate, err := c.Forecaster.Estimate(c.ctx, class)
		if err != nil {
			failed(err)
		}
		known[class] = estimate
		return estimate
	}
}

// Release implements [driver.Cluster]. It changes the mark after the release. If the driver dies
// between the release and the change, the old mark shows the next driver that the driver held the
// job.
func (c *Cluster) Release(name string) error {
	j := c.jobs[name]
	if c.DryRun {
		c.Say("job %s would be released: %d %s", name, max(j.Nodes, 1),
			quantity.Plural(max(j.Nodes, 1), "node", "nodes"))
		return nil
	}
	if _, err := c.Run(c.ctx, "scontrol", "release", name); err != nil {
		return fmt.Errorf("releasing job %s: %w", name, err)
	}
	c.note(j, name, markReleased)
	return nil
}

// note changes the mark of a job. A failure is only reported, because the mark does not affect
// decisions.
func (c *Cluster) note(j *job, name, mark string) {
	if c.DryRun {
		return
	}
	if _, err := c.Run(c.ctx, "scontrol", "update", "JobId="+name,
		"AdminComment="+marked(j.AdminComment, mark)); err != nil {
		c.Say("marking job %s: %v", name, err)
	}
}

// Hold implements [driver.Cluster].
func (c *Cluster) Hold(name string) error { return c.hold(c.jobs[name], name) }

// hold holds a job and marks it, in one request.
func (c *Cluster) hold(j *job, name string) error {
	if c.DryRun {
		c.Say("job %s would be held", name)
		return nil
	}
	if _, err := c.Run(c.ctx, "scontrol", "update", "JobId="+name, "Priority=0",
		"AdminComment="+marked(j.AdminComment, markHeld)); err != nil {
		return fmt.Errorf("holding job %s: %w", name, err)
	}
	return nil
}

// ReleaseAll releases all jobs that a driver holds, and returns their number.
func (c *Cluster) ReleaseAll(ctx context.Context) (released int, err error) {
	c.ctx = ctx
	jobs, err := c.list()
	if err != nil {
		return 0, err
	}
	for i := range jobs {
		j := &jobs[i]
		if !j.pending() || !j.heldByDriver() {
			continue
		}
		for _, name := range j.names() {
			c.jobs[name] = j
			if rerr := c.Release(name); rerr != nil {
				err = errors.Join(err, rerr)
				continue
			}
			released++
		}
	}
	return released, err
}
