package run

import (
	"encoding/json"
	"fmt"

	"rmreplay/internal/hpc"
)

// oldJob is a job in the form that records used before they shared one dialect with traces.
// Request, behaviour and recorded fate are objects of their own. All durations and times are in
// nanoseconds. The names derive from the names of the struct fields.
type oldJob struct {
	ID        string          `json:"id"`
	Submit    hpc.Time        `json:"submit_ns"`
	Request   json.RawMessage `json:"request"`
	Behaviour json.RawMessage `json:"behaviour"`
	Recorded  json.RawMessage `json:"recorded"`
}

var (
	oldRequest   = newCompact[hpc.Request]()
	oldBehaviour = newCompact[hpc.Behaviour]()
	oldRecorded  = newCompact[hpc.Recorded]()
)

// decodeOldJob reads a job in the old form.
func decodeOldJob(data []byte) (*hpc.Job, error) {
	var in oldJob
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("decoding a job: %w", err)
	}
	job := &hpc.Job{ID: in.ID, Submit: in.Submit}
	if err := oldRequest.decode(in.Request, &job.Request); err != nil {
		return nil, fmt.Errorf("decoding the request of job %q: %w", in.ID, err)
	}
	if err := oldBehaviour.decode(in.Behaviour, &job.Behaviour); err != nil {
		return nil, fmt.Errorf("decoding the behaviour of job %q: %w", in.ID, err)
	}
	if len(in.Recorded) > 0 && string(in.Recorded) != "null" {
		job.Recorded = new(hpc.Recorded)
		if err := oldRecorded.decode(in.Recorded, job.Recorded); err != nil {
			return nil, fmt.Errorf("decoding the recorded fate of job %q: %w", in.ID, err)
		}
	}
	return job, nil
}
