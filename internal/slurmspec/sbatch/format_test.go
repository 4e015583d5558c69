package sbatch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

var formatSubmit = hpc.Unix(1_709_280_000)

func TestFormat(t *testing.T) {
	for _, line := range []string{
		"-J a -n 4 -t 90",
		"-N 2-4 -n 8 --ntasks-per-node=4 -c 2 --mem=0 --exclusive",
		"-N 3-0 --mem-per-cpu=2G -t UNLIMITED --time-min=1-00:00:00",
		"-w n[1-4] -x n9 -N 1 -n 4 --switches=2@60 -d after:17+5,singleton -k",
		"--exclusive=user --gres=gpu:2 -G a100:4 --gpus-per-node=2 --cpus-per-gpu=3 --mem-per-gpu=1T",
		"-B 2:4:1 --hint=nomultithread --tmp=5G -S 2 --signal=B:USR1@60 -m block:cyclic",
		"-b now+2hours --deadline=now+1day -H --nice=-7 --priority=12 --requeue -a 1-9:2%3 -s",
		"-C 'a&b|c' --comment 'it'\\''s here' --wckey=k --reservation=r -L lic:2 --bb=x --kill-on-invalid-dep=no",
	} {
		words, err := Split(line)
		if err != nil {
			t.Fatal(err)
		}
		checkFormat(t, words)
	}
}

// checkFormat parses the words, formats the request as a command line, and checks that this command
// line is parsed as the same request.
func checkFormat(t *testing.T, words []string) {
	t.Helper()
	want, err := Parse(words, formatSubmit)
	if err != nil {
		return
	}
	text := Join(append(Format(&want.Request), "script"))
	again, err := Split(text)
	if err != nil {
		t.Fatalf("%q became %q: %v", words, text, err)
	}
	got, err := Parse(again, formatSubmit)
	if err != nil {
		t.Fatalf("%q became %q: %v", words, text, err)
	}
	// Times are written to the second. A deadline in the past cannot be written.
	whole := func(r hpc.Request) hpc.Request {
		r.Begin, r.Deadline = r.Begin.Truncate(time.Second), max(r.Deadline.Truncate(time.Second), 0)
		r.Name = ""
		return r
	}
	if diff := cmp.Diff(whole(want.Request), whole(got.Request)); diff != "" {
		t.Errorf("%q became %q (-want +got)\n%s", words, text, diff)
	}
}

func FuzzFormat(f *testing.F) {
	f.Add("-N 2-4 -n 8 --ntasks-per-node=4 -c 2 --mem=0 --exclusive -t 1-2:03:04")
	f.Add("-w n[1-4] --switches=2@60 -d after:17+5,singleton -b now+2hours --deadline=now+1day -B 2:4:1")
	f.Add("--hint=memory_bound --core-spec=0 --gres=none --mem=1K --nice --no-kill=off -J ''")
	f.Fuzz(func(t *testing.T, line string) {
		if words, err := Split(line); err == nil {
			checkFormat(t, words)
		}
	})
}
