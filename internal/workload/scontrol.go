package workload

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
)

// ReadReservations reads the output of `scontrol show reservation` (with or without -o) and
// returns the reservations that touch the window. Each reservation keeps its start, but is created
// when the window begins, because Slurm does not record the time of creation. The parameter name
// is the source's name in errors, which have the form "reading reservations: NAME:LINE: ...".
func ReadReservations(r io.Reader, name string, opts ReadOptions) ([]hpc.ReservationEvent, error) {
	var events []hpc.ReservationEvent
	err := eachBlock(r, name, "reservation", "ReservationName", func(b *block) error {
		event, err := b.reservation(opts)
		if err == nil && event != nil {
			events = append(events, *event)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading reservations: %w", err)
	}
	return events, nil
}

// ReadNodeStates reads the output of `scontrol show node` (with or without -o) and returns the
// events that put the nodes into these states at the window's start. Nodes in service need no
// event. The parameter name is the source's name in errors, which have the form "reading node
// states: NAME:LINE: ...".
func ReadNodeStates(r io.Reader, name string, opts ReadOptions) ([]hpc.NodeEvent, error) {
	var events []hpc.NodeEvent
	err := eachBlock(r, name, "node", "NodeName", func(b *block) error {
		state := slurmspec.OutageOfState(b.values["State"])
		if b.values["State"] == "" {
			return errors.New("a node without State=")
		}
		if state != "" {
			reason, _, _ := strings.Cut(b.values["Reason"], " [") // after " [": author and time
			events = append(events, hpc.NodeEvent{At: opts.Start, Nodes: b.values["NodeName"], State: state, Reason: reason})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading node states: %w", err)
	}
	return events, nil
}

// block is one entity that scontrol shows: key=value words on one or several lines.
type block struct {
	line   int
	values map[string]string
}

// texts are the keys whose value may have blanks. Each has the keys that scontrol may print after
// it on the same line (slurm_sprint_node_table in Slurm's node_info.c, 22.05 to 26.05). The value
// extends to the first of these keys, or to the end of the line.
var texts = func() map[string][]string {
	last := []string{"Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName", "TLSCertTokenSet",
		"Topology", "Parameters"}
	return map[string][]string{"OS": {"RealMemory"}, "Reason": last[1:], "Comment": last[2:], "Extra": last[3:]}
}()

// cutText splits the text after "key=" into the value and the rest.
func cutText(key, text string) (value, rest string) {
	behind, long := texts[key]
	if !long {
		value, rest, _ = strings.Cut(text, " ")
		return value, rest
	}
	end := len(text)
	for _, next := range behind {
		if at := strings.Index(text, " "+next+"="); at >= 0 {
			end = min(end, at)
		}
	}
	return strings.TrimSpace(text[:end]), text[end:]
}

// eachBlock calls f for every block in the output of "scontrol show KIND". A block begins with the key first. A text
// without any line is an error: it is left by a command that has failed, and scontrol prints a line even if there is no
// entity.
func eachBlock(r io.Reader, name, kind, first string, f func(*block) error) error {
	var current *block
	empty := true
	flush := func() error {
		if current == nil {
			return nil
		}
		b := current
		current = nil
		if err := f(b); err != nil {
			return fmt.Errorf("%s:%d: %w", name, b.line, err)
		}
		return nil
	}
	err := lines.Each(r, name, func(number int, line []byte) error {
		text := strings.TrimSpace(lines.UTF8(line))
		empty = empty && text == ""
		if strings.HasPrefix(text, first+"=") {
			if err := flush(); err != nil {
				return err
			}
			current = &block{number, make(map[string]string)}
		}
		if current == nil {
			if text == "" || strings.HasPrefix(text, "No ") {
				return nil // "No reservations in the system"
			}
			return fmt.Errorf("%.60q: want %s=... as scontrol shows it", text, first)
		}
		current.add(text)
		return nil
	})
	if err == nil && empty {
		err = fmt.Errorf("%s: empty (want the output of scontrol show %s)", name, kind)
	}
	if err != nil {
		return err
	}
	return flush()
}

func (b *block) add(text string) {
	for text != "" {
		key, rest, found := strings.Cut(text, "=")
		if !found {
			return
		}
		key = key[strings.LastIndexByte(key, ' ')+1:]
		value, after := cutText(key, rest)
		if value != "(null)" {
			b.values[key] = value
		}
		text = strings.TrimSpace(after)
	}
}

// reservation returns nil if the reservation lies outside the window.
func (b *block) reservation(opts ReadOptions) (*hpc.ReservationEvent, error) {
	start, err := slurmspec.ParseInstant(b.values["StartTime"], opts.Location())
	if err != nil {
		return nil, fmt.Errorf("StartTime=%s: %w", b.values["StartTime"], err)
	}
	end, err := slurmspec.ParseInstant(b.values["EndTime"], opts.Location())
	if err != nil {
		return nil, fmt.Errorf("EndTime=%s: %w", b.values["EndTime"], err)
	}
	r := hpc.Reservation{
		Name: b.values["ReservationName"], Start: start, Nodes: b.values["Nodes"], Partition: b.values["PartitionName"],
		Licenses: b.values["Licenses"], Features: b.values["Features"],
		Users: listOf(b.values["Users"]), Accounts: listOf(b.values["Accounts"]),
	}
	for _, flag := range listOf(b.values["Flags"]) {
		if flag != "SPEC_NODES" && flag != "ALL_NODES" { // Slurm derives these flags from the nodes
			r.Flags = append(r.Flags, flag)
		}
	}
	if r.Nodes == "" {
		n, err := strconv.ParseUint(b.values["NodeCnt"], 10, 31)
		if err != nil && b.values["NodeCnt"] != "" {
			return nil, fmt.Errorf("NodeCnt=%s: not a count", b.values["NodeCnt"])
		}
		r.NodeCount = int(n)
	}
	return ReservationOfWindow(r, end, opts), nil
}

// ReservationOfWindow returns the event that creates a reservation when the window begins or,
// without a window, at the reservation's start. The parameter end determines the duration. The
// result is nil if the reservation lies outside the window.
func ReservationOfWindow(r hpc.Reservation, end hpc.Time, opts ReadOptions) *hpc.ReservationEvent {
	if !opts.InWindow(r.Start, end) {
		return nil
	}
	r.Duration = max(end.Sub(r.Start), time.Second)
	at := opts.Start
	if at == 0 {
		at = r.Start
	}
	return &hpc.ReservationEvent{At: at, Action: "create", Reservation: r}
}

func listOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
