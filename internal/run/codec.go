package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"rmreplay/internal/compactjson"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/rm"
)

// outcomeCodec encodes and decodes all fields of an outcome in the journal.
var outcomeCodec = compactjson.New[rm.Outcome]()

// EncodeJob returns a whole submission as one compact JSON object in the format of package jobjson.
// It is the value of the column request of jobs.parquet.
func EncodeJob(job *hpc.Job) []byte { return jobjson.Append(nil, job) }

// DecodeJob decodes the result of [EncodeJob].
func DecodeJob(data []byte) (*hpc.Job, error) {
	if bytes.Contains(data, []byte(`"submit_ns":`)) {
		return nil, errors.New("decoding a job: its format is that of an earlier version of rmreplay (repeat the run)")
	}
	var in jobjson.Job
	if err := jobjson.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("decoding a job: %w", err)
	}
	return in.Decode(&jobjson.Epoch{}), nil
}

// eventIn is an rm.Event as JSON.
type eventIn struct {
	At      hpc.Time        `json:"at_ns"`
	Kind    rm.EventKind    `json:"kind"`
	Job     string          `json:"job"`
	Task    int             `json:"task"`
	RMJob   uint32          `json:"rm_job"`
	Reason  string          `json:"reason"`
	Outcome json.RawMessage `json:"outcome"`
}

// appendEvent appends an event to b.
func appendEvent(b []byte, e rm.Event) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"at_ns":`...), int64(e.At), 10)
	var err error
	for _, f := range []struct{ label, value string }{
		{`,"kind":`, string(e.Kind)}, {`,"job":`, e.Job}, {`,"reason":`, e.Reason},
	} {
		if err == nil && f.value != "" {
			b, err = compactjson.AppendString(append(b, f.label...), f.value)
		}
	}
	b = strconv.AppendInt(append(b, `,"task":`...), int64(e.Task), 10)
	if e.RMJob != 0 {
		b = strconv.AppendUint(append(b, `,"rm_job":`...), uint64(e.RMJob), 10)
	}
	if err == nil && e.Outcome != nil {
		b, err = outcomeCodec.Append(append(b, `,"outcome":`...), e.Outcome)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding an event of job %q: %w", e.Job, err)
	}
	return append(b, '}'), nil
}

// event returns the event; it is the inverse of appendEvent.
func (in *eventIn) event() (rm.Event, error) {
	e := rm.Event{At: in.At, Kind: in.Kind, Job: in.Job, Task: in.Task, RMJob: in.RMJob, Reason: in.Reason}
	if len(in.Outcome) > 0 && string(in.Outcome) != "null" {
		e.Outcome = new(rm.Outcome)
		if err := outcomeCodec.Decode(in.Outcome, e.Outcome); err != nil {
			return e, fmt.Errorf("decoding the outcome of job %q: %w", in.Job, err)
		}
	}
	return e, nil
}
