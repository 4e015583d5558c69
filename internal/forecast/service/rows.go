package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"rmreplay/internal/forecast"
	"rmreplay/internal/slurmspec"
)

// keyOf returns the name of a job of a report.
func keyOf(w *forecast.Waiting) forecast.Key {
	key := forecast.Key{Job: w.Job, Task: -1}
	if w.Task != nil {
		key.Task = *w.Task
	}
	return key
}

// canonicalKey returns a name for a job that is the same in every capture. scontrol first shows a task of an array as a
// part of the array. scontrol shows the task as a separate job once the task runs or is the array's last task.
func canonicalKey(key forecast.Key) forecast.Key {
	id, err := slurmspec.ParseJobID(key.Job)
	if key.Task >= 0 || err != nil || id.Task < 0 {
		return key
	}
	return forecast.Key{Job: fmt.Sprint(id.Number), Task: id.Task}
}

func canonical(w *forecast.Waiting) {
	if key := canonicalKey(keyOf(w)); key.Task >= 0 {
		w.Job, w.Task = key.Job, &key.Task
	}
}

// name returns the name of a job as Slurm's commands write it.
func name(key forecast.Key) string {
	if key.Task >= 0 {
		return fmt.Sprintf("%s_%d", key.Job, key.Task)
	}
	return key.Job
}

// rows indexes the jobs of a forecast, to answer questions.
type rows struct {
	list    []row // sorted by the median of the start
	pending map[forecast.Key]int
	running map[forecast.Key]int // the index in Round.Started
	tasks   map[string][]forecast.Key
}

// row is a job that waits.
type row struct {
	*forecast.Waiting
	key   forecast.Key
	ahead Ahead
}

// Ahead are the jobs of the same partition that are expected to start earlier.
type Ahead struct {
	Jobs int `json:"jobs"`
	// NodeHours is the sum of nodes x time limit of these jobs: they can use no more. Jobs without a
	// limit do not count.
	NodeHours float64 `json:"node_hours"`
}

func newRows(r *Round) *rows {
	rs := &rows{pending: map[forecast.Key]int{}, running: map[forecast.Key]int{}, tasks: map[string][]forecast.Key{}}
	for i := range r.Report.Jobs {
		w := &r.Report.Jobs[i]
		rs.list = append(rs.list, row{Waiting: w, key: keyOf(w)})
	}
	slices.SortStableFunc(rs.list, func(a, b row) int {
		x, y := judged(r.Report, a.Waiting), judged(r.Report, b.Waiting)
		return cmp.Or(cmp.Compare(x.P50, y.P50), cmp.Compare(x.P10, y.P10))
	})
	sums := map[string]Ahead{}
	for i := range rs.list {
		one := &rs.list[i]
		rs.pending[one.key] = i
		sum := sums[one.Partition]
		one.ahead = sum
		if one.P50 != nil {
			sum.Jobs++
			sum.NodeHours += float64(max(one.Nodes, 1)) * one.Limit / time.Hour.Seconds()
			sums[one.Partition] = sum
		}
		if one.key.Task >= 0 {
			rs.tasks[one.key.Job] = append(rs.tasks[one.key.Job], one.key)
		}
	}
	for i := range r.Started {
		if one := &r.Started[i]; one.Running {
			key := forecast.Key{Job: one.Job, Task: one.Task}
			rs.running[key] = i
			if key.Task >= 0 {
				rs.tasks[key.Job] = append(rs.tasks[key.Job], key)
			}
		}
	}
	return rs
}

// maxUnpacked is the maximum size of an unpacked record, in bytes.
const maxUnpacked = 1 << 30

// pack writes a value as compressed JSON.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		_ = w.Close() // the result is not used
		return nil, err
	}
	err = w.Close() // closing writes the rest
	return b.Bytes(), err
}

func unpack(text []byte, v any) error {
	r, err := zstd.NewReader(bytes.NewReader(text), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}
