package sbatch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

// submit is a Wednesday, 2024-05-15 at 10:30:20 UTC.
var submit = hpc.Time(time.Date(2024, 5, 15, 10, 30, 20, 0, time.UTC).UnixNano())

func parseLine(line string) (*Submission, error) {
	words, err := Split(line)
	if err != nil {
		return nil, err
	}
	return Parse(words, submit)
}

func TestParse(t *testing.T) {
	type R = hpc.Request
	tests := []struct {
		line string
		want hpc.Request
	}{
		{"", R{}},
		{"-n12", R{Tasks: 12}},
		{"-n 12 -c2", R{Tasks: 12, CPUsPerTask: 2, MinCPUsPerNode: 2}},
		{"--ntasks=12", R{Tasks: 12}},
		{"--ntasks 12", R{Tasks: 12}},
		{"-HsO", R{Hold: true, Oversubscribe: true, Overcommit: true}},
		{"-HsN4", R{Hold: true, Oversubscribe: true, MinNodes: 4, MaxNodes: 4}},
		{"-Hn 3", R{Hold: true, Tasks: 3}},
		{"--part=a,b --acco x --qo=q", R{Partition: "a,b", Account: "x", QOS: "q"}},
		{"--uid=bob --gid users --wckey=w", R{User: "bob", Group: "users", WCKey: "w"}},
		{"-t 90", R{TimeLimit: 90 * time.Minute}},
		{"-t 00:07:00", R{TimeLimit: 7 * time.Minute}},
		{"-t 07:30", R{TimeLimit: 8 * time.Minute}}, // rounded up to minutes
		{"-t 1:2:3", R{TimeLimit: 63 * time.Minute}},
		{"-t 3-00:00:00", R{TimeLimit: 72 * time.Hour}},
		{"-t 1-12", R{TimeLimit: 36 * time.Hour}},
		{"-t 1-", R{TimeLimit: 24 * time.Hour}},
		{"-t 1-12:30", R{TimeLimit: 36*time.Hour + 30*time.Minute}},
		{"-t 0", R{TimeLimit: hpc.Unlimited}},
		{"--time=INFINITE --time-min=-1", R{TimeLimit: hpc.Unlimited, TimeMin: hpc.Unlimited}},
		{"--mem=500000", R{MemPerNode: 500000}},
		{"--mem 500G", R{MemPerNode: 512000}},
		{"--mem-per-cpu=1025K", R{MemPerCPU: 2}},
		{"--mem-per-gpu=1TB", R{MemPerGPU: 1 << 20}},
		{"--mem=0", R{MemPerNode: hpc.AllMemory}},
		{"--tmp=2g", R{TmpDisk: 2048}},
		{"-N 2-4 -n 8", R{MinNodes: 2, MaxNodes: 4, Tasks: 8}},
		{"-N 1-4 -n 2", R{MinNodes: 1, MaxNodes: 2, Tasks: 2}},
		{"-N 4 -n 2", R{MinNodes: 2, MaxNodes: 2, Tasks: 2}},
		{"-N 1k", R{MinNodes: 1024, MaxNodes: 1024}},
		{"-N 2 --ntasks-per-node=3", R{MinNodes: 2, MaxNodes: 2, Tasks: 6, TasksPerNode: 3}},
		{"-N 2-3 --tasks-per-node=3", R{MinNodes: 2, MaxNodes: 3, TasksPerNode: 3}},
		{"-N 2 -B 2:4:1", R{MinNodes: 2, MaxNodes: 2, Tasks: 16, SocketsPerNode: 2, CoresPerSocket: 4, ThreadsPerCore: 1}},
		{"-B 2:*", R{SocketsPerNode: 2, Tasks: 2}},
		{"-w n[1-3],n1", R{NodeList: "n[1-3],n1", MinNodes: 3}},
		{"-x n1", R{Exclude: "n1"}},
		{"--exclusive", R{Exclusive: "node"}},
		{"--exclusive=user", R{Exclusive: "user"}},
		{"--exclusive=mcs --mcs-label=a", R{Exclusive: "mcs", MCSLabel: "a"}},
		{"--exclusive -s", R{Oversubscribe: true}},
		{"--switches=2@1:30:00", R{Switches: 2, SwitchWait: 90 * time.Minute}},
		{"--switches=1", R{Switches: 1}},
		{"--hint=nomultithread", R{Hint: "nomultithread", ThreadsPerCore: 1}},
		{"--hint=memory_bound", R{Hint: "memory_bound", ThreadsPerCore: 1, CoresPerSocket: 1}},
		{"--hint=memory_bound --ntasks-per-core=2", R{TasksPerCore: 2}},
		{"--gres=gpu:a100:2,nvme:1 -L matlab:2", R{GRES: "gpu:a100:2,nvme:1", Licenses: "matlab:2"}},
		{"--gres=none", R{}},
		{"-G a100:8 --cpus-per-gpu=4", R{GPUs: "a100:8", CPUsPerGPU: 4}},
		{"--gpus-per-node=4 --gres-flags=enforce-binding", R{GPUsPerNode: "4", GRESFlags: "enforce-binding"}},
		{"--ntasks-per-gpu=2 --gpus=4", R{TasksPerGPU: 2, GPUs: "4"}},
		{"-d afterok:1:2,singleton", R{Dependency: "afterok:1:2,singleton"}},
		{"-a 1-10:2%3", R{Array: "1-10:2%3"}},
		{"-b now+1hour", R{Begin: time.Hour}},
		{"--begin=now+90", R{Begin: 90 * time.Second}},
		{"--begin=now", R{}},
		{"--begin='now + 2 days'", R{Begin: 48 * time.Hour}},
		{"--begin=2024-05-15T12:30:20", R{Begin: 2 * time.Hour}},
		{"--begin=2024-05-16", R{Begin: 13*time.Hour + 29*time.Minute + 40*time.Second}},
		{"--begin=16:00", R{Begin: 5*time.Hour + 29*time.Minute + 40*time.Second}},
		{"--begin=10:30", R{Begin: 24*time.Hour - 20*time.Second}}, // 10:30 of the next day
		{"--begin=4:00pm", R{Begin: 5*time.Hour + 29*time.Minute + 40*time.Second}},
		{"--begin='noon tomorrow'", R{Begin: 25*time.Hour + 29*time.Minute + 40*time.Second}},
		{"--begin='05/16 10:30:20'", R{Begin: 24 * time.Hour}},
		{"--begin='5/16/24 10:30:20'", R{Begin: 24 * time.Hour}},
		{"--begin='5/14 10:30:20'", R{Begin: 364 * 24 * time.Hour}},
		{"--begin=uts1715769030", R{Begin: 10 * time.Second}},
		{"--begin=2020-01-01", R{}}, // in the past: the job may begin at once
		{"--deadline=now+1week", R{Deadline: 7 * 24 * time.Hour}},
		{"--nice", R{Nice: 100}},
		{"--nice=-5", R{Nice: -5}},
		{"--priority=7", R{Priority: new(uint32(7))}},
		{"--priority=TOP", R{Priority: new(uint32(4294967293))}},
		{"--no-requeue", R{Requeue: new(false)}},
		{"--requeue --kill-on-invalid-dep=yes", R{Requeue: new(true), KillOnInvalidDep: new(true)}},
		{"--signal=B:USR1@300", R{Signal: "B:USR1@300"}},
		{"-k", R{NoKill: true}},
		{"-koff", R{}},
		{"-S 2", R{CoreSpec: 2}},
		{"-m block:cyclic,Pack", R{Distribution: "block:cyclic,Pack"}},
		{"-m plane=4", R{Distribution: "plane=4"}},
		{`-C "a&b|c" --comment 'two words'`, R{Constraint: "a&b|c", Comment: "two words"}},
		{"--delay-boot=10 --reboot --contiguous --spread-job --use-min-nodes", R{DelayBoot: 10 * time.Minute, Reboot: true, Contiguous: true, SpreadJob: true, UseMinNodes: true}},
		{"-o x -e y -D /tmp --export=ALL --mail-type=END --mail-user a@b --open-mode append -vvQ", R{}},
		{"-J a -- script.sh -n 5", R{Name: "a"}},
		{"-n 2 /home/x/script.sh -n 5", R{Name: "script.sh", Tasks: 2}},
		{"-jid 1001 pseudo.job", R{Name: "jobid_1001"}},
		{"-jid 1001 -J own pseudo.job", R{Name: "own"}},
		{"--cluster=a", R{}},
	}
	for _, tt := range tests {
		got, err := parseLine(tt.line)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Request); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.line, diff)
		}
	}
}

func TestRunTime(t *testing.T) {
	tests := []struct {
		line string
		want time.Duration
	}{
		{"pseudo.job", hpc.Unlimited},
		{"-sim-walltime 15 pseudo.job", 15 * time.Second},
		{"-sim-walltime=1.5", 1500 * time.Millisecond},
		{"-sim-walltime 0", 0},
		{"-sim-walltime -1 pseudo.job", hpc.Unlimited},
		{"pseudo.job -sleep 20", 20 * time.Second},
		{"other.sh -sleep 20", hpc.Unlimited},
	}
	for _, tt := range tests {
		got, err := parseLine(tt.line)
		if err != nil || got.RunTime != tt.want {
			t.Errorf("%s: %v, %v; want %v", tt.line, got, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ line, want string }{
		{"-t 00:7x", "-t 00:7x: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)"},
		{"--time=1:2:3:4", "--time=1:2:3:4: not a time limit"},
		{"-t -5", "-t -5: not a time limit"},
		{"-t 1:2-3", "not a time limit"},
		{"-t 5:", "not a time limit"},
		{"-t 2147483647", "longer than 100 years"},
		{"-t", "-t: needs a value"},
		{"--ntasks", "--ntasks: needs a value"},
		{"-n 0", "-n 0: too small (want at least 1)"},
		{"-n 5x", "-n 5x: not a whole number"},
		{"-n 99999999999999999999", "not a whole number"},
		{"--nmae=x", "--nmae: not an option of sbatch"},
		{"--patition=x", "--patition: not an option of sbatch (did you mean --partition?)"},
		{"--zzzzzzzz", "--zzzzzzzz: not an option of sbatch"},
		{"-Z", "-Z: not an option of sbatch"},
		{"-HZ", "-HZ: -Z is not an option of sbatch"},
		{"-sim-waltime 4", "-sim-waltime: not an option of sbatch"},
		{"--mem-=4", "--mem-: ambiguous (--mem-per-cpu or --mem-per-gpu)"},
		{"--hold=yes", "--hold: takes no value"},
		{"--mem=1 --mem-per-cpu=1", "--mem-per-cpu: excludes --mem"},
		{"--mem=1X", "not a memory size"},
		{"--mem=-1", "not a memory size"},
		{"--mem=G", "not a memory size"},
		{"--mem=9223372036854775807G", "not a memory size"},
		{"-N 4-2", "-N 4-2: the maximum of 2 is below the minimum of 4"},
		{"-N x", "not a number of nodes"},
		{"-N 9999m", "not a number of nodes"},
		{"--exclusive=all", "--exclusive=all: not a value of this option (want user, mcs or no value)"},
		{"--acc=x", "--acc: ambiguous (--account or --acctg-freq)"},
		{"-w n[1", "'[' without ']'"},
		{"-w ./file", "a file of node names is not read"},
		{"-a 5-1", "range 5-1 runs backwards"},
		{"-a 1,,2", "not an array"},
		{"-a 0-99999999", "above 4000000"},
		{"-d afterok", "not a dependency"},
		{"-d afterok:", "not a dependency"},
		{"-d later:5", "not a dependency"},
		{"-d afterok:1?afterok:2,afterok:3", "cannot be mixed"},
		{"--begin=soon", "--begin=soon: not a time"},
		{"--begin=now+1fortnight", "not a time"},
		{"--begin=25:00", "not a time"},
		{"--begin=now+2hours --deadline=now+1hour", "--deadline: is before --begin"},
		{"--priority=4294967294", "not a priority"},
		{"--nice=9999999999", "out of range"},
		{"--signal=FOO", "not a signal"},
		{"--signal=USR1@99999", "65535"},
		{"-m random", "not a distribution"},
		{"--hint=fast", "not known"},
		{"--gres=help", "not a list of generic resources"},
		{"--gres=gpu:a:1:2", "not a list of generic resources"},
		{"-G many", "not a number of GPUs"},
		{"-J ''", "-J : empty"},
		{"--wrap", "--wrap: needs a value"},
		{"--test-only", "--test-only: submits nothing"},
		{"-F hosts.txt", "a file of node names is not read"},
		{"-sim-walltime", "-sim-walltime: needs a value"},
		{"-sim-walltime abc", "-sim-walltime abc: not a number of seconds"},
		{"-sim-walltime NaN", "not a number of seconds"},
		{"-jid x", "-jid x: not a whole number"},
		{"pseudo.job -sleep", "-sleep: needs a value"},
		{"-C 'a", "a quote (') is not closed"},
		{`-C a\`, `\ at the end of the line`},
	}
	for _, tt := range tests {
		_, err := parseLine(tt.line)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.line, err, tt.want)
		}
	}
}

func TestSplit(t *testing.T) {
	got, err := Split("a  b\t'c d' \"e\\\"f\" g\\ h i''j \"\" \"\\n\"\r\n")
	want := []string{"a", "b", "c d", `e"f`, "g h", "ij", "", `\n`}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestParseDependency(t *testing.T) {
	tests := []struct{ spec, want string }{
		{"afterok:a:b,after:c+5", "afterok:a,afterok:b,after:c+5"},
		{"12", "afterany:12"},
		{"AfterAny:1?singleton", "afterany:1?singleton"},
		{"aftercorr:7_[1,3]", "aftercorr:7_[1,3]"},
	}
	for _, tt := range tests {
		got, err := ParseDependency(tt.spec)
		if err != nil || got.String() != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.spec, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		job, id string
		task    int
		ok      bool
	}{{"7_3", "7", 3, true}, {"a_b_0", "a_b", 0, true}, {"jobid_x", "jobid_x", -1, false}, {"7_*", "7", -1, true}, {"_3", "_3", -1, false}} {
		id, task, ok := Dependency{Job: tt.job}.Task()
		if id != tt.id || task != tt.task || ok != tt.ok {
			t.Errorf("Task of %s: %s, %d, %v", tt.job, id, task, ok)
		}
	}
}

func TestCompleteTwiceChangesNothing(t *testing.T) {
	for _, line := range []string{"-N 4 -n 2", "-N2 --ntasks-per-node=3", "-w n[1-3] -B 2:2:1", "--hint=compute_bound -N 3", "-N 1-9 -n 4 -c 3", "-N 2-3 --ntasks-per-node=2"} {
		s, err := parseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		again := s.Request
		if err := Complete(&again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Request, again); diff != "" {
			t.Errorf("%s: (-once +twice)\n%s", line, diff)
		}
	}
}

// TestOptionsAreUnique guards the two tables against an option that shadows another.
func TestOptionsAreUnique(t *testing.T) {
	long, short := map[string]bool{}, map[byte]bool{}
	for _, o := range allOptions {
		if long[o.long] || o.short != 0 && short[o.short] {
			t.Errorf("--%s occurs twice", o.long)
		}
		long[o.long], short[o.short] = true, true
		if o.arg == optionalArgument && o.set != nil && o.byDefault == "" {
			t.Errorf("--%s has no default", o.long)
		}
	}
}

// sbatch lowers the nodes to the tasks, and warns.
func TestFewerNodes(t *testing.T) {
	for line, want := range map[string]string{
		"-N 2 -n 16":             "",
		"-N 2-500 -n 16":         "",
		"-N 500":                 "",
		"-N 2 -n 16 --nodes=500": "nodes=500: more nodes than tasks, so the job asks for 16 (as sbatch does)",
		"-N 4-8 -n 1":            "nodes=4: more nodes than tasks, so the job asks for 1 (as sbatch does)",
	} {
		if s, err := parseLine(line); err != nil || s.Fewer != want {
			t.Errorf("%s: %+v, %v", line, s, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"-J jobid_1 -sim-walltime 15 --uid=u -t 00:07:00 -n 12 pseudo.job", "-N 2-4k -B 2:*:1 -w n[1-3]", "-a 1-5:2%3 -d afterok:1_[2,3]", "-b 'noon 5/1' --signal=RB:9@5", "-t 1-2:3:4 --mem=5T --switches=1@2", "--ex --hint=a,b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parseLine(line)
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Fatalf("%v and %v", s, err)
			}
			return
		}
		r := s.Request
		if r.TimeLimit < 0 || r.Begin < 0 || s.RunTime < 0 || r.MinNodes < 0 || r.Tasks < 0 || r.MemPerNode < hpc.AllMemory {
			t.Fatalf("negative: %+v", s)
		}
		if err := Complete(&r); err != nil || !cmp.Equal(r, s.Request) {
			t.Fatalf("completing twice: %v\n%s", err, cmp.Diff(s.Request, r))
		}
	})
}
