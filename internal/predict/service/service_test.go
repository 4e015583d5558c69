package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/workload"
)

// trained returns a forest of a small log.
func trained(t *testing.T) *model.Model {
	t.Helper()
	w := new(workload.Workload)
	for i := range 200 {
		j := &hpc.Job{ID: fmt.Sprint(i), Submit: hpc.Unix(1e9 + int64(i)*600)}
		j.User, j.Tasks, j.TimeLimit = fmt.Sprintf("u%d", i%3), 1+i%4, time.Hour
		j.RunTime = time.Duration(100*(1+i%3)) * time.Second
		w.Jobs.Append(j)
	}
	cases, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Train(t.Context(), cases, model.TrainOptions{Kind: model.Forest})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var now = hpc.Unix(1e9 + 1e6)

func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:8765"
	return r
}

func ask(s http.Handler, method, path, body string, header ...string) (int, string) {
	r := request(method, path, body)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestPredict(t *testing.T) {
	s := New(trained(t), Options{Now: func() hpc.Time { return now }})
	code, body := ask(s, "POST", "/v1/predict", `{"jobs":[{"id":"a","user":"u1","tasks":2,"time_limit_s":3600},{"user":"u2","tasks":1,"time_limit_s":60}]}`)
	var got struct {
		Predictions []struct {
			ID    string
			P10   float64 `json:"p10_s"`
			P50   float64 `json:"p50_s"`
			P90   float64 `json:"p90_s"`
			Limit float64 `json:"limit_s"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || len(got.Predictions) != 2 {
		t.Fatalf("%d %s", code, body)
	}
	first, second := got.Predictions[0], got.Predictions[1]
	if first.ID != "a" || first.P50 <= 0 || first.P50 > 3600 || first.P10 > first.P50 || first.P50 > first.P90 || second.P90 > 60 || second.Limit != 60 {
		t.Errorf("got %s", body)
	}
	if code, body := ask(s, "GET", "/v1/model", ""); code != 200 || !strings.Contains(body, `"kind":"forest"`) || !strings.Contains(body, `"events":0`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestRefuses(t *testing.T) {
	s := New(trained(t), Options{Now: func() hpc.Time { return now }})
	for _, test := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/predict", `{`, 400, "error"},
		{"POST", "/v1/predict", `{"jobs":[]}`, 400, "0 jobs (want 1 to 10000)"},
		{"POST", "/v1/predict", `{"jobs":[{},null]}`, 400, "job 2: the job is null (want an object)"},
		{"POST", "/v1/predict", `{"jobs":[{"run_time_s":7}]}`, 400, "run_time_s"},
		{"POST", "/v1/predict", `{"jobs":[{"tasks":"many"}]}`, 400, "tasks"},
		{"POST", "/v1/predict", `{"jobs":[{"submit":5}]}`, 400, "submit: want a time"},
		{"POST", "/v1/predict", `{"jobs":[` + strings.Repeat(`{},`, MaxJobs) + `{}]}`, 400, "10001 jobs"},
		{"POST", "/v1/predict", `{"jobs":"` + strings.Repeat("x", MaxBody) + `"}`, 413, "more than"},
		{"GET", "/v1/predict", "", 405, ""},
		{"GET", "/v2", "", 404, ""},
		{"POST", "/v1/events", `{"events":[{"event":"submit","id":"1","at":"2002-01-01T00:00:00Z"}]}`, 400, "event 1: job: missing"},
		{"POST", "/v1/events", `{"events":[{"event":"start","at":"2002-01-01T00:00:00Z"}]}`, 400, "id: missing"},
		{"POST", "/v1/events", `{"events":[{"event":"gone","id":"1","at":"2002-01-01T00:00:00Z"}]}`, 400, "want submit, start or end"},
		{"POST", "/v1/events", `{"events":[{"event":"end","id":"1","at":"2002-01-01T00:00:00Z","state":"RUNNING"}]}`, 400, "as COMPLETED"},
		{"POST", "/v1/events", `{"events":[{"event":"start","id":"1","at":"1999-01-01T00:00:00Z"}]}`, 400, "in the order of time"},
		{"POST", "/v1/events", `{"events":[` + submit("1", 1) + `,` + submit("2", 61) + `]}`, 400, "event 2: at: 2001-09-20T15:34:21Z is in the future (want at most 2001-09-20T15:34:20Z, a minute after"},
		{"POST", "/v1/events", `{"events":[` + submit("1", 1) + `,` + happened("end", "1", 2) + `,` + submit("1", 2) + `,` + submit("1", 2) + `]}`, 400, "event 4: id: job 1 was submitted before"},
		{"POST", "/v1/events", `{"events":[` + submit("1", 1) + `,` + happened("start", "1", 1) + `,` + submit("1", 2) + `]}`, 400, "event 3: id: job 1 was submitted before"},
		{"POST", "/v1/events", `{"events":[` + submit("1", 1) + `,` + submit("1", 2) + `]}`, 400, "event 2: id: job 1 was submitted before"},
	} {
		code, body := ask(s, test.method, test.path, test.body)
		if code != test.code || !strings.Contains(body, test.want) {
			t.Errorf("%s %s %.60s: %d %s, want %d %s", test.method, test.path, test.body, code, body, test.code, test.want)
		}
	}
	if s.State().Events != 0 {
		t.Error("a refused batch counts in part")
	}
}

func submit(id string, second int64) string {
	return fmt.Sprintf(`{"event":"submit","id":%q,"at":%q,"job":{"user":"u9","tasks":1,"time_limit_s":3600}}`, id, now+hpc.Time(second)*hpc.Second)
}

func happened(event, id string, second int64) string {
	state := ""
	if event == "end" {
		state = `,"state":"COMPLETED"`
	}
	return fmt.Sprintf(`{"event":%q,"id":%q,"at":%q%s}`, event, id, now+hpc.Time(second)*hpc.Second, state)
}

// records is a journal in memory.
type records [][]byte

func (r *records) Append(record []byte) error {
	*r = append(*r, record)
	return nil
}

// TestJournal starts a service with the journal of another service: both predict the same.
func TestJournal(t *testing.T) {
	var journal records
	m := trained(t)
	clock := func() hpc.Time { return now + 10000*hpc.Second }
	first := New(m, Options{Journal: &journal, Now: clock})
	question := `{"jobs":[{"user":"u9","tasks":1,"time_limit_s":3600}]}`
	_, before := ask(first, "POST", "/v1/predict", question)
	for i := range int64(20) {
		id := fmt.Sprint(i)
		batch := `{"events":[` + strings.Join([]string{submit(id, 100*i), happened("start", id, 100*i+1), happened("end", id, 100*i+42), happened("end", "unknown", 100*i+43)}, ",") + `]}`
		if code, body := ask(first, "POST", "/v1/events", batch); code != 200 || !strings.Contains(body, `"accepted":4`) {
			t.Fatalf("%d %s", code, body)
		}
	}
	_, after := ask(first, "POST", "/v1/predict", question)
	if before == after {
		t.Errorf("the events changed nothing: %s", after)
	}
	second := New(m, Options{Now: clock})
	if err := second.Replay(journal); err != nil {
		t.Fatal(err)
	}
	if _, again := ask(second, "POST", "/v1/predict", question); again != after {
		t.Errorf("after the journal: %s, want %s", again, after)
	}
	if got := second.State(); got.Events != 80 || got.Unknown != 20 || got.OpenJobs != 0 {
		t.Errorf("state %+v", got)
	}
	if len(journal) != 20 {
		t.Errorf("20 batches have %d records", len(journal))
	}
	if err := New(m, Options{}).Replay(records{[]byte(`{"events":[{}]}`), []byte("nonsense")}); err == nil || !strings.HasPrefix(err.Error(), "record 1: ") {
		t.Errorf("a damaged journal: %v", err)
	}
}

// TestFutureEvent sends an event of a later year, as a client with a wrong clock would. The service
// refuses it, so that it still accepts the events of other clients. An event within the next minute
// is accepted, and the events of a journal are accepted whatever the clock says.
func TestFutureEvent(t *testing.T) {
	var journal records
	m := trained(t)
	s := New(m, Options{Journal: &journal, Now: func() hpc.Time { return now }})
	if code, body := ask(s, "POST", "/v1/events", `{"events":[`+submit("1", 4e9)+`]}`); code != 400 || !strings.Contains(body, "is in the future") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask(s, "POST", "/v1/events", `{"events":[`+submit("1", 60)+`]}`); code != 200 {
		t.Errorf("an event of the next minute: %d %s", code, body)
	}
	back := New(m, Options{Now: func() hpc.Time { return now - 1e6*hpc.Second }})
	if err := back.Replay(journal); err != nil || back.State().Events != 1 {
		t.Errorf("%d events of the journal count: %v", back.State().Events, err)
	}
}

// TestRequeue ends runs by a requeue, in the same request as the next submission and in an earlier
// request. The service does not learn the run times of the lost runs.
func TestRequeue(t *testing.T) {
	const question = `{"jobs":[{"user":"u9","tasks":1,"time_limit_s":3600}]}`
	m := trained(t)
	var answers []string
	for name, state := range map[string]string{"pending": "PENDING", "requeued": "REQUEUED"} {
		s := New(m, Options{Now: func() hpc.Time { return now + 100000*hpc.Second }})
		lost := func(at int64) string { return strings.Replace(happened("end", "1", at), "COMPLETED", state, 1) }
		for _, batch := range []string{
			submit("1", 0) + "," + happened("start", "1", 10), lost(3000) + "," + submit("1", 3000) + "," + happened("start", "1", 3010),
			lost(3010), submit("1", 3010) + "," + happened("start", "1", 3020), happened("end", "1", 3120),
		} {
			if code, body := ask(s, "POST", "/v1/events", `{"events":[`+batch+`]}`); code != 200 {
				t.Fatalf("%s: %s: %d %s", name, batch, code, body)
			}
		}
		if got := s.State(); got.OpenJobs != 0 || got.Unknown != 0 || got.Events != 9 {
			t.Errorf("%s: %d open, %d unknown jobs, %d events", name, got.OpenJobs, got.Unknown, got.Events)
		}
		_, body := ask(s, "POST", "/v1/predict", question)
		answers = append(answers, body)
	}
	once := New(m, Options{Now: func() hpc.Time { return now + 100000*hpc.Second }})
	for _, at := range []int64{0, 3000} { // the same submissions without the lost runs
		batch := submit("1", at) + "," + happened("end", "1", at)
		if code, body := ask(once, "POST", "/v1/events", `{"events":[`+batch+`]}`); code != 200 {
			t.Fatal(code, body)
		}
	}
	if code, body := ask(once, "POST", "/v1/events", `{"events":[`+submit("1", 3010)+","+happened("start", "1", 3020)+","+happened("end", "1", 3120)+`]}`); code != 200 {
		t.Fatal(code, body)
	}
	_, want := ask(once, "POST", "/v1/predict", question)
	for _, body := range answers {
		if body != want {
			t.Errorf("predicted %s, want %s", body, want)
		}
	}
}

// TestOtherSites sends requests as a browser on the same computer would on behalf of another site's
// page.
func TestOtherSites(t *testing.T) {
	m := trained(t)
	for _, test := range []struct {
		name, token, host, method, header, value string
		code                                     int
	}{
		{"curl", "", "localhost:8765", "POST", "", "", 200},
		{"curl, IPv6", "", "[::1]:8765", "POST", "", "", 200},
		{"curl, no port", "", "127.0.0.1", "POST", "", "", 200},
		{"another site", "", "127.0.0.1:8765", "POST", "Sec-Fetch-Site", "cross-site", 403},
		{"another site, an old browser", "", "127.0.0.1:8765", "POST", "Origin", "http://evil.example", 403},
		{"DNS rebinding", "", "evil.example:8765", "POST", "Origin", "http://evil.example:8765", 403},
		{"DNS rebinding, reading", "", "evil.example:8765", "GET", "", "", 403},
		{"no name", "", "", "GET", "", "", 403},
		{"with a token", "secret", "predict.example:8765", "POST", "", "", 200},
		{"with a token, another site", "secret", "predict.example:8765", "POST", "Sec-Fetch-Site", "cross-site", 403},
	} {
		s := New(m, Options{Token: test.token, Now: func() hpc.Time { return now }})
		r := request(test.method, "/v1/events", `{"events":[`+submit("1", 1)+`]}`)
		if test.method == "GET" {
			r = request("GET", "/v1/model", "")
		}
		r.Host = test.host
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Authorization", "Bearer "+test.token)
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != test.code || test.code == 403 && (s.State().Events != 0 || !strings.Contains(w.Body.String(), "(want ")) {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.code)
		}
	}
}

// stuck is the connection of a client that does not read.
type stuck struct {
	http.ResponseWriter
	writing, read chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	close(s.writing)
	<-s.read
	return len(b), nil
}

// TestClientDoesNotRead: the service is not locked while a client does not read its answer.
func TestClientDoesNotRead(t *testing.T) {
	s := New(trained(t), Options{Now: func() hpc.Time { return now }})
	for path, body := range map[string]string{
		"/v1/predict": `{"jobs":[{"user":"u1"}]}`, "/v1/events": `{"events":[` + submit("1", 1) + `]}`, "/v1/model": "",
	} {
		method := "POST"
		if body == "" {
			method = "GET"
		}
		client := stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(client, request(method, path, body))
		}()
		<-client.writing
		if !s.mu.TryLock() {
			t.Errorf("%s: the service waits for a client that does not read", path)
		} else {
			s.mu.Unlock()
		}
		close(client.read)
		<-done
	}
}

// TestInfinitePrediction: the answer has the longest duration for an infinite predicted run time.
func TestInfinitePrediction(t *testing.T) {
	if a := answered("1", predict.Prediction{P10: 5, P50: math.Inf(1), P90: math.Inf(1)}); a.P10 != 5 || a.P50 != longest || a.P90 != longest {
		t.Errorf("answered %v", a)
	}
}

type broken struct{}

func (broken) Append([]byte) error { return errors.New("disk full") }

func TestBrokenJournal(t *testing.T) {
	s := New(trained(t), Options{Journal: broken{}, Now: func() hpc.Time { return now }})
	if code, body := ask(s, "POST", "/v1/events", `{"events":[`+submit("1", 1)+`]}`); code != 500 || !strings.Contains(body, "disk full") {
		t.Errorf("%d %s", code, body)
	}
	if s.State().Events != 0 {
		t.Error("an event that is not in the journal counts")
	}
}

func TestToken(t *testing.T) {
	s := New(trained(t), Options{Token: "secret", Now: func() hpc.Time { return now }})
	for header, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer secret": 200} {
		if code, body := ask(s, "GET", "/v1/model", "", "Authorization", header); code != want {
			t.Errorf("%q: %d %s", header, code, body)
		}
	}
}

// TestSchemathesis lets the fuzzer Schemathesis send requests that follow the OpenAPI document.
func TestSchemathesis(t *testing.T) {
	servertest.Python(t, "schemathesis")
	web := httptest.NewServer(New(trained(t), Options{Now: func() hpc.Time { return now }}))
	defer web.Close()
	servertest.Schemathesis(t, "../../../docs/schemas/predict.openapi.json", web.URL)
}

// TestOpenAPI compares the document with the service: each path answers, and each listed field of
// a job is known.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../../docs/schemas/predict.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Type json.RawMessage } // one, or a list of one and "null"
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	s := New(trained(t), Options{Now: func() hpc.Time { return now }})
	answers := 0
	for path, methods := range document.Paths {
		for method := range methods {
			code, body := ask(s, strings.ToUpper(method), path, "")
			if code == http.StatusNotFound || code == http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, path, code, body)
			}
			answers++
		}
	}
	if answers != 3 {
		t.Errorf("%d operations, want 3", answers)
	}
	values := map[string]string{"string": `"x"`, "integer": "1", "number": "60"}
	for name, property := range document.Components.Schemas["job"].Properties {
		kinds := strings.FieldsFunc(string(property.Type), func(r rune) bool { return !unicode.IsLetter(r) })
		value := values[kinds[0]]
		if name == "submit" {
			value = `"2024-03-01T08:00:00Z"`
		}
		if code, body := ask(s, "POST", "/v1/predict", fmt.Sprintf(`{"jobs":[{%q:%s}]}`, name, value)); code != http.StatusOK {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}
