package deadline

import "testing"

// TestMet checks that a job misses its deadline if it cannot end in time with --time-min or,
// without that, with its time limit.
func TestMet(t *testing.T) {
	for _, c := range []struct {
		deadline, shortest, limit int64
		want                      bool
	}{
		{0, 0, 10, true}, {1600, 0, 10, true}, {1599, 0, 10, false}, {1599, 9, 10, true}, {1000, 0, -1, true},
		{1059, 1, -1, false},
	} {
		if got := Met(c.deadline, 1000, c.shortest, c.limit); got != c.want {
			t.Errorf("Met(%d, 1000, %d, %d) = %v, want %v", c.deadline, c.shortest, c.limit, got, c.want)
		}
	}
}

// TestLimit checks that the first time limit that is set applies, but at most until the deadline.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		deadline int64
		limits   []int64
		want     int64
	}{
		{0, []int64{20, 5}, 20}, {1659, []int64{20, 5}, 10}, {1659, []int64{-1, 5, 60}, 5}, {1659, []int64{-1, -1, 60}, 10},
		{1659, []int64{-1, -1, -1}, 10}, {1059, []int64{20}, 20}, {900, []int64{-1, 7}, -1},
	} {
		if got := Limit(Left(c.deadline, 1000), c.limits...); got != c.want {
			t.Errorf("before %d the limit of %v is %d, want %d", c.deadline, c.limits, got, c.want)
		}
	}
}

func TestLower(t *testing.T) {
	for _, c := range [][3]int64{{10, 20, 10}, {20, 10, 10}, {-1, 10, 10}, {10, -1, 10}, {-1, -1, 99}, {0, 10, 0}} {
		if got := Lower(c[0], c[1], 99); got != c[2] {
			t.Errorf("limits %d and %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
