// Command elastic asks through go-elasticsearch 9: its client, which checks what server it talks to,
// its BulkIndexer and its typed search. With "8" as the first argument it asks through release 8.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	elastic8 "github.com/elastic/go-elasticsearch/v8"
	bulk8 "github.com/elastic/go-elasticsearch/v8/esutil"
	types8 "github.com/elastic/go-elasticsearch/v8/typedapi/types"
	elastic9 "github.com/elastic/go-elasticsearch/v9"
	bulk9 "github.com/elastic/go-elasticsearch/v9/esutil"
	types9 "github.com/elastic/go-elasticsearch/v9/typedapi/types"

	"rmreplay/tools/searchclients/client"
	"rmreplay/tools/searchclients/elasticapi"
)

func main() {
	open := open9
	if len(os.Args) > 1 && os.Args[1] == "8" {
		os.Args = slices.Delete(os.Args, 1, 2)
		open = open8
	}
	client.Main(open)
}

type client9 struct {
	elasticapi.Client
	typed *elastic9.TypedClient
}

func open9(url string) (client.Client, error) {
	config := elastic9.Config{Addresses: []string{url}, DisableRetry: true, CompressRequestBody: true}
	c, err := elastic9.NewClient(config)
	if err != nil {
		return nil, err
	}
	typed, err := elastic9.NewTypedClient(config)
	return &client9{elasticapi.Client{Transport: c}, typed}, err
}

// Bulk uses the client's BulkIndexer.
func (c *client9) Bulk(ctx context.Context, index string, documents [][]byte) (int, error) {
	indexer, err := bulk9.NewBulkIndexer(bulk9.BulkIndexerConfig{Client: c.Transport, Index: index, Refresh: "true", NumWorkers: 2, FlushBytes: 4096})
	if err != nil {
		return 0, err
	}
	var stored atomic.Int64
	for _, d := range documents {
		item := bulk9.BulkIndexerItem{Action: "index", Body: bytes.NewReader(d), OnSuccess: func(context.Context, bulk9.BulkIndexerItem, bulk9.BulkIndexerResponseItem) { stored.Add(1) }}
		if err := indexer.Add(ctx, item); err != nil {
			return 0, err
		}
	}
	err = indexer.Close(ctx)
	if stats := indexer.Stats(); err == nil && (stats.NumFailed != 0 || int64(stats.NumFlushed) != stored.Load()) {
		err = fmt.Errorf("the BulkIndexer counts %+v, and its items %d", stats, stored.Load())
	}
	return int(stored.Load()), err
}

// Search uses the client's typed search, which reads every part of the answer.
func (c *client9) Search(ctx context.Context, index string, body []byte) (any, error) {
	answer, err := c.typed.Search().Index(index).Raw(bytes.NewReader(body)).Do(ctx)
	var failure *types9.ElasticsearchError
	if errors.As(err, &failure) {
		return nil, &client.Failure{Class: fmt.Sprintf("%T", failure), Status: failure.Status, Type: failure.ErrorCause.Type, Reason: *failure.ErrorCause.Reason}
	}
	return answer, err
}

type client8 struct {
	elasticapi.Client
	typed *elastic8.TypedClient
}

func open8(url string) (client.Client, error) {
	config := elastic8.Config{Addresses: []string{url}, DisableRetry: true, CompressRequestBody: true}
	c, err := elastic8.NewClient(config)
	if err != nil {
		return nil, err
	}
	typed, err := elastic8.NewTypedClient(config)
	return &client8{elasticapi.Client{Transport: c}, typed}, err
}

// Bulk uses the client's BulkIndexer.
func (c *client8) Bulk(ctx context.Context, index string, documents [][]byte) (int, error) {
	indexer, err := bulk8.NewBulkIndexer(bulk8.BulkIndexerConfig{Client: c.Transport, Index: index, Refresh: "true", NumWorkers: 2, FlushBytes: 4096})
	if err != nil {
		return 0, err
	}
	var stored atomic.Int64
	for _, d := range documents {
		item := bulk8.BulkIndexerItem{Action: "index", Body: bytes.NewReader(d), OnSuccess: func(context.Context, bulk8.BulkIndexerItem, bulk8.BulkIndexerResponseItem) { stored.Add(1) }}
		if err := indexer.Add(ctx, item); err != nil {
			return 0, err
		}
	}
	err = indexer.Close(ctx)
	return int(stored.Load()), err
}

// Search uses the client's typed search.
func (c *client8) Search(ctx context.Context, index string, body []byte) (any, error) {
	answer, err := c.typed.Search().Index(index).Raw(bytes.NewReader(body)).Do(ctx)
	var failure *types8.ElasticsearchError
	if errors.As(err, &failure) {
		return nil, &client.Failure{Class: fmt.Sprintf("%T", failure), Status: failure.Status, Type: failure.ErrorCause.Type, Reason: *failure.ErrorCause.Reason}
	}
	return answer, err
}
