package transform

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"rmreplay/internal/hpc"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
)

// Fields are the fields of a job that an expression of [Filter] can use.
type Fields struct {
	ID          string `expr:"id"`
	Name        string `expr:"name"`
	User        string `expr:"user"`
	Group       string `expr:"group"`
	Account     string `expr:"account"`
	Partition   string `expr:"partition"`
	QOS         string `expr:"qos"`
	Reservation string `expr:"reservation"`
	Constraint  string `expr:"constraint"`
	GRES        string `expr:"gres"`
	Dependency  string `expr:"dependency"`

	Nodes    int  `expr:"nodes"` // the minimum number of nodes
	CPUs     int  `expr:"cpus"`
	Memory   int  `expr:"memory_mib"` // requested on all its nodes; 0 without a request, for all memory, or per GPU
	Tasks    int  `expr:"tasks"`
	Switches int  `expr:"switches"`
	Array    bool `expr:"array"`
	Preset   bool `expr:"preset"`

	TimeLimit float64 `expr:"time_limit_s"` // 0 if the job does not ask for a limit
	RunTime   float64 `expr:"run_time_s"`   // the time limit if only the limit ends the job
	Submit    float64 `expr:"submit_s"`     // seconds since the window's start or the epoch
	Hour      int     `expr:"hour"`         // hour of the day, UTC
	Weekday   int     `expr:"weekday"`      // Sunday is 0
	ExitCode  int     `expr:"exit_code"`
	Cancelled bool    `expr:"cancelled"` // the job's user cancels it
	State     string  `expr:"state"`     // recorded state
}

// maxNodes is the largest size of an expression's syntax tree.
const maxNodes = 1000

// Filter keeps the jobs for which an expression over [Fields] is true. Examples are:
//
//	constraint == "gpu" and nodes >= 16
//	partition in ["normal", "low"] and not preset
//
// The language comes from github.com/expr-lang/expr. The language has no loops, no side effects and no access to
// anything but the fields. Dependencies on removed jobs count as fulfilled. The error says where the expression is
// wrong.
func Filter(text string) (Step, error) {
	program, err := Compile(text, Fields{})
	if err != nil {
		return Step{}, err
	}
	return Step{"--filter " + quote(text), func(w *workload.Workload, _ *Environment) error {
		return filter(w, program, NewCompared(text, Fields{}))
	}}, nil
}

// Compile compiles an expression over the fields of env, a struct that has [Fields] or embeds it.
// Its value is true or false.
func Compile(text string, env any) (*vm.Program, error) {
	program, err := expr.Compile(text, expr.Env(env), expr.AsBool(), expr.MaxNodes(maxNodes))
	if err != nil {
		return nil, fmt.Errorf("%q: %w%s", text, err, meant(text, err.Error(), env))
	}
	return program, nil
}

// Names returns the names that expressions use for the fields of env, a struct as for [Compile],
// in the order of the struct.
func Names(env any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(env)) {
		if name := f.Tag.Get("expr"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// otherNames maps names that people may try to the names of fields.
var otherNames = map[string]string{
	"acct": "account", "cores": "cpus", "duration": "run_time_s", "elapsed": "run_time_s", "exitcode": "exit_code",
	"features": "constraint",
	"job":      "id", "job_id": "id", "jobid": "id", "job_name": "name", "limit": "time_limit_s",
	"mem": "memory_mib", "memory": "memory_mib", "ncpus": "cpus", "nnodes": "nodes", "ntasks": "tasks",
	"num_cpus": "cpus", "num_nodes": "nodes", "procs": "cpus", "processors": "cpus", "queue": "partition",
	"run_time": "run_time_s", "runtime": "run_time_s",
	"submit": "submit_s", "submit_time": "submit_s", "time": "time_limit_s", "time_limit": "time_limit_s",
	"timelimit": "time_limit_s",
	"uid":       "user", "username": "user", "wait": "wait_s", "wait_time": "wait_s", "walltime": "time_limit_s",
}

var unknownName = regexp.MustCompile(`unknown name (\w+)`)

// meant returns a hint for an error of an expression. For an unknown name, the hint is "; did you
// mean X?", or the names of all fields if no name is similar. For a single =, and for a number
// with a unit, the hint is the right notation. For other errors it is "".
func meant(text, problem string, env any) string {
	if strings.Contains(problem, `unexpected token Operator("=")`) {
		return "\nwant == for a comparison"
	}
	fields := Names(env)
	if plain := withoutUnit(text, fields); plain != "" {
		return "\n" + plain
	}
	m := unknownName.FindStringSubmatch(problem)
	if m == nil {
		return ""
	}
	if compared := regexp.MustCompile(`(==|!=|\bin|,|\[)\s*` + m[1] + `\b`); compared.MatchString(problem) {
		return fmt.Sprintf("; want a text in quotes: %q", m[1])
	}
	name := meantField(m[1], fields)
	if name == "" {
		slices.Sort(fields)
		return fmt.Sprintf("; want one of %s", strings.Join(fields, ", "))
	}
	return "; did you mean " + name + "?"
}

// meantField returns the field that a user probably means by a wrong name, or "". The wrong name is a usual name of the
// field, or the field is the only field with all words of the name, or the field has the most similar name.
func meantField(wrong string, fields []string) string {
	wrong = strings.ToLower(wrong)
	if name := otherNames[wrong]; slices.Contains(fields, name) {
		return name
	}
	lacks := func(field string) bool {
		words := strings.Split(field, "_")
		return slices.ContainsFunc(strings.Split(wrong, "_"), func(w string) bool { return !slices.Contains(words, w) })
	}
	if longer := slices.DeleteFunc(slices.Clone(fields), lacks); len(longer) == 1 {
		return longer[0]
	}
	return spelling.Nearest(wrong, max(1, len(wrong)/3), fields)
}

// comparison matches a name that is compared with a number with a unit, or with a time of day.
var comparison = regexp.MustCompile(`(\w+)\s*([=!<>]=|[<>])\s*["']?(\d+ [a-zA-Z]+|\d[\w.:-]*)["']?`)

// withoutUnit returns what to write in place of an expression's first number with a unit, or "".
func withoutUnit(text string, fields []string) string {
	for _, m := range comparison.FindAllStringSubmatch(text, -1) {
		name, value := m[1], m[3]
		if !slices.Contains(fields, name) {
			name = meantField(name, fields)
		}
		if _, err := strconv.ParseFloat(value, 64); err == nil {
			continue
		}
		duration, notDuration := hpc.ParseDuration(value)
		bytes, isBytes := hpc.ParseBytes(value)
		switch {
		case strings.HasSuffix(name, "_s") && notDuration == nil:
			return fmt.Sprintf("want %s %s %.10g: durations are in seconds", name, m[2], duration.Seconds())
		case strings.HasSuffix(name, "_mib") && isBytes:
			return fmt.Sprintf("want %s %s %d: memory is in MiB", name, m[2], bytes>>20)
		}
	}
	return ""
}

func filter(w *workload.Workload, program *vm.Program, compared *Compared) error {
	start := w.Start
	if start == 0 {
		start = w.Epoch
	}
	var failed error
	machine := vm.VM{}
	keep(w, func(job *hpc.Job) bool {
		fields := FieldsOf(w, job, start)
		compared.Add(fields)
		value, err := machine.Run(program, fields)
		if err != nil && failed == nil {
			failed = fmt.Errorf("job %s: %w", job.ID, err)
		}
		kept, _ := value.(bool)
		return kept
	})
	switch {
	case failed != nil:
		return failed
	case w.Jobs.Len() == 0:
		return fmt.Errorf("no job is left%s", compared.Absent())
	}
	return nil
}

// FieldsOf returns the fields of a job. start is the instant from which Fields.Submit counts.
func FieldsOf(w *workload.Workload, job *hpc.Job, start hpc.Time) Fields {
	at := job.Submit.Std()
	f := Fields{
		ID: job.ID, Name: job.Name, User: job.User, Group: job.Group, Account: job.Account,
		Partition: job.Partition, QOS: job.QOS, Reservation: job.Reservation,
		Constraint: job.Constraint, GRES: job.GRES, Dependency: job.Dependency,
		Nodes: max(job.MinNodes, 1), CPUs: workload.CPUs(&job.Request), Tasks: job.Tasks, Switches: job.Switches,
		Array: job.Array != "", Preset: w.Preset(job),
		TimeLimit: job.TimeLimit.Seconds(), RunTime: min(job.RunTime, limitOf(job)).Seconds(),
		Submit: job.Submit.Sub(start).Seconds(), Hour: at.Hour(), Weekday: int(at.Weekday()),
		ExitCode: job.ExitCode, Cancelled: job.CancelAfter > 0,
	}
	if job.MemPerNode > 0 {
		f.Memory = int(job.MemPerNode) * f.Nodes
	} else if job.MemPerCPU > 0 {
		f.Memory = int(job.MemPerCPU) * f.CPUs
	}
	for _, code := range job.TaskExitCodes {
		f.ExitCode = max(f.ExitCode, code)
	}
	if job.Recorded != nil {
		f.State = string(job.Recorded.State)
	}
	return f
}

// quote quotes an argument for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// MapPartition moves the jobs and reservations of one partition to another. A job may list several partitions. The old
// partition may also be "*" for every partition, or "" for jobs that do not name a partition. MapPartition returns an
// error if the new partition is empty or a name is not a single partition.
func MapPartition(from, to string) (Step, error) {
	if to == "" || strings.ContainsAny(from+to, ", \t\n") {
		return Step{}, fmt.Errorf("from %q to %q: not two partitions (want OLD=NEW, or *=NEW)", from, to)
	}
	mapped := func(list string) string {
		if from == "*" || list == from {
			return to
		}
		names := strings.Split(list, ",")
		out := names[:0]
		seen := map[string]bool{}
		for _, name := range names {
			if name == from && name != "" {
				name = to
			}
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
		return strings.Join(out, ",")
	}
	return Step{fmt.Sprintf("--map-partition %s=%s", from, to), func(w *workload.Workload, env *Environment) error {
		named := map[string]bool{}
		for i, job := range w.Jobs.All() {
			for name := range strings.SplitSeq(job.Partition, ",") {
				named[name] = true
			}
			if p := mapped(job.Partition); p != job.Partition {
				job.Partition = p
				w.Jobs.Set(i, job)
			}
		}
		for i := range w.Reservations {
			if r := &w.Reservations[i]; r.Partition != "" {
				named[r.Partition] = true
				r.Partition = mapped(r.Partition)
			}
		}
		if _, known := env.Partitions[to]; env.Partitions != nil && !known {
			return fmt.Errorf("the cluster has no partition %s (%s)", to, spelling.Meant(to, sortedKeys(env.Partitions)))
		}
		switch {
		case from == "" && !named[from]:
			env.note("every job names a partition")
		case from != "" && from != "*":
			return env.checkPartition(from, named)
		}
		return nil
	}}, nil
}
