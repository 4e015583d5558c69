package charge

import (
	"testing"
	"time"
)

// TestRequests: each request of a second waits a microsecond longer than the one before it.
func TestRequests(t *testing.T) {
	var r Requests
	for i, second := range []int64{7, 7, 7, 8, 8} {
		want := time.Duration(i) * time.Microsecond
		if second == 8 {
			want = time.Duration(i-3) * time.Microsecond
		}
		if got := r.Wait(second); got != want {
			t.Errorf("request %d, in second %d: waits %v, want %v", i, second, got, want)
		}
	}
}
