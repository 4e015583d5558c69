package forecast

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// EstimateFormat is the squeue format with which an action of a workload records Slurm's own
// estimates. It prints the number of the job or its array, the task, and the expected start.
const EstimateFormat = "%F|%K|%S"

// EstimateCommand is the action that records Slurm's estimates in a replay.
var EstimateCommand = []string{"squeue", "--start", "--array", "--noheader", "--format=" + EstimateFormat}

// asks reports whether an action only queries Slurm with squeue or sdiag. Forecasts are compared with the values that
// such actions record.
func asks(a hpc.Action) bool { return len(a.Run) > 0 && (a.Run[0] == "squeue" || a.Run[0] == "sdiag") }

// readEstimates reads the estimates that actions of a run recorded, by instant.
func (c *Course) readEstimates(r *run.Run) error {
	log, err := r.OpenLog("actions.log")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close() // only read
	return c.scanEstimates(log)
}

func (c *Course) scanEstimates(log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	var at hpc.Time
	said := ""
	for lines.Scan() {
		line := lines.Text()
		if instant, command, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(instant, "[") {
			at, said = 0, command
			if when, err := hpc.ParseDateTime(instant[1:]); err == nil {
				at = when
			}
			if at != 0 && said == strings.Join(EstimateCommand, " ") {
				c.asked[at] = map[Key]hpc.Time{}
			}
			continue
		}
		switch {
		case at == 0:
		case said == "sdiag":
			if last, ok := LastBackfill(line); ok {
				c.cycles[at] = last
			}
		case said == strings.Join(EstimateCommand, " "):
			if key, start, ok := c.estimate(line); ok {
				c.asked[at][key] = start
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the estimates of Slurm: actions.log: %w", err)
	}
	return nil
}

// LastBackfill returns the start of the last backfill cycle if a line of sdiag's output has it: "Last cycle when: Mon
// Mar 4 03:59:33 2024 (1709524773)". sdiag prints such a line only for the backfill scheduler.
func LastBackfill(line string) (at hpc.Time, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "Last cycle when:")
	if !ok {
		return 0, false
	}
	_, text, _ = strings.Cut(text, "(")
	seconds, err := strconv.ParseInt(strings.TrimSuffix(text, ")"), 10, 64)
	if err != nil || seconds <= 0 || seconds > 1<<33 {
		return 0, false
	}
	return hpc.Unix(seconds), true
}

// estimate reads a line of squeue. ok is false for a job without an expected start.
func (c *Course) estimate(line string) (key Key, start hpc.Time, ok bool) {
	fields := strings.Split(line, "|")
	if len(fields) != 3 {
		return key, 0, false
	}
	number, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return key, 0, false
	}
	key, known := c.rmJobs[uint32(number)]
	if !known {
		return key, 0, false
	}
	if task, err := strconv.Atoi(fields[1]); err == nil {
		key.Task = task
	}
	start, err = slurmspec.ParseInstant(fields[2], time.UTC)
	return key, start, err == nil && start != 0
}

// estimates returns the estimates of an instant.
func (c *Course) estimates(at hpc.Time) map[Key]hpc.Time { return c.asked[at] }

// Asked returns the instants at which the run recorded Slurm's own estimates, in order.
func (c *Course) Asked() []hpc.Time {
	var list []hpc.Time
	for at := range c.asked {
		list = append(list, at)
	}
	slices.Sort(list)
	return list
}
