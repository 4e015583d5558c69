package capture

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// request returns what a job asks for. The counts that scontrol shows of a running job are those
// that it got.
func (s *shown) request(j *job) (*hpc.Request, error) {
	v := s.values
	r := &hpc.Request{
		Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS, Reservation: j.Reservation,
		TimeLimit: j.TimeLimit, Constraint: v["Features"], Prefer: v["Prefer"], NodeList: v["ReqNodeList"], Exclude: v["ExcNodeList"],
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
	perNode, _, _ := strings.Cut(v["NtasksPerN:B:S:C"], ":")
	if r.TasksPerNode, err = count("NtasksPerN:B:S:C", perNode); err != nil {
		return nil, err
	}
	if r.MemPerNode, err = memory("MinMemoryNode", v["MinMemoryNode"]); err != nil {
		return nil, err
	}
	if r.MemPerCPU, err = memory("MinMemoryCPU", v["MinMemoryCPU"]); err != nil {
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
	switch exclusive := v["Exclusive"]; exclusive { // from 26.05 on, where OverSubscribe=NO does not imply it
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
	r.GRES, r.GPUs = generic(v["TresPerNode"]), strings.TrimPrefix(generic(v["TresPerJob"]), "gpu:")
	r.GPUsPerTask = strings.TrimPrefix(generic(v["TresPerTask"]), "gpu:")
	r.Dependency = dependency(v["Dependency"])
	if begin := j.Eligible.Sub(j.Submit); j.State == hpc.Pending && !j.Held && r.Dependency == "" && begin > 0 {
		r.Begin = begin // what it waited for until then, such as a dependency, is not there any more
	}
	return r, nil
}

// count reads a count; "N/A", "*" and nothing are none.
func count(key, text string) (int, error) {
	if text == "" || text == "N/A" || text == "*" {
		return 0, nil
	}
	if scaled, err := slurmspec.ParseScaled(text); err == nil && scaled >= 0 && scaled <= 1<<31 { // scontrol writes 1K for 1024
		return int(scaled), nil
	}
	return 0, fmt.Errorf("%s=%.20s: not a count", key, text)
}

// counts reads a count, a range ("2-4"), or a set ("1,3,5-9:2", from 23.11 on) as its least and its
// greatest number. most is 0 for a single count.
func counts(key, text string) (least, most int, err error) {
	low, high, ranged := strings.Cut(text, "-")
	if strings.ContainsAny(text, ",:") {
		set, err := hpc.ParseArray(text)
		if err != nil {
			return 0, 0, fmt.Errorf("%s=%.20s: not a set of counts", key, text)
		}
		return set.Tasks[0], set.Tasks[len(set.Tasks)-1], nil
	}
	if least, err = count(key, low); err == nil && ranged {
		most, err = count(key, high)
	}
	return least, most, err
}

// memory reads an amount of memory in MiB; 0 is none.
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

// generic reads a list of generic resources: "gpu:2" (to 20.11), "gres:gpu:2" (to 23.11) or
// "gres/gpu:2". It leaves out cpu=N, which from 23.11 on is one of them for tasks.
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

// stateOf is the state of a dependency, which scontrol shows behind it: "afterok:17(unfulfilled)".
var stateOf = regexp.MustCompile(`\((unfulfilled|fulfilled|failed)\)`)

// dependency returns the dependencies of a job in sbatch's words.
func dependency(text string) string {
	return strings.ReplaceAll(stateOf.ReplaceAllString(text, ""), "_*", "")
}
