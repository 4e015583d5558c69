package hpc

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseArray(t *testing.T) {
	for spec, want := range map[string]Array{
		"0":                 {Tasks: []int{0}},
		"5":                 {Tasks: []int{5}},
		"1-4":               {Tasks: []int{1, 2, 3, 4}},
		"1-10:3%2":          {Tasks: []int{1, 4, 7, 10}, Limit: 2},
		"0-6:2%3":           {Tasks: []int{0, 2, 4, 6}, Limit: 3},
		"1,3,5-7":           {Tasks: []int{1, 3, 5, 6, 7}},
		"5,1-3,2":           {Tasks: []int{1, 2, 3, 5}},
		"1-3,2-4":           {Tasks: []int{1, 2, 3, 4}},
		"[7-8]":             {Tasks: []int{7, 8}},
		"[1,3]%1":           {Tasks: []int{1, 3}, Limit: 1},
		"1-10:20":           {Tasks: []int{1}},
		"0-9%0":             {Tasks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"4000000":           {Tasks: []int{4000000}},
		"007":               {Tasks: []int{7}},
		"0-4000000:4000000": {Tasks: []int{0, 4000000}},
	} {
		got, err := ParseArray(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", spec, diff)
		}
	}
}

func TestParseArrayRefuses(t *testing.T) {
	const form = "not an array (want 0-15, 1,3,5-7 or 0-15:4, perhaps with %LIMIT)"
	for spec, want := range map[string]string{
		"":                              form,
		"a":                             form,
		"1-":                            form,
		"-1":                            form,
		"+1":                            form,
		"1,,2":                          form,
		"1,":                            form,
		"1-3:0":                         form,
		"5:2":                           form,
		"1-9:2:2":                       form,
		"1-3%":                          form,
		"1-3%x":                         form,
		"1-3%-1":                        form,
		"1-3%2%2":                       form,
		"%":                             form,
		"9999999999":                    form,
		"3-1":                           "range 3-1 runs backwards",
		"5-1:2":                         "range 5-1 runs backwards",
		"4000001":                       "index 4000001 is above 4000000",
		"0-4000001":                     "index 4000001 is above 4000000",
		"0-4000000,0-4000000,0-4000000": "more than 4000000 tasks",
	} {
		if got, err := ParseArray(spec); err == nil || err.Error() != want {
			t.Errorf("%q: got %d tasks and error %v, want %q", spec, len(got.Tasks), err, want)
		}
	}
}

func FuzzParseArray(f *testing.F) {
	for _, s := range []string{"1-10:2%3", "0,3,5-7", "1-", "%", ",", "[1-4]", "0-4000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		a, err := ParseArray(spec)
		if (err == nil) == (len(a.Tasks) == 0) {
			t.Errorf("%q: %d tasks with error %v", spec, len(a.Tasks), err)
		}
		if err != nil {
			return
		}
		if first, last := a.Tasks[0], a.Tasks[len(a.Tasks)-1]; first < 0 || last > MaxArrayIndex || a.Limit < 0 {
			t.Errorf("%q: tasks from %d to %d, limit %d", spec, first, last, a.Limit)
		}
		for i := 1; i < len(a.Tasks); i++ {
			if a.Tasks[i-1] >= a.Tasks[i] {
				t.Fatalf("%q: %v is not ascending", spec, a.Tasks[i-1:i+1])
			}
		}
	})
}

func TestSplitTask(t *testing.T) {
	for id, want := range map[string]string{
		"17_3": "17 3 true", "a_b_0": "a_b 0 true", "17_03": "17 3 true", "17": "", "17_": "", "_3": "", "17_*": "", "17_-1": "", "17_4294967296": "",
	} {
		array, task, ok := SplitTask(id)
		if got := fmt.Sprint(array, " ", task, " ", ok); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, want %q", id, got, want)
		}
	}
}
