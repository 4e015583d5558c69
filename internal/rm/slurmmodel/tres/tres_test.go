package tres

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := New("gres/gpu,GRES/gpu:A100,,license/matlab,cpu")
	for name, want := range map[string]int{"cpu": CPU, "mem": Memory, "billing": Billing, "gres/gpu": Fixed,
		"Gres/GPU:a100": Fixed + 1, "license/matlab": Fixed + 2} {
		if i, ok := table.Index(name); !ok || i != want {
			t.Errorf("%s has place %d, want %d", name, i, want)
		}
	}
	if _, ok := table.Index("gres/fpga"); ok || table.Len() != Fixed+3 {
		t.Errorf("the table has %d resources", table.Len())
	}
	for range 2 { // the second time, the table knows the devices
		gpu, a100 := table.Devices("gpu", "A100")
		fpga, none := table.Devices("fpga", "")
		if gpu != Fixed || a100 != Fixed+1 || fpga >= 0 || none >= 0 {
			t.Errorf("gpu %d, gpu:a100 %d, fpga %d, no type %d", gpu, a100, fpga, none)
		}
	}
	limits := table.Limits(map[string]int64{"cpu": 4, "gres/fpga": 1})
	if limits[CPU] != 4 || limits[Memory] != NoLimit {
		t.Errorf("limits %v", limits)
	}
	if table.Limits(map[string]int64{"gres/fpga": 1}) != nil || table.Limits(nil) != nil {
		t.Error("limits without a tracked resource are not nil")
	}
}

func TestWeights(t *testing.T) {
	table := New("gres/gpu,bb/cray")
	weights, err := table.Weights("CPU=1.5,Mem=0.25G,gres/GPU=3,bb/cray=2T,node=4k")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, Fixed+2)
	want[CPU], want[Memory], want[Node], want[Fixed], want[Fixed+1] = 1.5, 0.25/1024, 4./1024, 3, 2./(1<<20)
	if !slices.Equal(weights, want) {
		t.Errorf("weights %v, want %v", weights, want)
	}
	if none, err := table.Weights(""); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	for text, want := range map[string]string{
		"gres/fpga=1": `TRES weights "gres/fpga=1": "gres/fpga" is not tracked (want cpu, mem, node or one of AccountingStorageTRES)`,
		"cpu=x":       `TRES weights "cpu=x": cpu=x: not a number (want cpu=1.5)`,
	} {
		if _, err := table.Weights(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	amounts := table.Vector()
	amounts[CPU], amounts[Memory], amounts[Fixed], amounts[Billing] = 4, 8192, 1, 999
	for name, c := range map[string]struct {
		weights []float64
		most    bool
		want    float64
	}{
		"none": {nil, false, 4}, "sum": {weights, false, 6 + 2 + 3}, "most": {weights, true, 6},
	} {
		if got := table.Bill(c.weights, amounts, c.most); got != c.want {
			t.Errorf("%s: billing %v, want %v", name, got, c.want)
		}
	}
	if strings.Contains(table.Name(Fixed+1), "gpu") {
		t.Error(table.Name(Fixed + 1))
	}
}
