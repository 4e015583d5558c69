package run

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArrayTasks(t *testing.T) {
	for spec, want := range map[string][]int{
		"5":                             {5},
		"1-4":                           {1, 2, 3, 4},
		"0-6:2%3":                       {0, 2, 4, 6},
		"1,3,5-7":                       {1, 3, 5, 6, 7},
		"5,1-3,2":                       {1, 2, 3, 5},
		"1-10:20":                       {1},
		"4000000":                       {4000000},
		"":                              nil,
		"a":                             nil,
		"1-":                            nil,
		"3-1":                           nil,
		"1-3:0":                         nil,
		"-1":                            nil,
		"1,,2":                          nil,
		"+1":                            nil,
		"1-9:2:2":                       nil,
		"0-4000001":                     nil,
		"9999999999":                    nil,
		"0-4000000,0-4000000,0-4000000": nil,
	} {
		got, ok := arrayTasks(spec)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("arrayTasks(%q) = %v, %v; want %v", spec, got, ok, want)
		}
	}
}

func FuzzArrayTasks(f *testing.F) {
	for _, s := range []string{"1-10:2%3", "0,3,5-7", "1-", "%", ",", "0-4000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		tasks, ok := arrayTasks(spec)
		if ok == (len(tasks) == 0) {
			t.Errorf("%q: ok is %v with %d tasks", spec, ok, len(tasks))
		}
		if len(tasks) > maxArrayTasks {
			t.Errorf("%q: %d tasks", spec, len(tasks))
		}
		if !slices.IsSorted(tasks) || len(slices.Compact(slices.Clone(tasks))) != len(tasks) {
			t.Errorf("%q: %v is not ascending", spec, tasks)
		}
	})
}
