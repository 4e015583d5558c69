package sbatch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
)

type argument int

const (
	noArgument argument = iota
	requiredArgument
	optionalArgument
)

// option is one option of sbatch. If set is nil, the parser accepts the option and ignores it,
// because it has no effect on scheduling.
type option struct {
	long  string
	short byte
	arg   argument
	// byDefault is the value if the user leaves out an optional argument.
	byDefault string
	set       func(p *parser, value string) error
	aliasOf   string
}

func (o *option) canonical() string {
	if o.aliasOf != "" {
		return o.aliasOf
	}
	return o.long
}

// text returns a setter that stores a value unchanged.
func text(field func(*hpc.Request) *string) func(*parser, string) error {
	return checkedText(field, func(string) error { return nil })
}

func checkedText(field func(*hpc.Request) *string, check func(string) error) func(*parser, string) error {
	return func(p *parser, value string) error {
		if value == "" {
			return errors.New("empty")
		}
		if err := check(value); err != nil {
			return err
		}
		*field(&p.Request) = value
		return nil
	}
}

func flag(field func(*hpc.Request) *bool) func(*parser, string) error {
	return func(p *parser, _ string) error {
		*field(&p.Request) = true
		return nil
	}
}

func count(minimum int, field func(*hpc.Request) *int) func(*parser, string) error {
	return func(p *parser, value string) error {
		n, err := parseCount(value, minimum)
		*field(&p.Request) = n
		return err
	}
}

// memory returns a setter that stores a size in MiB. A size of 0 requests all memory of a node. The
// setter then stores hpc.AllMemory, because 0 in the request means "not requested".
func memory(field func(*hpc.Request) *int64) func(*parser, string) error {
	return func(p *parser, value string) error {
		n, err := parseMemory(value)
		if n == 0 {
			n = hpc.AllMemory
		}
		*field(&p.Request) = n
		return err
	}
}

func timeLimit(field func(*hpc.Request) *time.Duration) func(*parser, string) error {
	return func(p *parser, value string) (err error) {
		*field(&p.Request), err = slurmspec.ParseTimeLimit(value)
		return err
	}
}

func hosts(value string) error {
	if strings.Contains(value, "/") {
		return errors.New("a file of node names is not read (want a host list)")
	}
	_, err := hostlist.Count(value)
	return err
}

func oneOf(words ...string) func(string) error {
	return func(value string) error {
		for _, w := range words {
			if strings.EqualFold(w, value) {
				return nil
			}
		}
		return fmt.Errorf("not known (want %s)", strings.Join(words, ", "))
	}
}

func refuse(why string) func(*parser, string) error {
	return func(*parser, string) error { return errors.New(why) }
}

// table holds the options of sbatch 22.05 that affect scheduling, and the options that make
// sbatch do something else than submit a job.
var table = []*option{
	{long: "account", short: 'A', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Account })},
	{long: "array", short: 'a', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Array }, CheckArray)},
	{long: "bb", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.BurstBuffer })},
	{long: "bbf", arg: requiredArgument, set: refuse("a burst buffer file of the site is not read (want --bb)")},
	{long: "begin", short: 'b', arg: requiredArgument, set: setBegin},
	{long: "cluster-constraint", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.ClusterConstraint })},
	{long: "comment", arg: requiredArgument, set: func(p *parser, v string) error { p.Request.Comment = v; return nil }},
	{long: "constraint", short: 'C', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Constraint })},
	{long: "contiguous", set: flag(func(r *hpc.Request) *bool { return &r.Contiguous })},
	{long: "core-spec", short: 'S', arg: requiredArgument, set: count(0, func(r *hpc.Request) *int { return &r.CoreSpec })},
	{long: "cores-per-socket", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.CoresPerSocket })},
	{long: "cpus-per-gpu", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.CPUsPerGPU })},
	{long: "cpus-per-task", short: 'c', arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.CPUsPerTask })},
	{long: "deadline", arg: requiredArgument, set: setDeadline},
	{long: "delay-boot", arg: requiredArgument, set: setSpan(func(r *hpc.Request) *time.Duration { return &r.DelayBoot })},
	{long: "dependency", short: 'd', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Dependency }, CheckDependency)},
	{long: "distribution", short: 'm', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Distribution }, checkDistribution)},
	{long: "exclude", short: 'x', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Exclude }, hosts)},
	{long: "exclusive", arg: optionalArgument, byDefault: "exclusive", set: setExclusive},
	{long: "extra-node-info", short: 'B', arg: requiredArgument, set: setGeometry},
	{long: "gid", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Group })},
	{long: "gpus", short: 'G', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.GPUs }, checkGPUs)},
	{long: "gpus-per-node", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.GPUsPerNode }, checkGPUs)},
	{long: "gpus-per-socket", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.GPUsPerSocket }, checkGPUs)},
	{long: "gpus-per-task", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.GPUsPerTask }, checkGPUs)},
	{long: "gres", arg: requiredArgument, set: setGRES},
	{long: "gres-flags", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.GRESFlags }, oneOf("disable-binding", "enforce-binding"))},
	{long: "hint", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Hint }, checkHint)},
	{long: "hold", short: 'H', set: flag(func(r *hpc.Request) *bool { return &r.Hold })},
	{long: "job-name", short: 'J', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Name })},
	{long: "kill-on-invalid-dep", arg: requiredArgument, set: setKillOnInvalidDep},
	{long: "licenses", short: 'L', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Licenses })},
	{long: "mcs-label", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.MCSLabel })},
	{long: "mem", arg: requiredArgument, set: memory(func(r *hpc.Request) *int64 { return &r.MemPerNode })},
	{long: "mem-per-cpu", arg: requiredArgument, set: memory(func(r *hpc.Request) *int64 { return &r.MemPerCPU })},
	{long: "mem-per-gpu", arg: requiredArgument, set: memory(func(r *hpc.Request) *int64 { return &r.MemPerGPU })},
	{long: "mincpus", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.MinCPUsPerNode })},
	{long: "nice", arg: optionalArgument, byDefault: "100", set: setNice},
	{long: "no-kill", short: 'k', arg: optionalArgument, byDefault: "set", set: setNoKill},
	{long: "no-requeue", set: func(p *parser, _ string) error { p.Request.Requeue = new(false); return nil }},
	{long: "nodefile", short: 'F', arg: requiredArgument, set: refuse("a file of node names is not read (want --nodelist)")},
	{long: "nodelist", short: 'w', arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.NodeList }, hosts)},
	{long: "nodes", short: 'N', arg: requiredArgument, set: setNodes},
	{long: "ntasks", short: 'n', arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.Tasks })},
	{long: "ntasks-per-core", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.TasksPerCore })},
	{long: "ntasks-per-gpu", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.TasksPerGPU })},
	{long: "ntasks-per-node", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.TasksPerNode })},
	{long: "ntasks-per-socket", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.TasksPerSocket })},
	{long: "ntasks-per-tres", arg: requiredArgument, aliasOf: "ntasks-per-gpu", set: count(1, func(r *hpc.Request) *int { return &r.TasksPerGPU })},
	{long: "overcommit", short: 'O', set: flag(func(r *hpc.Request) *bool { return &r.Overcommit })},
	{long: "oversubscribe", short: 's', set: func(p *parser, _ string) error { return setExclusive(p, "oversubscribe") }},
	{long: "partition", short: 'p', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Partition })},
	{long: "prefer", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Prefer })},
	{long: "priority", arg: requiredArgument, set: setPriority},
	{long: "qos", short: 'q', arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.QOS })},
	{long: "reboot", set: flag(func(r *hpc.Request) *bool { return &r.Reboot })},
	{long: "requeue", set: func(p *parser, _ string) error { p.Request.Requeue = new(true); return nil }},
	{long: "reservation", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.Reservation })},
	{long: "signal", arg: requiredArgument, set: checkedText(func(r *hpc.Request) *string { return &r.Signal }, checkSignal)},
	{long: "sockets-per-node", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.SocketsPerNode })},
	{long: "spread-job", set: flag(func(r *hpc.Request) *bool { return &r.SpreadJob })},
	{long: "switches", arg: requiredArgument, set: setSwitches},
	{long: "tasks-per-node", arg: requiredArgument, aliasOf: "ntasks-per-node", set: count(1, func(r *hpc.Request) *int { return &r.TasksPerNode })},
	{long: "test-only", set: refuse("submits nothing")},
	{long: "thread-spec", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.ThreadSpec })},
	{long: "threads-per-core", arg: requiredArgument, set: count(1, func(r *hpc.Request) *int { return &r.ThreadsPerCore })},
	{long: "time", short: 't', arg: requiredArgument, set: timeLimit(func(r *hpc.Request) *time.Duration { return &r.TimeLimit })},
	{long: "time-min", arg: requiredArgument, set: timeLimit(func(r *hpc.Request) *time.Duration { return &r.TimeMin })},
	{long: "tmp", arg: requiredArgument, set: func(p *parser, v string) (err error) { p.Request.TmpDisk, err = parseMemory(v); return err }},
	{long: "uid", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.User })},
	{long: "use-min-nodes", set: flag(func(r *hpc.Request) *bool { return &r.UseMinNodes })},
	{long: "wckey", arg: requiredArgument, set: text(func(r *hpc.Request) *string { return &r.WCKey })},
	{long: "help", short: 'h', set: refuse("submits nothing")},
	{long: "usage", set: refuse("submits nothing")},
	{long: "version", short: 'V', set: refuse("submits nothing")},
}

// ignored are the options of sbatch that set up a job's processes, direct their output, or
// control the command itself. No scheduler acts on them. The parser does not check their
// values.
var ignored = []*option{
	{long: "acctg-freq", arg: requiredArgument},
	{long: "batch", arg: requiredArgument}, // which of the job's nodes runs the script
	{long: "chdir", short: 'D', arg: requiredArgument},
	{long: "cluster", arg: requiredArgument}, // there is one cluster
	{long: "clusters", short: 'M', arg: requiredArgument},
	{long: "container", arg: requiredArgument},
	{long: "context", arg: requiredArgument},
	{long: "cpu-freq", arg: requiredArgument},
	{long: "error", short: 'e', arg: requiredArgument},
	{long: "export", arg: requiredArgument},
	{long: "export-file", arg: requiredArgument},
	{long: "get-user-env", arg: optionalArgument},
	{long: "gpu-bind", arg: requiredArgument},
	{long: "gpu-freq", arg: requiredArgument},
	{long: "ignore-pbs"},
	{long: "input", short: 'i', arg: requiredArgument},
	{long: "mail-type", arg: requiredArgument},
	{long: "mail-user", arg: requiredArgument},
	{long: "mem-bind", arg: requiredArgument},
	{long: "network", arg: requiredArgument},
	{long: "open-mode", arg: requiredArgument},
	{long: "output", short: 'o', arg: requiredArgument},
	{long: "parsable"},
	{long: "power", arg: requiredArgument},
	{long: "profile", arg: requiredArgument},
	{long: "propagate", arg: optionalArgument},
	{long: "quiet", short: 'Q'},
	{long: "verbose", short: 'v'},
	{long: "wait", short: 'W'},
	{long: "wait-all-nodes", arg: requiredArgument},
	{long: "wrap", arg: requiredArgument},
}

var (
	allOptions = append(slices.Clip(slices.Clone(table)), ignored...)
	longTable  = func() map[string]*option {
		m := make(map[string]*option, len(allOptions))
		for _, o := range allOptions {
			m[o.long] = o
		}
		return m
	}()
	shortTable = func() (t [256]*option) {
		for _, o := range allOptions {
			if o.short != 0 {
				t[o.short] = o
			}
		}
		return t
	}()
)

// findLong finds a long option by its name or by a prefix that only this option has.
func findLong(name string) (*option, error) {
	if opt := longTable[name]; opt != nil {
		return opt, nil
	}
	var found []*option
	for _, o := range allOptions {
		if name != "" && strings.HasPrefix(o.long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return nil, unknownOption("--"+name, 0)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("--%s: ambiguous (--%s or --%s)", name, found[0].long, found[1].long)
}

// findLong finds a long option of the command that the parser reads.
func (p *parser) findLong(name string) (*option, error) {
	if p.recorded != nil {
		if opt := p.recorded.others[name]; opt != nil && len(name) > 1 {
			return opt, nil
		}
	}
	return findLong(name)
}

// findShort finds an option by its letter, and returns nil for a letter without an option.
func (p *parser) findShort(letter byte) *option {
	if p.recorded != nil {
		if opt := p.recorded.others[string(rune(letter))]; opt != nil {
			return opt
		}
	}
	return shortTable[letter]
}

// unknownOption is the error for an option that sbatch 22.05 does not have. The parameter at is
// the index of the letter in a word of short options.
func unknownOption(word string, at int) error {
	name := strings.TrimLeft(word, "-")
	if near := nearestOption(name); near != "" {
		return fmt.Errorf("%s: not an option of sbatch (did you mean --%s?)", word, near)
	}
	if at > 1 {
		return fmt.Errorf("%s: -%c is not an option of sbatch", word, word[at])
	}
	return fmt.Errorf("%s: not an option of sbatch", word)
}

// nearestOption returns the long option that is fewest edits away from name, or "" if no option
// is near.
func nearestOption(name string) string {
	return spelling.Nearest(name, min(3, len(name)/3), longOptions())
}

// longOptions returns the long names of all options.
var longOptions = sync.OnceValue(func() []string {
	names := make([]string, len(allOptions))
	for i, o := range allOptions {
		names[i] = o.long
	}
	return names
})

func setNodes(p *parser, value string) (err error) {
	p.Request.MinNodes, p.Request.MaxNodes, err = parseNodes(value)
	return err
}

func setBegin(p *parser, value string) error {
	at, err := parseInstant(value, p.submit)
	// With a begin time in the past, the job may begin at once.
	p.Request.Begin = max(at.Sub(p.submit), 0)
	return err
}

func setDeadline(p *parser, value string) error {
	at, err := parseInstant(value, p.submit)
	p.Request.Deadline = at.Sub(p.submit)
	if err == nil && p.Request.Deadline == 0 {
		p.Request.Deadline = -1 // a deadline in the past; 0 would mean no deadline
	}
	return err
}

func setSpan(field func(*hpc.Request) *time.Duration) func(*parser, string) error {
	return func(p *parser, value string) (err error) {
		*field(&p.Request), err = slurmspec.ParseTimeSpec(value)
		return err
	}
}

func setSwitches(p *parser, value string) (err error) {
	number, wait, hasWait := strings.Cut(value, "@")
	if hasWait {
		if p.Request.SwitchWait, err = slurmspec.ParseTimeSpec(wait); err != nil {
			return err
		}
	}
	p.Request.Switches, err = parseCount(number, 1)
	return err
}

// setExclusive sets whose jobs may share nodes with the job. If several options say so, the last
// one decides.
func setExclusive(p *parser, value string) error {
	p.Request.Exclusive, p.Request.Oversubscribe = "", false
	switch strings.ToLower(value) {
	case "exclusive":
		p.Request.Exclusive = "node"
	case "user", "mcs":
		p.Request.Exclusive = strings.ToLower(value)
	case "oversubscribe":
		p.Request.Oversubscribe = true
	default:
		return errors.New("not a value of this option (want user, mcs or no value)")
	}
	return nil
}

func setGeometry(p *parser, value string) error {
	fields := []*int{&p.Request.SocketsPerNode, &p.Request.CoresPerSocket, &p.Request.ThreadsPerCore}
	parts := strings.Split(value, ":")
	if len(parts) > len(fields) {
		return errors.New("not a node's geometry (want SOCKETS[:CORES[:THREADS]])")
	}
	for i, part := range parts {
		n, err := parseGeometry(part)
		if err != nil {
			return err
		}
		*fields[i] = n
	}
	return nil
}

func setGRES(p *parser, value string) error {
	if strings.EqualFold(value, "none") {
		p.Request.GRES = "" // as for a job without --gres
		return nil
	}
	p.Request.GRES = value
	return checkGRES(value)
}

func setKillOnInvalidDep(p *parser, value string) error {
	p.Request.KillOnInvalidDep = new(strings.EqualFold(value, "yes"))
	return oneOf("yes", "no")(value)
}

func setNoKill(p *parser, value string) error {
	p.Request.NoKill = strings.EqualFold(value, "set")
	return oneOf("set", "off", "no")(value)
}

// maxNice is NICE_OFFSET-3 of Slurm's slurm.h.
const maxNice = 1<<31 - 3

func setNice(p *parser, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errors.New("not a whole number")
	}
	if n > maxNice || n < -maxNice {
		return fmt.Errorf("out of range (want -%d to %d)", maxNice, maxNice)
	}
	p.Request.Nice = int(n)
	return nil
}

// noValue is NO_VAL of Slurm's slurm.h, the smallest priority that cannot be requested.
const noValue = math.MaxUint32 - 1

func setPriority(p *parser, value string) error {
	if strings.EqualFold(value, "top") {
		p.Request.Priority = new(uint32(noValue - 1))
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n >= noValue {
		return fmt.Errorf("not a priority (want 0 to %d, or TOP)", uint32(noValue-1))
	}
	p.Request.Priority = new(uint32(n))
	return nil
}

func checkHint(value string) error {
	check := oneOf("compute_bound", "memory_bound", "multithread", "nomultithread")
	for hint := range strings.SplitSeq(value, ",") {
		if err := check(hint); err != nil {
			return err
		}
	}
	return nil
}
