package sacct

import (
	"encoding/json"
	"testing"
)

// TestJSONResources checks the resources and flags that the record keeps and a workload does not
// need. They are in the notation of sacct -P, without unknown amounts.
func TestJSONResources(t *testing.T) {
	for _, text := range []string{
		`{"job_id":17,"flags":["CLEAR_SCHEDULING","STARTED_ON_BACKFILL","START_RECEIVED"],"tres":{
			"allocated":[{"type":"cpu","name":null,"count":8},{"type":"mem","name":null,"count":4096},{"type":"energy","count":-2},{"type":"vmem"}],
			"requested":[{"type":"node","name":"","count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]}}`,
		`{"job_id":{"set":true,"number":17},"flags":["STARTED_ON_BACKFILL","START_RECEIVED"],"tres":{
			"allocated":[{"type":"cpu","count":{"set":true,"number":8}},{"type":"mem","count":"4096"},{"type":"energy","count":{"set":false,"number":7}}],
			"requested":[{"type":"node","count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]}}`,
	} {
		var j jsonJob
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		r, err := j.record()
		if err != nil {
			t.Fatal(err)
		}
		if r.AllocTRES != "cpu=8,mem=4096M" || r.ReqTRES != "node=2,gres/gpu=4,gres/gpu:a100=4" || r.GPUs != "a100:4" ||
			r.Flags != "SchedBackfill,StartReceived" || r.ReqNodes != 2 || r.AllocCPUs != 8 {
			t.Errorf("%+v", r)
		}
	}
	var j jsonJob
	if err := json.Unmarshal([]byte(`{"job_id":1,"flags":"x"}`), &j); err != nil || j.Flags != nil {
		t.Errorf("flags that are not lists: %v, %v", j.Flags, err)
	}
}
