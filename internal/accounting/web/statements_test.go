package web

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/store/storetest"
)

// FuzzStatements checks that parameters are an error, or become statements whose texts have nothing of
// them: each question mark has an argument, and each word is one of this program's source. FuzzRequest
// runs such statements.
func FuzzStatements(f *testing.F) {
	for _, seed := range []string{
		"q=user_name:alice+state:(FAILED OR TIMEOUT)+elapsed_s>2h", "f=partition%3Dgpu&f=state!%3DX&last=7d&zone=Europe/Zurich", "q=-(a OR \"b c\") AND nodes:[1 TO 5]",
		"from=2024-03-01&until=2024-04-01&sort=-user_name&columns=jobid,hour&rows=5&page=2", "q='; DROP TABLE jobs; --", "last=all&zone=Australia/Lord_Howe", "q=hour:3 limit_used<5e1", `q=\%25_*"\?"`,
	} {
		f.Add(seed)
	}
	words := map[string]bool{}
	letters := regexp.MustCompile(`[A-Za-z_]+`)
	for _, pattern := range []string{"*.go", "../store/columns.go", "../store/rollup.go", "../question/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				for _, w := range letters.FindAllString(string(text), -1) {
					words[w] = true
				}
			}
		}
	}
	now := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		r, err := parseRequest(values, now)
		if err != nil || r.bound(now.AddDate(0, -2, 0), now) != nil {
			return
		}
		for _, p := range []*panel{panelOf("exits"), panelOf("utilization"), panelOf("week"), panelOf("table")} {
			q := p.query(r, &sizes{})
			checkStatement(t, words, q)
			if len(q.sql) > 100_000+100*len(text) {
				t.Fatalf("%d bytes of parameters become %d", len(text), len(q.sql))
			}
		}
	})
}

// checkStatement checks a statement's text.
func checkStatement(t *testing.T, words map[string]bool, q condition) {
	t.Helper()
	storetest.CheckStatement(t, words, q.sql, len(q.args))
}
