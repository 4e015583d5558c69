// Package client asks a server of finished jobs the same questions through any client of
// Elasticsearch. A test of package search starts the server, and compares what the clients print.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Client is one of the official clients. Answers can be written as JSON; some clients decode them
// into types of their own first. An error of the server is a [*Failure].
type Client interface {
	Info(ctx context.Context) (any, error)
	Index(ctx context.Context, index string, document []byte) (any, error)
	// Bulk sends documents by the client's own helper, and returns how many it counts as stored.
	Bulk(ctx context.Context, index string, documents [][]byte) (stored int, err error)
	Search(ctx context.Context, index string, body []byte) (any, error)
	Count(ctx context.Context, index string, body []byte) (any, error)
	Mapping(ctx context.Context, index string) (any, error)
	Msearch(ctx context.Context, index string, lines []byte) (any, error)
}

// Failure is an error of the server, with the data that the client's own type of errors has.
type Failure struct {
	Class  string `json:"class"` // the name of the client's type
	Status int    `json:"status"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

func (f *Failure) Error() string { return fmt.Sprintf("%d %s: %s", f.Status, f.Type, f.Reason) }

// Question is a search with a name.
type Question struct {
	Name string          `json:"name"`
	Body json.RawMessage `json:"body"`
}

// Index is the name of the index that the clients use.
const Index = "vale"

// page is the number of jobs in one page, when all jobs are read page by page.
const page = 17

// Main asks through a client: os.Args are the server's URL and a directory with documents.json and
// questions.json. It prints an object for each answer and exits.
func Main(open func(url string) (Client, error)) {
	if err := run(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(open func(url string) (Client, error)) error {
	if len(os.Args) != 3 {
		return errors.New("want a URL and a directory")
	}
	var documents []json.RawMessage
	var questions []Question
	for name, to := range map[string]any{"documents.json": &documents, "questions.json": &questions} {
		text, err := os.ReadFile(filepath.Join(os.Args[2], name))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, to); err != nil {
			return err
		}
	}
	c, err := open(os.Args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return ask(ctx, c, documents, questions)
}

// ask sends all requests and prints an object for each answer.
func ask(ctx context.Context, c Client, documents []json.RawMessage, questions []Question) error {
	var failed error
	show := func(name string, answer any, err error) {
		out := map[string]any{"name": name, "answer": answer}
		var failure *Failure
		switch {
		case errors.As(err, &failure):
			out = map[string]any{"name": name, "failure": failure}
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			return
		}
		failed = errors.Join(failed, json.NewEncoder(os.Stdout).Encode(out))
	}
	answer, err := c.Info(ctx)
	show("info", answer, err)
	answer, err = c.Index(ctx, Index, documents[0])
	show("index", answer, err)
	var rest [][]byte
	for _, d := range documents[1:] {
		rest = append(rest, d)
	}
	stored, err := c.Bulk(ctx, Index, rest)
	show("bulk", stored, err)
	answer, err = c.Mapping(ctx, Index)
	show("mapping", answer, err)
	answer, err = c.Count(ctx, Index, []byte(`{"query":{"term":{"state":"FAILED"}}}`))
	show("count", answer, err)
	var lines bytes.Buffer
	for _, q := range questions {
		answer, err := c.Search(ctx, Index, q.Body)
		show(q.Name, answer, err)
		if err == nil {
			lines.WriteString("{}\n")
			lines.Write(q.Body)
			lines.WriteByte('\n')
		}
	}
	answer, err = c.Msearch(ctx, Index, lines.Bytes())
	show("msearch", answer, err)
	_, err = c.Search(ctx, "absent", []byte(`{}`))
	show("absent", nil, err)
	ids, err := walk(ctx, c)
	show("walk", ids, err)
	return failed
}

// walk returns the ids of all jobs, page by page.
func walk(ctx context.Context, c Client) (ids []string, err error) {
	var after []any
	for {
		body := map[string]any{"size": page, "sort": []any{map[string]any{"@end": "desc"}, "jobid"}, "_source": false}
		if after != nil {
			body["search_after"] = after
		}
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		answer, err := c.Search(ctx, Index, text)
		if err != nil {
			return nil, err
		}
		var found struct {
			Hits struct {
				Hits []struct {
					ID   string `json:"_id"`
					Sort []any  `json:"sort"`
				} `json:"hits"`
			} `json:"hits"`
		}
		if text, err = json.Marshal(answer); err != nil {
			return nil, err
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&found); err != nil {
			return nil, err
		}
		for _, h := range found.Hits.Hits {
			ids = append(ids, h.ID)
			after = h.Sort
		}
		if len(found.Hits.Hits) < page {
			return ids, nil
		}
	}
}
