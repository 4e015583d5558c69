// Package elastic answers questions about finished jobs from the indices of an Elasticsearch or
// OpenSearch cluster. Either Slurm's jobcomp/elasticsearch plugin or this program may have written
// the indices.
//
// It uses only features that are documented for Elasticsearch 7.10, OpenSearch 1 and later
// releases: _field_caps, and _search with aggregations (terms, range, date_range, filters, filter,
// missing, date_histogram, stats, avg, cardinality, weighted_avg), sort and search_after. 7.10 is
// the first release with wildcards that ignore case (case_insensitive). The cluster runs no
// scripts.
//
// According to Elasticsearch's reference, requests can use fields of the types keyword, date and
// number. Dynamic mapping makes a string a text; its values are then in the sub-field .keyword.
package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/access"
	"rmreplay/internal/accounting/forward"
	"rmreplay/internal/lines"
)

const (
	searchTime = 30 * time.Second
	maxAnswer  = 64 << 20
)

// Options configures [New].
type Options struct {
	// URL is the address of the cluster and of the index: http(s)://HOST:PORT/INDEX. INDEX may be a
	// list with commas, and contain asterisks.
	URL string
	// Credentials is a file with one line: USER:PASSWORD, "ApiKey KEY" or "Bearer TOKEN". Only the
	// file's owner may have access. Without it, requests have no credentials.
	Credentials string
	// Client sends the requests; nil means a client with a timeout of 30 s.
	Client *http.Client
}

// Cluster answers questions from the indices of a cluster.
type Cluster struct {
	base          string // URL without the index
	index         string
	authorization string
	http          *http.Client

	mu      sync.Mutex
	fields  *fields
	expires time.Time // when the fields must be requested again
}

// New returns a cluster. It sends no request.
func New(opts Options) (*Cluster, error) {
	server, index, err := forward.Target(opts.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the Elasticsearch cluster: %w", err)
	case index == "":
		return nil, fmt.Errorf("the Elasticsearch cluster: %s: no name of an index (want http://HOST:PORT/INDEX)", opts.URL)
	}
	c := &Cluster{base: server, index: index, http: opts.Client}
	if c.http == nil {
		c.http = &http.Client{Timeout: searchTime, CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	c.authorization, err = access.Authorization(opts.Credentials)
	return c, err
}

// fault is the cluster's response to a request that failed.
type fault struct {
	Error struct {
		Type      string `json:"type"`
		Reason    string `json:"reason"`
		RootCause []struct {
			Type   string `json:"type"`
			Reason string `json:"reason"`
		} `json:"root_cause"`
	} `json:"error"`
}

// do sends a request, and decodes the response, a JSON object. The parameter to points to the
// variable for the result.
func (c *Cluster) do(ctx context.Context, method, path string, body, to any) error {
	var from io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		from = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, from)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.authorization != "" {
		request.Header.Set("Authorization", c.authorization)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the Elasticsearch cluster: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer of the Elasticsearch cluster: %w", err)
	case len(text) > maxAnswer:
		return fmt.Errorf("the answer of the Elasticsearch cluster has more than %d MiB", maxAnswer>>20)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the Elasticsearch cluster answers %s: %s", response.Status, reason(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("the answer of the Elasticsearch cluster is not the expected JSON: %w: %s", err, excerpt(text))
	}
	return nil
}

// reason returns the cluster's reason for an error.
func reason(text []byte) string {
	var f fault
	if json.Unmarshal(text, &f) != nil || f.Error.Type == "" {
		return excerpt(text)
	}
	said := f.Error.Type + ": " + f.Error.Reason
	if causes := f.Error.RootCause; len(causes) > 0 && causes[0].Reason != f.Error.Reason {
		said += " (" + causes[0].Type + ": " + causes[0].Reason + ")"
	}
	return excerpt([]byte(said))
}

// excerpt returns the beginning of a response, for error messages.
func excerpt(text []byte) string {
	const most = 500
	if s := lines.OneLine(strings.ToValidUTF8(string(text[:min(len(text), most)]), "?")); s != "" {
		return s
	}
	return "(empty)"
}

// found is the response to a search.
type found struct {
	TimedOut bool `json:"timed_out"`
	Shards   struct {
		Total    int `json:"total"`
		Failed   int `json:"failed"`
		Failures []struct {
			Reason struct {
				Type   string `json:"type"`
				Reason string `json:"reason"`
			} `json:"reason"`
		} `json:"failures"`
	} `json:"_shards"`
	Hits struct {
		Total struct {
			Value int64 `json:"value"`
		} `json:"total"`
		Hits []hit `json:"hits"`
	} `json:"hits"`
	Aggregations map[string]any `json:"aggregations"`
}

type hit struct {
	Index  string          `json:"_index"`
	ID     string          `json:"_id"`
	Source json.RawMessage `json:"_source"`
	Sort   []any           `json:"sort"`
}

// search requests jobs or aggregations. It returns an error if only some of the shards answer.
func (c *Cluster) search(ctx context.Context, body map[string]any) (*found, error) {
	var f found
	if err := c.do(ctx, http.MethodPost, "/"+url.PathEscape(c.index)+"/_search", body, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Shards.Failed > 0 && len(f.Shards.Failures) > 0:
		why := f.Shards.Failures[0].Reason
		return nil, fmt.Errorf("%d of the Elasticsearch cluster's %d shards failed: %s: %s", f.Shards.Failed,
			f.Shards.Total, why.Type, why.Reason)
	case f.Shards.Failed > 0:
		return nil, fmt.Errorf("%d of the Elasticsearch cluster's %d shards failed", f.Shards.Failed, f.Shards.Total)
	case f.TimedOut:
		return nil, errors.New("the Elasticsearch cluster ended the search because it took too long")
	}
	return &f, nil
}
