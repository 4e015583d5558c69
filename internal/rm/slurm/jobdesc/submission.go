// Package jobdesc makes the description of a batch job that sbatch of a given release would send
// to slurmctld. Like sbatch, it derives the numbers of nodes, tasks and CPUs from the job's
// request, and refuses certain options.
//
// The package computes values only; package rpc writes them to the wire.
package jobdesc

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// Submission is a batch job to submit: the request, and what sbatch would find in its environment.
type Submission struct {
	hpc.Request
	// Dependency replaces the request's dependency. It contains Slurm's job numbers.
	Dependency string
	// Script is the batch script. It must begin with "#!".
	Script string
	// Args are the script's path and arguments. The path's last element is the job's name if
	// the request has no name.
	Args []string
	// WorkDir is the directory that the job runs in; "/" if empty.
	WorkDir string
	// Environment is the script's environment as "NAME=value". If the request has no name, the path's
	// last element becomes the job's name.
	Environment []string
	// StdIn, StdOut and StdErr are the paths of sbatch -i, -o and -e. Relative paths are below
	// WorkDir. StdIn is /dev/null if empty.
	StdIn, StdOut, StdErr string
	// SubmitLine is the sbatch command line that accounting shows.
	SubmitLine string
	// UID and GID are the numbers of the request's User and Group.
	UID, GID uint32
	// Now is the virtual time of the submission. Begin and Deadline are relative to it.
	Now hpc.Time
	// SessionID is the login session of the user who submits.
	SessionID uint32
	// Release is the release whose sbatch submits; the zero Release means 22.05.
	Release slurmspec.Release
	// SelectPlugin is the number of slurm.conf's SelectType ([rpc.SelectPluginID]); 0 for
	// cons_tres.
	SelectPlugin uint32
}

// JobDesc returns the description that the release's sbatch would send for the job. It follows
// _opt_verify (sbatch/opt.c), slurm_opt_create_job_desc (slurm_opt.c) and _fill_job_desc_from_opts
// (sbatch/sbatch.c). The error names an option that sbatch would refuse. slurmctld itself checks
// partitions, limits and generic resources.
//
// A request cannot express one effect of sbatch -B. Without -N, -B implies a number of tasks, but
// the three equivalent long options do not. A reader of -B must put this number into Tasks.
func (s *Submission) JobDesc() (*rpc.JobDesc, error) {
	j := rpc.NewJobDesc()
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("making a job description: %w", err)
	}
	s.setContext(j)
	s.setFlags(j)
	for _, set := range []func(*rpc.JobDesc) error{s.setTimes, s.setLayout, s.setMemory, s.setPlacement, s.setSignal} {
		if err := set(j); err != nil {
			return nil, fmt.Errorf("making a job description: %w", err)
		}
	}
	s.setGRES(j)
	deriveFromGRES(j, s.Release)
	if s.Release.Since(slurmspec.R2311) {
		s.setTRES2311(j)
	}
	return j, nil
}

// check refuses combinations of options that sbatch refuses before it derives any number
// (validate_options_salloc_sbatch_srun in slurm_opt.c, and the checks in gres.c that only clients
// make).
func (s *Submission) check() error {
	switch {
	case !strings.HasPrefix(s.Script, "#!"):
		return errors.New(`the script does not begin with "#!"`)
	case strings.IndexByte(s.Script, 0) >= 0:
		return errors.New("the script contains a NUL")
	case btoi(s.MemPerNode != 0)+btoi(s.MemPerCPU != 0)+btoi(s.MemPerGPU != 0) > 1:
		return errors.New("--mem, --mem-per-cpu and --mem-per-gpu exclude each other")
	case s.CoreSpec != 0 && s.ThreadSpec != 0:
		return errors.New("--core-spec and --thread-spec exclude each other")
	case s.TasksPerGPU != 0 && s.GPUsPerTask != "":
		return errors.New("--ntasks-per-gpu and --gpus-per-task exclude each other")
	case s.TasksPerGPU != 0 && s.GPUsPerSocket != "":
		return errors.New("--ntasks-per-gpu and --gpus-per-socket exclude each other")
	case s.TasksPerGPU != 0 && s.TasksPerNode != 0:
		return errors.New("--ntasks-per-gpu and --ntasks-per-node exclude each other")
	case s.CPUsPerGPU != 0 && s.CPUsPerTask != 0:
		return errors.New("--cpus-per-gpu and --cpus-per-task exclude each other")
	case s.MaxNodes != 0 && s.MaxNodes < s.MinNodes:
		return fmt.Errorf("the maximum of %d nodes is below the minimum of %d", s.MaxNodes, s.MinNodes)
	case s.Nice > int(rpc.NiceOffset)-3 || s.Nice < -(int(rpc.NiceOffset)-3):
		return fmt.Errorf("nice %d is out of range (want -%d to %[2]d)", s.Nice, rpc.NiceOffset-3)
	}
	return s.checkRanges()
}

// checkRanges refuses numbers that do not fit their fields on the wire.
func (s *Submission) checkRanges() error {
	const small, large = math.MaxUint16 - 2, math.MaxInt32
	for _, f := range []struct {
		option   string
		value    int64
		maxValue int64
	}{
		{"--nodes", int64(s.MinNodes), large},
		{"--nodes", int64(s.MaxNodes), large},
		{"--ntasks", int64(s.Tasks), large},
		{"--ntasks-per-node", int64(s.TasksPerNode), small},
		{"--ntasks-per-socket", int64(s.TasksPerSocket), small},
		{"--ntasks-per-core", int64(s.TasksPerCore), small},
		{"--ntasks-per-gpu", int64(s.TasksPerGPU), small},
		{"--cpus-per-task", int64(s.CPUsPerTask), small},
		{"--cpus-per-gpu", int64(s.CPUsPerGPU), small},
		{"--mincpus", int64(s.MinCPUsPerNode), small},
		{"--sockets-per-node", int64(s.SocketsPerNode), small},
		{"--cores-per-socket", int64(s.CoresPerSocket), small},
		{"--threads-per-core", int64(s.ThreadsPerCore), small},
		{"--core-spec", int64(s.CoreSpec), int64(rpc.CoreSpecThread) - 1},
		{"--thread-spec", int64(s.ThreadSpec), int64(rpc.CoreSpecThread) - 1},
		{"--mem-per-cpu", s.MemPerCPU, math.MaxInt64},
		{"--mem-per-gpu", s.MemPerGPU, math.MaxInt64},
		{"--tmp", s.TmpDisk, math.MaxUint32 - 2},
		{"--switches", int64(s.Switches), large},
		{"--begin", int64(s.Begin), math.MaxInt64},
		{"--deadline", int64(s.Deadline), math.MaxInt64},
	} {
		if f.value < 0 || f.value > f.maxValue {
			return fmt.Errorf("%s %d is out of range (want 0 to %d)", f.option, f.value, f.maxValue)
		}
	}
	if s.MemPerNode < hpc.AllMemory {
		return fmt.Errorf("--mem %d: negative (want 0 or more)", s.MemPerNode)
	}
	return nil
}

// btoi returns 1 for true and 0 for false.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setContext sets the user, the script and its environment, and the fields that sbatch passes on
// unchanged.
func (s *Submission) setContext(j *rpc.JobDesc) {
	j.Name = s.Name
	if j.Name == "" && len(s.Args) > 0 {
		j.Name = path.Base(s.Args[0])
	}
	if j.Name == "" {
		j.Name = "sbatch"
	}
	j.UserID, j.GroupID = s.UID, s.GID
	j.AllocSID = s.SessionID
	j.Script, j.Args, j.SubmitLine = s.Script, s.Args, s.SubmitLine
	j.WorkDir = s.WorkDir
	if j.WorkDir == "" {
		j.WorkDir = "/"
	}
	j.StdIn, j.StdOut, j.StdErr = s.absolute(s.StdIn), s.absolute(s.StdOut), s.absolute(s.StdErr)
	if j.StdIn == "" {
		j.StdIn = "/dev/null"
	}
	j.Environment = s.Environment
	if len(j.Environment) == 0 {
		j.Environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	j.Account, j.Partition, j.QOS, j.WCKey = s.Account, s.Partition, s.QOS, s.WCKey
	j.Reservation, j.Dependency, j.ArrayIndices = s.Reservation, s.Dependency, s.Array
	j.Features, j.Prefer, j.ClusterFeatures = s.Constraint, s.Prefer, s.ClusterConstraint
	j.ExcNodes, j.Licenses, j.BurstBuffer = s.Exclude, s.Licenses, s.BurstBuffer
	j.MCSLabel, j.Comment = s.MCSLabel, s.Comment
	if s.SelectPlugin != 0 {
		j.SelectPlugin = s.SelectPlugin
	}
	// sbatch always sends these values.
	j.MailType, j.MemBindType = 0, 0
	j.OOMKillStep, j.ReservedPorts = slurmspec.NoVal16, slurmspec.NoVal16
}

// absolute returns a path below the working directory, unless it is absolute or empty.
func (s *Submission) absolute(p string) string {
	if p == "" || path.IsAbs(p) {
		return p
	}
	return strings.TrimSuffix(s.WorkDir, "/") + "/" + p
}

// setFlags sets the options that take no value, and also the nice value and the priority.
func (s *Submission) setFlags(j *rpc.JobDesc) {
	j.Contiguous = uint16(btoi(s.Contiguous))
	if s.Overcommit {
		j.Overcommit = 1
	}
	if s.Reboot {
		j.Reboot = 1
	}
	if s.NoKill {
		j.KillOnNodeFail = 0
	}
	if s.Requeue != nil {
		j.Requeue = uint16(btoi(*s.Requeue))
	}
	if s.KillOnInvalidDep != nil {
		j.Flags |= rpc.FlagNoKillInvalidDep
		if *s.KillOnInvalidDep {
			j.Flags ^= rpc.FlagNoKillInvalidDep | rpc.FlagKillInvalidDep
		}
	}
	if s.SpreadJob {
		j.Flags |= rpc.FlagSpreadJob
	}
	if s.UseMinNodes {
		j.Flags |= rpc.FlagUseMinNodes
	}
	if s.Nice != 0 {
		j.Nice = rpc.NiceOffset + uint32(int32(s.Nice))
	}
	switch {
	case s.Hold:
		j.Priority = 0
	case s.Priority != nil && *s.Priority != 0:
		j.Priority = *s.Priority
	}
}

// setTimes sets time limits and instants. Slurm rounds time limits up to minutes
// (time_str2mins in parse_time.c).
func (s *Submission) setTimes(j *rpc.JobDesc) error {
	var err error
	if j.TimeLimit, err = slurmspec.Minutes(s.TimeLimit); err != nil {
		return fmt.Errorf("--time %w", err)
	}
	if j.TimeMin, err = slurmspec.Minutes(s.TimeMin); err != nil {
		return fmt.Errorf("--time-min %w", err)
	}
	if s.Begin > 0 {
		j.BeginTime = slurmspec.SecondsUp(s.Now.Add(s.Begin))
	}
	if s.Deadline > 0 {
		j.Deadline = slurmspec.SecondsUp(s.Now.Add(s.Deadline))
	}
	if j.Deadline != 0 && j.Deadline < j.BeginTime {
		return errors.New("--deadline is before --begin")
	}
	if s.DelayBoot > 0 {
		j.DelayBoot = uint32(min(s.DelayBoot/time.Second, time.Duration(slurmspec.NoVal)-1))
	}
	if s.Switches > 0 {
		j.ReqSwitch = uint32(s.Switches)
	}
	if s.SwitchWait > 0 {
		j.Wait4Switch = uint32(min(s.SwitchWait/time.Second, time.Duration(slurmspec.NoVal)-1))
	}
	return nil
}

// setMemory sets memory and disk.
func (s *Submission) setMemory(j *rpc.JobDesc) error {
	switch {
	case s.MemPerNode == hpc.AllMemory:
		j.MinMemory = 0
	case s.MemPerNode > 0:
		j.MinMemory = uint64(s.MemPerNode)
	case s.MemPerCPU > 0:
		j.MinMemory = uint64(s.MemPerCPU) | slurmspec.MemPerCPU
	}
	if s.MemPerGPU > 0 {
		j.MemPerTRES = "gres:gpu:" + strconv.FormatInt(s.MemPerGPU, 10)
	}
	if s.TmpDisk > 0 {
		j.MinTmpDisk = uint32(s.TmpDisk)
	}
	return nil
}

// setPlacement sets the binding of generic resources, the number of specialized cores, and how the job shares nodes.
func (s *Submission) setPlacement(j *rpc.JobDesc) error {
	switch s.Exclusive {
	case "":
		if s.Oversubscribe {
			j.Shared = 1
		}
	case "node", "exclusive":
		j.Shared = 0
	case "user":
		j.Shared = 2
	case "mcs":
		j.Shared = 3
	default:
		return fmt.Errorf("--exclusive %q is not known (want node, user or mcs)", s.Exclusive)
	}
	switch {
	case s.CoreSpec > 0:
		j.CoreSpec = uint16(s.CoreSpec)
	case s.ThreadSpec > 0:
		j.CoreSpec = uint16(s.ThreadSpec) | rpc.CoreSpecThread
	}
	switch strings.ToLower(s.GRESFlags) {
	case "":
	case "enforce-binding":
		j.Flags |= rpc.FlagGRESEnforceBind
	case "disable-binding":
		j.Flags |= rpc.FlagGRESDisableBind
	default:
		return fmt.Errorf("--gres-flags %q is not known (want enforce-binding or disable-binding)", s.GRESFlags)
	}
	return nil
}

// setSignal sets the signal that slurmctld sends before the time limit:
// "[R][B][:]signal[@seconds]" (get_signal_opts in proc_args.c).
func (s *Submission) setSignal(j *rpc.JobDesc) error {
	if s.Signal == "" {
		return nil
	}
	spec := strings.ToUpper(s.Signal)
	if rest, ok := strings.CutPrefix(spec, "R"); ok {
		j.WarnFlags |= rpc.KillResv
		spec = rest
	}
	if rest, ok := strings.CutPrefix(spec, "B"); ok {
		j.WarnFlags |= rpc.KillBatch
		spec = rest
	}
	if rest, ok := strings.CutPrefix(spec, "R"); ok {
		j.WarnFlags |= rpc.KillResv
		spec = rest
	}
	spec = strings.TrimPrefix(spec, ":")
	name, seconds, timed := strings.Cut(spec, "@")
	j.WarnSignal = signalNumber(name)
	if j.WarnSignal == 0 {
		return fmt.Errorf("--signal %q: %q is not a signal", s.Signal, name)
	}
	j.WarnTime = 60
	if timed {
		n, err := strconv.ParseUint(seconds, 10, 16)
		if err != nil {
			return fmt.Errorf("--signal %q: %q is not a time in seconds (want 0 to 65535)", s.Signal, seconds)
		}
		j.WarnTime = uint16(n)
	}
	return nil
}

// signalNumber returns the number of a signal that the user gave by its number or by a name; 0 if
// Slurm does not know the name (sig_name2num in proc_args.c).
func signalNumber(name string) uint16 {
	if n, err := strconv.ParseUint(strings.TrimSpace(name), 10, 16); err == nil {
		return uint16(n)
	}
	name = strings.TrimPrefix(strings.TrimSpace(name), "SIG")
	return map[string]uint16{
		"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12,
		"ALRM": 14, "TERM": 15, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21,
		"TTOU": 22, "URG": 23, "XCPU": 24,
	}[name]
}
