// Command elastictyped asks through go-elasticsearch's whole client: its typed functions, its check of
// the server, and its helper for bulk requests. It takes minutes to compile.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/elastic/go-elasticsearch/v9"
	"github.com/elastic/go-elasticsearch/v9/esutil"
	"github.com/elastic/go-elasticsearch/v9/typedapi/types"
	"github.com/elastic/go-elasticsearch/v9/typedapi/types/enums/refresh"

	"rmreplay/tools/searchclients/client"
	"rmreplay/tools/searchclients/elasticapi"
)

func main() {
	client.Main(func(address string) (client.Client, error) {
		plain, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{address}, DisableRetry: true})
		if err != nil {
			return nil, err
		}
		typed, err := elasticsearch.NewTypedClient(elasticsearch.Config{Addresses: []string{address}, DisableRetry: true})
		return typedClient{elasticapi.Client{Transport: plain}, plain, typed}, err
	})
}

// typedClient uses the typed functions, except for requests with several searches, which use the
// function of the path _msearch.
type typedClient struct {
	elasticapi.Client
	plain *elasticsearch.Client
	typed *elasticsearch.TypedClient
}

// fail returns the client's own error.
func fail(err error) error {
	var e *types.ElasticsearchError
	if !errors.As(err, &e) {
		return err
	}
	f := &client.Failure{Class: fmt.Sprintf("%T", e), Status: e.Status, Type: e.ErrorCause.Type}
	if e.ErrorCause.Reason != nil {
		f.Reason = *e.ErrorCause.Reason
	}
	return f
}

// Info implements [client.Client].
func (c typedClient) Info(ctx context.Context) (any, error) {
	answer, err := c.typed.Info().Do(ctx)
	return answer, fail(err)
}

// Index implements [client.Client].
func (c typedClient) Index(ctx context.Context, index string, document []byte) (any, error) {
	answer, err := c.typed.Index(index).Raw(bytes.NewReader(document)).Refresh(refresh.True).Do(ctx)
	return answer, fail(err)
}

// Bulk implements [client.Client].
func (c typedClient) Bulk(ctx context.Context, index string, documents [][]byte) (int, error) {
	helper, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: c.plain, Index: index, Refresh: "true", NumWorkers: 2})
	if err != nil {
		return 0, err
	}
	var stored atomic.Int64
	for _, d := range documents {
		err := helper.Add(ctx, esutil.BulkIndexerItem{Action: "index", Body: bytes.NewReader(d), OnSuccess: func(context.Context, esutil.BulkIndexerItem, esutil.BulkIndexerResponseItem) {
			stored.Add(1)
		}})
		if err != nil {
			return 0, err
		}
	}
	if err := helper.Close(ctx); err != nil {
		return 0, err
	}
	if s := helper.Stats(); int64(s.NumIndexed) != stored.Load() || s.NumFailed > 0 {
		return 0, fmt.Errorf("%d items succeeded, and the helper counts %+v", stored.Load(), s)
	}
	return int(stored.Load()), nil
}

// Search implements [client.Client]. The answer has only the fields of the server's answer that the
// client's types have.
func (c typedClient) Search(ctx context.Context, index string, body []byte) (any, error) {
	answer, err := c.typed.Search().Index(index).Raw(bytes.NewReader(body)).TypedKeys(true).Do(ctx)
	if err != nil {
		return nil, fail(err)
	}
	text, err := json.Marshal(answer)
	return json.RawMessage(text), err
}

// Count implements [client.Client].
func (c typedClient) Count(ctx context.Context, index string, body []byte) (any, error) {
	answer, err := c.typed.Count().Index(index).Raw(bytes.NewReader(body)).Do(ctx)
	return answer, fail(err)
}

// Mapping implements [client.Client].
func (c typedClient) Mapping(ctx context.Context, index string) (any, error) {
	answer, err := c.typed.Indices.GetMapping().Index(index).Do(ctx)
	return answer, fail(err)
}
