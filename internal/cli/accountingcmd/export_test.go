package accountingcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
)

// If no job matches, an export names the text that no job has.
func TestExportOfNoJob(t *testing.T) {
	dir := t.TempDir()
	from, data := filepath.Join(dir, "day.sacct"), filepath.Join(dir, "data")
	text := "JobID|User|Cluster|Submit|Start|End|State|AllocCPUS|NNodes\n" +
		"7|ann|vale|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:03:00|COMPLETED|4|1\n"
	if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := work.Import(t.Context(), data, service.Records{Sources: []string{from}, From: "auto"}); err != nil {
		t.Fatal(err)
	}
	for start, says := range map[string]bool{"2024-03-01": false, "2024-03-02": true} {
		var out, messages bytes.Buffer
		c := commands{console.Output{Stdout: &out, Stderr: &messages}}.export()
		c.SetArgs([]string{data, "-o", filepath.Join(dir, start+".csv"), "--start", start})
		err := c.ExecuteContext(t.Context())
		if err != nil || strings.Contains(messages.String(), "rmreplay: no job matches\n") != says {
			t.Errorf("from %s: %v, stdout %s, stderr %s", start, err, &out, &messages)
		}
	}
}
