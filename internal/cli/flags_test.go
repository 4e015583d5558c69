package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rmreplay/internal/cli/completion"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
	"rmreplay/internal/jobtable"
	"rmreplay/internal/workload/transform"
)

// everyCommand calls f for every command that is not hidden.
func everyCommand(t *testing.T, f func(c *cobra.Command)) {
	t.Helper()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() {
			f(c)
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(newRootCommand(&globals{Output: console.Output{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}}))
}

// stem is the part of a usage text that must be the same in all commands: the text up to the first
// colon, semicolon, comma, bracket or "for", without the metavariable.
func stem(usage string) string {
	usage = regexp.MustCompile("`[^`]*`").ReplaceAllString(usage, "X")
	return regexp.MustCompile(`[:;,(]| for `).Split(usage, 2)[0]
}

// worded are the flags whose usage says in a sentence what the command does with the value.
var worded = []string{"at", "cluster", "cluster-output", "instants", "nodes", "output", "parallel"}

// A flag has one meaning in all commands, and its usage names its value.
func TestFlagsMeanOneThing(t *testing.T) {
	metavariable := regexp.MustCompile("`[A-Z][A-Z./=]*`")
	seen := map[string]string{}
	everyCommand(t, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "version" {
				return
			}
			if f.Value.Type() != "bool" && !metavariable.MatchString(f.Usage) {
				t.Errorf("%s --%s: its usage names no value: %s", c.CommandPath(), f.Name, f.Usage)
			}
			meaning := fmt.Sprintf("%s, -%s, %s", f.Value.Type(), f.Shorthand, strings.TrimSpace(stem(f.Usage)))
			if slices.Contains(worded, f.Name) {
				meaning = fmt.Sprintf("%s, -%s", f.Value.Type(), f.Shorthand)
			}
			if before, ok := seen[f.Name]; ok && before != meaning {
				t.Errorf("%s --%s is (%s), and elsewhere (%s)", c.CommandPath(), f.Name, meaning, before)
			}
			seen[f.Name] = meaning
		})
	})
	if len(seen) < 50 {
		t.Errorf("only %d flags were looked at", len(seen))
	}
}

// Earlier names of flags work, and no help shows them.
func TestEarlierNames(t *testing.T) {
	for _, c := range []struct{ command, earlier, present, value string }{
		{"simulate", "procs", "processors", "4"},
		{"sweep", "jobs", "parallel", "2"},
		{"compare", "jobs", "per-job", "true"},
		{"metrics", "from", "start", "2024-03-05"},
		{"metrics", "to", "end", "2024-03-05"},
		{"workload transform", "cluster-out", "cluster-output", "d"},
		{"workload transform", "shake", "jitter", "30"},
		{"workload build", "nodes", "node-states", "f"},
		{"workload generate lublin", "nodes", "whole-nodes", "true"},
	} {
		root := newRootCommand(&globals{Output: console.Output{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}})
		sub, _, err := root.Find(strings.Fields(c.command))
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.ParseFlags([]string{"--" + c.earlier + "=" + c.value}); err != nil {
			t.Errorf("%s --%s: %v", c.command, c.earlier, err)
		}
		if !sub.Flags().Changed(c.present) {
			t.Errorf("%s --%s does not set --%s", c.command, c.earlier, c.present)
		}
		if strings.Contains(sub.UsageString(), "--"+c.earlier+" ") {
			t.Errorf("%s: the help shows --%s", c.command, c.earlier)
		}
	}
}

// TestFilterFields: the helps and the document of --filter list the fields that an expression can use.
func TestFilterFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/TRANSFORMS.md")
	if err != nil {
		t.Fatal(err)
	}
	spans := regexp.MustCompile("`[^`]*`").FindAllString(between(string(page), "with these fields:", "\n## "), -1)
	fields := transform.Names(transform.Fields{})
	for _, c := range []struct {
		document, list string
		want           []string
	}{
		{"docs/TRANSFORMS.md", strings.ReplaceAll(strings.Join(spans, " "), "`", ""), fields},
		{"workload transform --help", between(string(invoke(t, "workload", "transform", "--help")), "may use\n\n", "\n\n"), fields},
		{"jobs --help", between(string(invoke(t, "jobs", "--help")), "to the job:\n\n", "\n\n"), jobtable.FilterFields()},
	} {
		got := slices.Compact(slices.Sorted(slices.Values(strings.Fields(c.list))))
		if diff := cmp.Diff(slices.Sorted(slices.Values(c.want)), got); diff != "" {
			t.Errorf("%s: fields (-want +got)\n%s", c.document, diff)
		}
	}
}

// between returns the text between two texts, the second of which follows the first.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}

// completions returns the completions of a command line, as the shell's script gets them.
func completions(t *testing.T, words ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := execute(t.Context(), append([]string{"__complete"}, words...), &out, &bytes.Buffer{}); code != console.ExitOK {
		t.Fatalf("completing %q: exit status %d", words, code)
	}
	return out.String()
}

// The directives of cobra (ShellCompDirective) that end the answer.
const anyFile, noFile, directories = ":0", ":4", ":16"

func TestCompletion(t *testing.T) {
	for words, want := range map[string][]string{
		"simulate --policy sl":                   {"slurm\t", noFile},
		"simulate --policy e":                    {"easy\t", "easy-textbook\t", noFile},
		"simulate --ties ":                       {"ends-first", "arrivals-first", noFile},
		"simulate --time-limit ":                 {"asked", "twice-run-time", noFile},
		"simulate --feedback t":                  {"think-time", noFile},
		"replay --clock ":                        {"frozen", "measured="},
		"replay --cluster ":                      {anyFile},
		"explain ":                               {anyFile},
		"explain r --filter x ":                  {noFile},
		"simulate w.swf ":                        {"--output\twrite", noFile},
		"simulate w.swf --":                      {"--output", "--cluster"},
		"replay ":                                {anyFile},
		"replay w.swf --o":                       {"--output"},
		"replay w.swf -o r --cluster c --over":   {"--overwrite"},
		"metrics --by partition,u":               {"partition,user"},
		"metrics ":                               {anyFile},
		"debug clock ":                           {directories},
		"explain r ":                             {noFile},
		"accounting import ":                     {directories},
		"accounting import d ":                   {anyFile},
		"accounting import d f ":                 {anyFile},
		"accounting serve ":                      {directories},
		"predict apply m ":                       {anyFile},
		"predict apply m w ":                     {noFile},
		"predict script ":                        {"cli_filter.lua", "job_submit.lua", noFile},
		"io script e":                            {"epilog.sh", noFile},
		"forecast lim":                           {anyFile},
		"forecast --model ":                      {anyFile},
		"forecast --submit ":                     {anyFile},
		"jobs r --columns id,us":                 {"id,user"},
		"workload build --from sacct ":           {anyFile},
		"workload build --from sacct a lim":      {anyFile},
		"workload build --map ":                  {"helios", anyFile},
		"workload complete x --like ":            {anyFile},
		"workload complete --rule ti":            {"time_limit=published\ta drawn mixture", noFile},
		"simulate --slurm 2":                     {"22.05", noFile},
		"metrics --timezone Europe/Z":            {"Europe/Zurich", noFile},
		"workload convert --to ":                 {"swf", "trace", noFile},
		"workload info --plot-format ":           {"svg", "png", noFile},
		"workload build --from ":                 {"sacct", "pbs", "lsf", "gridengine", "gwf", "slurmdbd", "table", "auto", noFile},
		"workload build --node-states ":          {anyFile},
		"workload transform --time-limit-model ": {"tsafrir", noFile},
		"sweep --on ":                            {"here", "slurm", noFile},
		"simulate --processors ":                 {noFile},
		"completion ":                            {"bash", "zsh", "fish"},
		"wor":                                    {"workload"},
		"help work":                              {"workload\t", noFile},
		"help workload bu":                       {"build\t", noFile},
	} {
		got := completions(t, strings.Split(words, " ")...)
		for _, w := range want {
			if !strings.Contains("\n"+got, "\n"+w) {
				t.Errorf("%q: no %q in\n%s", words, w, got)
			}
		}
	}
	for _, command := range []string{"simulate", "replay", "sweep", "tune", "report", "workload build", "workload convert"} {
		if got := completions(t, append(strings.Fields(command), "")...); got != anyFile+"\n" {
			t.Errorf("%s: not files alone:\n%s", command, got)
		}
	}
	if got := completions(t, "simulate", "w.swf", "-o", "r", ""); got != noFile+"\n" {
		t.Errorf("a flag that is there:\n%s", got)
	}
	if got := completions(t, "site", "info", "--"); strings.Contains(got, "`") || !strings.Contains(got, "--json\tprint one") {
		t.Errorf("the descriptions of flags have marks:\n%s", got)
	}
	if got := completions(t, "workload", "build", "--o"); strings.Contains(got, "`") || !strings.Contains(got, "--output\twrite a trace to FILE") {
		t.Errorf("the descriptions of flags have marks:\n%s", got)
	}
	if got := completions(t, "simulate", "--pro"); strings.Contains(got, "procs") || !strings.Contains(got, "--processors") {
		t.Errorf("an earlier name is completed:\n%s", got)
	}
}

// An ID of a job is completed from the run's record, and a release of Slurm from the store.
func TestCompletionOfRecords(t *testing.T) {
	workload, run := t.TempDir()+"/w.jsonl", t.TempDir()+"/run"
	for _, words := range []string{"workload generate lublin --jobs 20 --processors 64 -o " + workload,
		"simulate " + workload + " --processors 64 -o " + run} {
		if code := execute(t.Context(), strings.Fields(words), &bytes.Buffer{}, &bytes.Buffer{}); code != console.ExitOK {
			t.Fatalf("%s: exit status %d", words, code)
		}
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	root := cache + "/rmreplay/slurm/24.11.5"
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/.rmreplay.json", []byte(`{"version": "24.11.5"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"explain " + run + " j00000": "j000001\n", "slurm remove ": "24.11.5\n", "slurm remove 9": noFile,
	} {
		if got := completions(t, strings.Split(words, " ")...); !strings.Contains(got, want) {
			t.Errorf("%q: no %q in\n%s", words, want, got)
		}
	}
}

// paths are the words for files and directories in the usages of flags and arguments, with the
// directive that completes them. RUN as an argument may be a recorded workload, which is a file.
var paths = map[string]string{
	"BUNDLE": anyFile, "CAPTURE": anyFile, "DIR": directories, "EXPERIMENT": anyFile, "FILE": anyFile, "LOG": anyFile,
	"MAP": anyFile, "MODEL": anyFile, "RUN": directories, "SCRIPT": anyFile, "SLURM.CONF": anyFile, "SOURCE": anyFile,
	"TARGET": directories, "WORKLOAD": anyFile,
}

// typed are the words for values that only the user knows, with the reason.
var typed = map[string]string{
	"A": "a number", "ADDRESS": "an address and a port", "BANDWIDTH": "a name and a number", "BROKERS/TOPIC": "addresses and a name",
	"BYTES": "a number", "CLUSTER=COMMAND": "a name and a command", "COUNTS": "numbers", "CONDITION": "an expression",
	"DURATION": "a length of time", "EXPR": "an expression", "FACTOR": "a number", "FROM/TO": "two instants",
	"JOB": "an ID in a run or on a cluster", "K": "a number", "KEY=VALUE": "pairs that a script writes", "L": "a number",
	"LEVEL": "a number", "MIB": "a number", "N": "a number", "NAME": "a name at the site", "OLD=NEW": "two names at the site",
	"OPTION": "an option of sbatch", "OPTIONS": "options of sbatch", "PARTITION": "a name at the site", "QUANTILE": "a number",
	"RATE": "a number", "SEED": "a number", "SHARE": "a number", "START/DURATION": "an instant and a length of time",
	"TEXT": "any text", "TIME": "an instant", "URL": "an address", "USER": "a name at the site", "VERSION": "a release of Slurm in the store",
}

// listed are the words for values that are completed from a list.
var listed = []string{
	"bash", "COLUMNS", "DELAY", "ENGINE", "FIELD=RULE", "FORMAT", "GROUP", "KIND", "MAP", "MODEL", "MODELS", "NAME", "ORDER", "POLICY", "RELEASE",
	"RULE", "SOURCE", "STORE", "STRATEGY", "TARGET", "VERSION", "WHAT", "WHERE", "WHICH", "ZONE",
}

// unlisted are the flags whose values are not completed, although their words are those of lists.
var unlisted = map[string]string{
	"rmreplay workload build --columns": "sacct has more columns than are read, and the order is the file's",
}

// TestEveryCompletion: the shell completes files for every flag and argument that takes a file,
// directories for one that takes a directory, values where they are listed, and nothing elsewhere.
func TestEveryCompletion(t *testing.T) {
	flags, arguments := 0, 0
	check := func(name, kind, got string) {
		kind = strings.TrimSuffix(strings.Split(kind, "|")[0], "...")
		lines := strings.Split(strings.TrimSpace(got), "\n")
		directive, values := lines[len(lines)-1], len(lines)-1
		want, isPath := paths[kind]
		switch {
		case unlisted[name] != "" && values == 0 && directive == noFile:
		case unlisted[name] == "" && values > 0 && slices.Contains(listed, kind) && (kind == "MAP") == (directive == anyFile):
		case values > 0 && kind == "DIR" && strings.HasSuffix(name, " --slurm") && directive == anyFile: // installed releases
		case values > 0 || !isPath && (typed[kind] == "" || directive != noFile) || isPath && directive != want:
			t.Errorf("%s %s: %d values, then %s (want %s, or a reason why there is nothing to complete)", name, kind, values, directive, want)
		}
	}
	everyCommand(t, func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())[1:]
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); f.Value.Type() != "bool" && !f.Hidden {
				flags++
				if f.Name == "cluster" {
					kind = "BUNDLE" // or DIR
				}
				check(c.CommandPath()+" --"+f.Name, kind, completions(t, append(words, "--"+f.Name, "")...))
			}
		})
		recorded := slices.Contains([]string{"compare", "explain", "jobs", "metrics", "report"}, c.Name()) && !strings.Contains(c.CommandPath(), "predict")
		before := words
		for _, kind := range completion.Arguments(c) {
			arguments++
			begun := "zz" // so that subcommands are not completed
			if kind == "NAME" || kind == "bash|zsh|fish" {
				begun = ""
			}
			got := completions(t, append(before, begun)...)
			if recorded && strings.HasPrefix(kind, "RUN") {
				kind = "WORKLOAD"
			}
			check(c.CommandPath(), kind, got)
			before = append(before, "absent")
		}
	})
	if flags < 300 || arguments < 45 {
		t.Errorf("%d flags and %d arguments", flags, arguments)
	}
}

// choices finds the list of all values in the usage of a flag whose value is called kind: "KIND of
// the source: auto, sacct or pbs".
func choices(kind, usage string) []string {
	list := regexp.MustCompile(`(?:: |\b` + regexp.QuoteMeta(kind) + ` )((?:[a-z][\w-]*, )*[a-z][\w-]*),? or ([a-z][\w-]*)(?:$|[ ,;)])`)
	m := list.FindStringSubmatch(usage)
	if m == nil || m[1] == "one" && m[2] == "more" {
		return nil
	}
	return append(strings.Split(m[1], ", "), m[2])
}

// TestCompletedChoices: for every flag whose usage lists all values, the shell completes these values.
func TestCompletedChoices(t *testing.T) {
	listed := 0
	everyCommand(t, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, usage := pflag.UnquoteUsage(f)
			want := choices(kind, usage)
			if want == nil || f.Hidden || f.Value.Type() == "int" || f.Value.Type() == "bool" {
				return
			}
			listed++
			got := completed(t, c, f.Name)
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s --%s: %s\ncompletion (-want +got)\n%s", c.CommandPath(), f.Name, usage, diff)
			}
		})
	})
	if listed < 15 {
		t.Errorf("only %d usages list values", listed)
	}
}

// readsFirst are commands and flags that read their input, or want another flag, before they check the
// values of flags.
var readsFirst = regexp.MustCompile(`^rmreplay (accounting (import|reconcile|serve) |forecast |rerun |replay --io-schedule$|` +
	`(conf adapt|replay) --site-slurm$|.*--slurm$|workload build --map$)`)

// TestCompletedValues: commands refuse unknown values of flags, and none of the values that the shell
// completes. The commands find no input, and end.
func TestCompletedValues(t *testing.T) {
	t.Chdir(t.TempDir())
	everyCommand(t, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := c.CommandPath() + " --" + f.Name
			if f.Hidden || f.Value.Type() == "bool" || readsFirst.MatchString(name) {
				return
			}
			values := completed(t, c, f.Name)
			if len(values) == 0 {
				return
			}
			said := func(value string) string { return saidOf(t, c, f, value) }
			if f.Value.Set("nonsense") != nil { // then the command need not run
				said = func(value string) string { return fmt.Sprintf("%s: %v", value, f.Value.Set(value)) }
			}
			refusal := said("nonsense")
			if !strings.Contains(refusal, "nonsense") {
				t.Errorf("%s nonsense: not refused, but %s", name, refusal)
			}
			for _, value := range values {
				begins := strings.HasSuffix(value, ":") || strings.HasSuffix(value, "=") // and the user goes on
				if text := said(value); !begins && text == strings.ReplaceAll(refusal, "nonsense", value) {
					t.Errorf("%s %s: completed, but refused: %s", name, value, text)
				}
			}
		})
	})
}

// saidOf runs a command with a flag's value and absent files, as its usage names the files, and
// returns its error.
func saidOf(t *testing.T, c *cobra.Command, f *pflag.Flag, value string) string {
	t.Helper()
	words := strings.Fields(c.CommandPath())[1:]
	arguments := strings.Fields(c.Use)[1:]
	for i, word := range arguments {
		if strings.HasPrefix(word, "[") || strings.HasPrefix(word, "--"+f.Name) || i > 0 && arguments[i-1] == "--"+f.Name {
			continue
		}
		if strings.ToUpper(word) == word {
			word = "absent/" + strings.TrimSuffix(word, "...")
		}
		words = append(words, word)
	}
	if f := c.Flags().Lookup("output"); f != nil && !slices.Contains(words, "-o") {
		words = append(words, "-o", "absent/output")
	}
	for _, d := range usage.Dependents { // the flag has an effect only with another flag
		if slices.Contains(d.Commands, strings.TrimPrefix(c.CommandPath(), "rmreplay ")) && d.Flag == f.Name && d.Needs != nil {
			words = append(words, "--"+d.Needs[0], map[string]string{"feedback": "think-time", "plots": "absent/plots"}[d.Needs[0]])
		}
	}
	var errOut bytes.Buffer
	execute(t.Context(), append(words, "--"+f.Name, value), &bytes.Buffer{}, &errOut)
	return errOut.String()
}

// completed returns the values that the shell completes for a flag, without their descriptions.
func completed(t *testing.T, c *cobra.Command, flag string) (values []string) {
	t.Helper()
	words := append(strings.Fields(c.CommandPath())[1:], "--"+flag, "")
	for line := range strings.Lines(completions(t, words...)) {
		if value, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); value != "" && !strings.HasPrefix(value, ":") {
			values = append(values, value)
		}
	}
	return values
}

// Bash, if it is installed, loads the script and completes with it.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range completion.Shells {
		text := string(invoke(t, "completion", shell))
		if !strings.Contains(text, "rmreplay") || !strings.Contains(text, "__complete") {
			t.Errorf("%s: %.200s", shell, text)
		}
	}
	bash := program(t)
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"complete.bash": string(invoke(t, "completion", "bash")) + `
COMP_WORDS=(` + bash + ` simulate --policy cons) COMP_CWORD=3 COMP_LINE="rmreplay simulate --policy cons" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
_get_comp_words_by_ref() { cur=cons prev=--policy words=("${COMP_WORDS[@]}") cword=3; }
__rmreplay_get_completion_results
printf '%s\n' "$out"
`})
	script := filepath.Join(dir, "complete.bash")
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("SKIPPED: no bash")
	}
	c := commandLine(dir)
	c.Path, c.Args, c.Err = "/bin/bash", []string{"bash", "-c", "cur=cons prev=--policy words=(rmreplay simulate --policy cons) cword=3; . " + script}, nil
	if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "conservative") {
		t.Errorf("%v: %s", err, text)
	}
}
