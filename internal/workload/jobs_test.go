package workload

import (
	"iter"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/hpc/hpctest"
)

// setAll sets every field of a value by reflection, so that the test also covers fields that are
// added to a job later.
func setAll(t *testing.T, v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(string(rune('A' + *n%26)))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setAll(t, v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			setAll(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		setAll(t, v.Index(0), n)
		setAll(t, v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		setAll(t, key, n)
		setAll(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("no way to set a %s", v.Type())
	}
}

// Every field of a job is read back unchanged, in jobs with one set field and in a job with all.
func TestJobsKeepEveryField(t *testing.T) {
	var full hpc.Job
	n := 0
	setAll(t, reflect.ValueOf(&full).Elem(), &n)
	jobs := JobsOf(&full, &hpc.Job{}, &full)
	if diff := cmp.Diff([]*hpc.Job{&full, {}, &full}, jobs.List()); diff != "" {
		t.Errorf("-put +got\n%s", diff)
	}
	for _, part := range []reflect.Type{reflect.TypeFor[hpc.Job](), reflect.TypeFor[hpc.Request](), reflect.TypeFor[hpc.Behaviour]()} {
		for i := range part.NumField() {
			job := &hpc.Job{}
			name := part.Field(i).Name
			reflect.ValueOf(job).Elem().FieldByName(name).Set(reflect.ValueOf(full).FieldByName(name))
			if jobs := JobsOf(job); !cmp.Equal(job, jobs.At(0)) {
				t.Errorf("%s: %s", name, cmp.Diff(job, jobs.At(0)))
			}
		}
	}
}

// Any job is read back unchanged, even if the variable that it is read into held another job.
func TestJobsKeepAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []*hpc.Job
		for range rapid.IntRange(0, 10).Draw(t, "jobs") {
			job := &hpc.Job{}
			hpctest.Draw(t, "job", job)
			want = append(want, job)
		}
		jobs := JobsOf(want...)
		for i, job := range jobs.All() {
			if diff := cmp.Diff(want[i], job); diff != "" {
				t.Fatalf("job %d: -put +got\n%s", i, diff)
			}
			if jobs.Submit(i) != want[i].Submit {
				t.Fatalf("job %d is submitted at %s, want %s", i, jobs.Submit(i), want[i].Submit)
			}
		}
	})
}

func ids(l *Jobs) (list []string) {
	for _, job := range l.All() {
		list = append(list, job.ID)
	}
	return list
}

// A change of a list does not change its clone.
func TestJobsEdit(t *testing.T) {
	of := func(id string, at hpc.Time) *hpc.Job { return &hpc.Job{ID: id, Submit: at} }
	all := JobsOf(of("d", 4), of("b", 2), of("a", 1), of("c", 2))
	edited := all.Clone()
	edited.Sort()
	edited.Change(3, func(j *hpc.Job) { j.ID = "last" })
	edited.Append(of("e", 0))
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"edited", ids(&edited), []string{"a", "b", "c", "last", "e"}},
		{"original", ids(&all), []string{"d", "b", "a", "c"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	picked, first := all.Pick([]int{2, 0}), all.First(2)
	picked.Concat(&first)
	picked.Delete(func(j *hpc.Job) bool { return j.ID == "d" })
	if got := ids(&picked); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("picked: %v", got)
	}
	if whole := all.First(99); !whole.Equal(all) || whole.Equal(picked) || !(&Jobs{}).Equal(JobsOf()) {
		t.Error("what is equal")
	}
}

// TestInParts checks that every job is visited once, and that the results come in the order of
// the jobs.
func TestInParts(t *testing.T) {
	for _, count := range []int{0, 1, 2, 1001} {
		var jobs Jobs
		for i := range count {
			jobs.Append(&hpc.Job{ID: strconv.Itoa(i)})
		}
		var got []string
		for _, part := range InParts(&jobs, func(part iter.Seq2[int, *hpc.Job]) (ids []string) {
			for i, job := range part {
				if job.ID != strconv.Itoa(i) {
					t.Errorf("job %s is at place %d", job.ID, i)
				}
				ids = append(ids, job.ID)
			}
			return ids
		}) {
			got = append(got, part...)
		}
		for i, id := range got {
			if id != strconv.Itoa(i) {
				t.Fatalf("place %d: job %s", i, id)
			}
		}
		if len(got) != count {
			t.Errorf("%d jobs visited, want %d", len(got), count)
		}
	}
}

// BenchmarkJobs packs and unpacks jobs like those of a log.
func BenchmarkJobs(b *testing.B) {
	job := func(i int) *hpc.Job {
		j := &hpc.Job{ID: strconv.Itoa(i), Submit: hpc.Unix(int64(800000000 + 131*i))}
		j.User, j.Group, j.Partition, j.Name = "user"+strconv.Itoa(i%200), "group1", "p", "app"+strconv.Itoa(i%50)
		j.Tasks, j.TimeLimit, j.RunTime = 1+i%100, 4*time.Hour, time.Duration(i%14000)*time.Second
		j.Recorded = &hpc.Recorded{Start: j.Submit.Add(time.Minute), End: j.Submit.Add(time.Hour), Processors: 1 + i%100, State: hpc.Completed}
		return j
	}
	const count = 10000
	var jobs Jobs
	for i := range count {
		jobs.Append(job(i))
	}
	b.Run("get", func(b *testing.B) {
		j := new(hpc.Job)
		for i := range b.N {
			jobs.Get(i%count, j)
		}
	})
	one := job(5)
	b.Run("append", func(b *testing.B) {
		var jobs Jobs
		for range b.N {
			jobs.Append(one)
		}
	})
}
