package recordcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/run"
	"rmreplay/internal/vclock"
)

// Debug returns the command group that looks into a running replay.
func Debug(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "debug",
		Short: "Look into a running replay",
		Long:  `Commands that look into a replay that another process runs. They do not disturb it.`,
	}
	c.AddCommand(o.debugClock())
	return c
}

func (o commands) debugClock() *cobra.Command {
	var asJSON bool
	var zone flags.Zone
	c := &cobra.Command{
		Use:   "clock RUN",
		Short: "Show the virtual clock of a running replay, and every thread under it",
		Long: `Shows the current virtual time, the next event of the replay, and every thread of the
daemons: whether it runs or waits, what it waits for, how much longer in virtual time, and
its state in the kernel. Virtual time stands still while a thread runs, so this table
shows why a replay seems to hang. RUN is the directory that the replay writes to.`,
		Example: `  rmreplay debug clock demo/run
  rmreplay debug clock demo/run --json`,
		Args: console.WantArgs("RUN"),
		RunE: func(_ *cobra.Command, args []string) error {
			return o.runDebugClock(args[0], zone.Location(), asJSON)
		},
	}
	zone.Add(c.Flags())
	console.AddJSON(c, &asJSON)
	return c
}

// ClockReport is the JSON output of `debug clock --json`.
type ClockReport struct {
	Now       time.Time       `json:"now"`                  // virtual
	NextEvent *time.Time      `json:"next_event,omitempty"` // virtual; absent if the replay waits for the daemons
	Running   int             `json:"running"`              // threads, including the replay itself
	Inbox     int64           `json:"inbox_bytes"`
	Factor    float64         `json:"factor"` // factor of the measured clock; 0 for the frozen clock
	Computing float64         `json:"computing_s"`
	Steps     uint64          `json:"steps"`
	Threads   []vclock.Thread `json:"threads"`
}

func (o commands) runDebugClock(path string, zone *time.Location, asJSON bool) error {
	s, err := vclock.Look(slurm.ClockFile((&run.Run{Dir: path}).LogDir()))
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("no replay is writing to this directory now")
	}
	if err != nil {
		return console.BadInput(fmt.Errorf("reading the clock of %s: %w", path, err))
	}
	if asJSON {
		r := ClockReport{Now: s.Now.Std(), Running: s.Running, Inbox: s.Inbox, Factor: s.Factor,
			Computing: s.Charged.Seconds(), Steps: s.Steps, Threads: s.Threads}
		if s.Limit != hpc.Never {
			next := s.Limit.Std()
			r.NextEvent = &next
		}
		return o.PrintJSON(r)
	}
	next := "none"
	if s.Limit != hpc.Never {
		next = fmt.Sprintf("%v, in %v", s.Limit.Text(zone), s.Limit.Sub(s.Now))
	}
	model := "frozen"
	if s.Factor > 0 {
		model = fmt.Sprintf("measured=%g, %v of computing so far", s.Factor, s.Charged.Round(time.Millisecond))
	}
	err = o.Printf("virtual time  %v\nnext event    %s\nclock         %s, %d steps by the daemons\nrunning       %d, "+
		"the replay included; %d bytes sent to the replay and not yet read\n\n%s",
		s.Now.Text(zone), next, model, s.Steps, s.Running, s.Inbox, vclock.FormatThreads(s.Threads, s.Now))
	return err
}
