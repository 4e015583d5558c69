package document

import (
	"testing"
	"time"
	"unicode/utf8"
)

// texts are documents of Slurm, and texts that are almost JSON.
var texts = []string{
	`{"jobid":1,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:11:00","nodes":"n1","tres_alloc":"cpu=4,mem=8G,gres\/gpu:a=2","container":null}`,
	` { "jobid" : 1 , "jobid":2.5e-3, "a":true,"b":false,"state":"A\nB\u00e4\ud83d\ude00\ud800" } `, `{}`, "\t{ }\n", `{"a":1}{`, `{"a":{"b":[1]}}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`,
	`{"a":1e}`, `{"a":"x`, `{"a":"\x"}`, `{"a":tru}`, `{"a"1}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, "{\"a\":\"\x01\"}", `{"a":"\"}`, `{"a":"b\\"}`, "", " ", "null", `{"a":nul`, `{"a\u0062":1}`,
	`{"cluster":"a","cluster":7,"cluster":"b","elapsed":"x","user_id":[1],"nope":{}}`, `{"@end":"2024-02-29T23:59:59","@start":"2024-02-30T00:00:00","@submit":"2024-01-01T00:00:60","@eligible":"2024-01-01T1:00:00.5Z"}`,
}

// FuzzFlat checks that flat and the decoder agree on every text that flat accepts.
func FuzzFlat(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		var quick, slow parser
		if quick.flat(text) {
			if slow.object(text); quick != slow {
				t.Errorf("%q: %+v, want %+v", text, quick, slow)
			}
		}
	})
}

// TestFlat checks that flat accepts what Slurm writes, and rejects what is not JSON.
func TestFlat(t *testing.T) {
	var p parser
	if !p.flat(texts[0]) || p.job.JobID != 1 || p.job.TRESAlloc != "cpu=4,mem=8G,gres/gpu:a=2" {
		t.Errorf("%+v", p)
	}
	for _, text := range texts {
		var quick, slow parser
		if slow.object(text); slow.job.Marks&NotJSON != 0 && quick.flat(text) {
			t.Errorf("%q is not JSON", text)
		}
	}
}

// FuzzTime checks that parseTime agrees with package time.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2024-03-01T00:00:00", "2023-02-29T00:00:00", "2024-12-31T23:59:60", "2024-13-01T00:00:00", "2024-03-01T0:00:00.5", "0000-00-00T00:00:00", "2024-03-01 00:00:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime(text)
		want, wrong := time.Parse("2006-01-02T15:04:05", text)
		if !got.Equal(want) || (err == nil) != (wrong == nil) {
			t.Errorf("%q: %v %v, want %v %v", text, got, err, want, wrong)
		}
	})
}

// BenchmarkParse measures [Parse] and [Identify] on a document of Slurm 24.11, and the decoder on
// the same document.
func BenchmarkParse(b *testing.B) {
	text := []byte(`{"jobid":17,"container":null,"username":"user017","user_id":1017,"groupname":"group17","group_id":517,"@start":"2024-03-01T00:10:00","@end":"2024-03-01T01:10:00","elapsed":3600,` +
		`"partition":"batch","alloc_node":"login1","nodes":"node[0017-0020]","total_cpus":256,"total_nodes":4,"derived_ec":"0:0","exit_code":"0:0","state":"COMPLETED","failed_node":null,` +
		`"cpu_hours":256.000000,"priority":1717,"@submit":"2024-03-01T00:00:00","@eligible":"2024-03-01T00:00:00","work_dir":"/home/user017/project1","std_err":"/home/user017/project1/slurm-17.out",` +
		`"std_in":"/dev/null","std_out":"/home/user017/project1/slurm-17.out","cluster":"vale","qos":"normal","ntasks":256,"cpus_per_task":1,"time_limit":7200,"job_name":"step17",` +
		`"tres_req":"cpu=256,mem=512G,node=4,billing=256","tres_alloc":"cpu=256,mem=512G,node=4,billing=256","account":"account17","parent_accounts":"/root/division2/account17"}`)
	b.Run("flat", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			Parse(text, "slurm")
		}
	})
	b.Run("identity", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			Identify(text, "slurm")
		}
	})
	b.Run("decoder", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			p := parser{job: Job{Cluster: "slurm"}}
			p.object(string(text))
			p.finish(text)
		}
	})
}

// FuzzIdentify checks that [Identify] agrees with [Parse].
func FuzzIdentify(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	for _, text := range []string{
		`{"jobid":7,"cluster":"moor","cluster":null,"state":"COMPLETED","nodes":"(null)","@start":"2024-03-01T00:01:00","@submit":"2024-03-01T00:00:00"}`,
		`{"jobid":7,"@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:00:59","nodes":"n1","@submit":"2024-03-01T00:00:00"}`,
		`{"jobid":7,"@end":"2024-03-01T00:01:00","@start":"2024-03-01T00:01:00","nodes":"None assigned","@submit":"Unknown"}`,
		`{"cluster":"M` + "\xfc" + `ller","jobid":3,"work_dir":"\/home\/ann","comment":"\q","nodes":"n1","@start":"2024-03-01T00:01:00"}`,
		`{"array_job_id":3,"array_task_id":2,"@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","state":"COMPLETED"}`,
		`{"het_job_id":3,"het_job_offset":1,"@submit":"2024-03-01T00:01:00","array_job_id":0,"array_task_id":4294967295}`,
		`{"\u006aobid":9,"script":"#!\/bin\/sh\n\ttrue \u00e4\\","nodes":["n1"],"state":{"a":1},"@start":"2024-03-01T00:01:00"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		job := Parse(text, "vale")
		if got, want := Identify(text, "vale"), (Job{Cluster: job.Cluster, JobID: job.JobID, Run: job.Run}); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	})
}

// FuzzPlain compares plain with a search byte by byte.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{"", `a"`, `abcdefgh\`, "\x80\xff\xa0\x1fabcdef", "abcdefghijklmno\x7f\x20\"", "\xa2\xdc\x21#[]\x00\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := 0
		for want < len(text) && text[want] != '"' && text[want] != '\\' && text[want] >= ' ' {
			want++
		}
		if got := plain(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	})
}
