package accountingcmd

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
)

// TestImportedText: the text says to which cluster the records without a cluster count, and how to name the cluster.
func TestImportedText(t *testing.T) {
	const want = "note: 2 records name no cluster, and count as jobs of the cluster records: --cluster-name NAME names their cluster\n"
	for n, is := range map[int]bool{0: false, 2: true} {
		if text := importedText(&service.Imported{Records: 3, Added: 3, NoCluster: n}); strings.Contains(text, want) != is {
			t.Errorf("%d: %s", n, text)
		}
	}
}

// TestMixtureText checks that a run that adds jobs to a cluster with jobs gives a warning.
func TestMixtureText(t *testing.T) {
	for _, c := range []struct {
		added int
		mixed int64
		want  bool
	}{{1010, 23, true}, {0, 23, false}, {1033, 0, false}} {
		text := importedText(&service.Imported{Added: c.added, Mixed: c.mixed})
		if got := strings.Contains(text, "warning: the cluster had 23 jobs before: "); got != c.want {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// TestInfoZone checks that the dates are in UTC, and that the text says so.
func TestInfoZone(t *testing.T) {
	at := time.Date(2021, 1, 1, 12, 20, 1, 0, time.FixedZone("", 3600))
	const want = "2021-01-01 11:20:01 to 2021-01-01 11:20:01 UTC\n"
	if text := infoText(&service.Info{FirstEnd: &at, LastEnd: &at}); !strings.Contains(text, want) {
		t.Errorf("%q lacks %q", text, want)
	}
}
