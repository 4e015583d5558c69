package cli

import "testing"

// TestPredictSchemas validates the JSON of predict evaluate and predict compare, with all of their
// optional keys.
func TestPredictSchemas(t *testing.T) {
	dir := t.TempDir()
	runHere(t, dir, 0, "workload", "generate", "lublin", "--jobs", "400", "--seed", "3", "-o", "w.jsonl")
	for _, c := range []struct {
		schema string
		args   []string
	}{
		{"predict-evaluate.schema.json", []string{"predict", "evaluate", "w.jsonl", "--json"}},
		{"predict-evaluate.schema.json", []string{"predict", "evaluate", "w.jsonl", "--models", "linear,last2", "--random-split", "--json"}},
		{"predict-compare.schema.json", []string{"predict", "compare", "w.jsonl", "--realizations", "2", "--json"}},
	} {
		out, _ := runHere(t, dir, 0, c.args...)
		validate(t, c.schema, []byte(out))
	}
}
