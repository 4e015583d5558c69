package capture

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// request returns what a job requests. For a running job, scontrol shows the allocated counts
// instead of the requested counts.
func (s *shown) request(j *job, zone *time.Location) (*hpc.Request, error) {
	v := s.values
	r := &hpc.Request{
		Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS, Reservation: j.Reservation,
		TimeLimit: j.TimeLimit, Constraint: v["Features"], Prefer: v["Prefer"], NodeList: v["ReqNodeList"],
		Exclude:  v["ExcNodeList"],
		Licenses: v["Licenses"], Contiguous: v["Contiguous"] == "1", Hold: j.Held,
	}
	if j.ArrayRest != "" {
		r.Array = j.ArrayRest
	}
	var err error
	if r.MinNodes, r.MaxNodes, err = counts("NumNodes", v["NumNodes"]); err != nil {
		return nil, err
	}
	if r.Tasks, err = count("NumTasks", v["NumTasks"]); err != nil {
		return nil, err
	}
	if r.CPUsPerTask, err = count("CPUs/Task", v["CPUs/Task"]); err != nil {
		return nil, err
	}
	if j.AllocCPUs, _, err = counts("NumCPUs", v["NumCPUs"]); err != nil {
		return nil, err
	}
	j.ReqCPUs, j.ReqNodes = j.AllocCPUs, r.MinNodes
	if j.State == hpc.Running {
		j.AllocNodes = r.MinNodes
	} else {
		j.AllocCPUs = 0
	}
	if err := s.geometry(r); err != nil {
		return nil, err
	}
	if err := s.memory(r); err != nil {
		return nil, err
	}
	if err := s.limits(r, j.Submit, zone); err != nil {
		return nil, err
	}
	switch v["OverSubscribe"] {
	case "NO", "EXCLUSIVE":
		r.Exclusive = "node"
	case "USER":
		r.Exclusive = "user"
	case "MCS":
		r.Exclusive = "mcs"
	case "YES":
		r.Oversubscribe = true
	}
	switch exclusive := v["Exclusive"]; exclusive { // since 26.05, OverSubscribe=NO does not imply exclusive use
	case "NO":
		r.Exclusive = ""
	case "NODE", "USER", "MCS":
		r.Exclusive = strings.ToLower(exclusive)
	}
	if v["Requeue"] == "0" {
		r.Requeue = new(bool)
	}
	if n, err := strconv.Atoi(v["Nice"]); err == nil {
		r.Nice = n
	}
	r.GRES, r.GPUs, r.GPUsPerTask = generic(v["TresPerNode"]), gpus(v["TresPerJob"]), gpus(v["TresPerTask"])
	if r.GPUsPerSocket = gpus(v["TresPerSocket"]); r.GPUsPerSocket != "" { // this option needs the number of sockets
		if r.SocketsPerNode, err = count("Socks/Node", v["Socks/Node"]); err != nil {
			return nil, err
		}
	}
	if r.CPUsPerGPU, err = count("CpusPerTres", gpus(v["CpusPerTres"])); err != nil {
		return nil, err
	}
	if r.CPUsPerGPU > 0 { // sbatch accepts only one of the two options
		r.CPUsPerTask = 0
	}
	if r.TasksPerGPU, err = count("NtasksPerTRES", v["NtasksPerTRES"]); err != nil {
		return nil, err
	}
	r.Dependency = dependency(v["Dependency"])
	if begin := j.Eligible.Sub(j.Submit); j.State == hpc.Pending && !j.Held && r.Dependency == "" && begin > 0 {
		r.Begin = begin // scontrol no longer shows the dependency or hold for which the job waited
	}
	return r, nil
}

// geometry reads how many tasks run on a node, socket and core, which sockets and cores the job requests, and how many
// cores are reserved for the system.
func (s *shown) geometry(r *hpc.Request) (err error) {
	v := s.values
	tasks, shape := strings.Split(v["NtasksPerN:B:S:C"], ":"), strings.Split(v["ReqB:S:C:T"], ":")
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return ""
	}
	for _, one := range []struct {
		key, text string
		to        *int
	}{
		{"NtasksPerN:B:S:C", at(tasks, 0), &r.TasksPerNode}, {"NtasksPerN:B:S:C", at(tasks, 2), &r.TasksPerSocket},
		{"NtasksPerN:B:S:C", at(tasks, 3), &r.TasksPerCore},
		{"ReqB:S:C:T", at(shape, 2), &r.CoresPerSocket}, {"ReqB:S:C:T", at(shape, 3), &r.ThreadsPerCore},
		{"CoreSpec", v["CoreSpec"], &r.CoreSpec}, {"ThreadSpec", v["ThreadSpec"], &r.ThreadSpec},
	} {
		if *one.to, err = count(one.key, one.text); err != nil {
			return err
		}
	}
	return nil
}

// memory reads how much memory a job requests. The memory per node is 0 if the job requests all memory of its
// nodes, or if neither the job nor the configuration gives an amount. In both cases Slurm allocates all memory.
func (s *shown) memory(r *hpc.Request) (err error) {
	v := s.values
	for _, one := range []struct {
		key, text string
		to        *int64
	}{
		{"MinMemoryNode", v["MinMemoryNode"], &r.MemPerNode}, {"MinMemoryCPU", v["MinMemoryCPU"], &r.MemPerCPU},
		{"MemPerTres", gpus(v["MemPerTres"]), &r.MemPerGPU}, {"MinTmpDiskNode", v["MinTmpDiskNode"], &r.TmpDisk},
	} {
		if *one.to, err = memory(one.key, one.text); err != nil {
			return err
		}
	}
	switch {
	case r.MemPerGPU > 0: // sbatch accepts only one of these options
		r.MemPerNode, r.MemPerCPU = 0, 0
	case v["MinMemoryNode"] == "0":
		r.MemPerNode = hpc.AllMemory
	}
	return nil
}

// limits reads the deadline, the minimum of the time limit, and the limits on switches.
func (s *shown) limits(r *hpc.Request, submit hpc.Time, zone *time.Location) error {
	if text := s.values["Deadline"]; text != "" {
		at, err := slurmspec.ParseInstant(text, zone)
		if err != nil {
			return fmt.Errorf("Deadline=%.40s: %w", text, err)
		}
		r.Deadline = max(at.Sub(submit), 0)
	}
	if text := s.values["TimeMin"]; text != "" {
		d, err := slurmspec.ParseTimeLimit(text)
		if err != nil {
			return fmt.Errorf("TimeMin=%.40s: %w", text, err)
		}
		r.TimeMin = d
	}
	if text := s.values["Switches"]; text != "" {
		number, wait, waits := strings.Cut(text, "@")
		n, err := count("Switches", number)
		if err != nil {
			return err
		}
		r.Switches = n
		if waits {
			if r.SwitchWait, err = slurmspec.ParseTimeSpec(wait); err != nil {
				return fmt.Errorf("Switches=%.40s: %w", text, err)
			}
			if r.SwitchWait == hpc.Unlimited { // no option has this value, which means the site's maximum
				r.SwitchWait = 0
			}
		}
	}
	return nil
}

// unheld returns the fields of a job that a request cannot represent.
func (s *shown) unheld() (keys []string) {
	v := s.values
	for _, one := range []struct {
		key  string
		lost bool
	}{
		{"NumNodes", strings.ContainsAny(v["NumNodes"], ",:")},
		{"TresPerJob", others(v["TresPerJob"])}, {"TresPerTask", others(v["TresPerTask"])},
		{"TresPerSocket", others(v["TresPerSocket"])},
		{"MemPerTres", others(v["MemPerTres"])}, {"CpusPerTres", others(v["CpusPerTres"])},
		{"BurstBuffer", v["BurstBuffer"] != ""}, {"SegmentSize", v["SegmentSize"] != ""},
		{"Exclusive", v["Exclusive"] == "TOPO" || v["OverSubscribe"] == "TOPO"},
	} {
		if one.lost {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// count reads a count; "N/A", "*" and "" count as missing.
func count(key, text string) (int, error) {
	if text == "" || text == "N/A" || text == "*" {
		return 0, nil
	}
	// scontrol writes 1K for 1024
	if scaled, err := slurmspec.ParseScaled(text); err == nil && scaled >= 0 && scaled <= 1<<31 {
		return int(scaled), nil
	}
	return 0, fmt.Errorf("%s=%.20s: not a number from 0 to 2147483648", key, text)
}

// counts reads a count, a range ("2-4"), or a set ("1,3,5-9:2", from 23.11 on) and returns its smallest and its
// largest number. For a single count, the result most is 0.
func counts(key, text string) (least, most int, err error) {
	low, high, ranged := strings.Cut(text, "-")
	if strings.ContainsAny(text, ",:") {
		set, err := hpc.ParseArray(text)
		if err != nil {
			return 0, 0, fmt.Errorf("%s=%.20s: not a list of numbers (want, for example, 1,3,5-9)", key, text)
		}
		return set.Tasks[0], set.Tasks[len(set.Tasks)-1], nil
	}
	if least, err = count(key, low); err == nil && ranged {
		most, err = count(key, high)
	}
	return least, most, err
}

// memory reads an amount of memory in MiB; 0 means that the job requests no memory.
func memory(key, text string) (int64, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	n, err := slurmspec.ParseMemory(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%.20s: %w", key, text, err)
	}
	return n, nil
}

// generic reads a list of generic resources: "gpu:2" (up to 20.11), "gres:gpu:2" (up to 23.11) or "gres/gpu:2". It
// leaves out cpu=N, which is also in the list since 23.11.
func generic(text string) string {
	var list []string
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimPrefix(strings.TrimPrefix(one, "gres:"), "gres/")
		if one != "" && !strings.HasPrefix(one, "cpu") {
			list = append(list, one)
		}
	}
	return strings.Join(list, ",")
}

// gpus returns the GPUs of a list of generic resources, in the syntax of --gpus.
func gpus(text string) string {
	var list []string
	for one := range strings.SplitSeq(generic(text), ",") {
		if rest, is := strings.CutPrefix(one, "gpu:"); is {
			list = append(list, rest)
		} else if one == "gpu" {
			list = append(list, "1")
		}
	}
	return strings.Join(list, ",")
}

// others reports whether a list of generic resources has resources that are not GPUs.
func others(text string) bool {
	for one := range strings.SplitSeq(generic(text), ",") {
		if one != "" && one != "gpu" && !strings.HasPrefix(one, "gpu:") {
			return true
		}
	}
	return false
}

// stateOf finds the state that scontrol prints after a dependency: "afterok:17(unfulfilled)".
var stateOf = regexp.MustCompile(`\((unfulfilled|fulfilled|failed)\)`)

// dependency returns the dependencies of a job in the syntax of sbatch.
func dependency(text string) string {
	return strings.ReplaceAll(stateOf.ReplaceAllString(text, ""), "_*", "")
}
