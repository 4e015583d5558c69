package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestContinued: later records replace earlier records of the same jobs. A name with line breaks
// stays in its record.
func TestContinued(t *testing.T) {
	const header = "JobID|JobIDRaw|JobName\n"
	earlier := header + "1|1|a\n2_1|3|b\nc|x\n4|4|running\n"
	later := header + "4|4|ended\n5|5|new\n"
	want := header + "1|1|a\n2_1|3|b\nc|x\n4|4|ended\n5|5|new\n"
	if got := continued(earlier, later); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := continued(later, header); got != later {
		t.Errorf("got %q, want %q", got, later)
	}
}

// TestEarlier: after an earlier capture, sacct is asked only for the time since then, and once a
// day for the whole history.
func TestEarlier(t *testing.T) {
	now := time.Date(2024, 3, 6, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		read, at time.Duration // times before now
		since    time.Duration
		missing  string
	}{
		"ten minutes ago": {read: 5 * time.Hour, at: 10 * time.Minute, since: 25 * time.Minute},
		"a day ago":       {read: 24 * time.Hour, at: 10 * time.Minute, since: 48 * time.Hour},
		"no history":      {read: time.Hour, at: 10 * time.Minute, since: 48 * time.Hour, missing: historyFile},
		"no index":        {read: time.Hour, at: 10 * time.Minute, since: 48 * time.Hour, missing: indexFile},
	} {
		dir := write(t, newer, map[string]string{
			indexFile: `{"rmreplay_capture":1,"at":"` + now.Add(-tt.at).Format(time.RFC3339) + `","history_read":"` +
				now.Add(-tt.read).Format(time.RFC3339) + `","time_zone":"UTC"}`,
			historyFile: "JobID|JobIDRaw\n1|1\n",
		})
		if tt.missing != "" {
			if err := os.Remove(filepath.Join(dir, tt.missing)); err != nil {
				t.Fatal(err)
			}
		}
		c := capturing{opts: Options{History: 48 * time.Hour, Earlier: dir, Now: now}}
		since := now.Sub(c.since())
		whole := tt.since == 48*time.Hour
		if since != tt.since || (c.earlier == "") != whole || c.made.History.Equal(now) != whole {
			t.Errorf("%s: since %v before now, earlier %q, read %s", name, since, c.earlier, c.made.History)
		}
	}
}

func TestPrivate(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "PrivateData             = none\n": false, "PrivateData             = accounts,jobs,usage\n": true, "PrivateData = reservations\n": false,
	} {
		if got, err := Private(write(t, newer, map[string]string{configFile: text})); got != want || err != nil {
			t.Errorf("%q: %t, %v", strings.TrimSpace(text), got, err)
		}
	}
}
