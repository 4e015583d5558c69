package priority

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Settings are the keys of slurm.conf that decide priorities.
type Settings struct {
	// Multifactor says that PriorityType is priority/multifactor. Otherwise it is priority/basic,
	// see [Basic].
	Multifactor bool
	// The weights are PriorityWeightAge, PriorityWeightAssoc and so on. TRES are the weights of PriorityWeightTRES in the
	// order of [tres.Table]; nil if not set.
	Age, Association, FairShare, Size, Partition, QOS float64
	TRES                                              []float64
	// MaxAge is PriorityMaxAge in seconds.
	MaxAge int64
	// FavorSmall is PriorityFavorSmall. RelativeToTime, AccrueAlways, CalculateRunning and
	// IncreaseOnly are PriorityFlags=SMALL_RELATIVE_TO_TIME, ACCRUE_ALWAYS, CALCULATE_RUNNING and
	// INCR_ONLY. RawAssociation, RawPartition, RawQOS and RawTRES are NO_NORMAL_ASSOC,
	// NO_NORMAL_PART, NO_NORMAL_QOS and NO_NORMAL_TRES. MaxTRES is MAX_TRES, see [tres.Table.Bill].
	FavorSmall, RelativeToTime, AccrueAlways, CalculateRunning, IncreaseOnly bool
	RawAssociation, RawPartition, RawQOS, RawTRES, MaxTRES                   bool
}

// ReadSettings reads the settings. The function get returns the value of a key of slurm.conf.
// The parameter accounting says that the cluster has a slurmdbd. Without it, slurmctld ignores the
// weights of age and fair-share.
func ReadSettings(get func(key string) (string, bool), table *tres.Table, accounting bool) (*Settings, error) {
	s := &Settings{MaxAge: 7 * 86400}
	kind, _ := get("PriorityType")
	s.Multifactor = strings.TrimPrefix(strings.ToLower(kind), "priority/") == "multifactor"
	for key, to := range map[string]*float64{
		"PriorityWeightAge": &s.Age, "PriorityWeightAssoc": &s.Association, "PriorityWeightFairshare": &s.FairShare,
		"PriorityWeightJobSize": &s.Size, "PriorityWeightPartition": &s.Partition, "PriorityWeightQOS": &s.QOS,
	} {
		text, set := get(key)
		if !set {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("reading slurm.conf: %s=%s: not a weight (want a whole number)", key, text)
		}
		*to = float64(n)
	}
	if !accounting {
		s.Age, s.FairShare = 0, 0
	}
	if text, set := get("PriorityMaxAge"); set {
		d, err := slurmspec.ParseTimeSpec(text)
		if err != nil {
			return nil, fmt.Errorf("reading slurm.conf: PriorityMaxAge=%s: %w", text, err)
		}
		const endless = 1<<32 - 60 // slurmctld multiplies INFINITE by 60 in 32 bits
		if s.MaxAge = int64((d + time.Minute - 1) / time.Minute * 60); d == hpc.Unlimited {
			s.MaxAge = endless
		}
	}
	text, _ := get("PriorityWeightTRES")
	var err error
	if s.TRES, err = table.Weights(text); err != nil {
		return nil, fmt.Errorf("reading slurm.conf: PriorityWeightTRES: %w", err)
	}
	s.readFlags(get)
	return s, nil
}

func (s *Settings) readFlags(get func(key string) (string, bool)) {
	switch small, _ := get("PriorityFavorSmall"); strings.ToLower(small) {
	case "yes", "up", "true", "1":
		s.FavorSmall = true
	}
	flags, _ := get("PriorityFlags")
	flags = strings.ToUpper(flags)
	for word, to := range map[string]*bool{
		"SMALL_RELATIVE_TO_TIME": &s.RelativeToTime, "ACCRUE_ALWAYS": &s.AccrueAlways,
		"CALCULATE_RUNNING": &s.CalculateRunning,
		"INCR_ONLY":         &s.IncreaseOnly, "MAX_TRES": &s.MaxTRES,
		"NO_NORMAL_ASSOC": &s.RawAssociation, "NO_NORMAL_PART": &s.RawPartition, "NO_NORMAL_QOS": &s.RawQOS,
		"NO_NORMAL_TRES": &s.RawTRES,
	} {
		*to = strings.Contains(flags, word) || strings.Contains(flags, "NO_NORMAL_ALL") &&
			strings.HasPrefix(word, "NO_NORMAL_")
	}
}
