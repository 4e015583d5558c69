package ioaware

import (
	"strconv"
	"strings"
)

// ParseLicenses parses licenses, such as "lustre:200,matlab", from a request or from Slurm's
// Licenses. A name without a number counts once. Licenses with an invalid or negative number are
// ignored, because slurmctld refuses them.
func ParseLicenses(text string) map[string]int64 {
	var list map[string]int64
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, count, counted := strings.Cut(strings.TrimSpace(part), ":")
		n := int64(1)
		if counted {
			var err error
			if n, err = strconv.ParseInt(strings.TrimSpace(count), 10, 32); err != nil || n < 0 {
				continue
			}
		}
		if list == nil {
			list = map[string]int64{}
		}
		list[name] = n
	}
	return list
}
