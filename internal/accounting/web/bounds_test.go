package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBounds checks that long texts of a job, or many clusters, do not make responses long.
func TestBounds(t *testing.T) {
	var documents []string
	for i := range 2000 {
		documents = append(documents, fmt.Sprintf(`{"jobid":%d,"cluster":"c%04d","state":"COMPLETED","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n"}`, i%1990+1, i%1990))
	}
	long := strings.Repeat("<&", 4<<20)
	documents = append(documents, fmt.Sprintf(`{"jobid":1,"cluster":"long","job_name":%[1]q,"username":%[1]q,"account":%[1]q,"partition":%[1]q,"qos":%[1]q,"state":%[1]q,"exit_code":%[1]q,`+
		`"comment":%[1]q,"script":%[1]q,"more":%[1]q,"@start":"2024-03-01T00:00:00","@end":"2024-03-01T02:00:00","nodes":"n"}`, long))
	s := serve(t, 0, documents...)
	for _, p := range panels {
		for _, format := range []string{"json", "csv", "html"} {
			if text := s.get("api/v1/panels/"+p.name+"?last=all&format="+format, http.StatusOK); len(text) > 500_000 {
				t.Errorf("%s as %s has %d bytes", p.name, format, len(text))
			}
		}
	}
	if text := s.get(fmt.Sprintf("jobs/%d", len(documents)), http.StatusOK); len(text) > 3<<20 || !strings.Contains(text, "…") {
		t.Errorf("the page of the job has %d bytes", len(text))
	}
	page := s.get("?f=cluster%3Dc1988", http.StatusOK)
	if len(page) > 200_000 || !strings.Contains(page, `href="#query">1891 more`) || !strings.Contains(page, `aria-current="true">c1988<`) {
		t.Errorf("the page has %d bytes: %.3000s", len(page), page)
	}
	compared := s.get("compare?a=c1988&b=c0001", http.StatusOK)
	if len(compared) > 200_000 || !strings.Contains(compared, "<option selected>c1988</option>") {
		t.Errorf("the comparison has %d bytes", len(compared))
	}
	if text := s.get("compare?a=nobody&b=c0001", http.StatusNotFound); len(text) > 100_000 || !strings.Contains(text, "others)") {
		t.Errorf("the error has %d bytes: %.500s", len(text), text)
	}
}

// TestDamagedViews checks that a damaged file of views is renamed, that the page reports this, and
// that views can be saved again.
func TestDamagedViews(t *testing.T) {
	s := serve(t, 10)
	path := filepath.Join(s.store.Dir(), "views.json")
	for _, damage := range []string{`{"week":`, "", `["x"]`, "\x00\xff"} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		page := s.get("", http.StatusOK)
		found, err := filepath.Glob(path + ".damaged-*")
		if err != nil || len(found) != 1 || !strings.Contains(page, filepath.Base(found[0])) {
			t.Fatalf("%q: %q, %v: %.2000s", damage, found, err, page)
		}
		if text, err := os.ReadFile(found[0]); err != nil || string(text) != damage {
			t.Errorf("%q: set aside is %q, %v", damage, text, err)
		}
		if text := s.get("api/v1/views", http.StatusOK); text != "[]\n" {
			t.Errorf("%q: the views are %s", damage, text)
		}
		if err := os.Remove(found[0]); err != nil {
			t.Fatal(err)
		}
		if page := s.get("", http.StatusOK); strings.Contains(page, "set aside") {
			t.Errorf("%q: the page still says it", damage)
		}
	}
}
