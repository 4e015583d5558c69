package slurmspec

import (
	"strings"
	"testing"
	"time"
)

func TestParseReservationFlag(t *testing.T) {
	for text, want := range map[string]ReservationFlag{
		"maint":               {Name: "MAINT"},
		"+Maintenance":        {Name: "MAINT"},
		"-FLEX":               {Name: "FLEX", Off: true},
		"NO_HOLD_JOBS_AFTER":  {Name: "NO_HOLD_JOBS_AFTER_END"},
		"PURGE_COMP":          {Name: "PURGE_COMP"},
		"purge_comp=00:05:30": {Name: "PURGE_COMP", Time: 330 * time.Second},
		"PURGE_COMP=5":        {Name: "PURGE_COMP", Time: 5 * time.Minute},
	} {
		if got, err := ParseReservationFlag(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"shiny": "not known", "": "not known", "-OVERLAP": "cannot remove OVERLAP", "MAINT=5": "has no value",
		"PURGE_COMP=": "not a time", "PURGE_COMP=unlimited": "want a time",
	} {
		if _, err := ParseReservationFlag(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
