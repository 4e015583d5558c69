package predictcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// writeModel trains a small model and writes it to a file.
func writeModel(t *testing.T, path string) {
	t.Helper()
	w := new(workload.Workload)
	for i := range 100 {
		j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9 + int64(i)*600)}
		j.User, j.Tasks, j.TimeLimit, j.RunTime = "ana", 1+i%4, time.Hour, time.Minute
		w.Jobs.Append(j)
	}
	c, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Train(t.Context(), c, model.TrainOptions{Kind: model.Linear})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(m.Write(f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lines is a writer that sends each line to a channel.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- strings.TrimSuffix(string(text), "\n")
	return len(text), nil
}

// TestServe starts the command, sends it the submission of a job, interrupts it and starts it again:
// the service still knows the job. It ignores an incomplete record at the end of the journal.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	path, journal, token := filepath.Join(dir, "m.model"), filepath.Join(dir, "events"), filepath.Join(dir, "token")
	writeModel(t, path)
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for start := range 2 {
		ctx, interrupt := context.WithCancel(t.Context())
		said := make(lines, 4)
		o := commands{Output: console.Output{Stderr: said}}
		ended := make(chan error, 1)
		go func() {
			ended <- o.serve(ctx, path, serveOptions{listen: "127.0.0.1:0", token: token, journal: journal})
		}()
		line := <-said
		if start == 1 {
			if !strings.Contains(line, "the last record is not complete (13 bytes, moved to") {
				t.Errorf("said %q", line)
			}
			line = <-said
		}
		_, address, found := strings.Cut(line, "http://")
		if !found {
			t.Fatalf("said %q", line)
		}
		body := get(t, "GET", "http://"+address+"/v1/model", "")
		if want := fmt.Sprintf(`"events":%d,"open_jobs":%d`, start, start); !strings.Contains(body, want) {
			t.Errorf("start %d: %s, want %s", start, body, want)
		}
		if start == 0 {
			body = get(t, "POST", "http://"+address+"/v1/events", `{"events":[{"event":"submit","id":"7","at":"2024-03-01T08:00:00Z","job":{"user":"ana","tasks":2,"time_limit_s":600}}]}`)
			if !strings.Contains(body, `"accepted":1`) || !strings.Contains(body, `"limit_s":600`) {
				t.Error(body)
			}
		}
		interrupt()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			t.Error("it still listens")
		}
		segments, _ := filepath.Glob(filepath.Join(journal, "*.segment"))
		f, err := os.OpenFile(segments[len(segments)-1], os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(`{"event":"sub`)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer s3cret")
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s %v", method, url, answer.StatusCode, text, err)
	}
	return string(text)
}
