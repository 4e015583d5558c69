package table

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

const numbersMap = "fields: {id: nr, submit: s, start: b, end: e, cpus: n, time_limit: {column: limit, unit: minutes}, " +
	"memory: {column: mem, unit: MiB}, gpus: {column: g, times: 1}}\n"

// TestNumbers reads jobs whose numbers have separators: CPUs, limit in minutes, MiB, GPUs. A number
// that the notation does not allow is a bad value, and no job has a size other than the recorded one.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		decimal string   // of the map
		rows    []string // CPUs;minutes;MiB;GPUs
		want    []string // tasks minutes MiB GPUs; "unusable"
		bad     int
		guessed int
		strict  string // what --strict says
	}{
		{"", []string{"1.024;1.440,5;2,5;0"}, []string{"1024 24h0m30s 3 0"}, 0, 1, ""},
		{"", []string{"1.024;90;2;0", "4;2,5;2;0"}, []string{"1024 1h30m0s 2 0", "4 2m30s 2 0"}, 0, 2, ""},
		{"", []string{"1,024;90.5;2;0", "4;2;1,234,567;0"}, []string{"1024 1h30m30s 2 0", "4 2m0s 1234567 0"}, 0, 2, ""},
		// Most numbers have a decimal comma.
		{"", []string{"8;1.440,5;2,5;0", "2.5;90;1;0"}, []string{"8 24h0m30s 3 0", "unusable"}, 1, 1,
			`column n (cpus) "2.5": not a number with a decimal comma, as most of the table are (want 1.234,5, or decimal: "." in the map) (rule bad_value)`},
		{".", []string{"8;2,5;1,000;0", "8;1.440;1;0"}, []string{"8 0s 1000 0", "8 1m26.4s 1 0"}, 1, 0, `want decimal: "," in the map if a fraction follows`},
		{",", []string{"1.024;1.440;2;0", "8;2.5;1;0"}, []string{"1024 24h0m0s 2 0", "8 0s 1 0"}, 1, 0, "not a number with a decimal comma, as the map says (want 1.234,5)"},
		// Nothing says what the separators mean, or both are as frequent.
		{"", []string{"1.024;1.5;2.5;0"}, []string{"unusable"}, 1, 0, `column n (cpus) "1.024": not a whole number (want decimal: "," in the map if it is 1024) (rule bad_value)`},
		{"", []string{"1,024;5;2;0"}, []string{"unusable"}, 1, 0, `"1,024": a number with a comma (want decimal:`},
		{"", []string{"8;2,5;2.5;0"}, []string{"8 0s 3 0"}, 1, 0, "a number with a comma"},
		// A count is whole, unless the map says that it is rounded up.
		{"", []string{"2.5;5;2;0"}, []string{"unusable"}, 1, 0, `not a whole number (want times: 1 in the map to round it up)`},
		{"", []string{"4.0;5;2;0.25", "1e2;5;2;0"}, []string{"4 5m0s 2 1", "100 5m0s 2 0"}, 0, 0, ""},
		{"", []string{"1'024;1\u00a0440;2;0"}, []string{"1024 24h0m0s 2 0"}, 0, 0, ""},
		{",", []string{"1.02;0.024;10.24.1;0", "1.2345;1.;.5;0"}, []string{"unusable", "unusable"}, 6, 0, "decimal comma"},
	} {
		head := ""
		if tt.decimal != "" {
			head = fmt.Sprintf("decimal: %q\n", tt.decimal)
		}
		text := "nr;s;b;e;n;limit;mem;g\n"
		for i, row := range tt.rows {
			text += fmt.Sprintf("%d;2024-03-01T08:00:00;2024-03-01T08:00:00;1709366400;%s\n", i, row)
		}
		m, err := ParseMap([]byte(head+numbersMap), "map.yaml")
		if err != nil {
			t.Fatal(err)
		}
		more := "x;2024-03-01T08:00:00;2024-03-01T08:00:00;1709366400;1;;;\n" // a usable job
		w, _, err := readWith(m, text+more, workload.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, job := range w.Jobs.All() {
			if job.ID == "x" {
				continue
			}
			limit := max(job.TimeLimit, 0)
			gpus := 0
			if job.GPUs != "" {
				gpus = 1
			}
			got = append(got, fmt.Sprint(job.Tasks, " ", limit, " ", job.MemPerNode+int64(job.Tasks)*job.MemPerCPU, " ", gpus))
			if job.RunTime != 24*time.Hour || job.Recorded.State != hpc.Completed {
				t.Errorf("%q: %+v", tt.rows, job.Behaviour)
			}
		}
		for range w.Unusable {
			got = append(got, "unusable")
		}
		if strings.Join(got, "|") != strings.Join(tt.want, "|") || w.Rules[finished.RuleBadValue] != tt.bad || w.Rules[NoteDecimalGuessed] != tt.guessed {
			t.Errorf("decimal %q, %q: %q, rules %v; want %q, %d bad values, %d guesses", tt.decimal, tt.rows, got, w.Rules, tt.want, tt.bad, tt.guessed)
		}
		_, _, err = readWith(m, text+more, workload.ReadOptions{Strict: true})
		if (err == nil) != (tt.strict == "") || err != nil && !strings.Contains(err.Error(), tt.strict) {
			t.Errorf("%q: a strict reader says %v, want %s", tt.rows, err, tt.strict)
		}
	}
	w := read(t, numbersMap, "nr;s;b;e;n;limit;mem;g\n1;1709280000,0;1709280000,0;1709366400,0;1,0;2,5;1,0;\n")
	if job := w.Jobs.At(0); job.RunTime != 24*time.Hour || job.Tasks != 1 || w.Rules[NoteDecimalGuessed] != 1 {
		t.Errorf("numbers as pandas writes them: %+v, %v", job, w.Rules)
	}
	if _, err := ParseMap([]byte("decimal: ;\n"+numbersMap), "m"); err == nil || !strings.Contains(err.Error(), `decimal ";": not known (want "." or ",")`) {
		t.Error(err)
	}
}

// TestUnknownColumns: columns with other names show the notation of numbers, too.
func TestUnknownColumns(t *testing.T) {
	for text, want := range map[string]bool{"Kerne;Speicher;von\n1.024;12,5;1.2\n1.024;12,5;b1\n": true, "Kerne;von\n16;1,2\n16;b1\n": false} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), `decimal: "," # guess: the values have 12,5`); got != want {
			t.Errorf("%t for %q:\n%s", got, text, b.String())
		}
	}
}

// TestProposedNumbers: a proposal says which character begins fractions, and which counts it rounds up.
func TestProposedNumbers(t *testing.T) {
	const head = "job id;submit time;wait;run time;cpus;memory (GB);gpus\n"
	row := func(cpus, run, memory, gpus string) string {
		return strings.Join([]string{"1", "01.03.2024 08:00:00", "60", run, cpus, memory, gpus}, ";") + "\n"
	}
	for text, want := range map[string][]string{
		row("1.024", "90", "2,5", "0"):                               {`decimal: "," # guess: the values have 2,5, so that 1.024 is 1024`, `cpus: "cpus"`, `memory: {column: "memory (GB)", unit: GiB}`},
		row("1.024", "90", "2", "0"):                                 {`decimal: "," # guess: the values have 1.024, so that 1.024 is 1024`},
		row("1,024", "90", "2.5", "0"):                               {`decimal: "." # guess: the values have 2.5`, `cpus: "cpus"`},
		row("2.5", "90.5", "2.5", "0.25"):                            {`cpus: {column: "cpus", times: 1} # guess: fractions are rounded up`, `gpus: {column: "gpus", times: 1}`},
		row("4.0", "90", "2.0", "0"):                                 {`cpus: "cpus"`},
		row("1.024", "90", "2.5", "0") + row("2,5", "90,5", "1", ""): {`decimal: ","`, `cpus: {column: "cpus", times: 1}`},
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(head+text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(b.String(), line) {
				t.Errorf("%s: no %s in\n%s", text, line, b.String())
			}
		}
		if strings.Contains(b.String(), "decimal:") != strings.Contains(strings.Join(want, ""), "decimal:") || strings.Contains(b.String(), "times:") != strings.Contains(strings.Join(want, ""), "times:") {
			t.Errorf("%s: not in the proposal, but needed, or the reverse:\n%s", text, b.String())
		}
		m, err := ParseMap([]byte(b.String()), "map.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := readWith(m, head+text, workload.ReadOptions{Strict: !strings.Contains(text, "1.024") || !strings.Contains(text, "2.5")}); err != nil {
			t.Errorf("%s: %v with\n%s", text, err, b.String())
		}
	}
}
