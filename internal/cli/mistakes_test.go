package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"rmreplay/internal/cli/console"
)

// mistakes are typical wrong command lines, each with the part of the error that helps the user.
// They run in a directory with these inputs: the example in site/cluster and site/day.jsonl, six
// hours of its day in six.jsonl and six.csv, the simulation of these hours in run, and its
// accounting in records.txt, and a table with other columns in other.csv.
var mistakes = []struct{ line, want string }{
	// Commands: mistyped, of other programs, and without their group.
	{"serve", "did you mean rmreplay accounting serve"},
	{"dashboard", "did you mean rmreplay accounting serve?"},
	{"run six.jsonl", "did you mean rmreplay replay?"},
	{"analyze run", "did you mean rmreplay metrics?"},
	{"stats run", "did you mean rmreplay metrics?"},
	{"plot run", "did you mean rmreplay report?"},
	{"diff run run", "did you mean rmreplay compare?"},
	{"why d0100", "did you mean rmreplay explain?"},
	{"ls run", "did you mean rmreplay jobs?"},
	{"optimize x.yaml", "did you mean rmreplay tune?"},
	{"anonymize six.jsonl", "did you mean rmreplay workload transform?"},
	{"convert six.jsonl", "did you mean rmreplay workload convert?"},
	{"import dir run", "did you mean rmreplay accounting import?"},
	{"validate six.jsonl", "did you mean rmreplay workload validate?"},
	{"generate example", "did you mean rmreplay workload generate?"},
	{"install 24.11", "did you mean rmreplay slurm install?"},
	{"sim six.jsonl", "did you mean simulate?"},
	{"metric run", "did you mean metrics?"},
	{"relpay six.jsonl", "did you mean replay?"},
	{"reprot run", "did you mean report?"},
	{"workload covnert six.jsonl --to swf -o x", "did you mean convert?"},
	{"workload generate exmaple", "did you mean example?"},
	{"conf adpat site/cluster", "did you mean adapt?"},
	{"accounting infos x", "did you mean info?"},
	{"nonsense", "want accounting, agreement, compare,"},

	// Flags: mistyped, and of other programs.
	{"simulate six.jsonl -o x -policy easy", "did you mean --policy?"},
	{"simulate six.jsonl -o x --scheduler easy", "did you mean --policy?"},
	{"simulate six.jsonl -o x --seeds 3", "did you mean --realizations?"},
	{"simulate six.jsonl -o x --runs 3", "did you mean --realizations?"},
	{"simulate six.jsonl --out x", "did you mean --output?"},
	{"simulate six.jsonl -o x --force", "did you mean --overwrite?"},
	{"simulate six.jsonl -o x --threads 4", "did you mean --parallel?"},
	{"replay six.jsonl -o x --config site/cluster", "did you mean --cluster?"},
	{"replay six.jsonl -o x --cluser site/cluster", "did you mean --cluster?"},
	{"metrics run --format json", "did you mean --json?"},
	{"metrics run --csv", "did you mean --json?"},
	{"metrics run --group-by user", "did you mean --by?"},
	{"jobs run --query x", "did you mean --filter?"},
	{"jobs run --colums id", "did you mean --columns?"},
	{"jobs run --order wait", "did you mean --sort?"},
	{"jobs run --top 5", "did you mean --limit?"},
	{"explain run --time 2024-03-05", "did you mean --at?"},
	{"workload transform six.jsonl -o x --from 2024-03-05", "did you mean --start?"},
	{"workload transform six.jsonl -o x --until 2024-03-05", "did you mean --end?"},
	{"workload transform six.jsonl -o x --load 1.2", "did you mean --scale-arrivals?"},
	{"workload transform six.jsonl -o x --maxtime 8h", "did you mean --max-time-limit?"},
	{"compare run run --ci 0.9", "did you mean --confidence?"},
	{"report run -o x --name y", "did you mean --title?"},

	// Arguments that are missing, and too many.
	{"metrics", "RUN is missing (want rmreplay metrics RUN"},
	{"compare run", "want 2 or more runs"},
	{"report run", "--output is missing (want -o FILE)"},
	{"replay six.jsonl -o x", "--cluster is missing (want --cluster DIR)"},
	{"accounting import run", "SOURCE is missing (want rmreplay accounting import DIR SOURCE"},
	{"metrics run run", `"run": unexpected argument`},
	{"workload transform six.jsonl --start 2024-03-05 08:00 -o x", "one word, such as 2024-03-05T08:00"},
	{"forecast a b", `"b": unexpected argument`},
	{"simulate six.jsonl -o", "--output needs a value (want -o RUN)"},
	{"workload generate example -o ", "--output is empty"},

	// Values.
	{"simulate six.jsonl -o x --policy EASY", "did you mean easy?"},
	{"simulate six.jsonl -o x --policy fcsf", "did you mean fcfs?"},
	{"simulate six.jsonl -o x --policy slrm", "did you mean slurm?"},
	{"simulate six.jsonl -o x --policy conservativ-backfill", ", slurm)"},
	{"simulate six.jsonl -o x --policy backfill", "want fcfs, easy"},
	{"simulate six.jsonl -o x --processors many", "not a whole number"},
	{"simulate six.jsonl --cluster site/cluster -o x --nodes 20", "want, for example, x2 or x0.5"},
	{"simulate six.jsonl --cluster site/cluster -o x --jitter soon", "want, for example, 90s, 5m"},
	{"simulate six.jsonl -o x --seed 1..3", "want 0 or more"},
	{"simulate six.jsonl --cluster site/cluster -o x --filesystem lustre", "lustre=200MiB/s"},
	{"simulate six.jsonl --cluster site/cluster -o x --filesystem lustre=200", "200: a bandwidth without a unit (want, for example, 200MiB/s)"},
	{"forecast --freeze run --at 2024-03-05 --horizon 2", "2: a number without a unit (want 2d, 2h, 2m or 2s)"},
	{"predict evaluate six.jsonl --retrain-every 7", "7: a number without a unit (want 7d, 7h, 7m or 7s)"},
	{"workload transform six.jsonl -o x --jitter -5m", "--jitter -5m0s: not a time above 0 (want, for example, 5m)"},
	{"workload transform six.jsonl -o x --scale-arrivals 0", "--scale-arrivals 0: not a factor"},
	{"simulate six.jsonl --cluster site/cluster -o x --feedback thinktime", "did you mean think-time?"},
	{"replay six.jsonl --cluster site/cluster -o x --clock frosen", "did you mean frozen?"},
	{"metrics run --by part", "did you mean partition?"},
	{"metrics run --by users", "did you mean user?"},
	{"metrics run --by project", "want partition, account"},
	{"metrics run --tau tiny", "not a duration"},
	{"compare run run --confidence 95", "want, for example, 0.95"},
	{"compare run run --by usr", "did you mean user?"},
	{"jobs run --columns usr", "did you mean user?"},
	{"jobs run --columns colour", "want id, rm_job"},
	{"jobs run --sort wait:down", "want asc or desc"},
	{"jobs run --limit few", "not a whole number"},
	{"workload convert six.jsonl --to SWF -o x", "did you mean swf?"},
	{"workload convert six.jsonl --to excel -o x", "want trace, swf"},
	{"workload build --from sact records.txt -o x", "did you mean sacct?"},
	{"workload build --from swf six.swf -o x", "so it needs no build"},
	{"workload transform six.jsonl --start yesterday -o x", "want 2024-03-05"},
	{"explain run --at 14:00", "want 2024-03-05"},
	{"explain run --timezone Zurich", "such as Europe/Zurich"},
	{"slurm install 22.5", "want, for example, 24.11"},

	// Filters.
	{"jobs run --filter partition='gpu'", "want == for a comparison"},
	{"jobs run --filter partion=='gpu'", "did you mean partition?"},
	{"jobs run --filter state==COMPLETED", `want a text in quotes: "COMPLETED"`},
	{"jobs run --filter walltime>3600", "did you mean time_limit_s?"},
	{"workload transform six.jsonl -o x --filter user==ada", `want a text in quotes: "ada"`},

	// Paths that do not exist.
	{"metrics rum", "did you mean run?"},
	{"workload info day.jsonl", "did you mean site/day.jsonl?"},
	{"workload info six.json", "did you mean six.jsonl?"},
	{"compare run runn", "did you mean run?"},
	{"replay six.jsonl --cluster site/clutser -o x", "did you mean site/cluster?"},
	{"replay six.jsonl --cluster site -o x", "did you mean site/cluster?"},
	{"workload info nowhere", "no such file or directory"},
	{"explain run d99999", "rmreplay jobs lists them"},
	{"explain run d200", "did you mean d0200?"},

	// Files and directories of another kind.
	{"workload info site", "did you mean site/day.jsonl?"},
	{"workload info site/cluster", "a cluster directory, not a workload"},
	{"workload info site/cluster/slurm.conf", "want its directory with --cluster"},
	{"replay six.jsonl --cluster six.jsonl -o x", "want it as a workload"},
	{"metrics site/cluster", "not a run record"},
	{"metrics run/manifest.json", "want the run's directory"},
	{"rerun six.jsonl -o x", "replay and simulate make a run of a workload"},
	{"sweep six.jsonl -o x", "a trace of rmreplay, not an experiment"},
	{"tune six.jsonl -o x", "a trace of rmreplay, not an experiment"},
	{"forecast run", "--freeze run --at TIME"},
	{"workload build --from table six.csv -o x", "already a workload, so it needs no map"},
	{"workload build --from table other.csv -o x", "--map is missing, so no workload was written (want the map above"},
	{"workload build --from sacct six.jsonl -o x", "reads it as a workload without build"},
	{"workload build --from sacct site/cluster -o x", "accounts.sacctmgr in the cluster directory"},
	{"simulate six.jsonl --cluster site/cluster -o run", "want a new directory, or --overwrite"},
	{"accounting info run", "no store of finished jobs"},
	{"accounting serve --run nowhere", "nowhere: no such file or directory"},
	{"accounting serve --run six.jsonl", "replay and simulate make a run of a workload"},
	{"workload build --from sacct jobs.csv -o x", "workload build --from table reads it"},
	{"site info six.jsonl", "a trace of rmreplay, not a bundle"},
	{"workload info cut.jsonl.gz", "cut.jsonl.gz: the compressed file is cut off"},
	{"metrics site", "which replay and simulate make of a workload such as site/day.jsonl"},
	{"compare site run", "which replay and simulate make of a workload such as site/day.jsonl"},
	{"predict evaluate six.jsonl --models boots", "did you mean boost?"},
}

// Each of a hundred typical mistakes gets an error that names the probable intention or a remedy,
// and the command writes no output.
func TestMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(args ...string) (int, string) {
		var out, messages bytes.Buffer
		code := execute(context.Background(), args, &out, &messages)
		return code, messages.String()
	}
	for _, line := range []string{
		"workload generate example --seed 1 -o site",
		"workload transform site/day.jsonl --start 2024-03-05T08:00 --end 2024-03-05T14:00 -o six.jsonl",
		"simulate six.jsonl --cluster site/cluster -o run -q",
		"workload convert run --to sacct -o records.txt", "workload convert six.jsonl --to csv -o six.csv",
		"workload transform six.jsonl -o cut.jsonl.gz",
	} {
		if code, messages := run(strings.Fields(line)...); code != 0 {
			t.Fatalf("%s: %s", line, messages)
		}
	}
	writeFiles(t, ".", map[string]string{"jobs.csv": "id,submit,wait_s\n1,2024-03-01T08:00,5\n", "other.csv": "id,submit,start,end,cpus\n1,2024-03-01T08:00,2024-03-01T08:05,2024-03-01T09:05,4\n"})
	if err := os.Truncate("cut.jsonl.gz", 2000); err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		args := strings.Split(m.line, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "'", `"`)
		}
		code, messages := run(args...)
		if code == console.ExitOK || code == console.ExitFailed && !strings.HasPrefix(m.line, "explain run d") ||
			!strings.Contains(messages, m.want) {
			t.Errorf("rmreplay %s: status %d, %q; want %q", m.line, code, messages, m.want)
		}
		if _, err := os.Lstat("x"); err == nil {
			t.Errorf("rmreplay %s: wrote x", m.line)
			_ = os.RemoveAll("x")
		}
	}
	if len(mistakes) < 100 {
		t.Errorf("%d mistakes", len(mistakes))
	}
}
