package sbatch

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// Format writes a request as options of sbatch, without the script. [Parse] reads them as the
// same request, but without fractions of seconds. Format leaves out an unlimited time limit.
func Format(r *hpc.Request) []string {
	var f formatter
	f.text("job-name", r.Name)
	f.text("uid", r.User)
	f.text("gid", r.Group)
	f.text("account", r.Account)
	f.text("partition", r.Partition)
	f.text("qos", r.QOS)
	f.text("wckey", r.WCKey)
	f.text("reservation", r.Reservation)
	f.text("dependency", r.Dependency)
	f.text("array", r.Array)
	f.delay("begin", r.Begin)
	f.delay("deadline", r.Deadline)
	f.flag("hold", r.Hold)
	if r.Priority != nil {
		f.text("priority", strconv.FormatUint(uint64(*r.Priority), 10))
	}
	if r.Nice != 0 {
		f.text("nice", strconv.Itoa(r.Nice))
	}
	if r.Requeue != nil {
		f.flag("requeue", *r.Requeue)
		f.flag("no-requeue", !*r.Requeue)
	}
	f.span("time", r.TimeLimit)
	f.span("time-min", r.TimeMin)
	f.size(r)
	f.resources(r)
	f.placement(r)
	return f.words
}

// size writes how many nodes, tasks and processors are asked for.
func (f *formatter) size(r *hpc.Request) {
	switch {
	case r.MinNodes == 0 && r.MaxNodes == 0:
	case r.MaxNodes == r.MinNodes:
		f.text("nodes", strconv.Itoa(r.MinNodes))
	case r.MaxNodes == 0:
		f.text("nodes", fmt.Sprintf("%d-0", r.MinNodes))
	case r.MaxNodes < r.MinNodes: // a node list has raised the minimum
		f.text("nodes", strconv.Itoa(r.MaxNodes))
	default:
		f.text("nodes", fmt.Sprintf("%d-%d", r.MinNodes, r.MaxNodes))
	}
	cores, threads := r.CoresPerSocket, r.ThreadsPerCore
	if r.Hint != "" {
		// Cores and threads follow from the hint. sbatch would drop the hint if they were given, too.
		cores, threads = 0, 0
	}
	for _, n := range []struct {
		option string
		value  int
	}{
		{"ntasks", r.Tasks}, {"ntasks-per-node", r.TasksPerNode}, {"ntasks-per-socket", r.TasksPerSocket},
		{"ntasks-per-core", r.TasksPerCore}, {"ntasks-per-gpu", r.TasksPerGPU}, {"cpus-per-task", r.CPUsPerTask},
		{"mincpus", r.MinCPUsPerNode}, {"sockets-per-node", r.SocketsPerNode}, {"cores-per-socket", cores},
		{"threads-per-core", threads}, {"core-spec", r.CoreSpec}, {"thread-spec", r.ThreadSpec},
		{"cpus-per-gpu", r.CPUsPerGPU},
	} {
		if n.value > 0 {
			f.text(n.option, strconv.Itoa(n.value))
		}
	}
}

// resources writes memory, generic resources and licenses.
func (f *formatter) resources(r *hpc.Request) {
	f.memory("mem", r.MemPerNode)
	f.memory("mem-per-cpu", r.MemPerCPU)
	f.memory("mem-per-gpu", r.MemPerGPU)
	f.memory("tmp", r.TmpDisk)
	f.text("gres", r.GRES)
	f.text("gpus", r.GPUs)
	f.text("gpus-per-node", r.GPUsPerNode)
	f.text("gpus-per-socket", r.GPUsPerSocket)
	f.text("gpus-per-task", r.GPUsPerTask)
	f.text("gres-flags", r.GRESFlags)
	f.text("licenses", r.Licenses)
	f.text("bb", r.BurstBuffer)
}

// placement writes where the job may run and whom it shares nodes with.
func (f *formatter) placement(r *hpc.Request) {
	f.text("constraint", r.Constraint)
	f.text("prefer", r.Prefer)
	f.text("cluster-constraint", r.ClusterConstraint)
	f.text("nodelist", r.NodeList)
	f.text("exclude", r.Exclude)
	switch r.Exclusive {
	case "":
	case "node":
		f.flag("exclusive", true)
	default:
		f.text("exclusive", r.Exclusive)
	}
	f.flag("oversubscribe", r.Oversubscribe)
	f.flag("overcommit", r.Overcommit)
	f.flag("contiguous", r.Contiguous)
	f.flag("spread-job", r.SpreadJob)
	f.flag("use-min-nodes", r.UseMinNodes)
	f.text("distribution", r.Distribution)
	f.text("hint", r.Hint)
	if r.Switches > 0 {
		value := strconv.Itoa(r.Switches)
		if r.SwitchWait > 0 {
			value += "@" + slurmspec.FormatSpan(r.SwitchWait)
		}
		f.text("switches", value)
	}
	f.text("mcs-label", r.MCSLabel)
	f.span("delay-boot", r.DelayBoot)
	f.flag("reboot", r.Reboot)
	if r.KillOnInvalidDep != nil {
		f.text("kill-on-invalid-dep", map[bool]string{true: "yes", false: "no"}[*r.KillOnInvalidDep])
	}
	f.flag("no-kill", r.NoKill)
	f.text("signal", r.Signal)
	f.text("comment", r.Comment)
}

// formatter collects options.
type formatter struct{ words []string }

func (f *formatter) text(option, value string) {
	if value != "" {
		f.words = append(f.words, "--"+option+"="+value)
	}
}

func (f *formatter) flag(option string, set bool) {
	if set {
		f.words = append(f.words, "--"+option)
	}
}

func (f *formatter) memory(option string, mib int64) {
	switch {
	case mib == hpc.AllMemory:
		f.text(option, "0")
	case mib > 0:
		f.text(option, strconv.FormatInt(mib, 10)+"M")
	}
}

func (f *formatter) delay(option string, d time.Duration) {
	if d > 0 {
		f.text(option, fmt.Sprintf("now+%dseconds", int64(d/time.Second)))
	}
}

func (f *formatter) span(option string, d time.Duration) {
	if d > 0 {
		f.text(option, slurmspec.FormatSpan(d))
	}
}

// Join writes words as a command line that [Split] splits into the same words.
func Join(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(Quote(word))
	}
	return b.String()
}

// Quote quotes a word for a shell if the word needs it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=+.,:/@%^#[]", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
