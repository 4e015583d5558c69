package run

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// The structs of hpc and rm carry no JSON names, and most of their fields are
// zero in most jobs. A compact codec gives a struct snake_case names with units
// and leaves zero fields out. It derives them from the type, so that a field
// that is added to hpc.Request is in the record from then on.
type compact struct{ wire reflect.Type }

// newCompact makes the codec of a struct type.
func newCompact(t reflect.Type) compact {
	fields := make([]reflect.StructField, t.NumField())
	for i := range fields {
		f := t.Field(i)
		fields[i] = reflect.StructField{
			Name: f.Name,
			Type: f.Type,
			Tag:  reflect.StructTag(`json:"` + wireName(f) + `,omitzero"`),
		}
	}
	return compact{reflect.StructOf(fields)}
}

// encode returns a value that encoding/json writes compactly. v is a struct of
// the codec's type: Go converts between structs that differ in tags only.
func (c compact) encode(v any) any {
	return reflect.ValueOf(v).Convert(c.wire).Interface()
}

// decode reads data into the struct that v points to.
func (c compact) decode(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	wire := reflect.New(c.wire)
	if err := json.Unmarshal(data, wire.Interface()); err != nil {
		return err
	}
	target := reflect.ValueOf(v).Elem()
	target.Set(wire.Elem().Convert(target.Type()))
	return nil
}

// mebibytes names the fields that hold memory or disk space.
var mebibytes = map[string]bool{"MemPerNode": true, "MemPerCPU": true, "MemPerGPU": true, "TmpDisk": true}

// wireName is the JSON name of a field: its Go name in snake_case with its unit.
func wireName(f reflect.StructField) string {
	name := snakeCase(f.Name)
	elem := f.Type
	if elem.Kind() == reflect.Map {
		elem = elem.Elem()
	}
	switch {
	case elem == reflect.TypeFor[time.Duration](), elem == reflect.TypeFor[hpc.Time]():
		return name + "_ns"
	case mebibytes[f.Name]:
		return name + "_mib"
	case f.Name == "TimeLimit": // of rm.Outcome, which has whole seconds
		return name + "_s"
	}
	return name
}

// snakeCase turns a Go name into snake_case: "MinCPUsPerNode" into "min_cpus_per_node".
func snakeCase(name string) string {
	// A plural of an acronym would otherwise be cut before its last letter.
	runes := []rune(strings.NewReplacer("CPUs", "Cpus", "GPUs", "Gpus").Replace(name))
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			endOfAcronym := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(runes[i-1]) || endOfAcronym {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var (
	requestCodec   = newCompact(reflect.TypeFor[hpc.Request]())
	behaviourCodec = newCompact(reflect.TypeFor[hpc.Behaviour]())
	recordedCodec  = newCompact(reflect.TypeFor[hpc.Recorded]())
	outcomeCodec   = newCompact(reflect.TypeFor[rm.Outcome]())
)

// jobOut and jobIn are an hpc.Job as JSON, on its way out and in.
type jobOut struct {
	ID        string   `json:"id"`
	Submit    hpc.Time `json:"submit_ns"`
	Request   any      `json:"request"`
	Behaviour any      `json:"behaviour"`
	Recorded  any      `json:"recorded,omitempty"`
}

type jobIn struct {
	ID        string          `json:"id"`
	Submit    hpc.Time        `json:"submit_ns"`
	Request   json.RawMessage `json:"request"`
	Behaviour json.RawMessage `json:"behaviour"`
	Recorded  json.RawMessage `json:"recorded"`
}

// EncodeJob returns a whole submission as one compact JSON object, as it is in
// the request column of jobs.parquet: durations and instants are nanoseconds,
// memory is MiB, and zero fields are left out.
func EncodeJob(job *hpc.Job) ([]byte, error) {
	out := jobOut{
		ID: job.ID, Submit: job.Submit,
		Request:   requestCodec.encode(job.Request),
		Behaviour: behaviourCodec.encode(job.Behaviour),
	}
	if job.Recorded != nil {
		out.Recorded = recordedCodec.encode(*job.Recorded)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encoding job %q: %w", job.ID, err)
	}
	return data, nil
}

// DecodeJob reads what [EncodeJob] wrote.
func DecodeJob(data []byte) (*hpc.Job, error) {
	var in jobIn
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("decoding a job: %w", err)
	}
	job := &hpc.Job{ID: in.ID, Submit: in.Submit}
	if err := requestCodec.decode(in.Request, &job.Request); err != nil {
		return nil, fmt.Errorf("decoding the request of job %q: %w", in.ID, err)
	}
	if err := behaviourCodec.decode(in.Behaviour, &job.Behaviour); err != nil {
		return nil, fmt.Errorf("decoding the behaviour of job %q: %w", in.ID, err)
	}
	if len(in.Recorded) > 0 && string(in.Recorded) != "null" {
		job.Recorded = new(hpc.Recorded)
		if err := recordedCodec.decode(in.Recorded, job.Recorded); err != nil {
			return nil, fmt.Errorf("decoding the recorded fate of job %q: %w", in.ID, err)
		}
	}
	return job, nil
}

// eventOut and eventIn are an rm.Event as JSON, on its way out and in.
type eventOut struct {
	At      hpc.Time     `json:"at_ns"`
	Kind    rm.EventKind `json:"kind"`
	Job     string       `json:"job,omitempty"`
	Task    int          `json:"task"`
	RMJob   uint32       `json:"rm_job,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Outcome any          `json:"outcome,omitempty"`
}

type eventIn struct {
	At      hpc.Time        `json:"at_ns"`
	Kind    rm.EventKind    `json:"kind"`
	Job     string          `json:"job"`
	Task    int             `json:"task"`
	RMJob   uint32          `json:"rm_job"`
	Reason  string          `json:"reason"`
	Outcome json.RawMessage `json:"outcome"`
}

// encodeEvent returns e as a value for encoding/json.
func encodeEvent(e rm.Event) *eventOut {
	out := &eventOut{At: e.At, Kind: e.Kind, Job: e.Job, Task: e.Task, RMJob: e.RMJob, Reason: e.Reason}
	if e.Outcome != nil {
		out.Outcome = outcomeCodec.encode(*e.Outcome)
	}
	return out
}

// event is the inverse of encodeEvent.
func (in *eventIn) event() (rm.Event, error) {
	e := rm.Event{At: in.At, Kind: in.Kind, Job: in.Job, Task: in.Task, RMJob: in.RMJob, Reason: in.Reason}
	if len(in.Outcome) > 0 && string(in.Outcome) != "null" {
		e.Outcome = new(rm.Outcome)
		if err := outcomeCodec.decode(in.Outcome, e.Outcome); err != nil {
			return e, fmt.Errorf("decoding the outcome of job %q: %w", in.Job, err)
		}
	}
	return e, nil
}
