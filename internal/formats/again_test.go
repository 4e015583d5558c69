package formats

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// A workload that is written in any format is read again with the same jobs, times and sizes,
// whatever the file's name.
func TestEveryFormatIsRead(t *testing.T) {
	epoch := hpc.Unix(1_709_600_000)
	w := &workload.Workload{Source: "example", Epoch: epoch, MachineProcessors: 64}
	for i := range 20 {
		submit := epoch.Add(time.Duration(i) * time.Minute)
		start := submit.Add(time.Duration(i*i) * time.Second)
		run := time.Duration(60+i) * time.Second
		w.Jobs.Append(&hpc.Job{ID: string(rune('a' + i)), Submit: submit, Behaviour: hpc.Behaviour{RunTime: run},
			Request:  hpc.Request{Name: "job", User: "ada", Account: "physics", Partition: "batch", Tasks: 1 + i%8, TimeLimit: time.Hour},
			Recorded: &hpc.Recorded{Eligible: submit, Start: start, End: start.Add(run), State: hpc.Completed, Processors: 1 + i%8}})
	}
	for _, format := range Names() {
		for _, name := range []string{"x." + format, "x.txt", "plain"} {
			path := filepath.Join(t.TempDir(), name)
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Write(f, w, format); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(path)
			if err != nil || again.Jobs.Len() != w.Jobs.Len() {
				t.Errorf("%s as %s: %v", format, name, err)
				continue
			}
			for i, job := range again.Jobs.All() {
				want := w.Jobs.At(i)
				since := job.Submit.Sub(again.Jobs.Submit(0)) - want.Submit.Sub(w.Jobs.Submit(0))
				if math.Abs(since.Seconds()) > 0.5 || job.RunTime != want.RunTime || workload.CPUs(&job.Request) != want.Tasks ||
					job.TimeLimit != want.TimeLimit {
					t.Errorf("%s: job %d is %+v, want %+v", format, i, job, want)
				}
			}
		}
	}
}

// TestMachineSurvives writes machines of several sizes in each format. The workload that is read
// again has the same size, or the conversion lists the loss. The header's comments about another
// size are replaced.
func TestMachineSurvives(t *testing.T) {
	for _, header := range [][]string{nil, {" Computer: x"}, {" MaxNodes: 4", " MaxProcs: 64 (48, 16)"}, {" MaxNodes: 8 (batch)", " MaxProcs: 128"}} {
		for _, size := range [][2]int{{0, 64}, {4, 0}, {4, 64}} {
			for _, format := range Names() {
				t.Run(fmt.Sprint(format, size, header), func(t *testing.T) {
					job := hpc.Job{ID: "1", Submit: workload.DefaultEpoch, Request: hpc.Request{User: "ada", Tasks: 1, TimeLimit: time.Hour},
						Behaviour: hpc.Behaviour{RunTime: time.Minute}}
					w := &workload.Workload{Epoch: workload.DefaultEpoch, MachineNodes: size[0], MachineProcessors: size[1], Header: header,
						Jobs: workload.JobsOf(&job)}
					again, losses := written(t, w, format)
					same := again.MachineNodes == size[0] && again.MachineProcessors == size[1]
					if listed := losses["size of the machine"] == 1; same == listed {
						t.Errorf("the machine has %d nodes and %d processors, losses %v", again.MachineNodes, again.MachineProcessors, losses)
					}
				})
			}
		}
	}
}

// TestEndedEarly writes jobs that were ended before their run time was over, for example by a cancellation. The run
// time in sacct's format and in SWF is the time from start to end.
func TestEndedEarly(t *testing.T) {
	epoch := workload.DefaultEpoch
	early := hpc.Job{ID: "1", Submit: epoch, Request: hpc.Request{User: "ada", Tasks: 1, TimeLimit: 4 * time.Hour},
		Behaviour: hpc.Behaviour{RunTime: 3 * time.Hour, CancelAfter: 20 * time.Minute},
		Recorded:  &hpc.Recorded{Start: epoch.Add(time.Minute), End: epoch.Add(20 * time.Minute), State: hpc.Cancelled, Processors: 1}}
	array := early
	array.ID, array.Array, array.TaskRunTimes = "2", "1-2", map[int]time.Duration{1: 3 * time.Hour, 2: 5 * time.Minute}
	w := &workload.Workload{Epoch: epoch, Jobs: workload.JobsOf(&early, &array)}
	want := map[string]int{"19m0s": 2, "5m0s": 1}
	for _, format := range []string{"sacct", "swf"} {
		again, _ := written(t, w, format)
		ran := map[string]int{}
		for _, job := range again.Jobs.All() {
			for _, task := range workload.TasksOf(job) {
				ran[job.RunTimeOf(task).String()]++
			}
		}
		if !maps.Equal(ran, want) {
			t.Errorf("%s: the jobs ran %v, want %v", format, ran, want)
		}
	}
}
