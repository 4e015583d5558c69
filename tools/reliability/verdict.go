package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// noRecord is the state if the program had not begun a record.
const noRecord = "none"

// verdict is how a replay ended. It has the program's exit status, or the signal that ended it. It
// also has the record's state: valid, complete (and not valid), interrupted, failed, running (the
// program ended without writing a final state), or none.
type verdict struct{ exit, state string }

// allowed returns the documented ends of a replay after a hit. Every hit may come before the record
// exists or after it is complete.
func allowed(h hit) []verdict {
	valid := verdict{"0", "valid"}
	interrupted := []verdict{valid, {"130", "interrupted"}, {"130", noRecord}, {"130", "valid"}}
	killed := func(exit string) []verdict {
		return []verdict{valid, {exit, "running"}, {exit, noRecord}, {exit, "valid"}}
	}
	switch {
	case h.Kind == nothing || h.Kind == strangers || h.Kind == pause:
		return []verdict{valid}
	case h.Kind == twice:
		// The second signal ends the program at once, at any step: the record may be incomplete. Before
		// the program catches signals, the first signal kills it.
		return append(interrupted, append(killed("130"), killed(h.Signal.String())...)...)
	case h.Kind == group:
		return append(interrupted, beforeMain(h))
	case h.Victim == program:
		switch h.Signal {
		case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
			return append(interrupted, beforeMain(h))
		case unix.SIGKILL:
			return killed("killed")
		case unix.SIGPIPE:
			return []verdict{valid}
		}
		// The Go runtime prints its stacks and exits with status 2.
		return append(killed("2"), killed(h.Signal.String())...)
	case h.Victim == guard && catches(h):
		if h.Struck != guardName { // it has just started and does not catch signals yet
			return []verdict{valid, {"1", "failed"}, {"1", noRecord}}
		}
		return []verdict{valid}
	}
	// A replay without one of its processes cannot continue. The hit has no effect if the process
	// survives the signal or has done its work. If the signal hits a Slurm program that is asked for
	// its version, rmreplay reports that Slurm is missing (status 5).
	return []verdict{valid, {"1", "failed"}, {"1", noRecord}, {"5", noRecord}, {"3", "complete"}}
}

// beforeMain returns the end of a program that gets a signal in its first milliseconds, before it
// catches signals. It has not made any files by then.
func beforeMain(h hit) verdict { return verdict{h.Signal.String(), noRecord} }

// guardName is the name of the guard's process once it catches signals.
const guardName = "rmreplay-guard"

// catches reports whether the guard continues after a signal.
func catches(h hit) bool {
	switch h.Signal {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE:
		return true
	}
	return false
}

// tally counts results by hit.
type tally struct {
	replays, broken int
	rows            map[string]*row
}

// row is a line of the table.
type row struct {
	replays, broken int
	ends            map[verdict]int
}

func newTally() *tally { return &tally{rows: map[string]*row{}} }

func (t *tally) add(r result) {
	key := string(r.Hit.Kind)
	if r.Hit.Victim != "" {
		key = fmt.Sprintf("%s, %s", r.Hit.Kind, r.Hit.Victim)
	}
	if r.Hit.Kind != nothing && r.Hit.Struck == "" {
		key = "came too late, or its victim did not exist"
	}
	if t.rows[key] == nil {
		t.rows[key] = &row{ends: map[verdict]int{}}
	}
	line := t.rows[key]
	line.replays++
	line.ends[verdict{r.Exit, r.State}]++
	t.replays++
	if len(r.Broken) > 0 {
		line.broken++
		t.broken++
	}
}

// table returns the counts as a table in Markdown.
func (t *tally) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| hit | replays | broken promises | ends (exit status, record) |\n| --- | --- | --- | --- |\n")
	keys := make([]string, 0, len(t.rows))
	for key := range t.rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		line := t.rows[key]
		var ends []string
		for v, n := range line.ends {
			ends = append(ends, fmt.Sprintf("%d × %s, %s", n, v.exit, v.state))
		}
		slices.Sort(ends)
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", key, line.replays, line.broken, strings.Join(ends, "; "))
	}
	fmt.Fprintf(&b, "| all | %d | %d | |\n", t.replays, t.broken)
	return b.String()
}
