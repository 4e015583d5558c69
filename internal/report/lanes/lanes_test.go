package lanes

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// free returns free lanes within the row.
func TestFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		busy := rapid.Uint64().Draw(t, "busy") & rapid.Uint64().Draw(t, "fewer")
		p := free(busy, uint8(rapid.IntRange(1, row-1).Draw(t, "count")))
		if busy != math.MaxUint64 && (p.Mask()&busy != 0 || int(p.First)+int(p.Count) > row || p.Count == 0) {
			t.Fatalf("busy %b: %+v", busy, p)
		}
	})
}
