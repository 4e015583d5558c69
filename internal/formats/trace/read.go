// Package trace reads and writes rmreplay's own format, JSON Lines. After a header, there is a
// record for every job, user, node event, reservation event, action and usage, and for every
// unusable record of the source.
package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/formats/swf"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is our own format.
var Format = workload.Format{
	Name: "trace", Doc: "a trace, our own format in JSON Lines, which keeps everything",
	Looks: "a trace's JSON header", Recognize: recognize, Read: Read,
	Write: func(w io.Writer, wl *workload.Workload) (workload.Losses, error) { return nil, Write(w, wl) },
}

// recognize accepts a JSON object with a word of a trace. It returns a high confidence only for an object with the
// version of a trace's header.
func recognize(head []byte) workload.Confidence {
	switch line, _ := lines.First(head); {
	case line == "" || line[0] != '{':
		return workload.No
	case bytes.Contains(head, []byte(`"rmreplay_trace"`)):
		return workload.Sure
	case slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, `"`+word+`"`) }):
		return workload.Maybe
	}
	return workload.No
}

// words are keys of a trace's header and of its other lines.
var words = []string{"epoch", "type", "machine_nodes", "machine_processors", "transforms", "file_systems"}

// Version is the version of the trace format that Write writes and that Read accepts.
const Version = 1

// header is the first line of a trace.
type header struct {
	Version int `json:"rmreplay_trace"`
	// Epoch is a pointer because 1970 is a valid epoch.
	Epoch  *jobjson.Instant `json:"epoch,omitempty"`
	Start  jobjson.Instant  `json:"start,omitzero"`
	Source string           `json:"source,omitempty"`
	Rules  map[string]int   `json:"rules,omitempty"`

	Transforms []string `json:"transforms,omitempty"`

	Completion *workload.Completion `json:"completion,omitempty"`

	MachineNodes      int      `json:"machine_nodes,omitempty"`
	MachineProcessors int      `json:"machine_processors,omitempty"`
	Comments          []string `json:"comments,omitempty"`

	FileSystems []fileSystem `json:"file_systems,omitempty"`
}

// fileSystem is the JSON of an hpc.FileSystem.
type fileSystem struct {
	Name      string `json:"name"`
	Bandwidth int64  `json:"bytes_per_s"`
	Limit     int64  `json:"limit_bytes_per_s,omitempty"`
	Licenses  int64  `json:"licenses,omitempty"`
}

// The types of the records that follow the header.
const (
	recordJob         = "job"
	recordUser        = "user"
	recordNode        = "node"
	recordReservation = "reservation"
	recordUnusable    = "unusable"
	recordAction      = "action"
	recordUsage       = "usage"
)

// jobRecord is a job as a line of a trace.
type jobRecord struct {
	Type string `json:"type"`
	jobjson.Job
	SWF *swf.Kept `json:"swf"`
}

type userRecord struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	UID   uint32 `json:"uid"`
	Group string `json:"group"`
	GID   uint32 `json:"gid"`
	// Groups are the user's further groups.
	Groups []string `json:"groups,omitempty"`
}

type nodeRecord struct {
	Type   string          `json:"type"`
	At     jobjson.Instant `json:"at,omitzero"`
	Nodes  string          `json:"nodes"`
	State  string          `json:"state"`
	Reason string          `json:"reason,omitempty"`
}

type reservationRecord struct {
	Type      string          `json:"type"`
	At        jobjson.Instant `json:"at,omitzero"`
	Action    string          `json:"action"`
	Name      string          `json:"name"`
	Start     jobjson.Instant `json:"start,omitzero"`
	Duration  jobjson.Seconds `json:"duration_s,omitzero"`
	Nodes     string          `json:"nodes,omitempty"`
	NodeCount int             `json:"node_count,omitempty"`
	Partition string          `json:"partition,omitempty"`
	Users     []string        `json:"users,omitempty"`
	Accounts  []string        `json:"accounts,omitempty"`
	Flags     []string        `json:"flags,omitempty"`
	Licenses  string          `json:"licenses,omitempty"`
	Features  string          `json:"features,omitempty"`
}

// actionRecord is the line of an action. Exactly one of its last three fields is set.
type actionRecord struct {
	Type      string          `json:"type"`
	At        jobjson.Instant `json:"at,omitzero"`
	Run       []string        `json:"run,omitempty"`
	Shell     string          `json:"shell,omitempty"`
	SlurmConf string          `json:"slurm_conf,omitempty"`
}

type usageRecord struct {
	Type    string  `json:"type"`
	Account string  `json:"account"`
	User    string  `json:"user,omitempty"`
	Raw     float64 `json:"raw_s"`
}

// Read reads the trace format, JSON Lines: a header and then the records, in any order. The
// parameter name is the source's name in errors, which have the form "reading trace: NAME:LINE:
// what is wrong". An unknown field is an error, and so is a trace without a job. If the header has
// no epoch, relative times count from [workload.DefaultEpoch]. If there are no relative times, the
// epoch is the instant of the first event.
func Read(r io.Reader, name string, _ workload.ReadOptions) (*workload.Workload, error) {
	w, err := ReadSetting(r, name)
	if err == nil && w.Jobs.Len() == 0 {
		return nil, fmt.Errorf("reading trace: %s: it has no job", name)
	}
	return w, err
}

// ReadSetting is [Read] for a trace that may have no jobs. A run's record keeps everything except
// the jobs in such a trace.
func ReadSetting(r io.Reader, name string) (*workload.Workload, error) {
	t := reader{w: &workload.Workload{}}
	if err := lines.Each(r, name, t.line); err != nil {
		return nil, fmt.Errorf("reading trace: %w", err)
	}
	if !t.hasHeader {
		return nil, fmt.Errorf("reading trace: %s: empty (want at least a header)", name)
	}
	if t.w.Source == "" {
		t.w.Source = name
	}
	swf.Complete(t.w)
	t.w.Sort()
	if !t.epochGiven && !t.epoch.Used {
		t.w.Epoch = firstInstant(t.w)
	}
	return t.w, nil
}

// firstInstant returns the time of the workload's first event, to the second; 0 if there is no
// event.
func firstInstant(w *workload.Workload) hpc.Time {
	first := hpc.Never
	if w.Jobs.Len() > 0 {
		first = w.Jobs.Submit(0)
	}
	if len(w.NodeEvents) > 0 {
		first = min(first, w.NodeEvents[0].At)
	}
	if len(w.Reservations) > 0 {
		first = min(first, w.Reservations[0].At)
	}
	if len(w.Actions) > 0 {
		first = min(first, w.Actions[0].At)
	}
	if first == hpc.Never {
		return 0
	}
	return hpc.Unix(first.UnixSeconds())
}

type reader struct {
	w     *workload.Workload
	epoch jobjson.Epoch
	// epochGiven is true if the header has an epoch.
	epochGiven bool
	latest     hpc.Time // the latest submission so far
	hasHeader  bool
}

func (t *reader) line(_ int, line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if !t.hasHeader {
		return t.header(line)
	}
	if !utf8.Valid(line) {
		return errors.New("not UTF-8 (want a trace as rmreplay writes it)")
	}
	if bytes.HasPrefix(line, jobPrefix) { // the line has the form that Write gives it, as most lines of most traces
		return t.job(line)
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := jobjson.UnmarshalKnown(line, &kind); err != nil {
		return err
	}
	switch kind.Type {
	case recordJob:
		return t.job(line)
	case recordUser:
		return t.user(line)
	case recordNode:
		return t.node(line)
	case recordReservation:
		return t.reservation(line)
	case recordUnusable:
		return t.unusable(line)
	case recordAction:
		return t.action(line)
	case recordUsage:
		return t.usage(line)
	case "":
		return errors.New("a record without a type (want job, user, node, reservation, action, usage or unusable)")
	}
	return fmt.Errorf("type %s: not known (want job, user, node, reservation, action, usage or unusable)", kind.Type)
}

func (t *reader) header(line []byte) error {
	var h header
	if err := jobjson.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if h.Version != Version {
		return fmt.Errorf("header: rmreplay_trace %d: not a version that this program reads (want %d)", h.Version, Version)
	}
	t.epoch.Time = workload.DefaultEpoch
	if h.Epoch != nil {
		if h.Epoch.Relative() {
			return errors.New(`header: epoch: not a time (want "2024-03-01T08:00:00Z")`)
		}
		t.epoch.Time, t.epochGiven = h.Epoch.At(&t.epoch), true
	}
	t.hasHeader = true
	t.w.Start = h.Start.At(&t.epoch)
	t.w.Epoch, t.w.Source, t.w.Rules = t.epoch.Time, h.Source, h.Rules
	t.w.Transforms = h.Transforms
	if t.w.Completion = h.Completion; h.Completion != nil {
		if err := h.Completion.Check(); err != nil {
			return fmt.Errorf("header: completion: %w", err)
		}
	}
	t.w.MachineNodes, t.w.MachineProcessors, t.w.Header = h.MachineNodes, h.MachineProcessors, h.Comments
	for _, f := range h.FileSystems {
		read := hpc.FileSystem(f)
		if err := read.Check(); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		t.w.FileSystems = append(t.w.FileSystems, read)
	}
	return nil
}

func (t *reader) job(line []byte) error {
	var r jobRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	switch {
	case r.ID == "":
		return errors.New("id: missing")
	case r.Submit.IsZero():
		return errors.New("submit: missing")
	case r.RunTime == nil:
		return errors.New(`run_time_s: missing (want seconds, or "unlimited" for a job that runs until its time limit)`)
	case *r.RunTime < 0:
		return errors.New("run_time_s: negative (want 0 or more)")
	}
	job := r.Decode(&t.epoch)
	if job.Submit < t.latest {
		t.w.Note(workload.RuleOutOfOrder, 1)
	}
	t.latest = max(t.latest, job.Submit)
	t.w.Jobs.Append(job)
	if r.SWF == nil {
		return nil
	}
	origin, err := r.SWF.Origin()
	if err == nil {
		t.w.Jobs.SetOrigin(t.w.Jobs.Len()-1, origin)
	}
	return err
}

func (t *reader) user(line []byte) error {
	var r userRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Name == "" {
		return errors.New("name: missing")
	}
	t.w.Users = append(t.w.Users, hpc.User{Name: r.Name, UID: r.UID, Group: r.Group, GID: r.GID, Groups: r.Groups})
	return nil
}

func (t *reader) node(line []byte) error {
	var r nodeRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case r.Nodes == "":
		return errors.New("nodes: missing")
	}
	switch r.State {
	case "down", "drain", "resume", "fail":
	default:
		return fmt.Errorf("state %q: not known (want down, drain, resume or fail)", r.State)
	}
	t.w.NodeEvents = append(t.w.NodeEvents, hpc.NodeEvent{At: r.At.At(&t.epoch), Nodes: r.Nodes, State: r.State, Reason: r.Reason})
	return nil
}

func (t *reader) reservation(line []byte) error {
	var r reservationRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case r.Name == "":
		return errors.New("name: missing")
	}
	switch r.Action {
	case "create", "update", "delete":
	default:
		return fmt.Errorf("action %q: not known (want create, update or delete)", r.Action)
	}
	t.w.Reservations = append(t.w.Reservations, hpc.ReservationEvent{
		At: r.At.At(&t.epoch), Action: r.Action,
		Reservation: hpc.Reservation{
			Name: r.Name, Start: r.Start.At(&t.epoch), Duration: time.Duration(r.Duration),
			Nodes: r.Nodes, NodeCount: r.NodeCount, Partition: r.Partition,
			Users: r.Users, Accounts: r.Accounts, Flags: r.Flags,
			Licenses: r.Licenses, Features: r.Features,
		},
	})
	return nil
}

func (t *reader) action(line []byte) error {
	var r actionRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	kinds := 0
	for _, set := range []bool{len(r.Run) > 0, r.Shell != "", r.SlurmConf != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case kinds != 1:
		return errors.New("what to do: want exactly one of run, shell and slurm_conf")
	}
	t.w.Actions = append(t.w.Actions, hpc.Action{At: r.At.At(&t.epoch), Run: r.Run, Shell: r.Shell, SlurmConf: r.SlurmConf})
	return nil
}

func (t *reader) usage(line []byte) error {
	var r usageRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	switch {
	case r.Account == "":
		return errors.New("account: missing")
	case r.Raw < 0:
		return errors.New("raw_s: negative (want 0 or more)")
	}
	t.w.Usage = append(t.w.Usage, hpc.Usage{Account: r.Account, User: r.User, Raw: r.Raw})
	return nil
}

// unusableRecord is the line of a trace for a record of the source that is not a job.
type unusableRecord struct {
	Type   string `json:"type"`
	Record int    `json:"record"`
	Rule   string `json:"rule"`
	Text   string `json:"text"`
}

func (t *reader) unusable(line []byte) error {
	var r unusableRecord
	if err := jobjson.Unmarshal(line, &r); err != nil {
		return err
	}
	t.w.Unusable = append(t.w.Unusable, workload.Unusable{Record: r.Record, Rule: r.Rule, Text: r.Text})
	return nil
}
