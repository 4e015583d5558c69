package cli

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
)

// TestExamplesOfHelp checks that the jobs, users, partitions and dates in the examples of all help texts exist in the
// workload of rmreplay workload generate example --seed 1, if the examples are about this workload.
func TestExamplesOfHelp(t *testing.T) {
	dir := t.TempDir()
	runHere(t, dir, 0, "workload", "generate", "example", "--seed", "1", "-o", "demo")
	w, err := formats.Open(filepath.Join(dir, "demo", "day.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string][]string{}
	last := w.Begin()
	for _, job := range w.Jobs.All() {
		last = max(last, job.Submit)
		for _, task := range hpc.TasksOf(job) {
			name := job.ID
			if task >= 0 {
				name += "_" + strconv.Itoa(task)
			}
			exist["job"] = append(exist["job"], name)
		}
		exist["user"], exist["partition"] = append(exist["user"], job.User), append(exist["partition"], job.Partition)
		exist["account"], exist["qos"] = append(exist["account"], job.Account), append(exist["qos"], job.QOS)
	}
	named := regexp.MustCompile(`(?:--|\b)(user|partition|account|qos)(?: |=| *[!=]= *"| in \[")(\w+)`)
	job, date := regexp.MustCompile(`\bd\d{4}(?:_\d+)?\b`), regexp.MustCompile(`\b20\d\d-\d\d-\d\dT[\d:]+`)
	found := 0
	check := func(line, kind, name string, ok bool) {
		if found++; !ok {
			t.Errorf("the example has no %s %s (want one that exists): %s", kind, name, line)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			if !strings.Contains(line, "demo/run") && !strings.Contains(line, "demo/day.jsonl") {
				continue
			}
			for _, name := range job.FindAllString(line, -1) {
				check(line, "job", name, slices.Contains(exist["job"], name))
			}
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				check(line, m[1], m[2], slices.Contains(exist[m[1]], m[2]))
			}
			for _, text := range date.FindAllString(line, -1) {
				at, err := flags.ParseInstant(text, time.UTC)
				check(line, "submission around", text, err == nil && at > w.Begin() && at < last)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(&globals{Output: console.Output{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}}))
	if found < 10 {
		t.Errorf("%d names in the examples (want 10 or more)", found)
	}
}
