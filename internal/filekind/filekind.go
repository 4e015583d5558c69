// Package filekind recognizes files that people give in place of a workload or of a cluster's
// configuration. Examples are configurations, other commands' output, archives, and pages of a web
// server. It returns the kind of such a file, and the command or option that reads the file.
// Formats of workloads recognize their own files: see package formats.
package filekind

import (
	"bytes"
	"regexp"
	"strings"

	"rmreplay/internal/lines"
)

// Kind is a kind of files.
type Kind struct {
	// Name is the name of the kind with its article: "a slurm.conf".
	Name string
	// Want says what to do with the file, as an error message ends: "want ...".
	Want string
	// Slurm says that the file belongs to Slurm's configuration.
	Slurm bool
	// Workload says that the file is a workload.
	Workload bool

	recognize func(f *file) bool
}

// Experiment is the name of the kind of a file for sweep or tune.
const Experiment = "an experiment file"

// file is the beginning of a file.
type file struct {
	head  []byte
	first string // the first line that is neither blank nor a comment (#)
	lower string // first in lower case
}

const (
	unpack   = "want the files that it holds"
	compress = "want it uncompressed, or compressed with gzip, xz or Zstandard"
	accounts = "want it as accounts.sacctmgr in the cluster directory"
	sacct    = "want accounting records: sacct -P -o JobID,Submit,Start,End,State,ReqCPUS,...; see rmreplay workload " +
		"build --help"
)

// kinds are the known kinds. The first kind that recognizes a file is the file's kind.
var kinds = []Kind{
	{Name: "a ZIP archive", Want: unpack, recognize: magic("PK\x03\x04")},
	{Name: "a tar archive", Want: unpack, recognize: func(f *file) bool {
		return len(f.head) > 262 &&
			string(f.head[257:262]) == "ustar"
	}},
	{Name: "a file compressed with bzip2", Want: compress, recognize: magic("BZh")},
	{Name: "a file compressed with gzip", Want: "want it uncompressed", recognize: magic("\x1f\x8b")},
	{Name: "a file compressed with xz", Want: "want it uncompressed", recognize: magic("\xfd7zXZ\x00")},
	{Name: "a file compressed with Zstandard", Want: "want it uncompressed", recognize: magic("\x28\xb5\x2f\xfd")},
	{Name: "a PDF document", Want: "want the data that it shows", recognize: magic("%PDF-")},
	{Name: "a Parquet table", Want: "want rmreplay workload build --from table FILE", recognize: magic("PAR1")},
	{Name: "text in UTF-16", Want: "want UTF-8: iconv -f UTF-16 -t UTF-8 FILE", recognize: isUTF16},
	{Name: "an error message of one of Slurm's commands, and perhaps its output behind it",
		Want:      "want the command's standard output alone: repeat it without 2>&1, or delete the lines with its errors",
		recognize: line(`^(sacct|squeue|scontrol|sacctmgr|sinfo): (error|fatal|warning):`)},
	{Name: "the output of squeue or scontrol with --json", Want: "want accounting records: sacct --json",
		recognize: func(f *file) bool {
			return strings.HasPrefix(f.first, "{") && bytes.Contains(f.head, []byte(`"job_state"`)) &&
				bytes.Contains(f.head, []byte(`"submit_time"`)) &&
				!bytes.Contains(f.head, []byte(`"submission"`)) && bytes.Contains(f.head, []byte(`"jobs"`))
		}},
	{Name: "a SQLite database", Want: "want a table of its jobs as text: rmreplay workload build --from table FILE",
		recognize: magic("SQLite format 3\x00")},
	{Name: "an HTML page, perhaps an error of the server that it came from",
		Want:      "want the file itself; download it again",
		recognize: line(`^<(!doctype html|html|head|\?xml[^>]*>\s*<!doctype html)`)},
	{Name: "a dump of a SQL database", Want: "want it in a MariaDB server: rmreplay workload build --from slurmdbd",
		recognize: anyLine(`^(-- (MySQL|MariaDB|PostgreSQL) |/\*M?!)`)},
	{Name: "a trace of rmreplay", Want: "want it as a workload: rmreplay replay FILE --cluster DIR", Workload: true,
		recognize: line(`^\{\s*"rmreplay_trace"`)},
	{Name: "a manifest of a run", Want: "want the run's directory", recognize: func(f *file) bool {
		return strings.HasPrefix(f.first, "{") && bytes.Contains(f.head, []byte(`"engine":`)) &&
			bytes.Contains(f.head, []byte(`"virtual_s":`))
	}},
	{Name: "a script", Want: sacct, recognize: magic("#!")},
	{Name: "the output of sacctmgr dump", Want: accounts + ", or rmreplay workload build --accounts FILE",
		recognize: line(`^(cluster|parent|account|user) - '`)},
	{Name: "a file of commands for sacctmgr", Want: accounts,
		recognize: line(`^(add|create|modify|delete|remove)\s+(accounts?|users?|qos|clusters?|coordinators?)\s`)},
	{Name: "the output of scontrol show reservation", Want: "want rmreplay workload build --reservations FILE",
		recognize: line(`^reservationname=\S+ starttime=`)},
	{Name: "the output of scontrol show node", Want: "want rmreplay workload build --node-states FILE",
		recognize: func(f *file) bool {
			return strings.HasPrefix(f.lower, "nodename=") && bytes.Contains(f.head, []byte("CPUAlloc="))
		}},
	{Name: "the output of scontrol show job", Want: sacct, recognize: line(`^jobid=\d+ (arrayjobid|jobname|hetjobid)`)},
	{Name: "the output of scontrol show partition", Want: "want slurm.conf in the cluster directory",
		recognize: func(f *file) bool {
			return strings.HasPrefix(f.lower, "partitionname=") && !strings.Contains(f.lower, " ") &&
				bytes.Contains(f.head, []byte("\n   AllowGroups="))
		}},
	{Name: "the output of squeue", Want: sacct, recognize: line(`^jobid\s+partition\s+name\s+user`)},
	{Name: "the output of sinfo", Want: "want slurm.conf in the cluster directory", recognize: line(`^partition\s+avail`)},
	{Name: "a slurmdbd.conf", Want: "a replay does not need it: want slurm.conf in the cluster directory", Slurm: true,
		recognize: anyLine(`(?i)^\s*(DbdHost|DbdAddr|StorageUser)\s*=`)},
	{Name: "a slurm.conf", Want: "want its directory with --cluster; rmreplay conf adapt FILE shows what a replay changes",
		Slurm: true, recognize: anyLine(
			`(?i)^\s*(ClusterName|SlurmctldHost|ControlMachine|SchedulerType|SelectType|NodeName|PartitionName)\s*=`)},
	{Name: "a topology.conf", Want: "want it beside slurm.conf in the cluster directory", Slurm: true,
		recognize: anyLine(`(?i)^\s*(SwitchName|BlockName)\s*=`)},
	{Name: "a gres.conf", Want: "want it beside slurm.conf in the cluster directory", Slurm: true,
		recognize: anyLine(`(?i)^\s*(AutoDetect=|Name=\w+ (Type|File|Count)=)`)},
	{Name: "a log of a Slurm daemon", Want: sacct, recognize: line(`^\[\d{4}-\d\d-\d\dt[\d:.]+\] `)},
	{Name: Experiment, Want: "want rmreplay sweep FILE -o DIR", recognize: func(f *file) bool {
		return engine.Match(f.head) && workload.Match(f.head)
	}},
}

// engine and workload match keys that occur together only in an experiment file.
var (
	engine   = regexp.MustCompile(`(?m)^(slurm|sim):`)
	workload = regexp.MustCompile(`(?m)^workload:`)
)

func magic(prefix string) func(*file) bool {
	return func(f *file) bool { return bytes.HasPrefix(f.head, []byte(prefix)) }
}

// isUTF16 recognizes a byte order mark, or a text in which every second byte is 0.
func isUTF16(f *file) bool {
	if bytes.HasPrefix(f.head, []byte("\xff\xfe")) || bytes.HasPrefix(f.head, []byte("\xfe\xff")) {
		return true
	}
	text := f.head[:min(len(f.head), 64)&^1]
	var zeros [2]int
	for i, c := range text {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(text) / 2
	return half >= 8 && (zeros[0] == half && zeros[1] == 0 || zeros[1] == half && zeros[0] == 0)
}

// line recognizes a file whose first line, in lower case, matches the pattern. Blank lines and
// comments do not count.
func line(pattern string) func(*file) bool {
	re := regexp.MustCompile(pattern)
	return func(f *file) bool { return re.MatchString(f.lower) }
}

// anyLine recognizes a file if a line of its beginning matches the pattern.
func anyLine(pattern string) func(*file) bool {
	re := regexp.MustCompile(`(?m)` + pattern)
	return func(f *file) bool { return re.Match(f.head) }
}

// looked is the number of bytes at the beginning of a file that decide its kind.
const looked = 64 << 10

// Detect returns the kind of a file whose beginning is head, and whether it is known.
func Detect(head []byte) (Kind, bool) {
	f := &file{head: head[:min(len(head), looked)]}
	f.first, _ = lines.First(f.head)
	f.lower = strings.ToLower(f.first[:min(len(f.first), 1000)])
	for _, kind := range kinds {
		if kind.recognize(f) {
			return kind, true
		}
	}
	return Kind{}, false
}
