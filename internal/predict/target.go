package predict

import (
	"fmt"
	"strings"

	"rmreplay/internal/hpc"
)

// Target is the quantity of a job that is predicted. The zero Target is [RunTime].
type Target string

// The targets. All values except those of RunTime come from the record, and not every log has them.
const (
	RunTime Target = "run-time" // from start to end, in seconds
	// Memory is the largest memory that the job had in use, in MiB for each of its processors.
	Memory Target = "memory"
	// IO is the data that the job reads and writes, in MiB. If this amount is not recorded, it is computed from the job's
	// I/O phases.
	IO Target = "io"
)

// Targets are all targets.
func Targets() []Target { return []Target{RunTime, Memory, IO} }

// ParseTarget reads the name of a target.
func ParseTarget(name string) (Target, error) {
	var known []string
	for _, t := range Targets() {
		if string(t) == name {
			return t, nil
		}
		known = append(known, string(t))
	}
	return "", fmt.Errorf("%q: not a target (want %s)", name, strings.Join(known, ", "))
}

// Measured reports whether values of the target come from the record instead of from starts and
// ends.
func (t Target) Measured() bool { return t == Memory || t == IO }

// Unit returns the unit of the target's values.
func (t Target) Unit() string {
	if t.Measured() {
		return "MiB"
	}
	return "s"
}

// What describes the target in words.
func (t Target) What() string {
	switch t {
	case Memory:
		return "memory for each processor"
	case IO:
		return "I/O volume"
	}
	return "run time"
}

// Asked returns the requested value in the target's unit: the time limit, or the memory for each processor. It returns
// 0 if the request has no value for the target. Jobs do not request I/O.
func (t Target) Asked(r *hpc.Request) float64 {
	switch {
	case t == IO:
		return 0
	case t != Memory:
		return Limit(r)
	case r.MemPerCPU > 0:
		return float64(r.MemPerCPU)
	case r.MemPerNode > 0:
		return float64(r.MemPerNode) * float64(max(r.MinNodes, 1)) / Processors(r)
	}
	return 0
}

// Limit returns the upper bound of the target's values, in the target's unit; 0 if there is no bound. Only run times
// have an upper bound, because not every system enforces requested memory.
func (t Target) Limit(r *hpc.Request) float64 {
	if t.Measured() {
		return 0
	}
	return Limit(r)
}

// Point returns the prediction of a single value. If it is above the limit, the limit replaces it.
func (t Target) Point(value float64, r *hpc.Request) Prediction {
	return Prediction{P10: value, P50: value, P90: value, Limit: t.Limit(r)}.Sound()
}

// Measurer is a [Predictor] of a measured target. [Play] calls Measure with a job's value, in the
// target's unit, before End. For a job without a known value, Play calls only End.
type Measurer interface {
	Measure(number int64, value float64)
}

// recorded returns the value of a measured target for a job or a task of an array, in the target's
// unit; 0 if the value is not known.
func (t Target) recorded(job *hpc.Job, record *hpc.Recorded) float64 {
	const mebi = 1 << 20
	switch {
	case t == Memory:
		return float64(record.UsedMemory) / 1024
	case t != IO:
		return 0
	case record.MovedBytes > 0:
		return float64(record.MovedBytes) / mebi
	}
	sum := 0.0
	systems := map[string]bool{"": true} // phases of computing have no file system
	for _, phase := range job.IO {
		if !systems[phase.FileSystem] {
			systems[phase.FileSystem] = true
			sum += job.Volume(phase.FileSystem, job.RunTime)
		}
	}
	return sum / mebi
}
