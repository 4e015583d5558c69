package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// randomDocument returns the document with a number. It has random fields, Slurm's and unknown
// ones, and random characters in texts. The result depends only on the number.
func randomDocument(n int64) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	text := func(most int) string {
		alphabet := []rune("abc xyz 019 \"\\'\n\t\x00\x1b;%*?[](){}<>=+-@|$`ü漢\U0001f600\u2028")
		list := make([]rune, r.IntN(most+1))
		for i := range list {
			list[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(list)
	}
	start := storetest.Begin.Add(time.Duration(n) * time.Second)
	const layout = "2006-01-02T15:04:05"
	fields := map[string]any{
		"jobid": n, "cluster": []string{"vale", "moor"}[n%2], "@submit": start.Format(layout),
		"@start": start.Format(layout), "@end": start.Add(time.Minute).Format(layout),
		"nodes": "n1", "state": []string{"COMPLETED", "FAILED"}[r.IntN(2)], "script": "#!/bin/sh\n" + text(6000),
	}
	for _, name := range []string{"username", "account", "partition", "qos", "job_name", "comment", "work_dir",
		"features", "a\"b'c", "x.y", "état"} {
		if r.IntN(2) == 0 {
			fields[name] = text(30)
		}
	}
	for _, name := range []string{"total_cpus", "total_nodes", "time_limit", "priority", "user_id", "elapsed", "ours"} {
		switch r.IntN(5) {
		case 0:
			fields[name] = r.Int64()
		case 1:
			fields[name] = r.IntN(100)
		case 2:
			fields[name] = []any{nil, r.Float64(), text(5), map[string]any{"a": []any{1, "b", nil}}}[r.IntN(4)]
		}
	}
	document, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return document
}

// randomQuestion returns a path and the body of a POST; nil for a GET. Many questions are invalid,
// and some need much time or memory.
func randomQuestion(r *rand.Rand) (path string, body []byte) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	field := func() string {
		return pick("cluster", "state", "user_name", "job_name", "cpus", "end_time", "elapsed_s", "username", "nodes",
			"script", "nothing", "jobid")
	}
	value := func() string {
		return pick("vale", "COMPLETED", "*a*b*c*", "\"x y\"", "17", "[1 TO 5]", ">3", "'; DELETE FROM jobs; --",
			"(a OR b)", "\\", "*", "ü?", strings.Repeat("*o", 100))
	}
	term := func() string { return pick("", "-", "NOT ") + field() + pick(":", "=", "<", "!=") + value() }
	query := term()
	for range r.IntN(4) {
		query += pick(" ", " OR ", " AND ") + term()
	}
	switch r.IntN(6) {
	case 0, 1:
		panel := pick("summary", "table", "users", "week", "waste", "runs", "jobs")
		return "/_ui/api/v1/panels/" + panel + "?" + url.Values{"last": {pick("all", "7d", "x")}, "q": {query},
			"format": {pick("json", "csv", "html")}}.Encode(), nil
	case 2:
		return "/_search?" + url.Values{"size": {pick("0", "1", "1000")}, "q": {query}}.Encode(), nil
	case 3: // needs much memory
		list := make([]string, 120)
		for i := range list {
			list[i] = fmt.Sprintf("f%d_%d:x", r.IntN(10), i)
		}
		return "/_search?" + url.Values{"size": {"1"}, "q": {strings.Join(list, " OR ")}}.Encode(), nil
	case 4:
		return "/_count?" + url.Values{"q": {query}}.Encode(), nil
	}
	asked := map[string]any{
		"size": r.IntN(100), "query": map[string]any{pick("wildcard", "term", "prefix",
			"regexp"): map[string]any{field(): value()}},
		"sort": []any{map[string]any{field(): pick("asc", "desc")}},
		"aggs": map[string]any{"a": map[string]any{
			pick("terms", "cardinality", "max", "histogram"): map[string]any{"field": field(), "size": 10_000},
			"aggs": map[string]any{"b": map[string]any{"terms": map[string]any{"field": field()}}},
		}},
	}
	body, err := json.Marshal(asked)
	if err != nil {
		panic(err)
	}
	return "/_all/_search", body
}

// readers send random questions until end is called, and count the answers.
func readers(address string, n int) (answered *atomic.Int64, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	answered = new(atomic.Int64)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 20 * time.Second}
	for k := range n {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(k), uint64(time.Now().UnixNano())))
			for ctx.Err() == nil {
				path, body := randomQuestion(r)
				status, _, err := ask(ctx, client, address, path, body)
				if err == nil && status == http.StatusOK {
					answered.Add(1)
				} else if err != nil {
					time.Sleep(5 * time.Millisecond) // perhaps the server is down
				}
			}
		})
	}
	return answered, func() {
		cancel()
		group.Wait()
		client.CloseIdleConnections()
	}
}

// ask sends a question: a POST if body is not nil, otherwise a GET.
func ask(ctx context.Context, client *http.Client, address, path string, body []byte) (status int, text []byte,
	err error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// engines returns the ids of the processes that a server has started.
func (s *server) engines() (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.command.Process.Pid))
	for _, path := range lists {
		text, _ := os.ReadFile(path) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestPromised sends random documents while random questions are asked, the server and its engines
// are killed, and, in the second round, the disk fills up. In the end each document must be in the
// store exactly once, byte by byte, and searches must find it. With RMREPLAY_LONG_TESTS it sends
// 200,000 documents and kills 60 times.
func TestPromised(t *testing.T) {
	t.Run("killed", func(t *testing.T) { testPromised(t, filepath.Join(t.TempDir(), "data"), false) })
	t.Run("full", func(t *testing.T) {
		size := "64m"
		if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
			size = "1500m"
		}
		testPromised(t, filepath.Join(smallDisk(t, size), "data"), true)
	})
}

func testPromised(t *testing.T, dir string, full bool) {
	documents, kills := int64(300), 2
	if full {
		documents = 1200 // so many that some arrive while the disk is full
	}
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		documents, kills = 200_000, 60
	}
	p := &posting{address: freeAddress(t), documents: documents, document: randomDocument}
	s := start(t, dir, p.address)
	answered, end := readers(p.address, 4)
	var group sync.WaitGroup
	for c := range 8 {
		group.Go(func() { p.run(c) })
	}
	r := rand.New(rand.NewPCG(1, 9))
	enginesKilled := 0
	killEngines := func(of int) {
		for _, pid := range s.engines() {
			if r.IntN(of) == 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				enginesKilled++
			}
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	for k := range kills {
		for p.acknowledged.Load() < documents*int64(k+1)/int64(kills+1) {
			killEngines(10)
		}
		if full && k%20 == 0 {
			before := p.full.Load()
			fillDisk(t, filepath.Dir(dir), func() bool {
				return p.full.Load() > before+8 ||
					p.acknowledged.Load() == documents
			})
		}
		if err := s.end(syscall.SIGKILL); s.command.ProcessState.Exited() {
			t.Fatalf("the server ended by itself: %v: %s", err, s.log.String())
		}
		s = start(t, dir, p.address)
	}
	group.Wait()
	for deadline := time.Now().Add(30 * time.Second); (answered.Load() == 0 || enginesKilled == 0) &&
		time.Now().Before(deadline); {
		killEngines(20)
	}
	end()
	checkSearches(t, p.address, documents)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the server ended with %v: %s", err, s.log.String())
	}
	found, err := service.New().Verify(t.Context(), dir, func(int, int) {})
	if err != nil || len(found.Problems) > 0 || found.Jobs != documents {
		t.Errorf("%+v %v", found, err)
	}
	checkJobs(t, dir, documents, randomDocument)
	if answered.Load() == 0 || enginesKilled == 0 || full && p.full.Load() == 0 {
		t.Error("it was not disturbed")
	}
	t.Logf("%d documents, %d questions answered; the server was killed %d times, engines %d times, %d posts met a full disk",
		documents, answered.Load(), kills, enginesKilled, p.full.Load())
}

// checkSearches reads all documents with searches, as a client does.
func checkSearches(t *testing.T, address string, documents int64) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	if status, text, err := ask(t.Context(), client, address, "/_refresh", nil); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, text, err)
	}
	seen := make(map[int64]bool)
	for after := int64(0); ; {
		body := fmt.Appendf(nil, `{"size":500,"sort":[{"jobid":"asc"}],"query":{"match_all":{}},"search_after":[%d]}`,
			after)
		status, text, err := ask(t.Context(), client, address, "/_all/_search", body)
		var answer struct {
			Hits struct {
				Hits []struct {
					Source json.RawMessage `json:"_source"`
					Sort   []int64         `json:"sort"`
				} `json:"hits"`
			} `json:"hits"`
		}
		if err = errors.Join(err, json.Unmarshal(text, &answer)); err != nil || status != http.StatusOK {
			t.Fatalf("%d %.300s %v", status, text, err)
		}
		if len(answer.Hits.Hits) == 0 {
			break
		}
		for _, hit := range answer.Hits.Hits {
			after = hit.Sort[0]
			if !reflect.DeepEqual(decoded(t, hit.Source), decoded(t, randomDocument(after))) || seen[after] {
				t.Errorf("job %d occurs twice, or changed: %s", after, hit.Source)
			}
			seen[after] = true
		}
	}
	if int64(len(seen)) != documents {
		t.Errorf("searches find %d documents, want %d", len(seen), documents)
	}
}

// decoded decodes a JSON text. Numbers keep their digits.
func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return value
}

// serveFilled starts a server with a store of synthetic jobs.
func serveFilled(t testing.TB, jobs int64) *server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err == nil {
		err = errors.Join(storetest.Fill(t.Context(), s, 1, jobs), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return start(t, dir, freeAddress(t))
}

// TestEnds stops servers with SIGTERM while hostile questions run and a client does not finish its
// request. A server promises to end within two seconds; the test allows three times as much. The
// engines must end with it.
func TestEnds(t *testing.T) {
	s := serveFilled(t, 30_000)
	for n := range 2 {
		_, end := readers(s.address, 10)
		conn := dial(t, s.address)
		fmt.Fprint(conn, "POST /slurm/_doc HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
		var engines []int
		for deadline := time.Now().Add(20 * time.Second); len(engines) == 0 && time.Now().Before(deadline); {
			time.Sleep(200 * time.Millisecond)
			engines = s.engines()
		}
		if status, body, err := post(s.address, storetest.Entry(30_001+int64(n)).Document); err != nil ||
			status != http.StatusCreated {
			t.Fatal(status, body, err)
		}
		begin := time.Now()
		err := s.end(syscall.SIGTERM)
		if took := time.Since(begin); err != nil || took > 6*time.Second || len(engines) == 0 {
			t.Errorf("it ended after %v with %v, and had %d engines: %s", took, err, len(engines), s.log.String())
		}
		end()
		conn.Close()
		for _, pid := range engines {
			for deadline := time.Now().Add(2 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("engine %d is still there", pid)
				}
			}
		}
		s = start(t, s.dir, s.address)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	info, err := service.New().Info(t.Context(), s.dir)
	if err != nil {
		t.Fatal(err)
	}
	waitApplied(t, s.dir, info.Received)
	checkJobs(t, s.dir, 30_002, synthetic)
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// freshness is what clients know: the number of acknowledged documents at each instant.
type freshness struct {
	mu   sync.Mutex
	at   []time.Time
	jobs []int64
}

func (f *freshness) acknowledge(jobs int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.jobs = append(f.at, time.Now()), append(f.jobs, jobs)
}

// by returns the number of documents that were acknowledged before an instant.
func (f *freshness) by(at time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.at, at, time.Time.Compare)
	if i == 0 {
		return 0
	}
	return f.jobs[i-1]
}

// age returns, for each acknowledgement that an answer with this number of jobs is the first to
// include, the time from the acknowledgement to the answer.
func (f *freshness) age(jobs int64, answered time.Time) (ages []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.jobs) > 0 && f.jobs[0] <= jobs {
		ages = append(ages, answered.Sub(f.at[0]))
		f.at, f.jobs = f.at[1:], f.jobs[1:]
	}
	return ages
}

// send sends the synthetic documents number first to last in one request.
func send(t testing.TB, client *http.Client, address string, first, last int64) {
	t.Helper()
	var bulk bytes.Buffer
	for n := first; n <= last; n++ {
		fmt.Fprintf(&bulk, "{\"index\":{}}\n%s\n", synthetic(n))
	}
	status, text, err := ask(t.Context(), client, address, "/slurm/_bulk", bulk.Bytes())
	if err != nil || status != http.StatusOK || bytes.Contains(text, []byte(`"errors":true`)) {
		t.Errorf("%d %.200s %v", status, text, err)
	}
}

// jobsOf returns the number of jobs that a server reports, in a panel of the dashboards or in a
// search.
func jobsOf(t testing.TB, client *http.Client, address string, panel bool) (jobs int64) {
	t.Helper()
	path := "/_count"
	if panel {
		path = "/_ui/api/v1/panels/summary?last=all"
	}
	status, text, err := ask(t.Context(), client, address, path, nil)
	var answer struct {
		Count int64   `json:"count"`
		Rows  [][]any `json:"rows"`
	}
	if err = errors.Join(err, json.Unmarshal(text, &answer)); err != nil || status != http.StatusOK {
		t.Errorf("%s: %d %.200s %v", path, status, text, err)
		return 0
	}
	if panel && len(answer.Rows) > 0 {
		n, _ := answer.Rows[0][0].(float64)
		return int64(n)
	}
	return answer.Count
}

// TestFresh sends documents and asks for their number. An answer should include everything that was
// acknowledged a second before the question; the test allows three seconds. Later answers must
// never have fewer documents.
func TestFresh(t *testing.T) {
	s := serveFilled(t, 1000)
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	f, done := freshness{}, make(chan bool)
	f.acknowledge(1000)
	go func() {
		defer close(done)
		for n, begin := int64(1001), time.Now(); time.Since(begin) < 2*time.Second; n += 20 {
			send(t, client, s.address, n, n+19)
			f.acknowledge(n + 19)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	stale, back, asked, most := 0, 0, 0, int64(0)
	for running := true; running; asked++ {
		select {
		case <-done:
			running = false
		default:
		}
		want := f.by(time.Now().Add(-3 * time.Second))
		jobs := jobsOf(t, client, s.address, asked%2 == 0)
		if jobs < want {
			stale++
		}
		if jobs < most {
			back++
		}
		most = max(most, jobs)
	}
	sent := f.by(time.Now())
	for deadline := time.Now().Add(3 * time.Second); jobsOf(t, client, s.address,
		true) < sent; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was acknowledged three seconds ago is not in an answer")
		}
	}
	if stale > 0 || back > 0 || asked < 3 {
		t.Errorf("of %d answers %d lack what was acknowledged three seconds before, and %d what was answered before",
			asked, stale, back)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
