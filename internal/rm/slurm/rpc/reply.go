package rpc

import (
	"errors"
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
)

// SubmitResponse is slurmctld's answer to a submission.
type SubmitResponse struct {
	JobID  uint32
	StepID uint32
	// Code is 0, or the reason why slurmctld queued the job instead of starting it at once
	// (job_allocate in slurmctld/job_mgr.c).
	Code slurmspec.Errno
	// Message is the text of job_submit plugins for the user.
	Message string
}

// DecodeSubmitResponse reads the reply to a [RequestSubmitBatchJob]. A [ResponseSubmitBatchJob],
// with any code, means that slurmctld accepted the job. A [ResponseRC] means that slurmctld
// refused the job. The error then wraps its [slurmspec.Errno]. The function follows
// _unpack_submit_response_msg (slurm_protocol_pack.c) and slurm_submit_batch_job (api/submit.c).
func DecodeSubmitResponse(m *Message) (*SubmitResponse, error) {
	if m.Type != ResponseSubmitBatchJob {
		return nil, refusal("a submission", m)
	}
	d, own, err := ownDecoder(m.Version, "a submission's response", m.Body)
	if err != nil {
		return nil, err
	}
	r := own.submitResponse(d)
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return r, nil
}

func readSubmitResponse(d *decoder) *SubmitResponse {
	return &SubmitResponse{
		JobID:   d.U32("job id"),
		StepID:  d.U32("step id"),
		Code:    slurmspec.Errno(d.U32("error code")),
		Message: d.Str("message"),
	}
}

// refusal returns the error for a reply that does not have the expected type.
func refusal(what string, m *Message) error {
	if err := ReplyError(m); err != nil {
		return fmt.Errorf("%s was refused: %w", what, err)
	}
	return fmt.Errorf("%s was answered with %v, which is not an answer to this request", what, m.Type)
}

// ReplyError returns the error in a reply to any request:
//
//   - for [ResponseRC], its code as [slurmspec.Errno], or nil for 0;
//   - for [ResponseRCMessage], the same with slurmctld's text;
//   - for [ResponseJobArrayErrors], the failures of groups of tasks;
//   - for any other type, nil.
//
// It also returns an error if the reply cannot be read.
func ReplyError(m *Message) error {
	switch m.Type {
	case ResponseRC:
		code, err := DecodeRC(m.Body)
		if err != nil {
			return err
		}
		if code != 0 {
			return code
		}
	case ResponseRCMessage:
		return messageError(m.Body)
	case ResponseJobArrayErrors:
		return arrayErrors(m)
	}
	return nil
}

// DecodeRC reads the body of a [ResponseRC].
func DecodeRC(body []byte) (slurmspec.Errno, error) {
	d := newDecoder("a return code", body)
	code := slurmspec.Errno(d.U32("code"))
	return code, d.Finish()
}

func messageError(body []byte) error {
	d := newDecoder("a return code with a message", body)
	code, text := slurmspec.Errno(d.U32("code")), d.Str("message")
	if err := d.Finish(); err != nil {
		return err
	}
	switch {
	case code == 0:
		return nil
	case text == "":
		return code
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(text), code)
}

// arrayErrors reads the answer to a request about an array: a code for each group of tasks.
func arrayErrors(m *Message) error {
	d, own, err := ownDecoder(m.Version, "a job array's response", m.Body)
	if err != nil {
		return err
	}
	refused := own.arrayErrors(d)
	if err := d.Finish(); err != nil {
		return err
	}
	return refused
}

// arrayErrorFields are the fields of an answer about an array that only some versions have.
type arrayErrorFields struct {
	text bool // slurmctld's text about a group of tasks
}

// read follows _unpack_job_array_resp_msg (slurm_protocol_pack.c).
func (f arrayErrorFields) read(d *decoder) error {
	var errs []error
	for range d.Count(8, "task groups") {
		code, tasks := slurmspec.Errno(d.U32("code")), d.Str("tasks")
		text := ""
		if f.text {
			text = strings.TrimSpace(d.Str("text"))
		}
		switch {
		case code == 0:
		case text == "":
			errs = append(errs, fmt.Errorf("job %s: %w", tasks, code))
		default:
			errs = append(errs, fmt.Errorf("job %s: %s: %w", tasks, text, code))
		}
	}
	return errors.Join(errs...)
}
