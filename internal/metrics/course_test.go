package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/run"
)

// TestCourse has a job of four processors that runs from 0 to 100, and a job of two processors that
// is submitted at 0 and runs from 100 to 200.
func TestCourse(t *testing.T) {
	rows := []run.Row{job(0, 0, 100, 1, 4), job(0, 100, 200, 1, 2)}
	c := NewCourse(rows, Options{Processors: 8}, 4)
	if c == nil || c.From != at(0) || c.To != at(200) {
		t.Fatalf("%+v", c)
	}
	for i, want := range []struct{ used, queued float64 }{{4, 1}, {4, 1}, {2, 0}, {2, 0}} {
		if c.Used[i] != want.used || c.Queued[i] != want.queued {
			t.Errorf("column %d: %v used, %v queued, want %+v", i, c.Used[i], c.Queued[i], want)
		}
	}
	if c.Waits[0] != 50 || !math.IsNaN(c.Waits[1]) {
		t.Errorf("waits %v", c.Waits)
	}
	var b bytes.Buffer
	c.render(&b, time.UTC)
	for _, want := range []string{"use          ▄▄▂▂  at most 50.0%\n", "queue        ██    at most 1 job\n", "mean wait    █     at most 00:00:50\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if NewCourse(nil, Options{}, 4) != nil || NewCourse(rows[:1], Options{}, 0) != nil {
		t.Error("a course of nothing")
	}
}
