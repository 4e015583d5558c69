package search_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/store"
)

// TestHostile sends requests, and stores documents made for them, that once took all memory or
// never ended.
func TestHostile(t *testing.T) {
	s, err := store.Open(context.Background(), t.TempDir(), store.Options{Memory: 256,
		ReadTime: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const head = `{"@submit":"2024-03-01T00:00:00","color":"red",`
	long := strings.Repeat("a", 200)
	texts := []string{
		head + `"jobid":1,"deep":` + strings.Repeat("[", 5<<20) + strings.Repeat("]", 5<<20) + `}`,
		head + `"jobid":2,"deep":` + strings.Repeat(`{"a":`, 1<<20) + "1" + strings.Repeat("}", 1<<20) + `}`,
		head + `"jobid":3,"wide":[` + strings.Repeat("1,", 5<<20) + `1]}`,
		// A document that is large because of its strings is searched.
		head + `"jobid":4,"script":"#!/bin/sh\n# x ` + strings.Repeat(`[{,\"\\ `, 100_000) + `"}`,
	}
	for i := 5; i <= 2000; i++ {
		texts = append(texts, head+fmt.Sprintf(`"jobid":%d,"job_name":"%s","script":"%s"}`, i, long,
			strings.Repeat(`#xyz0123\n`, 300)))
	}
	var entries []store.Entry
	for i, text := range texts {
		entries = append(entries, store.Entry{
			Seq: int64(i + 1), Arrived: now, Source: store.Received, Index: "slurm", Document: []byte(text),
			Job: document.Parse([]byte(text), "c"),
		})
	}
	if _, err := s.Apply(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, s, nil, 3000)
	var members []any
	for i := range 150 {
		members = append(members, m{"term": m{fmt.Sprintf("foo%d", i): "x"}})
	}
	var words []string
	for i := range 150 {
		words = append(words, fmt.Sprintf("foo%d:x", i))
	}
	wildcard := func(field, pattern string) any { return m{"wildcard": m{field: pattern}} }
	for _, c := range []struct {
		name  string
		query any
		want  int
	}{
		{"a member", m{"term": m{"color": "red"}}, 1997},
		{"a member of a large script", m{"query_string": m{"query": "color:red AND jobid:<5"}}, 1},
		{"no member", m{"bool": m{"must_not": m{"exists": m{"field": "color"}}}}, 3},
		{"many members", m{"bool": m{"should": append(members, m{"term": m{"color": "red"}})}}, 1997},
		{"many words", m{"query_string": m{"query": strings.Join(words, " OR ")}}, 0},
		{"asterisks", wildcard("job_name", strings.Repeat("*a", 20)+"*b"), 0},
		{"asterisks that match", wildcard("job_name", strings.Repeat("*a", 200)), 1996},
		{"asterisks in scripts", wildcard("script", "*#*x*x*x*y*q"), 0},
		{"question marks", wildcard("script", "*#??????????q"), 0},
		{"asterisks in a query string", m{"query_string": m{"query": "job_name:*a*a*a*a*a*a*a*b script:*#*x*x*x*y*q"}}, 0},
	} {
		begun := time.Now()
		status, answer := f.ask(t, "POST", "/_count", m{"query": c.query})
		if status != 200 || answer["count"] != float64(c.want) {
			t.Errorf("%s: %d %v, want %d jobs", c.name, status, answer, c.want)
		}
		t.Logf("%-30s %v", c.name, time.Since(begun).Round(time.Millisecond))
	}
}
