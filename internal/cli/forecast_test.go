package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// A change may ask for more nodes than the job has tasks. Like sbatch, a forecast lowers the number of nodes to the
// number of tasks. It has a note about this.
func TestForecastFewerNodes(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"work.jsonl": trace(
		`{"type":"job","id":"a","submit":0,"user":"ada","run_time_s":600,"time_limit_s":900,"tasks":4}`,
		`{"type":"job","id":"b","submit":300,"user":"ada","run_time_s":600,"time_limit_s":900,"tasks":4}`)})
	output := filepath.Join(dir, "run")
	invoke(t, "simulate", filepath.Join(dir, "work.jsonl"), "--processors", "4", "-o", output, "-q")
	text := string(invoke(t, "forecast", "--freeze", output, "--from-start", "--at", "2024-03-05T00:02:00", "--arrivals", "none",
		"--realizations", "1", "--submit", "-N 1 -n 2 -t 10", "--what-if", "nodes=500"))
	if !strings.Contains(text, "note: nodes=500: more nodes than tasks, so the job asks for 2 (as sbatch does)\n") {
		t.Error(text)
	}
}
