package formats

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"rmreplay/internal/workload"
)

// hostileFormat is a format with a file of three jobs. The test damages the second job.
type hostileFormat struct {
	name string
	// file is the whole file, with the second record as given.
	file func(record string) string
	// record returns a record of a job from its number (or name), its submission in seconds
	// since some epoch, its processors and its name, each as text.
	record func(id, submit, size, name string) string
}

var hostileFormats = []hostileFormat{
	{
		"trace",
		func(r string) string {
			return "{\"rmreplay_trace\":1,\"epoch\":\"2024-03-05T00:00:00Z\"}\n" + traceJob("1", "0", "4", "1") + r + traceJob("3", "90", "4", "3")
		}, traceJob,
	}, {
		"swf",
		func(r string) string {
			return "; UnixStartTime: 1700000000\n" + swfJob("1", "0", "4", "1") + r + swfJob("3", "90", "4", "3")
		},
		swfJob,
	}, {
		"events",
		func(r string) string { return eventJob("1", "0", "4", "1") + r + eventJob("3", "90", "4", "3") },
		eventJob,
	}, {
		"csv",
		func(r string) string {
			return "id,submit,tasks,name,user,time_limit_s,run_time_s\n" + csvJob("1", "1700000000", "4", "1") + r + csvJob("3", "1700000090", "4", "3")
		},
		func(id, submit, size, name string) string { return csvJob(id, inEpoch(submit), size, name) },
	}, {
		"sacct",
		func(r string) string {
			return "JobID|JobName|User|Submit|Start|End|State|ReqCPUS\n" + sacctJob("1", "1700000000", "4", "1") + r + sacctJob("3", "1700000090", "4", "3")
		},
		func(id, submit, size, name string) string { return sacctJob(id, inEpoch(submit), size, name) },
	}, {
		"sacct --json",
		func(r string) string {
			return `{"meta":{},"jobs":[` + "\n" + sacctJSONJob("1", "1700000000", "4", "1") + ",\n" + strings.TrimSpace(r) + ",\n" + sacctJSONJob("3", "1700000090", "4", "3") + "]}\n"
		},
		func(id, submit, size, name string) string { return sacctJSONJob(id, inEpoch(submit), size, name) },
	}, {
		"pbs",
		func(r string) string {
			return pbsJob("1", "1700000000", "4", "1") + r + pbsJob("3", "1700000090", "4", "3")
		},
		func(id, submit, size, name string) string { return pbsJob(id, inEpoch(submit), size, name) },
	}, {
		"lsf",
		func(r string) string {
			return lsfJob("1", "1700000000", "4", "1") + r + lsfJob("3", "1700000090", "4", "3")
		},
		func(id, submit, size, name string) string { return lsfJob(id, inEpoch(submit), size, name) },
	}, {
		"gridengine",
		func(r string) string {
			return gridEngineJob("1", "1700000000", "4", "1") + r + gridEngineJob("3", "1700000090", "4", "3")
		},
		func(id, submit, size, name string) string { return gridEngineJob(id, inEpoch(submit), size, name) },
	}, {
		"gwf",
		func(r string) string { return "# GWF\n" + gwfJob("1", "0", "4", "1") + r + gwfJob("3", "90", "4", "3") }, gwfJob,
	}, {
		"batsim",
		func(r string) string {
			return `{"nb_res":8,"profiles":{"p":{"type":"delay","delay":60}},"jobs":[` + "\n" + batsimJob("1", "0", "4", "1") + ",\n" + strings.TrimSpace(r) + ",\n" + batsimJob("3", "90", "4", "3") + "]}\n"
		},
		batsimJob,
	},
}

func pbsJob(id, submit, size, name string) string {
	return fmt.Sprintf("03/01/2024 08:00:00;E;%s.s;user=u jobname=%s ctime=%s start=%s exec_host=n/0*%s Resource_List.select=1:ncpus=%s end=1800000000 Exit_status=0\n", id, name, submit, submit, size, size)
}

// lsfJob returns a record of LSF 9 up to the account, in which one host has all processors.
func lsfJob(id, submit, size, name string) string {
	return fmt.Sprintf(`"JOB_FINISH" "9.1" 1800000000 %s 501 33554432 %s %s 0 0 %s "u" "normal" "" "" "" "login" "/home/u" "" "out" "err" "1.41" 0 1 "n1" 64 60.0 "%s" "sleep"%s "" "proj" 0 %s`+"\n",
		id, size, submit, submit, name, strings.Repeat(" -1", 19), size)
}

func gridEngineJob(id, submit, size, name string) string {
	return fmt.Sprintf("q:n1:g:u:%s:%s:sge:0:%s:%s:1800000000:0:0:60%s:NONE:d:smp:%s:0:1:0:0:-l h_rt=99:0:NONE:1:0:0\n", name, id, submit, submit, strings.Repeat(":0", 17), size)
}

func gwfJob(id, submit, size, name string) string {
	return fmt.Sprintf("%s %s 0 60 %s -1 -1 %s 600 -1 1 u g %s -1 -1%s\n", id, submit, size, size, name, strings.Repeat(" -1", 13))
}

func batsimJob(_, submit, size, name string) string { // the name is the id
	return fmt.Sprintf(`{"id":"%s","subtime":%s,"res":%s,"profile":"p","walltime":600}`+"\n", name, submit, size)
}

// inEpoch converts a number of seconds since the first job to seconds since 1970. It does not
// change a negative number or another text.
func inEpoch(submit string) string {
	n, err := strconv.Atoi(submit)
	if err != nil || n < 0 {
		return submit
	}
	return strconv.Itoa(1700000000 + n)
}

func csvJob(id, submit, size, name string) string {
	return fmt.Sprintf("%s,%s,%s,%s,u,600,60\n", id, submit, size, name)
}

func traceJob(id, submit, size, name string) string {
	return fmt.Sprintf(`{"type":"job","id":"%s","submit":%s,"name":"%s","user":"u","tasks":%s,"time_limit_s":600,"run_time_s":60}`+"\n", id, submit, name, size)
}

func swfJob(id, submit, size, user string) string {
	return fmt.Sprintf("%s %s 0 60 %s -1 -1 %s 600 -1 1 %s 3 7 1 1 -1 -1\n", id, submit, size, size, user)
}

func eventJob(_, submit, size, name string) string { // the name is the number
	return fmt.Sprintf("-dt %s -e submit_batch_job | -J %s -sim-walltime 60 --uid=u -t 10 -n %s pseudo.job\n", submit, name, size)
}

func sacctJob(id, submit, size, name string) string {
	return fmt.Sprintf("%s|%s|u|%s|%s|1800000000|COMPLETED|%s\n", id, name, submit, submit, size)
}

func sacctJSONJob(id, submit, size, name string) string {
	return fmt.Sprintf(`{"job_id":%s,"name":"%s","user":"u","time":{"submission":%s,"start":%s,"end":1800000000,"limit":600},"state":{"current":"COMPLETED"},"required":{"CPUs":%s}}`+"\n",
		id, name, submit, submit, size)
}

// TestHostileInput damages a record of every format. Each damage must have one of these results:
// an error that names the file, a count under a rule, a problem that prevents a replay, or the
// workload that was meant.
func TestHostileInput(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	for _, f := range hostileFormats {
		good := f.file(f.record("2", "30", "4", "21"))
		for _, tt := range []struct {
			damage, text string
			meant        string // the second job's name, if it is read after all
		}{
			{"nothing", good, "21"},
			{"CRLF", strings.ReplaceAll(good, "\n", "\r\n"), "21"},
			{"gzip", gzipped(t, good), "21"},
			{"Latin-1", f.file(f.record("2", "30", "4", "Ren\xe9")), "René"},
			{"a name of 1 MiB", f.file(f.record("2", "30", "4", long)), long},
			{"NUL in a number", f.file(f.record("2", "30", "\x004", "21")), ""},
			{"a line of NULs", f.file(strings.Repeat("\x00", 64) + "\n"), ""},
			{"a line of 1 MiB", f.file(strings.Repeat("x", 1<<20) + "\n"), ""},
			{"negative submission", f.file(f.record("2", "-99999999999", "4", "21")), ""},
			{"negative size", f.file(f.record("2", "30", "-4", "21")), ""},
			{"absurd submission", f.file(f.record("2", "1e300", "4", "21")), ""},
			{"long submission", f.file(f.record("2", strings.Repeat("9", 40), "4", "21")), ""},
			{"absurd size", f.file(f.record("2", "30", strings.Repeat("9", 30), "21")), ""},
			{"the same number twice", f.file(f.record("1", "30", "4", "1")), ""},
			{"a clock that jumps", f.file(f.record("2", "80000000", "4", "21")), ""},
			{"gzip that is cut", gzipped(t, good)[:60], ""},
			{"noise behind gzip", gzipped(t, good) + "noise", ""},
		} {
			w, err := Read(strings.NewReader(tt.text), "site.file", workload.ReadOptions{})
			switch {
			case err != nil:
				if !strings.HasPrefix(err.Error(), "reading ") || !strings.Contains(err.Error(), "site.file") {
					t.Errorf("%s, %s: error without a place: %.200v", f.name, tt.damage, err)
				}
				if tt.meant != "" && tt.damage != "Latin-1" {
					t.Errorf("%s, %s: %.200v", f.name, tt.damage, err)
				}
			case tt.meant != "" && w.Jobs.Len() == 3 && len(w.Rules) == 0:
				if job := w.Jobs.At(1); !strings.Contains(job.Name+" "+job.User, tt.meant) {
					t.Errorf("%s, %s: job %s of %s", f.name, tt.damage, job.Name, job.User)
				}
			case len(w.Rules) == 0 && len(workload.Validate(w, workload.Cluster{})) == 0:
				t.Errorf("%s, %s: nothing is said of it: %d jobs", f.name, tt.damage, w.Jobs.Len())
			}
		}
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // a buffer takes all
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
