package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store/storetest"
)

// listening runs a server until the test ends. It returns the server's address and a function that
// returns its messages.
func listening(t *testing.T, opts service.Serve) (address string, said func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var text strings.Builder
	opts.Listen = []string{freeAddress(t)}
	ended := make(chan error, 1)
	go func() {
		ended <- service.New().Serve(ctx, opts, func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&text, format+"\n", args...)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	said = func() string { mu.Lock(); defer mu.Unlock(); return text.String() }
	for range 600 {
		if answer, err := http.Get("http://" + opts.Listen[0] + "/"); err == nil {
			answer.Body.Close()
			return opts.Listen[0], said
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the server does not answer: %s", said())
	return "", nil
}

// body requests a URL, checks the status, and returns the body.
func body(t *testing.T, url string, want int) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		t.Fatalf("%s: %s, want %d: %.500s, %v", url, answer.Status, want, text, err)
	}
	return string(text)
}

// toolLink matches a link below the details of a job.
var toolLink = regexp.MustCompile(`<a href="([^"]*jobs/[^"?]*)">(JSON|Page of its own)</a>`)

// TestClusterAsStore sends and imports jobs into a server whose store is a cluster, here another
// server of this program. Both must have each job once, and the first server's pages must show the
// cluster's jobs.
func TestClusterAsStore(t *testing.T) {
	cluster, _ := listening(t, service.Serve{Data: filepath.Join(t.TempDir(), "cluster")})
	for n := int64(1); n <= 20; n++ { // as the stock plugin does
		if status, answer, err := post(cluster, storetest.Entry(n).Document); err != nil || status != 201 {
			t.Fatal(status, answer, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	site, said := listening(t, service.Serve{Data: dir, Store: service.Elasticsearch, URL: "http://" + cluster + "/slurm"})
	for n := int64(15); n <= 30; n++ {
		if status, answer, err := post(site, storetest.Entry(n).Document); err != nil || status != 201 {
			t.Fatal(status, answer, err)
		}
	}
	path := filepath.Join(t.TempDir(), "jobs.txt")
	const records = "JobID|User|State|Submit|Eligible|Start|End|ElapsedRaw|AllocCPUS|AllocNodes|NodeList|Partition|ExitCode|TimelimitRaw|Cluster\n" +
		"900|zoë|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:31:00|1800|4|1|n1|batch|0:0|60|vale\n"
	if err := os.WriteFile(path, []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := service.New().Import(t.Context(), dir, service.Records{Sources: []string{path}, From: "sacct"}); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if strings.Contains(body(t, "http://"+cluster+"/slurm/_count", 200), `"count":31`) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	pages := "http://" + site + "/_ui/"
	var summary struct {
		Rows  [][]any
		Notes []string
	}
	if err := json.Unmarshal([]byte(body(t, pages+"api/v1/panels/summary?last=all", 200)), &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Rows[0][0] != 31.0 {
		t.Errorf("the page has %v jobs, want 31: %s", summary.Rows[0], said())
	}
	var table struct{ Rows [][]any }
	if err := json.Unmarshal([]byte(body(t, pages+"api/v1/panels/table?last=all&f=user_name=zo%C3%AB&columns=jobid,wait_s", 200)), &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 || table.Rows[0][1] != 900.0 || table.Rows[0][2] != 60.0 {
		t.Fatalf("%v", table.Rows)
	}
	id := strings.ReplaceAll(table.Rows[0][0].(string), "/", "%2F")
	if text := body(t, pages+"jobs/"+id, 200); !strings.Contains(text, "Job 900 of vale") {
		t.Errorf("%.300s", text)
	}
	for _, shown := range []struct {
		path, in string // in is the page to which links are relative: a part is inside of the page with all jobs
		links    []string
	}{{"jobs/" + id, "jobs/" + id, []string{"JSON"}}, {"jobs/" + id + "?part", "", []string{"JSON", "Page of its own"}}} {
		links := toolLink.FindAllStringSubmatch(body(t, pages+shown.path, 200), -1)
		if len(links) != len(shown.links) {
			t.Errorf("%s: %v, want %v", shown.path, links, shown.links)
			continue
		}
		from, err := url.Parse(pages + shown.in)
		if err != nil {
			t.Fatal(err)
		}
		for i, link := range links {
			to, err := from.Parse(html.UnescapeString(link[1]))
			if err != nil {
				t.Fatal(err)
			}
			if text := body(t, to.String(), 200); link[2] != shown.links[i] || !strings.Contains(text, "zoë") {
				t.Errorf("%s: the link %v leads to %.300s", shown.path, link, text)
			}
		}
	}
	for _, path := range []string{"jobs/slurm%2Fnobody", "jobs/other%2F" + id[len("slurm%2F"):], "jobs/7"} {
		body(t, pages+path, 404)
	}
	if text := body(t, pages+"?static=1&last=all", 200); strings.Count(text, `role="img"`) < 10 {
		t.Errorf("%d charts", strings.Count(text, `role="img"`))
	}
	if text := body(t, pages+"api/v1/panels/table?last=all&format=csv", 200); strings.Count(text, "\n") != 32 {
		t.Errorf("%d lines of CSV", strings.Count(text, "\n"))
	}
	alone, _ := listening(t, service.Serve{Store: service.Elasticsearch, URL: "http://" + cluster + "/sl*"})
	if text := body(t, "http://"+alone+"/_ui/api/v1/clusters", 200); !strings.Contains(text, `"name":"vale","jobs":31`) {
		t.Error(text)
	}
	if status, answer, err := post(alone, storetest.Entry(1).Document); err != nil || status < 400 || !strings.Contains(answer, "shows an Elasticsearch cluster") {
		t.Error(status, answer, err)
	}
	away, _ := listening(t, service.Serve{Store: service.Elasticsearch, URL: "http://" + freeAddress(t) + "/slurm"})
	if text := body(t, "http://"+away+"/_ui/", 502); !strings.Contains(text, "asking the Elasticsearch cluster") {
		t.Errorf("%.300s", text)
	}
}
