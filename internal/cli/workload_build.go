package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/workload"
)

// buildOptions are the flags of `workload build`.
type buildOptions struct {
	from, output, start, end, zone, clusterName  string
	usageSince                                   string
	reservations, nodes, accounts, clusterOutput string
	halfLife                                     time.Duration
	strict, json                                 bool
}

func (o *buildOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "`KIND` of the source: sacct or slurmdbd")
	f.StringVarP(&o.output, "output", "o", "", "trace `FILE` to write; compressed if its name ends in .gz")
	f.StringVar(&o.start, "start", "", "`TIME` at which the window begins; what runs then becomes preset")
	f.StringVar(&o.end, "end", "", "`TIME` at which the window ends: no later submission")
	f.StringVar(&o.zone, "timezone", "UTC", "`ZONE` of times without one, as sacct prints them (Europe/Zurich)")
	f.StringVar(&o.clusterName, "cluster-name", "", "`NAME` of the cluster whose jobs are wanted, where the source has several")
	f.StringVar(&o.reservations, "reservations", "", "`FILE` with the output of scontrol show reservation")
	f.StringVar(&o.nodes, "nodes", "", "`FILE` with the output of scontrol show node: the states at the window's start")
	f.StringVar(&o.accounts, "accounts", "", "`FILE` with the output of sacctmgr dump; needs --cluster-output")
	f.StringVar(&o.clusterOutput, "cluster-output", "", "`DIR` for users and accounts.sacctmgr, to which slurm.conf is to be added")
	f.DurationVar(&o.halfLife, "usage-half-life", 7*24*time.Hour, "`DURATION` of PriorityDecayHalfLife, for the usage at the window's start; 0 for no decay")
	f.StringVar(&o.usageSince, "usage-since", "", "`TIME` at which usage was last reset before the window, where PriorityUsageResetPeriod is set")
	f.BoolVar(&o.strict, "strict", false, "refuse the first record that falls under a rule, with its line")
	addJSONFlag(c, &o.json)
	for _, name := range []string{"from", "output"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was added above
		}
	}
}

func newWorkloadBuildCommand(g *globals) *cobra.Command {
	var opts buildOptions
	c := &cobra.Command{
		Use:   "build --from KIND SOURCE -o FILE",
		Short: "Make a workload of what a site has recorded",
		Long: `Makes a workload of Slurm's accounting: of a file with what sacct -P or sacct --json
prints (--from sacct; - is standard input), or of the database of slurmdbd itself
(--from slurmdbd), which is only read. Any columns of sacct will do that hold JobID,
Submit, Start, End and a size; the more there are, the truer the replay, and what is
missing is said. Dependencies, switches and other options that are in no column come from
SubmitLine and from stored batch scripts.

With --start and --end a window is cut out: jobs that run at its start are preset there,
those that wait are submitted before it, reservations are as they were then.

A data source is written as go-sql-driver/mysql does: USER@tcp(HOST:3306)/DATABASE or
USER@unix(/run/mysqld/mysqld.sock)/slurm_acct_db. Its password is better given in the
environment variable RMREPLAY_DB_PASSWORD.`,
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
		Args: wantArgs("SOURCE"),
		RunE: func(c *cobra.Command, args []string) error {
			return runWorkloadBuild(c.Context(), g, args[0], opts)
		},
	}
	opts.addFlags(c)
	return c
}

// buildReport is the answer of `workload build --json`.
type buildReport struct {
	Source       string         `json:"source"`
	Output       string         `json:"output"`
	Jobs         int            `json:"jobs"`
	Presets      int            `json:"preset_jobs"`
	Users        int            `json:"users"`
	Reservations int            `json:"reservation_events"`
	NodeEvents   int            `json:"node_events"`
	Usage        int            `json:"usage_records"`
	Start        string         `json:"start,omitempty"`
	Rules        map[string]int `json:"rules"`
	Missing      []string       `json:"missing"`
	Files        []string       `json:"cluster_files"`
}

// built is what a source gives.
type built struct {
	w        *workload.Workload
	missing  []string
	accounts string // commands for sacctmgr -i; empty if the source has none
}

func runWorkloadBuild(ctx context.Context, g *globals, source string, opts buildOptions) error {
	read, err := opts.readOptions()
	if err != nil {
		return err
	}
	show := newProgress(g.stderr, false)
	defer show.end()
	var b *built
	switch opts.from {
	case "sacct":
		read.Progress = show.reading(filepath.Base(source))
		b, err = buildFromSacct(source, read.ReadOptions)
	case "slurmdbd":
		read.Progress = show.reading("jobs of the database")
		b, err = buildFromDatabase(ctx, source, read)
	default:
		return usagef("--from %s: not known (want sacct or slurmdbd)", opts.from)
	}
	show.end()
	if err == nil {
		err = opts.addText(b, read.ReadOptions)
	}
	if err != nil {
		return badInput(err)
	}
	if err := formats.Save(opts.output, b.w); err != nil {
		return err
	}
	files, err := opts.writeCluster(b)
	if err != nil {
		return err
	}
	return newBuildReport(b, opts.output, files).show(g, opts.json)
}

// readOptions checks the flags that say what is read.
func (o *buildOptions) readOptions() (slurmdb.Options, error) {
	read := slurmdb.Options{ReadOptions: workload.ReadOptions{Strict: o.strict, Cluster: o.clusterName}, UsageHalfLife: o.halfLife}
	var err error
	if read.Zone, err = time.LoadLocation(o.zone); err != nil {
		return read, usagef("--timezone %s: not known (want UTC or Europe/Zurich)", o.zone)
	}
	for _, t := range []struct {
		flag, text string
		at         *hpc.Time
	}{{"start", o.start, &read.Start}, {"end", o.end, &read.End}, {"usage-since", o.usageSince, &read.UsageSince}} {
		if t.text == "" {
			continue
		}
		if *t.at, err = workload.ParseInstant(t.text, read.Zone); err != nil {
			return read, usagef("--%s %s: %w", t.flag, t.text, err)
		}
	}
	if read.End != 0 && read.End <= read.Start {
		return read, usagef("--end %s is not after --start %s", o.end, o.start)
	}
	if read.UsageSince != 0 && (read.Start == 0 || read.UsageSince > read.Start) {
		return read, usagef("--usage-since %s is not before the window (want --start after it)", o.usageSince)
	}
	if o.accounts != "" && o.clusterOutput == "" {
		return read, usagef("--accounts needs --cluster-output, where the commands go")
	}
	return read, nil
}

func buildFromSacct(path string, read workload.ReadOptions) (*built, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("reading sacct: %w", err)
		}
		defer f.Close()
	}
	w, missing, err := formats.ReadAccounting(f, filepath.Base(path), read)
	return &built{w: w, missing: missing}, err
}

// passwordVariable keeps a password out of the command line, which everybody can see.
const passwordVariable = "RMREPLAY_DB_PASSWORD"

func buildFromDatabase(ctx context.Context, dsn string, read slurmdb.Options) (*built, error) {
	read.Password = os.Getenv(passwordVariable)
	r, err := slurmdb.Read(ctx, dsn, read)
	if err != nil {
		return nil, err
	}
	return &built{r.Workload, r.Missing, r.Accounts}, nil
}

// addText adds what scontrol and sacctmgr have printed.
func (o *buildOptions) addText(b *built, read workload.ReadOptions) error {
	withFile := func(path string, f func(io.Reader, string) error) error {
		if path == "" {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return f(file, filepath.Base(path))
	}
	if read.Start == 0 {
		read.Start = b.w.Begin() // a state needs an instant
	}
	return errors.Join(
		withFile(o.reservations, func(r io.Reader, name string) error {
			events, err := workload.ReadReservations(r, name, read)
			b.w.Reservations = append(b.w.Reservations, events...)
			return err
		}),
		withFile(o.nodes, func(r io.Reader, name string) error {
			events, err := workload.ReadNodeStates(r, name, read)
			b.w.NodeEvents = append(events, b.w.NodeEvents...)
			return err
		}),
		withFile(o.accounts, func(r io.Reader, name string) error {
			commands, qos, err := workload.ConvertAccountsDump(r, name)
			b.accounts = commands
			if len(qos) > 0 {
				b.missing = append(b.missing, "a dump does not say what QOS are: "+strings.Join(qos, ", ")+" have sacctmgr's defaults")
			}
			return err
		}),
	)
}

// writeCluster writes what the source says of the cluster, and returns the files' names.
func (o *buildOptions) writeCluster(b *built) ([]string, error) {
	if o.clusterOutput == "" {
		return nil, nil
	}
	if err := os.MkdirAll(o.clusterOutput, 0o755); err != nil {
		return nil, fmt.Errorf("writing the cluster directory: %w", err)
	}
	var users strings.Builder
	for _, u := range b.w.Users {
		fmt.Fprintf(&users, "%s:%d:%s:%d\n", u.Name, u.UID, u.Group, u.GID)
	}
	var files []string
	for _, f := range []struct{ name, text string }{{"users", users.String()}, {"accounts.sacctmgr", b.accounts}} {
		if f.text == "" {
			continue
		}
		path := filepath.Join(o.clusterOutput, f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return nil, fmt.Errorf("writing the cluster directory: %w", err)
		}
		files = append(files, path)
	}
	return files, nil
}

func newBuildReport(b *built, output string, files []string) *buildReport {
	w := b.w
	r := &buildReport{
		Source: w.Source, Output: output, Jobs: w.Jobs.Len(), Users: len(w.Users), Reservations: len(w.Reservations),
		NodeEvents: len(w.NodeEvents), Usage: len(w.Usage), Rules: orEmpty(w.Rules),
		Missing: slices.Concat([]string{}, b.missing), Files: slices.Concat([]string{}, files),
	}
	if w.Start != 0 {
		r.Start = w.Start.String()
	}
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			r.Presets++
		}
	}
	return r
}

func (r *buildReport) show(g *globals, asJSON bool) error {
	if asJSON {
		return g.printJSON(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s: %d jobs (%d preset), %d users, %d reservation events, %d node events\n",
		r.Output, r.Jobs, r.Presets, r.Users, r.Reservations, r.NodeEvents)
	for _, f := range r.Files {
		fmt.Fprintf(&b, "wrote %s\n", f)
	}
	writeCounts(&b, "records of the source under a rule, and decisions", r.Rules)
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "missing: %s\n", m)
	}
	_, err := fmt.Fprint(g.stdout, b.String())
	return err
}
