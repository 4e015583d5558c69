package chart

import (
	"bytes"
	"os"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func TestWrite(t *testing.T) {
	w := &workload.Workload{}
	for i := range 3 {
		w.Jobs.Append(&hpc.Job{
			ID: string(rune('a' + i)), Submit: workload.DefaultEpoch.Add(time.Duration(i) * time.Hour),
			Request:   hpc.Request{Tasks: 1 << i, TimeLimit: time.Hour},
			Behaviour: hpc.Behaviour{RunTime: time.Duration(i) * 10 * time.Minute},
		})
	}
	for format, magic := range map[string]string{"svg": "<?xml", "png": "\x89PNG"} {
		files, err := Write(t.TempDir(), format, w, workload.NewInfo(w), time.UTC)
		if err != nil || len(files) != 4 {
			t.Fatalf("%s: %v, %v", format, files, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil || !bytes.HasPrefix(text, []byte(magic)) || len(text) < 500 {
				t.Errorf("%s: %d bytes, %v", f, len(text), err)
			}
		}
	}
	// A single job without a time limit leaves one chart without data: Write draws the other three.
	w.Jobs = w.Jobs.First(1)
	w.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 0 })
	if files, err := Write(t.TempDir(), "svg", w, workload.NewInfo(w), time.UTC); err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
	if files, err := Write(t.TempDir(), "svg", &workload.Workload{}, workload.NewInfo(&workload.Workload{}), time.UTC); err != nil || len(files) != 1 {
		t.Errorf("no jobs: %v, %v", files, err)
	}
	if _, err := Write(t.TempDir(), "bmp", w, workload.NewInfo(w), time.UTC); err == nil {
		t.Error("bmp was drawn")
	}
}
