// Package table reads finished jobs from any table with a row for each job: text with any
// delimiter, Parquet, or JSON. A [Map] assigns columns to the fields of a job, and gives their
// units and the notation of times and states. The package has the maps of public data sets and
// proposes a map for other tables.
package table

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that time zones in maps are known on every machine

	"github.com/goccy/go-yaml"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
)

// Map says how a table becomes jobs. docs/FORMATS.md describes the YAML file.
type Map struct {
	Name    string   `yaml:"name"`
	Title   string   `yaml:"title"`   // what the table is
	Source  string   `yaml:"source"`  // where it is published or described
	Guesses []string `yaml:"guesses"` // assumptions, because the source does not say

	// Delimiter is one character or more, "tab" or "blanks"; if empty, it is found in the
	// first line.
	Delimiter string   `yaml:"delimiter"`
	Comment   string   `yaml:"comment"` // the character that begins a comment
	Header    *bool    `yaml:"header"`  // the first row has the columns' names; default: true without Columns
	Columns   []string `yaml:"columns"` // the names of the columns
	Rows      string   `yaml:"rows"`    // of JSON: the name of the list in the outermost object

	Zone    string   `yaml:"zone"`    // time zone of times without a zone, such as Europe/Zurich; default: the reader's
	Time    string   `yaml:"time"`    // how times are written; see [Field.Time]
	Origin  string   `yaml:"origin"`  // the instant from which relative times count
	Unknown []string `yaml:"unknown"` // texts that mean that a value is not known
	Decimal string   `yaml:"decimal"` // "." or ",", the character before a fraction; default: found in the first rows

	Fields map[string]*Field `yaml:"fields"` // by the names in fieldSpecs
}

// Field says where the value of a field is, and how it is written.
type Field struct {
	// Column names the column. If there are several names, the first name that the table has is
	// used.
	Column Names `yaml:"column"`
	// Value is the value in all rows; a field with a value has no column.
	Value string `yaml:"value"`
	// Unit is the unit of a duration (ns, us, ms, seconds, minutes, hours, days, clock, HH:MM) or of
	// memory (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB, text). For a state or an exit code it says how
	// the value is written (slurm, wait).
	Unit string `yaml:"unit"`
	// Time is how an instant is written: unix, unix_ms, unix_us, unix_ns, relative (seconds from
	// Origin), or a format of strptime(3) ("%d.%m.%Y %H:%M:%S"). The default is ISO 8601, or seconds
	// since 1970.
	Time string `yaml:"time"`
	// Times multiplies a number. The product for a count is rounded up.
	Times float64 `yaml:"times"`
	// Prefix is put before each name: "user" turns 17 into user17.
	Prefix string `yaml:"prefix"`
	// Values replaces values of the table: for example "done" by COMPLETED.
	Values map[string]string `yaml:"values"`
	// Names gives names to trackable resources that the table has as numbers.
	Names map[string]string `yaml:"names"`
	// Unknown are texts for an unknown value. Unlimited are texts for a missing limit.
	Unknown   Names `yaml:"unknown"`
	Unlimited Names `yaml:"unlimited"`
}

// Names is a list of texts; in the file it may be a single text.
type Names []string

// UnmarshalYAML reads a list or a single text.
func (n *Names) UnmarshalYAML(unmarshal func(any) error) error {
	var list []string
	if err := unmarshal(&list); err == nil {
		*n = list
		return nil
	}
	var one string
	if err := unmarshal(&one); err != nil {
		return err
	}
	*n = Names{one}
	return nil
}

// UnmarshalYAML reads a field. A text or a list alone names its column.
func (f *Field) UnmarshalYAML(unmarshal func(any) error) error {
	if err := f.Column.UnmarshalYAML(unmarshal); err == nil {
		return nil
	}
	type plain Field
	return unmarshal((*plain)(f))
}

// kind says how a field is read.
type kind uint8

const (
	aText kind = iota
	aCount
	anInstant
	aDuration
	aMemory
	aState
	anExitCode
	someTRES
	aNodeList
)

// fieldSpec is a field of a job. It says how the field is read, and lists the usual names of its column, the most
// reliable name first, in lower case with only letters and digits.
type fieldSpec struct {
	name    string
	kind    kind
	aliases []string
}

var fieldSpecs = []fieldSpec{
	{"id", aText, []string{"jobid", "idjob", "jobnumber", "jid", "id", "job", "jobno", "jobnr", "jobnum",
		"jobidentifier", "jobuuid", "requestid"}},
	{"cluster", aText, []string{"cluster", "clustername"}},
	{"array_job", aCount, []string{"arrayjobid", "idarrayjob", "arrayid"}},
	{"array_task", aCount, []string{"arraytaskid", "idarraytask", "arrayindex", "taskid"}},
	{"name", aText, []string{"jobname", "name", "jnam", "application", "app", "executable", "jobtitle", "title"}},
	{"user", aText, []string{"user", "username", "userid", "iduser", "usr", "owner", "uid", "submitter",
		"submittedby", "login", "userlogin", "requester", "jobowner"}},
	{"group", aText, []string{"group", "groupname", "groupid", "idgroup", "unixgroup", "primarygroup"}},
	{"account", aText, []string{"account", "accountname", "project", "projectname", "projectid", "projectcode",
		"allocation", "allocationname", "chargeaccount", "costcenter", "costcentre", "grant"}},
	{"partition", aText, []string{"partition", "partitionname", "queue", "queuename", "vc", "jobclass",
		"queueclass", "jobqueue", "batchqueue", "pool"}},
	{"qos", aText, []string{"qos", "qosname", "qualityofservice", "servicelevel", "serviceclass", "priorityclass"}},
	{"wckey", aText, []string{"wckey"}},
	{"reservation", aText, []string{"reservation", "reservationname"}},
	{"constraint", aText, []string{"constraints", "constraint", "features", "gpuspec"}},
	{"licenses", aText, []string{"licenses", "licences"}},
	{"comment", aText, []string{"comment", "comments", "note", "notes"}},
	{"submit_line", aText, []string{"submitline"}},
	{"work_dir", aText, []string{"workdir", "workingdirectory", "cwd", "directory", "workingdir"}},
	{"submit", anInstant, []string{"submit", "submittime", "timesubmit", "submitted", "submittedtime",
		"submissiontime", "submittimestamp", "submittedat", "queuedat", "qtime", "queuedtimestamp", "arrivaltime",
		"adt", "ctime", "creationtime", "creationtimestamp", "createdat", "created", "queued", "queuedon",
		"queuetimestamp", "enqueued", "enqueuedat", "enqueuetime", "submitdate", "submissiondate", "submission",
		"submitat", "submittedon", "submitts", "datesubmitted", "datesubmit", "timesubmitted", "timequeued",
		"arrival", "arrived", "arrivedat", "requestedat", "qsubtime"}},
	{"eligible", anInstant, []string{"eligible", "eligibletime", "timeeligible", "etime"}},
	{"start", anInstant, []string{"start", "starttime", "timestart", "starttimestamp", "started", "startedat",
		"sdt", "begintime", "recordedstart", "scheduledtime", "scheduledat", "startdate", "startat", "startedon",
		"startts", "datestarted", "timestarted", "begin", "began", "beginat", "begindate", "dispatched",
		"dispatchedat", "dispatchtime", "launched", "launchedat", "launchtime", "executionstart", "runstart",
		"jobstart", "jobstarttime"}},
	{"end", anInstant, []string{"end", "endtime", "timeend", "endtimestamp", "ended", "endedat", "finishtime",
		"completiontime", "edt", "recordedend", "deletiontime", "deletiontimestamp", "deletedat", "finish",
		"finished", "finishedat", "finishedon", "finishdate", "finishat", "endat", "enddate", "endts", "endedon",
		"dateended", "datefinished", "timeended", "timefinished", "completed", "completedat", "completedon",
		"completion", "completiondate", "stop", "stopped", "stoppedat", "stoptime", "terminated", "terminatedat",
		"terminationtime", "executionend", "runend", "jobend", "jobendtime", "exittime"}},
	{"wait", aDuration, []string{"wait", "waittime", "queuetime", "queuewait", "waitseconds", "queuedtime",
		"waiting", "waitingtime", "waitduration", "queueduration", "timeinqueue", "pendtime", "pendingtime",
		"queuewaittime"}},
	{"run_time", aDuration, []string{"runtime", "elapsed", "elapsedraw", "duration", "walltime", "wallclock",
		"elapsedtime", "runtimeseconds", "walltimeused", "runduration", "executiontime", "exectime",
		"actualruntime", "walltimeconsumed", "usedwalltime", "wallclocktime", "wallclockused", "timeused",
		"usedtime"}},
	{"suspended", aDuration, []string{"suspended", "timesuspended"}},
	{"time_limit", aDuration, []string{"timelimit", "timelimitraw", "walltimelimit", "walltimereq", "wallclockreq",
		"reqtime", "requestedtime", "requestedwalltime", "reqwalltime", "elpl", "walllimit",
		"wallclocklimit", "wallrequest", "walltimerequest", "walltimerequested", "maxwalltime", "maxwallclock",
		"maxruntime", "maxtime", "runtimelimit", "runlimit", "requestedruntime", "runtimerequested",
		"timerequested", "timerequest", "timeallowed", "limit", "maxduration", "hrt"}},
	{"state", aState, []string{"state", "st", "jobstate", "status", "jobstatus", "exitstate", "exitstatus",
		"recordedstate", "podphase", "phase", "result", "jobresult", "outcome", "finalstate", "finalstatus",
		"endstate", "endstatus", "completionstatus", "completionstate", "conclusion"}},
	{"exit_code", anExitCode, []string{"exitcode", "exitcodestatus", "ec", "exit", "exitvalue", "exitstatus",
		"exitstate", "jobexitcode", "jobexitstatus", "returncode", "returnvalue", "retcode", "rc"}},
	{"restarts", aCount, []string{"restarts", "restartcnt", "requeues", "retries"}},
	{"priority", aCount, []string{"priority", "pri", "prio", "jobpriority"}},
	{"cpus", aCount, []string{"reqcpus", "cpusreq", "numcpusreq", "numcoresreq", "processorsreq", "cpunum", "cpus",
		"ncpus", "cores", "ncores", "numcores", "reqprocs", "processors", "requestedprocessors", "nprocs",
		"numprocs", "cnumr", "slots", "cpu", "corecount", "cpucount", "coresrequested", "cpusrequested",
		"requestedcores", "requestedcpus", "numberofcores", "numberofcpus", "totalcores", "totalcpus", "ncore",
		"ncpu", "numcpus", "reqcores", "numprocessors", "nprocessors", "nslots", "numslots", "slotcount", "procs",
		"vcpus", "threads", "numtasks", "tasks", "ntasks"}},
	{"nodes", aCount, []string{"reqnodes", "nodesreq", "numnodesreq", "noderequested", "nodesrequested", "nodenum",
		"nnodes", "nodecount", "numnodes", "nodes", "nnumr", "nodecnt", "numberofnodes", "requestednodes",
		"totalnodes", "numhosts", "nhosts", "hostcount"}},
	{"tasks_per_node", aCount, []string{"taskspernode", "ntaskspernode", "ppn", "corespernode", "procspernode",
		"processespernode"}},
	{"alloc_cpus", aCount, []string{"alloccpus", "cpusalloc", "numcpusalloc", "numcoresalloc", "cnumat",
		"coresallocated", "recordedprocessors", "allocatedcores", "allocatedcpus", "cpusallocated", "coresused",
		"cpusused", "usedcores", "usedcpus", "alloccores"}},
	{"alloc_nodes", aCount, []string{"allocnodes", "nodesalloc", "numnodesalloc", "nodesused", "nnuma",
		"nodesallocated", "usednodes"}},
	{"memory", aMemory, []string{"reqmem", "memreq", "memrequested", "requestedmemory", "memory", "mem",
		"memoryrequest", "memoryrequested", "memrequest", "memorylimit", "memlimit", "maxmemory", "ram"}},
	{"memory_per_node", aMemory, []string{"mempernode", "minmemorynode", "mszl", "memorypernode"}},
	{"memory_per_cpu", aMemory, []string{"mempercpu", "mempercore", "minmemorycpu", "memorypercore", "memorypercpu"}},
	{"gpus", aCount, []string{"gpus", "gpunum", "numgpus", "numgpusreq", "gpusreq", "gpusrequested", "ngpus",
		"reqgpus", "numgpu", "gpu", "gpucount", "numberofgpus", "requestedgpus", "totalgpus", "accelerators"}},
	{"gpus_per_node", aCount, []string{"gpuspernode"}},
	{"req_tres", someTRES, []string{"reqtres", "tresreq", "tresreqstr"}},
	{"alloc_tres", someTRES, []string{"alloctres", "tresalloc", "tresallocstr", "tres"}},
	{"node_list", aNodeList, []string{"nodelist", "hosts", "hostlist", "exechost", "exechosts", "allocatednodes",
		"nodenames", "hostnames", "executionhosts", "exechostlist", "nodesallocatedlist"}},
	{"dependency", aText, []string{"dependency", "dependencies", "dependson"}},
}

func specOf(name string) (spec fieldSpec, known bool) {
	for _, s := range fieldSpecs {
		if s.name == name {
			return s, true
		}
	}
	return spec, false
}

// fieldNames are the names of all fields.
func fieldNames() (names []string) {
	for _, s := range fieldSpecs {
		names = append(names, s.name)
	}
	return names
}

// ParseMap reads a map. Errors name the map by path; errors of the YAML syntax also give the line.
func ParseMap(text []byte, path string) (*Map, error) {
	m := new(Map)
	if err := decode(text, m); err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			return nil, fmt.Errorf("reading map %s:%d: %s", path, syntax.GetToken().Position.Line, syntax.GetMessage())
		}
		return nil, fmt.Errorf("reading map %s: %w", path, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("reading map %s: %w", path, err)
	}
	return m, nil
}

// decode decodes a map. The decoder (goccy/go-yaml 1.19.2) panics for some values with a tag if the
// field may be a list.
func decode(text []byte, m *Map) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = errors.New("not a map (want texts, numbers, lists and keys, without tags)")
		}
	}()
	return yaml.UnmarshalWithOptions(text, m, yaml.Strict())
}

// check returns an error if a map cannot be used, whatever the table.
func (m *Map) check() error {
	if len(m.Fields) == 0 {
		return errors.New("no fields (want at least submit, start, end and cpus)")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		spec, known := specOf(name)
		if !known {
			near := spelling.Nearest(name, 3, fieldNames())
			if near != "" {
				near = fmt.Sprintf(" (did you mean %s?)", near)
			}
			return fmt.Errorf("field %s: not known%s: want one of %s", name, near, strings.Join(fieldNames(), ", "))
		}
		if m.Fields[name] == nil {
			return fmt.Errorf("field %s: no column", name)
		}
		if err := m.Fields[name].check(spec); err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	if _, err := m.zone(nil); err != nil {
		return err
	}
	if _, err := m.origin(0); err != nil {
		return err
	}
	if err := checkTime(m.Time); err != nil {
		return err
	}
	if m.Decimal != "" && m.Decimal != "." && m.Decimal != "," {
		return fmt.Errorf(`decimal %q: not known (want "." or ",")`, m.Decimal)
	}
	if len(m.Columns) == 0 && m.Header != nil && !*m.Header {
		return errors.New("columns: missing, and the table has no header (want columns: [id, submit, ...])")
	}
	return m.needs()
}

// has reports whether a map has one of the fields.
func (m *Map) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return m.Fields[name] != nil })
}

// needs returns an error if a map lacks a field that every job needs.
func (m *Map) needs() error {
	has := m.has
	var missing []string
	for _, need := range []struct {
		has  bool
		what string
	}{
		{has("submit") || has("start") && has("wait"), "submit"},
		{has("start", "wait") || has("end") && has("run_time"), "start (or wait)"},
		{has("end", "run_time"), "end (or run_time)"},
		{has("cpus", "alloc_cpus", "nodes", "alloc_nodes", "gpus", "req_tres", "alloc_tres"),
			"cpus (or nodes, gpus, req_tres)"},
	} {
		if !need.has {
			missing = append(missing, need.what)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the map has no field %s, which every job needs", strings.Join(missing, ", nor "))
	}
	return nil
}

func (f *Field) check(spec fieldSpec) error {
	switch {
	case len(f.Column) == 0 && f.Value == "":
		return errors.New("no column (want column: NAME, or value: TEXT for all rows)")
	case len(f.Column) > 0 && f.Value != "":
		return errors.New("both column and value are given (want one of them)")
	case f.Time != "" && spec.kind != anInstant:
		return errors.New("time: the key is only for instants (this field is not one)")
	case f.Times != 0 && !(f.Times > 0 && f.Times < 1e9):
		return fmt.Errorf("times %g: not a factor (want a number above 0 and below 1e9)", f.Times)
	case len(f.Unlimited) > 0 && spec.kind != aDuration:
		return errors.New("unlimited: the key is only for durations (this field is not one)")
	case len(f.Names) > 0 && spec.kind != someTRES:
		return errors.New("names: the key is only for lists of trackable resources (this field is not one)")
	}
	units := unitsOf[spec.kind]
	if _, known := units[f.Unit]; f.Unit != "" && !known {
		if len(units) == 0 {
			return fmt.Errorf("unit %s: the field takes no unit", f.Unit)
		}
		return fmt.Errorf("unit %s: not known (want %s)", f.Unit, strings.Join(slices.Sorted(maps.Keys(units)), ", "))
	}
	return checkTime(f.Time)
}

// zone returns the time zone for times without a zone.
func (m *Map) zone(otherwise *time.Location) (*time.Location, error) {
	if m.Zone == "" {
		return otherwise, nil
	}
	zone, err := time.LoadLocation(m.Zone)
	if err != nil {
		return nil, fmt.Errorf("zone %s: not known (want a name such as Europe/Zurich)", m.Zone)
	}
	return zone, nil
}

// origin returns the instant from which relative times count.
func (m *Map) origin(otherwise hpc.Time) (hpc.Time, error) {
	if m.Origin == "" {
		return otherwise, nil
	}
	at, err := slurmspec.ParseInstant(m.Origin, time.UTC)
	if err != nil {
		return 0, fmt.Errorf("origin %s: %w", m.Origin, err)
	}
	return at, nil
}

//go:embed maps/*.yaml
var mapFiles embed.FS

// MapNames returns the names of the built-in maps.
func MapNames() (names []string) {
	files, _ := fs.Glob(mapFiles, "maps/*.yaml") // the pattern is valid
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(file), ".yaml"))
	}
	return names
}

// NamedMap returns a built-in map.
func NamedMap(name string) (*Map, error) {
	text, err := mapFiles.ReadFile("maps/" + name + ".yaml")
	if err != nil {
		near := cmp.Or(spelling.Nearest(name, 3, MapNames()), "a file")
		return nil, fmt.Errorf("map %s: neither a file nor a built-in map (did you mean %s? known: %s)", name, near,
			strings.Join(MapNames(), ", "))
	}
	return ParseMap(text, strconv.Quote(name))
}
