// Package elasticapi asks through the part of go-elasticsearch that has a function for each path.
// It does not need the client's typed functions, which take minutes to compile.
package elasticapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/elastic/go-elasticsearch/v9/esapi"

	"rmreplay/tools/searchclients/client"
)

// Client asks through a transport.
type Client struct{ Transport esapi.Transport }

// decode returns the body of an answer.
func decode(r *esapi.Response, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.IsError() {
		var said struct {
			Error  struct{ Type, Reason string }
			Status int
		}
		if err := json.Unmarshal(text, &said); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		return nil, &client.Failure{Class: fmt.Sprintf("%T", r), Status: r.StatusCode, Type: said.Error.Type, Reason: said.Error.Reason}
	}
	return json.RawMessage(text), nil
}

// Info implements [client.Client].
func (c Client) Info(ctx context.Context) (any, error) {
	return decode(esapi.InfoRequest{}.Do(ctx, c.Transport))
}

// Index implements [client.Client].
func (c Client) Index(ctx context.Context, index string, document []byte) (any, error) {
	return decode(esapi.IndexRequest{Index: index, Body: bytes.NewReader(document), Refresh: "true"}.Do(ctx, c.Transport))
}

// Bulk implements [client.Client]. It writes the lines itself.
func (c Client) Bulk(ctx context.Context, index string, documents [][]byte) (int, error) {
	var lines bytes.Buffer
	for _, d := range documents {
		fmt.Fprintf(&lines, "{\"index\":{}}\n%s\n", d)
	}
	answer, err := decode(esapi.BulkRequest{Index: index, Body: &lines, Refresh: "true"}.Do(ctx, c.Transport))
	if err != nil {
		return 0, err
	}
	var said struct {
		Items []map[string]struct{ Status int }
	}
	if err := json.Unmarshal(answer.(json.RawMessage), &said); err != nil {
		return 0, err
	}
	stored := 0
	for _, item := range said.Items {
		if item["index"].Status == 201 {
			stored++
		}
	}
	return stored, nil
}

// Search implements [client.Client].
func (c Client) Search(ctx context.Context, index string, body []byte) (any, error) {
	return decode(esapi.SearchRequest{Index: []string{index}, Body: bytes.NewReader(body)}.Do(ctx, c.Transport))
}

// Count implements [client.Client].
func (c Client) Count(ctx context.Context, index string, body []byte) (any, error) {
	return decode(esapi.CountRequest{Index: []string{index}, Body: bytes.NewReader(body)}.Do(ctx, c.Transport))
}

// Mapping implements [client.Client].
func (c Client) Mapping(ctx context.Context, index string) (any, error) {
	return decode(esapi.IndicesGetMappingRequest{Index: []string{index}}.Do(ctx, c.Transport))
}

// Msearch implements [client.Client].
func (c Client) Msearch(ctx context.Context, index string, lines []byte) (any, error) {
	return decode(esapi.MsearchRequest{Index: []string{index}, Body: bytes.NewReader(lines)}.Do(ctx, c.Transport))
}
