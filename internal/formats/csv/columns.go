package csv

import (
	"errors"
	"reflect"
	"strconv"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/slurmspec"
)

// column is a column of the table. Its cells have the values of one field of the jobs. An empty
// cell means that the field is not set.
type column struct {
	name string
	// always is true if Write writes the column even if no job sets the field.
	always bool
	// get returns the text of a cell.
	get func(job *hpc.Job) string
	// set reads a cell that is not empty. Its error describes a correct text.
	set func(job *hpc.Job, text string, zone *time.Location) error
}

// columns are all columns of jobs in the order in which they are written.
var columns = func() []column {
	list := []column{
		{"id", true, func(job *hpc.Job) string { return job.ID }, func(job *hpc.Job, text string, _ *time.Location) error {
			job.ID = text
			return nil
		}},
		instantColumn("submit", func(job *hpc.Job) *hpc.Time { return &job.Submit }),
	}
	for _, f := range jobjson.RequestFields() {
		list = append(list, requestColumn(f))
	}
	list = append(list,
		durationColumn("run_time_s", func(job *hpc.Job) *time.Duration { return &job.RunTime }, true),
		intColumn("exit_code", func(job *hpc.Job) *int { return &job.ExitCode }),
		durationColumn("cancel_after_s", func(job *hpc.Job) *time.Duration { return &job.CancelAfter }, false),
		instantColumn("end_at", func(job *hpc.Job) *hpc.Time { return &job.EndAt }),
		instantColumn("recorded_eligible", func(job *hpc.Job) *hpc.Time { return &recorded(job).Eligible }),
		instantColumn("recorded_start", func(job *hpc.Job) *hpc.Time { return &recorded(job).Start }),
		instantColumn("recorded_end", func(job *hpc.Job) *hpc.Time { return &recorded(job).End }),
		stateColumn(),
		stringColumn("recorded_nodes", func(job *hpc.Job) *string { return &recorded(job).Nodes }),
		intColumn("recorded_processors", func(job *hpc.Job) *int { return &recorded(job).Processors }),
		priorityColumn(),
		durationColumn("recorded_time_limit_s", func(job *hpc.Job) *time.Duration { return &recorded(job).TimeLimit }, false),
		longColumn("recorded_used_memory_kib", func(job *hpc.Job) *int64 { return &recorded(job).UsedMemory }),
		longColumn("recorded_moved_bytes", func(job *hpc.Job) *int64 { return &recorded(job).MovedBytes }),
	)
	for i := range list {
		list[i].always = written[list[i].name]
	}
	return list
}()

// written are the columns that every table has, so that people find the usual fields.
var written = map[string]bool{
	"id": true, "submit": true, "user": true, "account": true, "partition": true, "time_limit_s": true,
	"min_nodes": true, "tasks": true, "cpus_per_task": true, "run_time_s": true,
	"recorded_start": true, "recorded_end": true, "recorded_state": true,
}

// recorded returns the job's recorded fate. If the job has no recorded fate, recorded sets an
// empty fate.
func recorded(job *hpc.Job) *hpc.Recorded {
	if job.Recorded == nil {
		job.Recorded = &hpc.Recorded{}
	}
	return job.Recorded
}

var (
	errNotTime     = errors.New("not a time (want 2024-03-01T08:00:00Z, or seconds since 1970)")
	errNotDuration = errors.New("not a duration (want seconds or unlimited)")
	errNotNumber   = errors.New("not a whole number")
	errNotBool     = errors.New("not a truth value (want true or false)")
)

func instantColumn(name string, field func(*hpc.Job) *hpc.Time) column {
	return column{name: name, get: func(job *hpc.Job) string {
		if t := *field(job); t != 0 {
			return t.Std().Format(time.RFC3339Nano)
		}
		return ""
	}, set: func(job *hpc.Job, text string, zone *time.Location) error {
		at, err := slurmspec.ParseInstant(text, zone)
		if err != nil {
			since, notSeconds := jobjson.ParseSeconds(text)
			if at = hpc.Time(since); notSeconds != nil || at <= 0 {
				return errNotTime
			}
		}
		*field(job) = at
		return nil
	}}
}

// durationColumn is a column with a duration. The parameter zero says that a duration of 0 is a
// valid value; otherwise 0 means that the field is not set.
func durationColumn(name string, field func(*hpc.Job) *time.Duration, zero bool) column {
	return column{name: name, get: func(job *hpc.Job) string { return durationText(*field(job), zero) },
		set: func(job *hpc.Job, text string, _ *time.Location) (err error) {
			*field(job), err = parseDuration(text)
			return err
		}}
}

func durationText(d time.Duration, zero bool) string {
	switch {
	case d == hpc.Unlimited:
		return "unlimited"
	case d == 0 && !zero:
		return ""
	}
	return string(jobjson.AppendSeconds(nil, d))
}

func parseDuration(text string) (time.Duration, error) {
	if text == "unlimited" {
		return hpc.Unlimited, nil
	}
	d, err := jobjson.ParseSeconds(text)
	if err != nil {
		return 0, errNotDuration
	}
	return d, nil
}

func intColumn(name string, field func(*hpc.Job) *int) column {
	return column{name: name, get: func(job *hpc.Job) string { return intText(int64(*field(job))) },
		set: func(job *hpc.Job, text string, _ *time.Location) error {
			n, err := strconv.Atoi(text)
			if err != nil {
				return errNotNumber
			}
			*field(job) = n
			return nil
		}}
}

func longColumn(name string, field func(*hpc.Job) *int64) column {
	return column{name: name, get: func(job *hpc.Job) string { return intText(*field(job)) },
		set: func(job *hpc.Job, text string, _ *time.Location) error {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return errNotNumber
			}
			*field(job) = n
			return nil
		}}
}

func intText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func stringColumn(name string, field func(*hpc.Job) *string) column {
	return column{name: name, get: func(job *hpc.Job) string { return *field(job) },
		set: func(job *hpc.Job, text string, _ *time.Location) error {
			*field(job) = text
			return nil
		}}
}

func stateColumn() column {
	return column{name: "recorded_state", get: func(job *hpc.Job) string { return string(recorded(job).State) },
		set: func(job *hpc.Job, text string, _ *time.Location) error {
			recorded(job).State = slurmspec.ParseJobState(text)
			return nil
		}}
}

func priorityColumn() column {
	return column{name: "recorded_priority",
		get: func(job *hpc.Job) string { return intText(int64(recorded(job).Priority)) },
		set: func(job *hpc.Job, text string, _ *time.Location) error {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return errNotNumber
			}
			recorded(job).Priority = uint32(n)
			return nil
		}}
}

// requestColumn returns the column of a field of hpc.Request. The type of the field decides how cells are read and
// written.
func requestColumn(f jobjson.Field) column {
	field := func(job *hpc.Job) reflect.Value { return reflect.ValueOf(&job.Request).Elem().Field(f.Index) }
	return column{name: f.Name, get: func(job *hpc.Job) string { return valueText(field(job)) },
		set: func(job *hpc.Job, text string, _ *time.Location) error { return setValue(field(job), text) }}
}

// valueText returns the text of a value, or "" for a value that is not set.
func valueText(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case uint32:
		return strconv.FormatUint(uint64(x), 10)
	case time.Duration:
		return durationText(x, false)
	}
	return strconv.FormatInt(v.Int(), 10)
}

// setValue reads a text into a value by the type of the value.
func setValue(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch x := v.Addr().Interface().(type) {
	case *string:
		*x = text
		return nil
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errNotBool
		}
		*x = b
		return nil
	case *uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return errNotNumber
		}
		*x = uint32(n)
		return nil
	case *time.Duration:
		d, err := parseDuration(text)
		*x = d
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v.OverflowInt(n) {
		return errNotNumber
	}
	v.SetInt(n)
	return nil
}
