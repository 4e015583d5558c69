package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/quantity"
	"rmreplay/internal/spelling"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/build"
)

// buildOptions are the flags of `workload build`.
type buildOptions struct {
	from, output, clusterName, clusterOutput string
	mapping                                  string
	columns, more                            []string
	window                                   flags.Window
	files                                    build.Files
	usageSince                               string
	halfLife                                 time.Duration
	strict, json                             bool
}

func (o *buildOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "`KIND` of the source: "+kindList())
	f.StringVar(&o.mapping, "map", "", "`MAP` of a table's columns: a YAML file, or "+strings.Join(build.MapNames(), ", "))
	f.StringSliceVar(&o.columns, "columns", nil, "the `COLUMNS`, separated by commas, of sacct's output without a header")
	console.AddOutput(f, &o.output, traceOutput)
	o.window.Add(f, "jobs that run at TIME become preset jobs", "leave out later submissions")
	f.StringVar(&o.clusterName, "cluster-name", "", "`NAME` of the cluster, if the source has several")
	f.StringVar(&o.files.Reservations, "reservations", "", "`FILE` with the output of scontrol show reservation")
	f.StringVar(&o.files.NodeStates, "node-states", "",
		"`FILE` with the output of scontrol show node at the window's start")
	f.StringVar(&o.files.Accounts, "accounts", "", "`FILE` with the output of sacctmgr dump; needs --cluster-output")
	addClusterOutputFlag(f, &o.clusterOutput,
		"write the files users and accounts.sacctmgr to `DIR`, to which you add slurm.conf")
	flags.Days(f, &o.halfLife, "usage-half-life", 7*24*time.Hour,
		"`DURATION` of the site's PriorityDecayHalfLife, for the usage at the window's start; 0 for no decay")
	f.StringVar(&o.usageSince, "usage-since", "", "`TIME` of the last reset of usage before the window, if the site "+
		"sets PriorityUsageResetPeriod")
	addStrictFlag(f, &o.strict)
	console.AddJSON(c, &o.json)
	console.Require(c, "from")
	flags.Alias(f, map[string]string{"nodes": "node-states"})
}

// kindList returns the kinds of sources as a part of a sentence.
func kindList() string {
	names := kinds()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func kinds() (names []string) {
	for _, k := range build.Kinds {
		names = append(names, string(k))
	}
	return names
}

func newWorkloadBuildCommand(g *globals) *cobra.Command {
	var opts buildOptions
	c := &cobra.Command{
		Use:   "build --from KIND SOURCE... -o FILE",
		Short: "Make a workload from a site's accounting",
		Long: `Makes a workload from accounting records. With --from sacct, SOURCE is a file with the
output of sacct -P or sacct --json, or - for standard input. It needs the columns JobID,
Submit, Start and End, and a column with the job's size. More columns make the replay
more accurate; the command lists what is missing. Dependencies, switches and other
options without a column come from SubmitLine and from stored batch scripts.

--from also takes pbs (accounting logs of Torque, OpenPBS and PBS Professional), lsf
(lsb.acct), gridengine (accounting) and gwf. --from auto recognizes the records of all
these systems. Several files, and the files of a directory, become one workload.

With --from table, SOURCE is any table with a row for each job: text with any delimiter,
Parquet or JSON. --map says what its columns are. Without --map the command proposes a map
from the table and prints it. docs/FORMATS.md describes maps.

With --from slurmdbd, SOURCE is the database of slurmdbd, which the command only reads:
USER@tcp(HOST:3306)/DATABASE or USER@unix(/run/mysqld/mysqld.sock)/slurm_acct_db. Give the
password in the environment variable RMREPLAY_DB_PASSWORD. --from accounting reads a data
directory of rmreplay accounting, also while its server runs.

--cluster-output writes two files: "users" and "accounts.sacctmgr". If neither the
source nor --accounts has accounts and QOS, the command adds those that the jobs name.
If the directory has slurm.conf, the command lists the jobs that partitions will refuse
because of the user's groups or the job's account.

--start and --end cut out a window. Jobs that ran at its start become preset jobs, which
already run when the workload begins. Jobs that were waiting at its start are submitted
before the window. Reservations in force at the start are in force when the workload
begins. sacct prints dates in the time zone of its machine: name this zone with
--timezone.`,
		Example: `  sacct -a -P -S 2024-03-01 -E 2024-03-08 -o JobID,JobIDRaw,JobName,User,UID,Group,GID,\
Account,Partition,QOS,Submit,Eligible,Start,End,State,ExitCode,Timelimit,ReqCPUS,\
AllocCPUS,ReqNodes,NNodes,ReqMem,ReqTRES,NodeList,Priority,Reservation,Constraints,\
SubmitLine > week.sacct
  rmreplay workload build --from sacct week.sacct -o day.jsonl \
    --start 2024-03-02 --end 2024-03-03
  rmreplay workload build \
    --from slurmdbd 'reader@unix(/run/mysqld/mysqld.sock)/slurm_acct_db' \
    --cluster-name vale --start 2024-03-02 --end 2024-03-03 \
    -o day.jsonl --cluster-output vale`,
		Args: func(c *cobra.Command, args []string) error {
			return console.WantArgs("SOURCE")(c, args[:min(len(args), 1)])
		},
		RunE: func(c *cobra.Command, args []string) error {
			opts.more = args[1:]
			return runWorkloadBuild(c.Context(), g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// buildReport is the JSON output of `workload build --json`.
type buildReport struct {
	Source       string         `json:"source"`
	Output       string         `json:"output"`
	Records      int            `json:"records"`          // 0 if the source does not count them
	Parts        int            `json:"records_of_parts"` // records of parts of jobs, such as steps
	LeftOut      int            `json:"left_out"`         // records that are neither a job nor a part of one
	Jobs         int            `json:"jobs"`
	Presets      int            `json:"preset_jobs"`
	Users        int            `json:"users"`
	Reservations int            `json:"reservation_events"`
	NodeEvents   int            `json:"node_events"`
	Usage        int            `json:"usage_records"`
	Start        string         `json:"start,omitempty"`
	Rules        map[string]int `json:"rules"`
	Mistake      string         `json:"first_mistake,omitempty"`
	Missing      []string       `json:"missing"`
	Warnings     []string       `json:"warnings"`
	Files        []string       `json:"cluster_files"`
	incomplete   bool           // no job has a time limit, or no job has a user
	users        string         // the number of users and, if some users have no UID, how many have one
}

func runWorkloadBuild(ctx context.Context, g *globals, source string, opts buildOptions) error {
	how, err := opts.parse()
	if err != nil {
		return err
	}
	if opts.from == string(build.Table) && opts.mapping == "" {
		return proposeMap(g, source, opts.output)
	}
	if opts.output == "" {
		return console.Usagef("--output is missing (want -o FILE)")
	}
	if err := formats.Replaces(opts.output, append(opts.more, source)...); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	show := g.Progress(false)
	defer show.End()
	how.Progress = show.Reading("jobs of the database")
	if opts.from != string(build.Slurmdbd) {
		how.Progress = show.Reading(filepath.Base(source))
	}
	b, err := build.From(ctx, build.Kind(opts.from), source, how)
	show.End()
	if err != nil {
		return console.BadInput(err)
	}
	files, err := b.Write(opts.output, opts.clusterOutput)
	if err != nil {
		return err
	}
	return newBuildReport(b, opts.output, files).show(g, opts.json)
}

// proposeMap prints a map for a table. With -o it returns an error, because the user wanted a workload.
func proposeMap(g *globals, source, output string) error {
	if formats.IsCSV(source) {
		return console.BadInput(fmt.Errorf("%s: already a workload, so it needs no map (rmreplay workload convert makes a trace "+
			"of it)", source))
	}
	proposed, err := build.ProposeMap(g.Stdout, source)
	if err != nil {
		return console.BadInput(err)
	}
	if list := proposed.Unitless; len(list) > 0 {
		g.Say("warning: neither the names nor the values of the columns say the %s of %s: the map has a guess, which you must check",
			quantity.Plural(len(list), "unit", "units"), strings.Join(list, ", "))
	}
	fits := proposed.Fits
	if output == "" {
		g.Say("next: save the map as FILE, and rmreplay workload build --from table %s --map %s -o WORKLOAD", source, cmp.Or(fits, "FILE"))
		return nil
	}
	return console.Usagef("--map is missing, so no workload was written (want the map above in a FILE, and then "+
		"rmreplay workload build --from table %s --map %s -o %s)", source, cmp.Or(fits, "FILE"), output)
}

// passwordVariable is the environment variable with the database's password. A flag would show the
// password: every user of a machine can read command lines.
const passwordVariable = "RMREPLAY_DB_PASSWORD"

// parse returns the options that the flags choose.
func (o *buildOptions) parse() (how build.Options, err error) {
	if !slices.Contains(build.Kinds, build.Kind(o.from)) {
		if slices.Contains(formats.Names(), strings.ToLower(o.from)) {
			return how, console.Usagef("--from %s: already a workload, so it needs no build (rmreplay workload convert makes a trace "+
				"of it)", o.from)
		}
		return how, console.Usagef("--from %s: not known (%s)", o.from, spelling.Meant(o.from, kinds()))
	}
	how.ReadOptions = workload.ReadOptions{Strict: o.strict, Cluster: o.clusterName, Latest: time.Now()}
	how.Zone, how.UsageHalfLife, how.Password = o.window.Location(), o.halfLife, os.Getenv(passwordVariable)
	how.Columns, how.Map, how.More, how.Files, how.Accounting = o.columns, o.mapping, o.more, o.files, service.New().Workload
	if how.Start, how.End, err = o.window.Bounds(); err != nil {
		return how, console.Usagef("%w", err)
	}
	if how.UsageSince, err = o.window.Instant("usage-since", o.usageSince); err != nil {
		return how, console.Usagef("%w", err)
	}
	switch {
	case o.mapping != "" && o.from != string(build.Table):
		return how, console.Usagef("--map needs --from table")
	case len(o.columns) > 0 && o.from != "sacct":
		return how, console.Usagef("--columns needs --from sacct")
	case how.UsageSince != 0 && (how.Start == 0 || how.UsageSince > how.Start):
		return how, console.Usagef("--usage-since %s is not before the window (want --start after it)", o.usageSince)
	case o.halfLife < 0:
		return how, console.Usagef("--usage-half-life %v: negative (want 0 or more)", o.halfLife)
	case o.files.Accounts != "" && o.clusterOutput == "":
		return how, console.Usagef("--accounts needs --cluster-output, the directory for accounts.sacctmgr")
	}
	return how, nil
}

func newBuildReport(b *build.Result, output string, files []string) *buildReport {
	w := b.Workload
	r := &buildReport{
		Source: w.Source, Output: output, Records: w.Rows.Read, Parts: w.Rows.Parts, LeftOut: w.Rows.Dropped, Jobs: w.Jobs.Len(), Presets: w.Presets(), Users: len(w.Users),
		Reservations: len(w.Reservations), NodeEvents: len(w.NodeEvents), Usage: len(w.Usage), Rules: orEmpty(w.Rules), Mistake: w.Mistake,
		Missing: slices.Concat([]string{}, b.Missing), Files: slices.Concat([]string{}, files),
	}
	r.Warnings = []string{}
	if text := w.NothingSubmitted(); text != "" {
		r.Warnings = append(r.Warnings, text)
	}
	if w.Start != 0 {
		r.Start = w.Start.String()
	}
	r.users = quantity.Regular(r.Users, "user")
	users := map[string]bool{}
	for _, job := range w.Jobs.All() {
		users[job.User] = true
	}
	delete(users, "") // the entry of jobs without a user
	if n := len(users); n > r.Users {
		r.users = fmt.Sprintf("%s (%d with a UID)", quantity.Regular(n, "user"), r.Users)
	}
	r.incomplete = slices.ContainsFunc(workload.Lacks(w), func(l workload.Lack) bool {
		return (l.Field == workload.FieldTimeLimit || l.Field == workload.FieldUser) && l.Jobs == w.Jobs.Len()
	})
	return r
}

func (r *buildReport) show(g *globals, asJSON bool) error {
	for _, text := range r.Warnings {
		g.Say("warning: %s", text)
	}
	if asJSON {
		return g.PrintJSON(r)
	}
	var b strings.Builder
	left := ""
	if r.LeftOut > 0 {
		left = fmt.Sprintf(", %d of %s left out", r.LeftOut, quantity.Regular(r.Records, "record"))
		if r.Parts > 0 {
			left += fmt.Sprintf(" (%d %s)", r.Parts, quantity.Plural(r.Parts, "is a part of a job", "are parts of jobs, such as steps"))
		}
	}
	fmt.Fprintf(&b, "wrote %s: %d %s (%d preset)%s, %s, %d reservation events, %d node events\n",
		r.Output, r.Jobs, quantity.Plural(r.Jobs, "job", "jobs"), r.Presets, left, r.users,
		r.Reservations, r.NodeEvents)
	for _, f := range r.Files {
		fmt.Fprintf(&b, "wrote %s\n", f)
	}
	writeCounts(&b, "records of the source and decisions, counted by rule", r.Rules, r.Mistake)
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "missing: %s\n", m)
	}
	if r.incomplete {
		fmt.Fprintf(&b, "next: rmreplay workload complete %s --cluster DIR -o COMPLETED makes the missing fields, by "+
			"declared rules\n", r.Output)
	}
	return g.Print(b.String())
}
