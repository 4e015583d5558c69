package jobjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/packed"
)

// Append appends a job as one compact JSON object. A trace and a run record have such an object
// for each job, and most fields of a job are zero. Append visits only the fields that are set. It
// is therefore ten times as fast as a library that visits all fields.
func Append(b []byte, job *hpc.Job) []byte {
	return append(AppendFields(append(b, '{'), job), '}')
}

// AppendFields is [Append] without the braces, for an object that has further fields.
func AppendFields(b []byte, job *hpc.Job) []byte {
	b = AppendString(append(b, `"id":`...), job.ID)
	b = appendInstant(b, `,"submit":`, job.Submit)
	b = appendRequest(b, &job.Request)
	b = Seconds(job.RunTime).append(append(b, `,"run_time_s":`...))
	if job.ExitCode != 0 {
		b = strconv.AppendInt(append(b, `,"exit_code":`...), int64(job.ExitCode), 10)
	}
	if job.CancelAfter != 0 {
		b = Seconds(job.CancelAfter).append(append(b, `,"cancel_after_s":`...))
	}
	b = appendInstant(b, `,"end_at":`, job.EndAt)
	b = appendTasks(b, `,"task_run_times_s":`, job.TaskRunTimes,
		func(b []byte, d time.Duration) []byte { return Seconds(d).append(b) })
	b = appendTasks(b, `,"task_exit_codes":`, job.TaskExitCodes,
		func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) })
	b = appendPhases(b, job.IO)
	if job.Recorded != nil {
		b = appendRecorded(append(b, `,"recorded":{`...), job.Recorded)
	}
	return appendText(b, `,"made":`, job.Made)
}

// requestLabels are the fields of hpc.Request as they are written: `,"name":`.
var requestLabels = func() []string {
	var labels []string
	for _, f := range requestFields {
		labels = append(labels, `,"`+f.Name+`":`)
	}
	return labels
}()

var (
	setFields    = packed.NewFields[hpc.Request]()
	durationType = reflect.TypeFor[time.Duration]()
)

// appendRequest writes the fields that are set. The durations follow the others.
func appendRequest(b []byte, request *hpc.Request) []byte {
	var set, durations [16]int
	late := durations[:0]
	value := reflect.ValueOf(request).Elem()
	for _, i := range setFields.AppendSet(set[:0], request) {
		v := value.Field(i)
		if v.Type() == durationType {
			late = append(late, i)
			continue
		}
		b = append(b, requestLabels[i]...)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.String:
			b = AppendString(b, v.String())
		case reflect.Bool:
			b = strconv.AppendBool(b, v.Bool())
		case reflect.Uint32:
			b = strconv.AppendUint(b, v.Uint(), 10)
		default:
			b = strconv.AppendInt(b, v.Int(), 10)
		}
	}
	for _, i := range late {
		b = Seconds(value.Field(i).Int()).append(append(b, requestLabels[i]...))
	}
	return b
}

func appendPhases(b []byte, phases []hpc.Phase) []byte {
	if len(phases) == 0 {
		return b
	}
	b = append(b, `,"io":[`...)
	for i, p := range phases {
		if i > 0 {
			b = append(b, ',')
		}
		b = Seconds(p.Duration).append(append(b, `{"duration_s":`...))
		if p.FileSystem != "" {
			b = AppendString(append(b, `,"file_system":`...), p.FileSystem)
		}
		if p.Bytes != 0 {
			b = strconv.AppendInt(append(b, `,"bytes":`...), p.Bytes, 10)
		}
		if p.Rate != 0 {
			b = strconv.AppendInt(append(b, `,"bytes_per_s":`...), p.Rate, 10)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendRecorded(b []byte, r *hpc.Recorded) []byte {
	start := len(b)
	b = appendInstant(b, `,"eligible":`, r.Eligible)
	b = appendInstant(b, `,"start":`, r.Start)
	b = appendInstant(b, `,"end":`, r.End)
	b = appendText(b, `,"state":`, string(r.State))
	b = appendText(b, `,"nodes":`, r.Nodes)
	if r.Processors != 0 {
		b = strconv.AppendInt(append(b, `,"processors":`...), int64(r.Processors), 10)
	}
	if r.Priority != 0 {
		b = strconv.AppendUint(append(b, `,"priority":`...), uint64(r.Priority), 10)
	}
	if r.TimeLimit != 0 {
		b = Seconds(r.TimeLimit).append(append(b, `,"time_limit_s":`...))
	}
	for _, n := range [...]struct {
		label string
		value int64
	}{{`,"used_memory_kib":`, r.UsedMemory}, {`,"moved_bytes":`, r.MovedBytes}} {
		if n.value != 0 {
			b = strconv.AppendInt(append(b, n.label...), n.value, 10)
		}
	}
	if r.BeginMade {
		b = append(b, `,"begin_made":true`...)
	}
	at := func(b []byte, t hpc.Time) []byte { return InstantOf(t).append(b) }
	number := func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
	b = appendTasks(b, `,"task_starts":`, r.TaskStarts, at)
	b = appendTasks(b, `,"task_ends":`, r.TaskEnds, at)
	b = appendTasks(b, `,"task_nodes":`, r.TaskNodes, AppendString)
	b = appendTasks(b, `,"task_states":`, r.TaskStates, func(b []byte, s hpc.State) []byte {
		return AppendString(b, string(s))
	})
	b = appendTasks(b, `,"task_used_memory_kib":`, r.TaskUsedMemory, number)
	b = appendTasks(b, `,"task_moved_bytes":`, r.TaskMovedBytes, number)
	b = appendTasks(b, `,"task_eligible":`, r.TaskEligible, at)
	b = appendTasks(b, `,"task_processors":`, r.TaskProcessors, func(b []byte, n int) []byte {
		return number(b, int64(n))
	})
	b = appendTasks(b, `,"task_priorities":`, r.TaskPriorities, func(b []byte, n uint32) []byte {
		return number(b, int64(n))
	})
	b = appendInterruptions(b, &r.Interruptions)
	b = appendTasks(b, `,"task_interruptions":`, r.TaskInterruptions, func(b []byte, i hpc.Interruptions) []byte {
		b = append(b, '{')
		return closeObject(appendInterruptions(b, &i), len(b))
	})
	return closeObject(b, start)
}

// closeObject ends an object whose fields begin at start. The first field has no comma before it.
func closeObject(b []byte, start int) []byte {
	if len(b) > start {
		b = slices.Delete(b, start, start+1)
	}
	return append(b, '}')
}

func appendInterruptions(b []byte, i *hpc.Interruptions) []byte {
	b = appendList(b, `,"lost_runs":`, i.LostRuns, func(b []byte, r *hpc.LostRun) []byte {
		b = appendInstant(b, `,"start":`, r.Start)
		b = appendInstant(b, `,"end":`, r.End)
		b = appendInstant(b, `,"eligible_again":`, r.EligibleAgain)
		b = appendText(b, `,"nodes":`, r.Nodes)
		if r.Processors != 0 {
			b = strconv.AppendInt(append(b, `,"processors":`...), int64(r.Processors), 10)
		}
		b = appendText(b, `,"cause":`, string(r.Cause))
		return appendText(b, `,"preempted_by":`, r.PreemptedBy)
	})
	b = appendList(b, `,"suspensions":`, i.Suspensions, func(b []byte, s *hpc.Suspension) []byte {
		b = appendInstant(b, `,"from":`, s.From)
		return appendInstant(b, `,"to":`, s.To)
	})
	return appendText(b, `,"preempted_by":`, i.PreemptedBy)
}

// appendList writes a list of objects. The function fields appends the fields of one object, each
// with a comma before it.
func appendList[V any](b []byte, label string, list []V, fields func([]byte, *V) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(b, label...), '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = closeObject(fields(b, &list[i]), len(b))
	}
	return append(b, ']')
}

func appendText(b []byte, label, text string) []byte {
	if text == "" {
		return b
	}
	return AppendString(append(b, label...), text)
}

func appendInstant(b []byte, label string, t hpc.Time) []byte {
	if t == 0 {
		return b
	}
	return InstantOf(t).append(append(b, label...))
}

// appendTasks writes a map whose keys are tasks, in the order of the keys' text.
func appendTasks[V any](b []byte, label string, tasks map[int]V, value func([]byte, V) []byte) []byte {
	if len(tasks) == 0 {
		return b
	}
	b = append(append(b, label...), '{')
	keys := slices.SortedFunc(maps.Keys(tasks), func(x, y int) int {
		return strings.Compare(strconv.Itoa(x),
			strconv.Itoa(y))
	})
	for i, task := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '"'), int64(task), 10)
		b = value(append(b, `":`...), tasks[task])
	}
	return append(b, '}')
}

// AppendString writes a string as encoding/json does without escapes for HTML.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return appendEscaped(b, s)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

func appendEscaped(b []byte, s string) []byte {
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // every string can be written
	}
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}
