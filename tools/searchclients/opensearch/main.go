// Command opensearch asks through opensearch-go, which decodes every answer into its own types.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"

	"rmreplay/tools/searchclients/client"
)

type openSearch struct{ *opensearchapi.Client }

func main() {
	client.Main(func(url string) (client.Client, error) {
		c, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{url}, DisableRetry: true, CompressRequestBody: true}})
		return openSearch{c}, err
	})
}

// failed converts an error of the client into a [client.Failure].
func failed(answer any, err error) (any, error) {
	var failure *opensearch.StructError
	if errors.As(err, &failure) {
		return nil, &client.Failure{Class: fmt.Sprintf("%T", failure), Status: failure.Status, Type: failure.Err.Type, Reason: failure.Err.Reason}
	}
	return answer, err
}

func (c openSearch) Info(ctx context.Context) (any, error) { return failed(c.Client.Info(ctx, nil)) }

func (c openSearch) Index(ctx context.Context, index string, document []byte) (any, error) {
	return failed(c.Client.Index(ctx, opensearchapi.IndexReq{Index: index, Body: bytes.NewReader(document), Params: opensearchapi.IndexParams{Refresh: "true"}}))
}

// Bulk uses the client's BulkIndexer.
func (c openSearch) Bulk(ctx context.Context, index string, documents [][]byte) (int, error) {
	indexer, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{Client: c.Client, Index: index, Refresh: "true", NumWorkers: 2, FlushBytes: 4096})
	if err != nil {
		return 0, err
	}
	var stored atomic.Int64
	for _, d := range documents {
		item := opensearchutil.BulkIndexerItem{Action: "index", Body: bytes.NewReader(d), OnSuccess: func(context.Context, opensearchutil.BulkIndexerItem, opensearchapi.BulkRespItem) { stored.Add(1) }}
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

func (c openSearch) Search(ctx context.Context, index string, body []byte) (any, error) {
	return failed(c.Client.Search(ctx, &opensearchapi.SearchReq{Indices: []string{index}, Body: bytes.NewReader(body)}))
}

func (c openSearch) Count(ctx context.Context, index string, body []byte) (any, error) {
	return failed(c.Client.Indices.Count(ctx, &opensearchapi.IndicesCountReq{Indices: []string{index}, Body: bytes.NewReader(body)}))
}

func (c openSearch) Mapping(ctx context.Context, index string) (any, error) {
	answer, err := c.Client.Indices.Mapping.Get(ctx, &opensearchapi.MappingGetReq{Indices: []string{index}})
	if err != nil {
		return failed(nil, err)
	}
	return answer.GetIndices(), nil
}

func (c openSearch) Msearch(ctx context.Context, index string, lines []byte) (any, error) {
	return failed(c.Client.MSearch(ctx, opensearchapi.MSearchReq{Indices: []string{index}, Body: bytes.NewReader(lines)}))
}
