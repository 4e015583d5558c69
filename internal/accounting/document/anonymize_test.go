package document

import (
	"strings"
	"testing"
)

// TestAnonymize checks that a document keeps the job's request, allocation and wait, and no longer
// identifies the user.
func TestAnonymize(t *testing.T) {
	a, err := NewAnonymizer([]string{"alice", "al.b"}, "$1")
	if err != nil {
		t.Fatal(err)
	}
	text := `{"jobid":7,"cluster":"old","state":"COMPLETED","@submit":"2026-01-01T00:00:00","@start":"2026-01-01T00:01:00",` +
		`"@end":"2026-01-01T01:00:00","elapsed":3540,"username":"alice","user_id":1007,"groupname":"alice","group_id":1007,` +
		`"account":"alice","parent_accounts":"/root/alice/alice","partition":"malice","job_name":"alice's","comment":"alice",` +
		`"work_dir":"/home/alice","std_out":"/home/alice/o","script":"#!/bin/sh\nalice\n","submit_line":"sbatch alice",` +
		`"nodes":"n[1-2]","total_cpus":8,"tres_alloc":"cpu=8","orig_dependency":"afterok:6",` +
		`"alicekey":{"x":["alice"]},"total_nodes":{"alice":1},"state":"alice al.b,al-b","mystery":"alice"}`
	got, err := a.Document([]byte(text), "vale")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ReplaceAll(string(got), "malice", ""), "alice") {
		t.Errorf("the name is left: %s", got)
	}
	was, is := Parse([]byte(text), "vale"), Parse(got, "vale")
	if is.User != "$1" || is.Account != "$1" || is.ParentAccounts != "/root/$1/$1" || is.Partition != "malice" ||
		is.State != "$1 $1,al-b" || is.Cluster != "vale" || is.UserID.Known || is.Name != "" || is.ScriptBytes.Known {
		t.Errorf("%+v", is)
	}
	if is.JobID != was.JobID || is.Run != was.Run || is.Start != was.Start || is.Elapsed != was.Elapsed || is.CPUHours != was.CPUHours {
		t.Errorf("%+v\nwas %+v", is, was)
	}
	again, err := a.Document(got, "vale")
	if err != nil || string(again) != string(got) {
		t.Errorf("again: %s, %v", again, err)
	}
}

// TestAnonymizeFails checks that texts that are not documents are refused.
func TestAnonymizeFails(t *testing.T) {
	a, err := NewAnonymizer([]string{"alice"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]", `{"jobid":1`, `{"jobid":}`, `{"jobid" 1}`, `{"script":"a`} {
		if got, err := a.Document([]byte(text), "vale"); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, users := range [][]string{nil, {"alice"}} {
		if _, err := NewAnonymizer(users, ""); err == nil {
			t.Errorf("%v is accepted without a name", users)
		}
	}
}

// TestKeysExist checks that package document knows each key in impersonal, in order to find
// misspelled keys.
func TestKeysExist(t *testing.T) {
	for key := range impersonal {
		if _, known := fields[key]; !known && !unread[key] {
			t.Errorf("%s is not a key of a document", key)
		}
	}
}
