package ioservice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
)

// MaxAnswer is the highest number of bytes in an answer, including the newline. The Slurm-LDMS project's client does
// not read more.
const MaxAnswer = 1024

// Limits of the values in a request, so that answers and the state stay small.
const (
	maxReqID   = 128 // bytes of the value's JSON
	maxName    = 128
	maxClassID = 256
	maxError   = 400
	maxNodes   = 1 << 17 // number of nodes of a job
)

// The values of an answer's status.
const (
	StatusOK             = "OK"
	StatusACK            = "ACK"
	StatusError          = "error"
	StatusNotImplemented = "not implemented"
)

// Answer is an answer in the protocol. All numbers are decimal strings.
type Answer struct {
	ReqID     json.RawMessage   `json:"req_id"`
	Status    string            `json:"status"`
	Error     string            `json:"error,omitempty"`
	VarietyID string            `json:"variety_id,omitempty"`
	Response  map[string]string `json:"response,omitzero"` // present but empty for an unknown class
	JobID     string            `json:"job_id,omitempty"`
	StartTime string            `json:"start_time,omitempty"` // seconds since 1970
	EndTime   string            `json:"end_time,omitempty"`
	Duration  string            `json:"duration,omitempty"` // seconds
	Lustre    *LustreUse        `json:"lustre,omitempty"`
	Canary    string            `json:"canary_time,omitempty"` // mean duration, in seconds, of the probes during the job
}

// LustreUse is a job's use of the file system, in licenses.
type LustreUse struct {
	Average   string `json:"avg"`
	Deviation string `json:"std"`
}

// request has a request's fields. A number may be a JSON string or a JSON number.
type request map[string]json.RawMessage

// handlers maps the types of requests to the functions that answer them.
var handlers = map[string]func(*Service, hpc.Time, request, *Answer) error{
	"usage":                (*Service).handleUsage,
	"variety_id/manual":    (*Service).handleManual,
	"variety_id/auto":      (*Service).handleAuto,
	"job_utilization":      (*Service).handleUtilization,
	"process_job":          (*Service).handleProcess,
	"process_canary_probe": (*Service).handleProbe,
	"analyze_job":          (*Service).handleAnalyze,
}

// RequestTypes returns the types of requests that the service answers.
func RequestTypes() []string {
	return []string{"analyze_job", "job_utilization", "process_canary_probe", "process_job", "usage", "variety_id/auto",
		"variety_id/manual"}
}

// Handle answers one request, which is a JSON object. The answer is one line of at most [MaxAnswer]
// bytes.
func (s *Service) Handle(now hpc.Time, text []byte) []byte {
	answer := s.Answer(now, text, "")
	line, err := json.Marshal(answer)
	if err != nil || len(line)+1 > MaxAnswer {
		// cannot fail: all values are strings
		line, _ = json.Marshal(Answer{ReqID: answer.ReqID, Status: StatusError, Error: "the answer is too long"})
	}
	return append(line, '\n')
}

// Answer answers one request. kind replaces the request's type, unless it is empty.
func (s *Service) Answer(now hpc.Time, text []byte, kind string) (a Answer) {
	a = Answer{ReqID: json.RawMessage(`"error"`), Status: StatusError}
	fail := func(err error) Answer {
		return Answer{ReqID: a.ReqID, Status: StatusError, Error: cut(err.Error())}
	}
	var req request
	if !utf8.Valid(text) || json.Unmarshal(text, &req) != nil || req == nil {
		return fail(errors.New("JSON decode error"))
	}
	// A field with the value null counts as missing. Otherwise it would be read as an empty text.
	maps.DeleteFunc(req, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	if id := bytes.TrimSpace(req["req_id"]); len(id) > 0 {
		if len(id) > maxReqID || !json.Valid(id) || bytes.IndexByte([]byte("{[tf"), id[0]) >= 0 {
			return fail(fmt.Errorf("req_id: not a string or a number of at most %d bytes", maxReqID))
		}
		a.ReqID = bytes.Clone(id)
	}
	if kind == "" {
		var err error
		if kind, err = req.text("type", maxName); err != nil {
			return fail(err)
		}
	}
	handler, known := handlers[kind]
	switch {
	case known:
		if err := handler(s, now, req, &a); err != nil {
			return fail(err)
		}
	case strings.HasPrefix(kind, "variety_id"):
		return fail(fmt.Errorf("%.60q: not an option of variety_id (want variety_id/manual or variety_id/auto)", kind))
	default:
		a.Status = StatusNotImplemented
	}
	return a
}

// cut shortens an error so that it fits into an answer.
func cut(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "")
}

// text returns a field that is a string or a number, as a text of at most maxLength bytes.
func (r request) text(name string, maxLength int) (string, error) {
	raw, found := r[name]
	if !found {
		return "", fmt.Errorf("%s not specified", name)
	}
	var s string
	var n json.Number
	if json.Unmarshal(raw, &s) != nil {
		if json.Unmarshal(raw, &n) != nil || n == "" {
			return "", fmt.Errorf("%s: not a string", name)
		}
		s = n.String()
	}
	if len(s) > maxLength {
		return "", fmt.Errorf("%s: %d bytes (want at most %d)", name, len(s), maxLength)
	}
	return strings.TrimSpace(s), nil
}

// class returns the field variety_id.
func (r request) class() (string, error) {
	id, err := r.text("variety_id", maxClassID)
	if err == nil && id == "" {
		err = errors.New("variety_id is empty")
	}
	return id, err
}

// number returns a field that is an integer.
func (r request) number(name string) (int64, error) {
	s, err := r.text(name, maxName)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %.40q: not an integer", name, s)
	}
	return n, nil
}

// jobID returns the field job_id, which must be a number of at least 1.
func (r request) jobID() (string, error) {
	n, err := r.number("job_id")
	if err == nil && n < 1 {
		err = fmt.Errorf("job_id: %d (want 1 or more)", n)
	}
	return strconv.FormatInt(n, 10), err
}

// maxInstant is the latest instant in requests, in seconds since 1970, that [hpc.Time] can hold.
const maxInstant = 9e9

// instant returns a field that contains an instant. It is in seconds since 1970, or a date and
// time in UTC in NumPy's format, such as 2024-03-05T12:00:00, optionally with an offset.
func (r request) instant(name string) (hpc.Time, error) {
	s, err := r.text(name, maxName)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < maxInstant {
		return hpc.Time(math.Round(n * float64(hpc.Second))), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 && t.Unix() < maxInstant {
			return hpc.Time(t.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%s: %.40q: not a time (want seconds since 1970, or 2024-03-05T12:00:00 in UTC)", name, s)
}

func (s *Service) handleUsage(now hpc.Time, _ request, a *Answer) error {
	a.Status, a.Response = StatusOK, map[string]string{"lustre": decimal(s.Usage(now))}
	return nil
}

func (s *Service) handleManual(_ hpc.Time, r request, a *Answer) error {
	name, err := r.text("variety_name", maxName)
	if err != nil {
		return err
	}
	a.Status, a.VarietyID = StatusOK, NamedClass(name)
	s.remember(a.VarietyID, name)
	return nil
}

// remember stores the name of a class in memory until the service has learned from a job of the
// class.
func (s *Service) remember(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) < s.config.MostClass {
		s.names[id] = name
	}
}

func (s *Service) handleAuto(_ hpc.Time, r request, a *Answer) error {
	if script := r["script_name"]; len(script) > s.config.MostScript {
		return fmt.Errorf("script_name: %d bytes (want at most %d)", len(script), s.config.MostScript)
	}
	raw, found := r["script_args"]
	if !found {
		return errors.New("script_args is not specified")
	}
	var list []*string
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("script_args: not an array of strings")
	}
	if len(list) == 0 {
		return errors.New("script_args is empty")
	}
	arguments := make([]string, len(list))
	for i, one := range list {
		if one == nil {
			return errors.New("script_args: not an array of strings")
		}
		arguments[i] = *one
	}
	a.Status, a.VarietyID = StatusOK, ClassOfArguments(arguments)
	return nil
}

func (s *Service) handleUtilization(_ hpc.Time, r request, a *Answer) error {
	class, err := r.class()
	if err != nil {
		return err
	}
	a.Status, a.Response = StatusOK, map[string]string{}
	if p, known := s.Predict(class); known {
		a.Response["time_limit"], a.Response["lustre"] = decimal(p.Minutes), decimal(p.Licenses)
	}
	return nil
}

// handleProcess accepts a finished job. Only the epilog of the Slurm-LDMS project's fork of Slurm can send the job's
// variety_id. Other clients may send variety_name instead, as in a request of type variety_id/manual.
func (s *Service) handleProcess(now hpc.Time, r request, a *Answer) (err error) {
	var job Job
	if job.ID, err = r.jobID(); err != nil {
		return err
	}
	name := ""
	if r["variety_name"] != nil {
		if name, err = r.text("variety_name", maxName); err != nil {
			return err
		}
	}
	if r["variety_name"] != nil && r["variety_id"] == nil {
		job.Name, job.Class = name, NamedClass(name)
	} else if job.Class, err = r.class(); err != nil {
		return err
	}
	if job.Class == "N/A" {
		return errors.New("variety_id: N/A means that the job has no class (the submission did not reach the service)")
	}
	if err := r.allocation(&job); err != nil {
		return err
	}
	a.Status = StatusACK
	return s.Finished(now, job)
}

// allocation reads the times and nodes of a job, if the request has them.
func (r request) allocation(job *Job) (err error) {
	given := 0
	for _, name := range []string{"job_start", "job_end", "job_nodes"} {
		if r[name] != nil {
			given++
		}
	}
	switch given {
	case 0:
		return nil
	case 1, 2:
		return errors.New("job_start, job_end, and job_nodes must be specified together")
	}
	if job.Start, err = r.instant("job_start"); err != nil {
		return err
	}
	if job.End, err = r.instant("job_end"); err != nil {
		return err
	}
	if job.End < job.Start {
		return fmt.Errorf("job_end: %v is before job_start", job.End)
	}
	nodes, err := r.text("job_nodes", 64<<10)
	if err != nil {
		return err
	}
	if job.Nodes, err = hostlist.ExpandAtMost(nodes, maxNodes); err != nil {
		return fmt.Errorf("job_nodes: %w", err)
	}
	if len(job.Nodes) == 0 {
		return errors.New("job_nodes is empty")
	}
	return nil
}

func (s *Service) handleProbe(now hpc.Time, r request, a *Answer) (err error) {
	var p Probe
	if p.Start, err = r.instant("start_time"); err != nil {
		return err
	}
	if p.End, err = r.instant("end_time"); err != nil {
		return err
	}
	if p.OST, err = r.number("OST"); err != nil {
		return err
	}
	text, err := r.text("duration", maxName)
	if err != nil {
		return err
	}
	p.Duration, err = strconv.ParseFloat(text, 64)
	if err != nil || !(p.Duration >= 0 && p.Duration <= math.MaxFloat32) {
		return fmt.Errorf("duration: %.40q: not a number of seconds", text)
	}
	if p.End < p.Start {
		return fmt.Errorf("end_time: %v is before start_time", p.End)
	}
	a.Status = StatusACK
	return s.Probe(now, p)
}

func (s *Service) handleAnalyze(_ hpc.Time, r request, a *Answer) (err error) {
	job := Job{}
	if job.ID, err = r.jobID(); err != nil {
		return err
	}
	if err := r.allocation(&job); err != nil {
		return err
	}
	s.advancing.Lock()
	use, found := s.use(job)
	s.advancing.Unlock()
	if !found {
		return fmt.Errorf("no data for the job %s", job.ID)
	}
	a.Status, a.JobID = StatusOK, job.ID
	a.StartTime, a.EndTime, a.Duration = fraction(use.Start.Seconds()), fraction(use.End.Seconds()),
		fraction(use.RunTime.Seconds())
	if mean, number := s.Probes(use.Start, use.End); number > 0 {
		a.Canary = fraction(mean)
	}
	a.Lustre = &LustreUse{decimal(s.licenses(use.Mean)), decimal(s.licenses(math.Sqrt(use.Variance)))}
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func fraction(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Refusal is the answer to a request that cannot be read.
func Refusal(reason string) []byte {
	// cannot fail: all values are strings
	line, _ := json.Marshal(Answer{ReqID: json.RawMessage(`"error"`), Status: StatusError, Error: cut(reason)})
	return append(line, '\n')
}
