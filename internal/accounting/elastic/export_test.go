package elastic

import (
	"context"
	"encoding/json"

	"rmreplay/internal/accounting/question"
)

// QueryText returns the query that is sent for a filter.
func QueryText(ctx context.Context, c *Cluster, chosen question.Filter) ([]byte, error) {
	known, err := c.known(ctx)
	if err != nil {
		return nil, err
	}
	query, err := known.filter(chosen)
	if err != nil {
		return nil, err
	}
	return json.Marshal(query)
}
