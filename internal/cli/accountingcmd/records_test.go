package accountingcmd

import (
	"strings"
	"testing"

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
