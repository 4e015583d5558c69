package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/workload/transform"
)

// Comparisons of a column with texts in SQL: state = 'FAILED', user_name IN ('ada', 'bob').
var (
	sqlCompared = regexp.MustCompile(`(?i)\b([a-z_]\w*)"?\s*(?:==?\s*|\bIN\s*\(\s*)(` + sqlText + `(?:\s*,\s*` +
		sqlText + `)*)`)
	sqlTexts = regexp.MustCompile(sqlText)
)

const sqlText = `'(?:[^']|'')*'`

// comparedIn finds the texts that a condition in SQL compares with columns of texts.
func comparedIn(condition string) *transform.Compared {
	c := transform.Asked()
	for _, found := range sqlCompared.FindAllStringSubmatch(condition, -1) {
		name := strings.ToLower(found[1])
		isText := func(c store.Column) bool { return c.Name == name && strings.HasPrefix(c.Type, "VARCHAR") }
		if !slices.ContainsFunc(store.Columns, isText) {
			continue
		}
		for _, text := range sqlTexts.FindAllString(found[2], -1) {
			if text == "''" {
				continue
			}
			c.Ask(name, strings.ReplaceAll(text[1:len(text)-1], "''", "'"))
		}
	}
	return c
}

// absent asks the server which texts of a condition no job has; see [transform.Compared.Absent].
func (c *client) absent(ctx context.Context, condition string) (text string, err error) {
	if len(comparedIn(condition).Fields()) == 0 {
		return "", nil
	}
	body, err := json.Marshal(request{Filter: store.Filter{Where: condition}})
	if err != nil {
		return "", err
	}
	answer, err := c.stream(ctx, http.MethodPost, "/_accounting/absent", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Close() // the body was only read
	if err := json.NewDecoder(answer).Decode(&text); err != nil {
		return "", fmt.Errorf("reading the values of columns: %w", unexpected(err))
	}
	return text, nil
}

// absent responds with the texts of a condition that no job has.
func (s *site) absent(w http.ResponseWriter, r *http.Request) {
	asked, ok := decode(w, r)
	if !ok {
		return
	}
	compared := comparedIn(asked.Filter.Where)
	v := s.intake.Store().View()
	defer v.Close()
	err := v.Ask(r.Context(), func(snapshot *store.Snapshot) error {
		for _, column := range compared.Fields() {
			const most = 10_000 // a mistyped name is compared with these values
			rows, err := snapshot.All(fmt.Sprintf("SELECT DISTINCT %[1]s FROM jobs WHERE %[1]s IS NOT NULL ORDER BY 1 "+
				"LIMIT %[2]d", column, most))
			if err != nil {
				return err
			}
			for _, row := range rows {
				compared.Has(column, fmt.Sprint(row[0]))
			}
		}
		return nil
	})
	if err != nil {
		receive.Fail(w, http.StatusInternalServerError, "store_exception", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(compared.Absent()) // an error means that the client has disconnected
}
