package servertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// OpenSearch is a node of an OpenSearch cluster.
type OpenSearch struct {
	*Process
	URL      string   // http://HOST:PORT
	Settings []string // settings for opensearch.yml, NAME=VALUE; apply from the next Start on
}

// The releases of OpenSearch, with their names in tools/test-servers.
const (
	OpenSearch2 = "opensearch"
	OpenSearch3 = "opensearch3"
)

// Releases returns the releases of OpenSearch to test: only the given release, or all releases if
// RMREPLAY_LONG_TESTS is set.
func Releases(one string) []string {
	if os.Getenv("RMREPLAY_LONG_TESTS") == "" {
		return []string{one}
	}
	return []string{OpenSearch2, OpenSearch3}
}

// NewOpenSearch starts a cluster of one node.
func NewOpenSearch(t testing.TB, release string) *OpenSearch {
	t.Helper()
	s := newNode(t, release)
	s.Start()
	return s
}

// NewCluster starts a cluster with the given number of nodes.
func NewCluster(t testing.TB, release string, nodes int) (list []*OpenSearch) {
	t.Helper()
	var names, addresses []string
	for i := range nodes {
		list = append(list, newNode(t, release))
		names = append(names, fmt.Sprintf("node%d", i))
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for i, s := range list {
		_, port, _ := strings.Cut(addresses[i], ":")
		s.Settings = []string{
			"node.name=" + names[i], "transport.port=" + port, "discovery.type=zen",
			"discovery.seed_hosts=" + strings.Join(addresses, ","),
			"cluster.initial_cluster_manager_nodes=" + strings.Join(names, ","),
		}
		s.launch()
	}
	for _, s := range list {
		s.await()
	}
	return list
}

// newNode returns a node that is not running.
func newNode(t testing.TB, release string) *OpenSearch {
	t.Helper()
	s := &OpenSearch{Process: newProcess(t, release)}
	port := strconv.Itoa(freePort(t)) // the port stays the same after Kill
	s.URL = "http://127.0.0.1:" + port
	s.args = func() []string { return append([]string{s.dir, port}, s.Settings...) }
	s.ready = func() error {
		status, answer, err := s.request(http.MethodGet, "/_cluster/health?wait_for_status=yellow&timeout=1s", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	}
	return s
}

// request sends a request with a JSON body.
func (s *OpenSearch) request(method, path, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Ask sends a request and decodes the response. The parameter to is a pointer to the variable for
// the result; nil means that the response is not needed. The status must be 200 or 201.
func (s *OpenSearch) Ask(method, path, body string, to any) {
	s.t.Helper()
	status, answer, err := s.request(method, path, body)
	if err == nil && status != http.StatusOK && status != http.StatusCreated {
		err = fmt.Errorf("%d", status)
	}
	if err == nil && to != nil {
		err = json.Unmarshal(answer, to)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v: %.1000s", method, path, err, answer)
	}
}

// Version returns the version that the node reports.
func (s *OpenSearch) Version() string {
	s.t.Helper()
	var about struct{ Version struct{ Number string } }
	s.Ask(http.MethodGet, "/", "", &about)
	return about.Version.Number
}

// Document is a document in an index.
type Document struct {
	Index  string          `json:"_index"`
	ID     string          `json:"_id"`
	Source json.RawMessage `json:"_source"`
}

// Each calls the function do with each document in the indices that match a pattern, in any order.
func (s *OpenSearch) Each(pattern string, do func(d Document)) {
	s.t.Helper()
	s.Ask(http.MethodPost, "/"+pattern+"/_refresh", "", nil)
	var page struct {
		Scroll string `json:"_scroll_id"`
		Hits   struct{ Hits []Document }
	}
	s.Ask(http.MethodPost, "/"+pattern+"/_search?scroll=1m", `{"size":5000,"sort":["_doc"]}`, &page)
	for len(page.Hits.Hits) > 0 {
		for _, d := range page.Hits.Hits {
			do(d)
		}
		next := fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, page.Scroll)
		page.Hits.Hits = nil
		s.Ask(http.MethodPost, "/_search/scroll", next, &page)
	}
	s.Ask(http.MethodDelete, "/_search/scroll", fmt.Sprintf(`{"scroll_id":%q}`, page.Scroll), nil)
}

// Count returns the number of documents in an index, and 0 if the index does not exist.
func (s *OpenSearch) Count(index string) (n int) {
	s.t.Helper()
	if status, _, err := s.request(http.MethodHead, "/"+index, ""); err == nil && status == http.StatusNotFound {
		return 0
	}
	s.Ask(http.MethodPost, "/"+index+"/_refresh", "", nil)
	var count struct{ Count int }
	s.Ask(http.MethodGet, "/"+index+"/_count", "", &count)
	return count.Count
}
